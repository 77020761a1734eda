//! 202 is a promise: an agent that is killed between the answer and the execution keeps it.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Mesh, Scripted, get, json_answer, post, put, until};

use super::support::BOTH;

const GLUE: &str = r#"
application = "moody"

[[services.B.resources]]
kind = "thing"
collection = "/things"
item = "/things/{id}"
"#;

/// An application that answers writes to its one thing with a status of the test's choice.
struct Moody {
    service: Scripted,
    status: Arc<AtomicU16>,
}

impl Moody {
    fn start(id: u64) -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let mood = status.clone();
        let service = Scripted::start(move |request| {
            let status = match *request.method() {
                Method::GET => 200,
                Method::POST => 201,
                _ => mood.load(Ordering::SeqCst),
            };
            async move { json_answer(status, &json!({ "id": id, "name": "bolt" })) }
        });
        Self { service, status }
    }

    fn answers(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

async fn status_of(mesh: &Mesh, location: &str) -> Value {
    get(mesh.b(1), location).await.is(200).json()
}

#[tokio::test]
async fn an_agent_that_is_killed_after_202_keeps_its_word_and_tells_what_came_of_it() {
    let (here, there) = (Moody::start(1), Moody::start(2));
    let mut mesh = Mesh::of(2)
        .glue(GLUE)
        .upstream(1, "B", here.service.addr())
        .upstream(2, "B", there.service.addr())
        .limit("replay_retry_max_ms", 500)
        .limit("doubt_settle_ms", 200)
        .start()
        .await;
    let made = post(mesh.b(1), "/things", r#"{"name":"bolt"}"#).scope(BOTH);
    let made = made.header("prefer", "wait=20").await.is(201);
    let path = format!("/things/{}", made.json()["id"].as_str().unwrap());

    for (mood, state) in [(200, "done"), (422, "refused")] {
        // The application cannot take it now.
        here.answers(503);
        let write = put(mesh.b(1), &path, r#"{"name":"nut"}"#);
        let answer = write.header("prefer", "respond-async").await.is(202);
        let location = answer.header("location").unwrap().to_owned();
        mesh.site_mut(1).agent_mut().kill();
        here.answers(mood);
        mesh.site_mut(1).restart().await;
        // Killed while the application was at it, nobody knows what became of the first attempt: a refusal of the
        // second does not say that nothing has happened.
        let is_over =
            |status: &Value| status["state"] == state || state == "refused" && status["state"] == "unknown";
        until(&format!("it is {state}"), async || {
            is_over(&status_of(&mesh, &location).await)
        })
        .await;
        // What came of it outlives the agent too.
        let ended = status_of(&mesh, &location).await;
        mesh.site_mut(1).restart().await;
        let status = status_of(&mesh, &location).await;
        assert_eq!(status["state"], ended["state"], "{status}");
    }
    // Nobody was killed: a refusal is one.
    here.answers(422);
    let write = put(mesh.b(1), &path, r#"{"name":"nut"}"#);
    let answer = write.header("prefer", "respond-async").await.is(202);
    let location = answer.header("location").unwrap().to_owned();
    until("it is refused", async || {
        status_of(&mesh, &location).await["state"] == "refused"
    })
    .await;
}
