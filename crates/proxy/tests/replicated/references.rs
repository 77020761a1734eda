//! Ids of replicas inside what is said about other resources.

use std::sync::Arc;

use cheops_glue::Profile;
use cheops_plan::Target;

use super::{
    client::Answer,
    coordinator::{answered, told},
    service::Seen,
    sites::{Site, start},
};

const GLUE: &str = r#"
application = "test"

[[services.A.resources]]
kind = "item"
collection = "/items"
item = "/items/{id}"
meta-id = { integer = [9000, 9999999] }

[[services.A.resources]]
kind = "order"
collection = "/orders"
item = "/orders/{id}"
references = [{ pointer = "/item", kind = "item" }, { query = "item", kind = "item" }]

[[services.A.resources]]
kind = "line"
collection = "/items/{item}/lines"
item = "/items/{item}/lines/{id}"

[[services.A.resources]]
kind = "stock"
singleton = "/items/{item}/stock"

[[services.A.resources]]
kind = "label"
collection = "/labels"
item = "/labels/{name}"
chosen-by = "client"
name = "/name"
"#;

fn echo(seen: &Seen) -> Answer {
    match (seen.method.as_str(), seen.body.as_str()) {
        (_, "") => Answer::json(200, r#"{"id": 1, "item": 5}"#),
        (_, body) => Answer::json(201, body),
    }
}

/// Item 5 of site `a` is a replica, 9001.
fn site_a() -> Vec<Site> {
    let glue = Arc::new(Profile::parse("test.toml", GLUE).unwrap());
    let sites = start(&["a", "b"], &glue, vec![Box::new(echo), Box::new(echo)]);
    sites[0]
        .replication
        .know("A", "item", "9001", Some("5"), &["a", "b"]);
    sites
}

#[test]
fn a_meta_id_works_where_the_application_expects_an_id() {
    let sites = site_a();
    let a = &sites[0];
    let answer = a.send(
        "POST /orders\ncontent-type: application/json",
        r#"{ "item": 9001, "n": 1 }"#,
    );
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (201, r#"{ "item": 9001, "n": 1 }"#)
    );
    assert_eq!(a.service.take_seen()[0].body, r#"{ "item": 5, "n": 1 }"#);
    assert_eq!(a.send("GET /orders/1", "").body, r#"{"id": 1, "item": 9001}"#);
    a.send("GET /orders?n=1&item=9001", "");
    a.send("GET /items/9001/lines/3", "");
    a.send("GET /items/9001/stock", "");
    let targets: Vec<_> = a
        .service
        .take_seen()
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    assert_eq!(
        targets,
        [
            "/orders/1",
            "/orders?n=1&item=5",
            "/items/5/lines/3",
            "/items/5/stock"
        ]
    );
}

#[test]
fn what_the_glue_describes_below_a_replica_is_no_part_of_it() {
    let sites = site_a();
    let a = &sites[0];
    assert_eq!(a.send("POST /items/9001/lines", "{}").status, 201);
    assert_eq!(a.service.take_seen()[0].target, "/items/5/lines");
    for head in ["POST /items/9001/ship", "PUT /items/9001/stock"] {
        a.replication.reply(answered(200, &[], "{}", told(Vec::new())));
        assert_eq!(a.send(head, "").status, 200);
        let writes = a.replication.take_writes();
        assert_eq!(writes[0].target, Target::set("9001".into()), "{head}");
    }
}

#[test]
fn a_body_that_must_be_read_and_cannot_be_is_refused() {
    let sites = site_a();
    let a = &sites[0];
    for head in [
        "POST /orders\ncontent-type: application/json\ncontent-encoding: gzip",
        "POST /orders\ncontent-type: application/x-protobuf",
        "POST /orders\ncontent-type: application/json",
        "POST /labels\ncontent-type: text/plain\nx-scope: a & b",
    ] {
        let answer = a.send(head, "{ no JSON");
        assert_eq!(answer.status, 415, "{head}: {}", answer.body);
        assert!(answer.receipt().certainly_not_executed());
    }
    assert!(a.service.take_seen().is_empty() && a.replication.take_writes().is_empty());
    // Where nothing in it must be read, it is nobody's business.
    let answer = a.send("POST /labels\ncontent-type: text/plain", "x");
    assert_eq!(answer.status, 201);
}

#[test]
fn a_long_body_that_must_be_read_stays_in_memory() {
    let sites = site_a();
    let a = &sites[0];
    a.replication.reply(answered(201, &[], "", told(Vec::new())));
    let body = format!(r#"{{"name":"x","text":"{}"}}"#, "x".repeat(200_000));
    let answer = a.send(
        "POST /labels\nx-scope: a & b\ncontent-type: application/json",
        &body,
    );
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert_eq!(
        a.replication.take_writes()[0].request.body(),
        &cheops_types::KeptBody::Inline(body.into())
    );
}
