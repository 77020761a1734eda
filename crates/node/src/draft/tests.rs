use std::sync::Arc;

use bytes::Bytes;
use cheops_ports::Prefer;
use cheops_types::KeptBody;

use super::*;
use crate::lab::{Lab, service, site};

/// A site that knows the order 42 as `72` and the item 6 as `9`, both replicated.
fn lab() -> Lab {
    let lab = Lab::new("a");
    lab.know("A", "order", "72", Some("42"), &["a", "b"]);
    lab.know("B", "item", "9", Some("6"), &["a", "b"]);
    lab
}

fn write(of: &str, kind: &str, line: &str, body: &str) -> Write {
    let (method, path) = line.split_once(' ').unwrap();
    Write {
        service: service(of),
        kind: kind.into(),
        target: Target::set(Arc::from("72")),
        request: http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer x")
            .header("If-Match", "7")
            .header("Idempotency-Key", "mine")
            .body(KeptBody::Inline(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap(),
        scope: "{A: a & b}".into(),
        prefer: Prefer::default(),
        from: None,
    }
}

fn new(of: &str, kind: &str, path: &str, body: &str) -> Write {
    Write {
        target: Target::new(["a", "b"].map(site).to_vec()),
        ..write(of, kind, &format!("POST {path}"), body)
    }
}

fn made(write: &Write) -> Drafted {
    draft(&lab().core, write).unwrap()
}

fn body(drafted: &Drafted) -> &str {
    match &drafted.draft.request.body {
        KeptBody::Inline(body) => std::str::from_utf8(body).unwrap(),
        KeptBody::Spooled { .. } => panic!("it is spooled"),
    }
}

fn needs(drafted: &Drafted) -> Vec<&str> {
    drafted.draft.needs.iter().map(|need| need.set.as_str()).collect()
}

#[test]
fn a_create_is_recorded_with_the_ids_that_all_sites_know() {
    for item in ["6", "9"] {
        let drafted = made(&new(
            "A",
            "order",
            "/orders?item=6",
            &format!(r#"{{"item":{item},"n":1}}"#),
        ));
        assert_eq!(body(&drafted), r#"{"item":9,"n":1}"#);
        assert_eq!(needs(&drafted), ["9"]);
        assert_eq!(drafted.draft.recognise, Recognise::Marker);
        assert!(matches!(drafted.to, To::New(NewId::Integer { .. })));
        let Verb::Create(birth) = &drafted.draft.verb else {
            panic!("{:?}", drafted.draft.verb);
        };
        assert_eq!((birth.name.as_deref(), birth.kind.as_str()), (None, "order"));
        assert_eq!(birth.sites, ["a", "b"].map(site).into());
    }
}

#[test]
fn only_listed_headers_are_recorded_and_the_caller_keeps_all() {
    let lab = lab();
    let drafted = draft(
        &lab.core,
        &write("A", "order", "PUT /orders/42", r#"{"id":42,"n":2}"#),
    )
    .unwrap();
    let request = &drafted.draft.request;
    assert_eq!(
        request.headers,
        [("content-type".to_owned(), "application/json".to_owned())]
    );
    assert_eq!(request.path, "/orders/{id}");
    assert_eq!(request.scope, "{A: a & b}");
    assert_eq!(drafted.caller.headers.len(), 4);
    let conditions = drafted.draft.conditions.as_ref().unwrap();
    assert_eq!(conditions.headers, [("if-match".to_owned(), b"7".to_vec())]);
    assert_eq!(conditions.body, None);
    assert_eq!(drafted.draft.verb, Verb::Replace);
    assert!(needs(&drafted).is_empty());
    let credential = secret::open(&lab.core.key, drafted.draft.credential.as_ref().unwrap()).unwrap();
    assert_eq!(
        credential.headers,
        crate::lab::headers(&[("authorization", "Bearer x")])
    );
    assert!(!format!("{drafted:?}").contains("Bearer"));
}

#[test]
fn the_resource_has_the_same_path_whatever_it_was_called_by() {
    for id in ["42", "72"] {
        let replace = made(&write("A", "order", &format!("PUT /orders/{id}?x=1"), "{}"));
        assert_eq!(replace.draft.request.path, "/orders/{id}?x=1");
        let ship = made(&write("A", "order", &format!("POST /orders/{id}/ship"), ""));
        let by_meta = made(&write("A", "order", "POST /orders/72/ship", ""));
        assert_eq!(ship.draft.request.path, by_meta.draft.request.path);
        let action = Verb::Action {
            commutes: true,
            idempotent: false,
        };
        assert_eq!(ship.draft.verb, action);
        assert!(needs(&ship).is_empty(), "it does not wait for itself");
    }
}

#[test]
fn a_name_of_the_callers_choice_is_the_id_everywhere() {
    let label = made(&new("B", "label", "/labels", r#"{"name":"x"}"#));
    let file = made(&new("B", "file", "/files", r#"{"id":"f1"}"#));
    for (drafted, name) in [(&label, "x"), (&file, "f1")] {
        assert!(
            matches!(&drafted.draft.verb, Verb::Create(birth) if birth.name.as_deref() == Some(name)),
            "{:?}",
            drafted.draft.verb
        );
        assert!(
            matches!(drafted.to, To::New(NewId::Named)),
            "its set follows from the name"
        );
        // Whoever made what has the name, a name alone does not tell.
        assert_ne!(drafted.draft.recognise, Recognise::ChosenId);
    }
    let minted = made(&new("B", "file", "/files", r#"{"size":1}"#));
    assert_eq!(minted.draft.recognise, Recognise::ChosenId);
}

#[test]
fn what_the_caller_wrote_at_the_place_of_the_marker_stays() {
    let given = made(&new("A", "order", "/orders", r#"{"ref":"mine"}"#));
    assert_eq!(given.draft.recognise, Recognise::Nothing);
    let free = made(&new("A", "order", "/orders", r#"{"n":1}"#));
    assert_eq!(free.draft.recognise, Recognise::Marker);
}

#[test]
fn a_key_that_the_caller_brought_is_used_everywhere() {
    let drafted = made(&new("B", "item", "/items", "{}"));
    assert_eq!(drafted.draft.recognise, Recognise::Key);
    let key = ("idempotency-key".to_owned(), "mine".to_owned());
    assert!(drafted.draft.request.headers.contains(&key));
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let refused = |write: &Write| draft(&lab().core, write).unwrap_err().code;
    let not_json = new("A", "order", "/orders", "item=6");
    assert_eq!(refused(&not_json), Code::BodyUnsupported);
    for sites in [&["a"][..], &["a", "a"], &["b", "c"]] {
        let alone = Write {
            target: Target::new(sites.iter().copied().map(site).collect()),
            ..new("A", "order", "/orders", "{}")
        };
        assert_eq!(refused(&alone), Code::SetRefused, "{sites:?}");
    }
    assert_eq!(refused(&new("A", "hello", "/hello", "{}")), Code::GlueIncomplete);
    let read = write("A", "order", "GET /orders/72", "");
    assert_eq!(refused(&read), Code::SetRefused);
}

#[test]
fn a_long_body_stays_in_the_spool_unless_ids_in_it_change() {
    let lab = lab();
    for (text, is_spooled) in [(r#"{"n":1}"#, true), (r#"{"item":6}"#, false)] {
        let payload = lab.spool("72", text.as_bytes());
        let body = KeptBody::Spooled {
            hash: payload.hash.into(),
            bytes: payload.bytes,
        };
        let mut write = new("A", "order", "/orders", "");
        *write.request.body_mut() = body;
        let drafted = draft(&lab.core, &write).unwrap();
        let found = matches!(drafted.draft.request.body, KeptBody::Spooled { .. });
        assert_eq!(found, is_spooled, "{text}");
    }
}
