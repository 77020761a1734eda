//! A service that breaks off in the middle of a write that can be repeated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use http::Method;
use serde_json::json;

use crate::harness::{Mesh, Scripted, get, json_answer, post, put, until};

use super::support::BOTH;

const GLUE: &str = r#"
application = "fragile"

[[services.B.resources]]
kind = "thing"
collection = "/things"
item = "/things/{id}"
"#;

/// An application that ends the connection instead of answering a write, when it is told to.
fn fragile(id: u64, breaks: &Arc<AtomicBool>) -> Scripted {
    let breaks = breaks.clone();
    Scripted::start(move |request| {
        let is_write = *request.method() == Method::PUT;
        assert!(
            !is_write || !breaks.swap(false, Ordering::SeqCst),
            "it breaks off, as it should"
        );
        let status = if *request.method() == Method::POST {
            201
        } else {
            200
        };
        async move { json_answer(status, &json!({ "id": id, "name": "bolt" })) }
    })
}

#[tokio::test]
async fn a_write_whose_connection_ended_is_repeated_soon() {
    let breaks = Arc::new(AtomicBool::new(false));
    let (here, there) = (fragile(1, &Arc::default()), fragile(2, &breaks));
    let mesh = Mesh::of(2)
        .glue(GLUE)
        .upstream(1, "B", here.addr())
        .upstream(2, "B", there.addr())
        .limit("doubt_broken_ms", 300)
        .start()
        .await;
    let made = post(mesh.b(1), "/things", r#"{"name":"bolt"}"#).scope(BOTH);
    let made = made.header("prefer", "wait=20").await.is(201);
    let path = format!("/things/{}", made.json()["id"].as_str().unwrap());

    breaks.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    let answer = put(mesh.b(1), &path, r#"{"name":"bolt"}"#);
    let answer = answer.header("prefer", "wait=20").await.is(200);
    assert_eq!(answer.outcomes(), "site1=executed site2=executed", "{answer:?}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());

    // Nobody waits longer than they want, and the receipt says what the site waits for.
    breaks.store(true, Ordering::SeqCst);
    let answer = put(mesh.b(1), &path, r#"{"name":"bolt"}"#);
    let answer = answer.header("prefer", "respond-async").await.is(202);
    let location = answer.header("location").unwrap().to_owned();
    let mut words = Vec::new();
    until("it is done", async || {
        let status = get(mesh.b(1), &location).await.is(200).json();
        words.push(
            status["sites"][1]["error"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        );
        status["state"] == "done"
    })
    .await;
    assert!(words.iter().any(|word| word == "in-doubt"), "{words:?}");
}
