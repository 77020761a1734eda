//! Reads: ids on the way in and out, and who answers.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use cheops_glue::Profile;
use cheops_types::PlanKind;

use super::{
    client::{self, Answer},
    service::Seen,
    sites::{one, start},
};

fn order(seen: &Seen) -> Answer {
    match seen.target.as_str() {
        "/orders/42" => Answer::json(200, r#"{ "id": 42, "n": 1 }"#)
            .with("content-location", "/orders/42")
            .with("link", "<http://x/orders/42?a>; rel=self, </orders/7>; rel=next"),
        "/orders/7" => Answer::json(200, r#"{ "id": 7 }"#),
        "/orders" if seen.method == "HEAD" => Answer::json(200, ""),
        "/orders" => Answer::json(200, r#"{"items": [{"id": 42}, {"id": 7}, {"id": 43}]}"#),
        _ => Answer::json(404, r#"{"error": "none"}"#),
    }
}

#[test]
fn callers_see_the_meta_id_by_either_id() {
    let a = one(order);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    for id in ["42", "m1"] {
        let answer = a.send(&format!("GET /orders/{id}\naccept-encoding: gzip"), "");
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, r#"{ "id": "m1", "n": 1 }"#)
        );
        assert_eq!(answer.header("content-location"), Some("/orders/m1"));
        let links = "<http://x/orders/m1?a>; rel=self, </orders/7>; rel=next";
        assert_eq!(answer.header("link"), Some(links));
        assert_eq!(answer.receipt().plan, PlanKind::Local);
        let seen = a.service.take_seen();
        assert_eq!((seen.len(), seen[0].target.as_str()), (1, "/orders/42"));
        assert_eq!(seen[0].header("accept-encoding"), Some("identity"));
    }
}

#[test]
fn an_answer_without_an_end_passes_as_it_comes() {
    let a = one(|_| Answer::json(200, "{\"event\":1}\n").with("transfer-encoding", "chunked"));
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    let mut stream = TcpStream::connect(a.public).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(b"GET /orders?watch=1 HTTP/1.1\r\nhost: test\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("it comes in time"));
    assert!(lines.next().unwrap().starts_with("HTTP/1.1 200"));
    assert!(lines.any(|line| line == r#"{"event":1}"#));
}

#[test]
fn services_of_the_site_keep_their_own_ids() {
    let a = one(order);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    let answer = client::send(a.internal, "GET /orders/m1", "");
    assert_eq!(answer.body, r#"{ "id": 42, "n": 1 }"#);
}

#[test]
fn what_is_not_replicated_is_left_alone() {
    let a = one(order);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    let answer = a.send("GET /orders/7\naccept-encoding: gzip", "");
    assert_eq!(
        (answer.body.as_str(), answer.header("cheops-receipt")),
        (r#"{ "id": 7 }"#, None)
    );
    assert_eq!(a.service.take_seen()[0].header("accept-encoding"), Some("gzip"));
    assert_eq!(a.send("GET /orders/8", "").status, 404);
}

#[test]
fn a_list_shows_replicas_under_their_meta_id() {
    let a = one(order);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    let answer = a.send("GET /orders", "");
    assert_eq!(answer.body, r#"{"items": [{"id": "m1"}, {"id": 7}, {"id": 43}]}"#);
    assert_eq!(answer.header("x-cheops-replicas"), None);
    let head = a.send("HEAD /orders", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn what_cannot_be_read_is_passed_on() {
    let a = one(|seen| {
        let answer = Answer::json(
            if seen.header("range").is_some() { 206 } else { 200 },
            r#"{"id": 42}"#,
        );
        match seen.header("accept") {
            Some("text/plain") => Answer {
                headers: vec![("content-type".into(), "text/plain".into())],
                ..answer
            },
            _ => answer,
        }
    });
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    for head in [
        "GET /orders/m1\nrange: bytes=0-9",
        "GET /orders/m1\naccept: text/plain",
    ] {
        assert_eq!(a.send(head, "").body, r#"{"id": 42}"#, "{head}");
    }
}

#[test]
fn a_site_without_its_replica_asks_another_one() {
    let plain = Arc::new(Profile::plain());
    let sites = start(
        &["a", "b", "c"],
        &plain,
        vec![Box::new(order), Box::new(order), Box::new(order)],
    );
    let [a, b, c] = &sites[..] else { unreachable!() };
    a.replication.know("A", "/orders", "m1", None, &["a", "b", "c"]);
    b.replication.know("A", "/orders", "m1", None, &["a", "b", "c"]);
    c.replication
        .know("A", "/orders", "m1", Some("42"), &["a", "b", "c"]);
    for head in ["GET /orders/m1", "GET /orders/m1\nx-scope: a & b"] {
        let answer = a.send(head, "");
        assert_eq!(answer.body, r#"{ "id": "m1", "n": 1 }"#, "{head}");
        let receipt = answer.receipt();
        let executed: Vec<_> = receipt
            .sites
            .iter()
            .filter(|visit| visit.status == Some(200))
            .map(|visit| visit.site.as_str())
            .collect();
        assert_eq!(executed, ["c"]);
    }
    assert!(a.service.take_seen().is_empty());
    assert!(b.service.take_seen().is_empty());
}

#[test]
fn a_local_id_is_forwarded_as_the_meta_id() {
    let plain = Arc::new(Profile::plain());
    let other = |seen: &Seen| match seen.target.as_str() {
        "/orders/6" => Answer::json(200, r#"{"id": 6}"#),
        _ => Answer::json(404, "{}"),
    };
    let sites = start(&["a", "b"], &plain, vec![Box::new(order), Box::new(other)]);
    sites[0]
        .replication
        .know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    sites[1]
        .replication
        .know("A", "/orders", "m1", Some("6"), &["a", "b"]);
    for id in ["42", "m1"] {
        let answer = sites[0].send(&format!("GET /orders/{id}\nx-scope: b"), "");
        assert_eq!(answer.body, r#"{"id": "m1"}"#);
    }
}

#[test]
fn a_merged_list_has_each_replica_once() {
    let plain = Arc::new(Profile::plain());
    let list = |body: &'static str| move |_: &Seen| Answer::json(200, body);
    let sites = start(
        &["a", "b", "c"],
        &plain,
        vec![
            Box::new(list(r#"[{"id":42},{"id":1}]"#)),
            Box::new(list(r#"[{"id":1},{"id":6}]"#)),
            Box::new(list("[]")),
        ],
    );
    for (at, local) in [(0, "42"), (1, "6")] {
        sites[at]
            .replication
            .know("A", "/orders", "m1", Some(local), &["a", "b"]);
    }
    let expect = r#"[{"id":"m1","@site":"a"},{"id":1,"@site":"a"},{"id":1,"@site":"b"}]"#;
    // Also at a site that knows nothing of the set.
    for at in [0, 2] {
        let answer = sites[at].send("GET /orders\nx-scope: a & b", "");
        assert_eq!(answer.body.replace(' ', ""), expect, "from {at}");
    }
}
