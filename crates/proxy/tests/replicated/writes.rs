//! Writes: which are accepted here, which elsewhere, and what callers are told.

use std::sync::Arc;

use bytes::Bytes;
use cheops_glue::Profile;
use cheops_plan::Target;
use cheops_ports::{Elsewhere, Reply};
use cheops_types::{Code, Outcome, PlanKind, Problem, Visit};

use super::{
    client::Answer,
    coordinator::{answered, told},
    service::Seen,
    sites::{Site, one, site, start},
};

fn silent(seen: &Seen) -> Answer {
    Answer::json(
        500,
        &format!("\"{} {} is not for the service\"", seen.method, seen.target),
    )
}

fn mesh(names: &[&str]) -> Vec<Site> {
    let reactions = names.iter().map(|_| Box::new(silent) as _).collect();
    start(names, &Arc::new(Profile::plain()), reactions)
}

fn visits() -> Vec<Visit> {
    vec![
        Visit::executed(&site("a"), 201),
        Visit::failed(&site("b"), Outcome::Pending, "retry"),
    ]
}

#[test]
fn a_change_by_either_id_becomes_an_operation() {
    let a = one(silent);
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    for id in ["42", "m"] {
        a.replication
            .reply(answered(200, &[], r#"{"id":42,"n":2}"#, told(visits())));
        let answer = a.send(&format!("PUT /orders/{id}?x=1\nx-trace: t"), r#"{"n":2}"#);
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, r#"{"id":"m","n":2}"#)
        );
        let receipt = answer.receipt();
        assert_eq!(receipt.plan, PlanKind::Replicate);
        assert_eq!(receipt.sites, visits());
        assert_eq!(
            (receipt.set.as_deref(), receipt.operation.as_deref()),
            (Some("m"), Some("m:1"))
        );
        assert_eq!((receipt.held, receipt.complete), (Some(1), true));
        let [write] = &a.replication.take_writes()[..] else {
            panic!("one write");
        };
        assert_eq!(write.target, Target::set("m".into()));
        assert_eq!((write.kind.as_str(), write.scope.as_str()), ("/orders", ""));
        assert_eq!(
            (write.request.method().as_str(), write.request.uri().to_string()),
            ("PUT", format!("/orders/{id}?x=1"))
        );
        assert_eq!(
            write.request.body(),
            &cheops_types::KeptBody::Inline(Bytes::from(r#"{"n":2}"#))
        );
        let names: Vec<&str> = write
            .request
            .headers()
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        assert!(
            names.contains(&"x-trace") && !names.contains(&"content-length"),
            "{names:?}"
        );
    }
    assert!(a.service.take_seen().is_empty());
}

#[test]
fn an_action_answers_with_the_resource_and_a_create_within_it_with_another() {
    let a = one(silent);
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    let made: &[(&str, &'static str)] = &[("location", "/orders/42/parts/42")];
    for (path, status, headers, expect) in [
        ("ship", 200, &[][..], r#"{"id":"m"}"#),
        ("parts", 201, made, r#"{"id":42}"#),
    ] {
        let reply = answered(status, headers, r#"{"id":42}"#, told(visits()));
        a.replication.reply(reply);
        let answer = a.send(&format!("POST /orders/m/{path}"), "{}");
        assert_eq!((answer.status, answer.body.as_str()), (status, expect), "{path}");
    }
}

#[test]
fn a_deleted_resource_is_still_shown_by_its_meta_id() {
    let a = one(silent);
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    a.replication
        .reply(answered(200, &[], r#"{"id":42}"#, told(visits())));
    assert_eq!(a.send("DELETE /orders/m", "").body, r#"{"id":"m"}"#);
}

#[test]
fn an_action_below_a_replica_is_a_write_to_it() {
    let a = one(silent);
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    a.replication.reply(answered(200, &[], "{}", told(visits())));
    assert_eq!(a.send("POST /orders/m/ship\nx-scope: A: a", "").status, 200);
    let writes = a.replication.take_writes();
    assert_eq!(writes[0].target, Target::set("m".into()));
    assert_eq!(
        (writes[0].kind.as_str(), writes[0].scope.as_str()),
        ("/orders", "A: a")
    );
}

#[test]
fn a_create_under_and_makes_a_set_where_it_is_listed() {
    let sites = mesh(&["a", "b"]);
    let a = &sites[0];
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    let reply = answered(201, &[("location", "/orders/42")], r#"{"id":42}"#, told(visits()));
    a.replication.reply(reply);
    let answer = a.send("POST /orders\nx-scope: a & b\nprefer: wait=5", r#"{"n":1}"#);
    assert_eq!(
        (answer.status, answer.header("location")),
        (201, Some("/orders/m"))
    );
    assert_eq!(answer.header("preference-applied"), Some("wait=5"));
    let writes = a.replication.take_writes();
    assert_eq!(writes[0].target, Target::new(vec![site("a"), site("b")]));
    assert_eq!(
        (writes[0].scope.as_str(), writes[0].prefer.wait_s),
        ("A: a & b", Some(5))
    );
}

#[test]
fn a_site_that_is_not_listed_hands_it_over() {
    let sites = mesh(&["a", "b", "c"]);
    let [a, b, c] = &sites[..] else { unreachable!() };
    b.replication.know("A", "/orders", "m", Some("6"), &["b", "c"]);
    let b_first = vec![
        Visit::executed(&site("b"), 201),
        Visit::failed(&site("c"), Outcome::Pending, "new"),
    ];
    let reply = answered(
        201,
        &[("location", "/orders/6")],
        r#"{"id":6}"#,
        told(b_first.clone()),
    );
    b.replication.reply(reply);
    let answer = a.send("POST /orders\nx-scope: b & c", r#"{"n":1}"#);
    assert_eq!(
        (answer.status, answer.header("location")),
        (201, Some("/orders/m"))
    );
    assert_eq!(answer.body, r#"{"id":"m"}"#);
    let receipt = answer.receipt();
    assert_eq!((receipt.plan, &receipt.sites), (PlanKind::Replicate, &b_first));
    assert_eq!((receipt.set.as_deref(), receipt.held), (Some("m"), Some(1)));
    let writes = b.replication.take_writes();
    assert_eq!(writes[0].target, Target::new(vec![site("b"), site("c")]));
    assert!(a.replication.take_writes().is_empty() && c.replication.take_writes().is_empty());
}

#[test]
fn a_change_under_and_finds_a_site_that_knows_the_set() {
    let sites = mesh(&["a", "b", "c"]);
    let [a, _, c] = &sites[..] else { unreachable!() };
    c.replication.know("A", "/orders", "m", Some("6"), &["b", "c"]);
    c.replication.reply(answered(200, &[], "{}", told(Vec::new())));
    // Site b does not know it, says that nothing executed, and so c is asked.
    let answer = a.send("PATCH /orders/m\nx-scope: b & c", "{}");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(c.replication.take_writes()[0].target, Target::set("m".into()));
    let unknown = a.send("PATCH /orders/x\nx-scope: b & c", "{}");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("unknown_replica_set"), "{}", unknown.body);
    let listed = a.send("DELETE /orders/x\nx-scope: a & b", "");
    assert!(listed.body.contains("cheops replicas adopt"), "{}", listed.body);
    assert!(listed.receipt().certainly_not_executed());
}

#[test]
fn another_site_takes_over_what_did_not_execute_here() {
    let sites = mesh(&["a", "b"]);
    let [a, b] = &sites[..] else { unreachable!() };
    a.replication.know("A", "/orders", "m", None, &["a", "b"]);
    b.replication.know("A", "/orders", "m", Some("6"), &["a", "b"]);
    let elsewhere = || {
        Reply::Elsewhere(Elsewhere {
            sites: vec![site("b")],
            problem: Problem::new(Code::ReplicaUnavailable, "not here"),
        })
    };
    let told = || told(vec![Visit::executed(&site("b"), 200)]);
    a.replication.reply(elsewhere());
    b.replication.reply(answered(200, &[], r#"{"id":6}"#, told()));
    let answer = a.send("PUT /orders/m", "{}");
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"id":"m"}"#));
    let receipt = answer.receipt();
    let outcomes: Vec<_> = receipt
        .sites
        .iter()
        .map(|visit| (visit.site.as_str(), visit.outcome))
        .collect();
    assert_eq!(outcomes, [("b", Outcome::Executed), ("a", Outcome::NotExecuted)]);
    // A body that was spooled is read again.
    a.replication.reply(elsewhere());
    b.replication.reply(answered(200, &[], "{}", told()));
    let long = "x".repeat(300_000);
    assert_eq!(
        a.send("PUT /orders/m\ncontent-type: text/plain", &long).status,
        200
    );
    b.replication.take_writes();
    // Nobody can: the first problem is the answer, and no site asks a third one.
    a.replication.reply(elsewhere());
    b.replication.reply(elsewhere());
    let answer = a.send("PUT /orders/m", "{}");
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("replica_unavailable"), "{}", answer.body);
    assert!(answer.receipt().certainly_not_executed());
}

#[test]
fn a_long_body_goes_to_the_spool() {
    let a = one(silent);
    a.replication.know("A", "/files", "m", Some("42"), &["a", "b"]);
    a.replication.reply(answered(204, &[], "", told(visits())));
    let long = "x".repeat(3_000_000);
    assert_eq!(a.send("PUT /files/m/data", &long).status, 204);
    let writes = a.replication.take_writes();
    let cheops_types::KeptBody::Spooled { bytes, .. } = *writes[0].request.body() else {
        panic!("{:?}", writes[0].target);
    };
    assert_eq!(bytes, 3_000_000);
}

#[test]
fn who_does_not_wait_can_ask_later() {
    let a = one(silent);
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    a.replication.reply(answered(202, &[], "", told(visits())));
    let answer = a.send("PUT /orders/m\nprefer: respond-async", "{}");
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("preference-applied"), Some("respond-async"));
    let place = answer.header("location").unwrap().to_owned();
    assert_eq!(place, "/.cheops/operations/m:1");
    let operation = a.send(&format!("GET {place}"), "");
    assert_eq!(
        (operation.status, operation.body.as_str()),
        (200, r#"{"id":"m:1"}"#)
    );
    let unknown = a.send("GET /.cheops/operations/m:2", "");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("unknown_operation"), "{}", unknown.body);
}

#[test]
fn an_operation_of_another_site_is_asked_for_there() {
    let sites = mesh(&["a", "b", "c"]);
    let told = told(vec![Visit::failed(&site("b"), Outcome::Pending, "accepted")]);
    sites[1].replication.reply(answered(202, &[], "", told));
    let answer = sites[0].send("POST /orders\nx-scope: b & c\nprefer: respond-async", "{}");
    let place = answer.header("location").unwrap().to_owned();
    assert_eq!(place, "/.cheops/operations/m:1?site=b");
    assert_eq!(sites[0].send(&format!("GET {place}"), "").body, r#"{"id":"m:1"}"#);
}

#[test]
fn a_failed_write_says_what_is_known() {
    let a = one(silent);
    a.replication.know("A", "/orders", "m", Some("42"), &["a", "b"]);
    a.replication.reply(Reply::Failed {
        problem: Problem::new(Code::UnknownOutcome, "the answer was lost"),
        outcome: Outcome::Unknown,
        told: None,
    });
    let answer = a.send("POST /orders/42/ship", "");
    assert_eq!(answer.status, 504);
    assert_eq!(answer.receipt().sites[0].outcome, Outcome::Unknown);
    a.replication.reply(Reply::Failed {
        problem: Problem::new(Code::ReplicaRefused, "undone"),
        outcome: Outcome::Executed,
        told: Some(told(visits())),
    });
    let answer = a.send("POST /orders/42/ship", "");
    assert_eq!((answer.status, answer.receipt().sites), (409, visits()));
}

#[test]
fn what_sites_decide_is_accepted_with_what_its_caller_asked_for() {
    let sites = mesh(&["a", "b"]);
    sites[0]
        .replication
        .reply(answered(201, &[], "{}", told(visits())));
    let answer = sites[0].send("POST /orders\nx-scope: strong(a & b)", "{}");
    assert_eq!(answer.status, 201);
    let writes = sites[0].replication.take_writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].target.to_string(), "replicate-strong[a, b]");
}

#[test]
fn a_read_of_what_is_decided_says_when_it_may_be_old() {
    let sites = mesh(&["a", "b", "c", "d"]);
    let read =
        |scope: &str, more: &str| sites[0].send(&format!("GET /orders/42\nx-scope: {scope}{more}"), "");
    let answer = read("strong(a & b & c)", "");
    assert_eq!(answer.receipt().plan, PlanKind::Latest);
    assert!(answer.receipt().complete && answer.header("warning").is_none());
    // The four are told to be without a majority.
    let answer = read("strong(a & b & c & d)", "");
    assert!(
        answer
            .header("warning")
            .is_some_and(|text| text.starts_with("110 "))
    );
    assert_eq!(answer.header("cheops-stale"), Some("no_majority"));
    assert!(!answer.receipt().complete);
    let answer = read("strong(a & b & c & d)", "\nprefer: handling=strict");
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_majority"));
    let answer = read("strong(b & c)", "");
    assert_eq!(answer.receipt().plan, PlanKind::Latest);
    assert_eq!(answer.receipt().sites[0].site.as_str(), "b");
}
