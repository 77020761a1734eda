//! Paths that evade replication where an application reads them in another way than the agent.

use std::sync::Arc;

use cheops_glue::Profile;

use super::{
    client::Answer,
    service::{Reaction, Seen},
    sites::{one, start},
};

fn anything(_: &Seen) -> Answer {
    Answer::json(200, "{}")
}

#[test]
fn a_replica_cannot_be_reached_by_another_reading_of_its_path() {
    let a = one(anything);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    for path in [
        "/orders%2F42",
        "/orders%2fm1",
        "/x/../orders/42",
        "/x/%2e%2e/orders/42",
        "/x/%2E./orders/42",
        "/./orders%2f42",
        "/orders/7/../42",
        "/orders/42/../7",
        "/orders/42%2F..%2F7",
        "/orders/42;v=1",
        "/orders;x/42",
        "/x/..;/orders/42",
        "/orders%5C42",
        "/%6frders%2f42",
    ] {
        let answer = a.send(&format!("PATCH {path}"), "{}");
        assert_eq!(
            (answer.status, answer.code()),
            (400, "path_ambiguous".to_owned()),
            "{path}"
        );
        assert!(a.service.take_seen().is_empty(), "{path}");
        assert!(a.replication.take_writes().is_empty(), "{path}");
    }
}

#[test]
fn what_means_the_same_in_all_readings_passes_as_it_came() {
    let a = one(anything);
    a.replication.know("A", "/orders", "m1", Some("42"), &["a", "b"]);
    for path in [
        "/files/a%2Fb",
        "/files/a;v=1",
        "/docs/../x",
        "/docs/a%20b",
        "/.well-known/x",
        "/orders/7%20",
    ] {
        assert_eq!(a.send(&format!("PATCH {path}"), "{}").status, 200, "{path}");
        assert_eq!(a.service.take_seen()[0].target, path);
    }
}

#[test]
fn a_path_of_the_glue_has_one_meaning() {
    let glue = |words: &str| {
        let text = format!(
            "application = \"x\"\n[services.A]\n{words}\ncontext-free = [\"POST /free/*\"]\n\
             [[services.A.resources]]\nkind = \"order\"\ncollection = \"/orders\""
        );
        Arc::new(Profile::parse("x.toml", &text).unwrap())
    };
    let any = start(&["a"], &glue(""), vec![Box::new(anything)]);
    for path in ["/orders%2F42", "/orders/42/../7", "/free/../orders"] {
        assert_eq!(
            any[0].send(&format!("POST {path}"), "{}").code(),
            "path_ambiguous",
            "{path}"
        );
    }
    assert_eq!(any[0].send("POST /orders/a%20b", "{}").status, 200);
    let raw = start(&["a"], &glue("reads-paths = []"), vec![Box::new(anything)]);
    for path in ["/orders%2F42", "/orders/42/../7", "/orders/group%2Fproject"] {
        assert_eq!(raw[0].send(&format!("POST {path}"), "{}").status, 200, "{path}");
    }
}

#[test]
fn a_set_begins_with_a_path_that_has_one_meaning() {
    let reactions = || -> Vec<Reaction> { vec![Box::new(anything), Box::new(anything)] };
    let a = &start(&["a", "b"], &Arc::new(Profile::plain()), reactions())[0];
    for path in ["/orders/.", "/orders%2F", "/x/../orders"] {
        let answer = a.send(&format!("POST {path}\nx-scope: a & b"), "{}");
        assert_eq!(answer.code(), "path_ambiguous", "{path}");
    }
}
