//! Long bodies: nobody else waits for them, and what they take is bounded.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use cheops_glue::Profile;
use cheops_types::{Limits, Outcome};

use super::{
    client::{self, Answer},
    service::{Reaction, Seen},
    sites::{Site, one, start_within},
};

/// How long an answer is waited for that comes at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// A list in which the item `id` is followed by so many short ones.
fn list(id: &str, items: usize) -> String {
    let others = ",{}".repeat(items);
    format!(r#"{{"items":[{{"id":{id}}}{others}]}}"#)
}

fn long_orders(seen: &Seen) -> Answer {
    match seen.target.as_str() {
        "/orders" => Answer::json(200, &list("42", 100_000)),
        _ => Answer::json(200, "{}"),
    }
}

/// The core that has the request must not stand still while the ids in a long list are looked up: here that takes as
/// long as the test likes.
#[test]
fn a_plain_request_does_not_wait_for_a_long_list() {
    let a = one(long_orders);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    let (reached, open) = a.replication.hold("42");
    let (public, (answers, answered)) = (a.public, mpsc::channel());
    let listing = thread::spawn(move || client::send(public, "GET /orders", ""));
    reached.recv_timeout(PATIENCE).expect("the list is worked on");
    thread::spawn(move || answers.send(client::send(public, "GET /things/1", "")));
    let plain = answered.recv_timeout(PATIENCE);
    drop(open);
    assert_eq!(plain.expect("a plain request is answered meanwhile").status, 200);
    let list = listing.join().unwrap();
    assert!(
        list.body.starts_with(r#"{"items":[{"id":"m1"},{}"#),
        "{}",
        &list.body[..40]
    );
}

fn two(limits: &Limits, there: Reaction) -> Vec<Site> {
    let here: Reaction = Box::new(|_| Answer::json(200, r#"{"items":[{"id":1}]}"#));
    let plain = Arc::new(Profile::plain());
    start_within(limits, &["a", "b"], &plain, vec![here, there])
}

/// What became of the list of site `b`, asked for at `a`.
fn of_b(sites: &[Site]) -> (u16, Option<String>) {
    let answer = sites[0].send("GET /orders\nx-scope: a & b", "");
    let receipt = answer.receipt();
    let visit = receipt.sites.iter().find(|visit| visit.site.as_str() == "b");
    let visit = visit.expect("b was asked");
    assert_eq!(visit.outcome, Outcome::Executed);
    (answer.status, visit.error.clone())
}

#[test]
fn a_long_list_waits_for_a_thread_and_a_short_one_does_not() {
    let limits = Limits {
        work_inline_max_bytes: 1000,
        work_queue_max: 0,
        ..Limits::default()
    };
    let sites = two(&limits, Box::new(|_| Answer::json(200, &list("2", 10))));
    assert_eq!(of_b(&sites), (200, None));
    let sites = two(&limits, Box::new(|_| Answer::json(200, &list("2", 1000))));
    assert_eq!(of_b(&sites), (200, Some("gather_busy".to_owned())));
    let limits = Limits {
        work_queue_max: 1,
        ..limits
    };
    let sites = two(&limits, Box::new(|_| Answer::json(200, &list("2", 1000))));
    let answer = sites[0].send("GET /orders\nx-scope: a & b", "");
    assert_eq!(answer.body.matches("@site").count(), 1002);
}

/// A list of short items takes more once it is read than on the wire.
#[test]
fn a_list_counts_as_what_it_takes_once_it_is_read() {
    let numbers = || format!("[{}1]", "1,".repeat(9_999));
    let reaction = move |_: &Seen| Answer::json(200, &numbers());
    let limits = |kib: usize| Limits {
        gather_memory_max_bytes: kib * 1024,
        ..Limits::default()
    };
    // 20 KB as received, 80 KB as read; the merged page is written in another 300 KB.
    assert_eq!(
        of_b(&two(&limits(64), Box::new(reaction))),
        (200, Some("gather_busy".to_owned()))
    );
    let busy = two(&limits(256), Box::new(reaction));
    let answer = busy[0].send("GET /orders\nx-scope: a & b", "");
    assert_eq!((answer.status, answer.code().as_str()), (503, "gather_busy"));
    assert_eq!(of_b(&two(&limits(1024), Box::new(reaction))), (200, None));
}

#[test]
fn a_list_of_too_many_items_is_not_read() {
    let limits = Limits {
        gather_items_max: 100,
        ..Limits::default()
    };
    let sites = two(&limits, Box::new(|_| Answer::json(200, &list("2", 100))));
    assert_eq!(of_b(&sites), (200, Some("body_too_large".to_owned())));
    // Where ids would be rewritten in it nothing passes half rewritten.
    sites[1]
        .replication
        .know("A", "/orders", "m1", Some("2"), &["a", "b"]);
    let answer = sites[1].send("GET /orders", "");
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
}

/// An id can become much longer than it was: what a body becomes is bounded too.
#[test]
fn ids_that_are_rewritten_are_bounded() {
    let limits = Limits {
        gather_body_max_bytes: 1000,
        ..Limits::default()
    };
    let orders = |count: usize| -> Reaction {
        Box::new(move |_| Answer::json(200, &format!("[{}{{}}]", r#"{"id":42},"#.repeat(count))))
    };
    let long = "m".repeat(36);
    for (count, expect) in [(9, (200, "")), (11, (413, "body_too_large"))] {
        let plain = Arc::new(Profile::plain());
        let a = start_within(&limits, &["a"], &plain, vec![orders(count)]).remove(0);
        a.replication.know("A", "/orders", &long, Some("42"), &["a", "b"]);
        let answer = a.send("GET /orders", "");
        assert_eq!((answer.status, answer.code().as_str()), expect, "{count} ids");
    }
}

const WATCHED: &str = r#"
application = "test"
[services.A]
stream = ["?watch"]
[[services.A.resources]]
kind = "order"
collection = "/orders"
[services.A.resources.list]
items = "/items"
watch = { parameter = "version", version = "/version", object = "/object" }
"#;

/// A site that never ends a line ends the stream, instead of being kept without a bound.
#[test]
fn a_watched_line_is_bounded() {
    let limits = Limits {
        watch_event_max_bytes: 1000,
        ..Limits::default()
    };
    let endless = |body: String| -> Reaction {
        Box::new(move |_| Answer::json(200, &body).with("transfer-encoding", "chunked"))
    };
    let event = |text: &str| format!(r#"{{"object":{{"version":"1","text":"{text}"}}}}"#);
    let watch = |of_b: String| {
        let reactions = vec![endless(event("here") + "\n"), endless(of_b)];
        let profile = Arc::new(Profile::parse("test.toml", WATCHED).unwrap());
        let sites = start_within(&limits, &["a", "b"], &profile, reactions);
        let (public, (answers, answered)) = (sites[0].public, mpsc::channel());
        thread::spawn(move || answers.send(client::send(public, "GET /orders?watch=1\nx-scope: a & b", "")));
        let answer = answered.recv_timeout(PATIENCE).expect("the stream ends");
        assert_eq!(answer.status, 200);
        answer.body
    };
    let body = watch(event("there") + "\n" + &"x".repeat(1001));
    assert!(body.contains("\"there\"") && !body.contains("xx"), "{body}");
    let body = watch(event(&"x".repeat(1001)) + "\n");
    assert!(!body.contains("xx"), "{body}");
}
