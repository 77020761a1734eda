//! An execution that may have happened and cannot be repeated waits for an operator.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Mesh, Scripted, get, json_answer, post, until};

use super::support::{BOTH, Made, listed};

/// Nothing is said of actions, so they neither commute nor may they be repeated.
const GLUE: &str = r#"
application = "counter"

[[services.B.resources]]
kind = "thing"
collection = "/things"
item = "/things/{id}"
"#;

/// One thing that counts how often it was kicked. Kicks are answered only with a permit.
struct Things {
    service: Scripted,
    kicks: Arc<AtomicUsize>,
    answers: Arc<Semaphore>,
}

impl Things {
    fn start(id: u64) -> Self {
        let kicks = Arc::new(AtomicUsize::new(0));
        let answers = Arc::new(Semaphore::new(0));
        let (counter, gate) = (kicks.clone(), answers.clone());
        let service = Scripted::start(move |request| {
            let (kicks, answers) = (counter.clone(), gate.clone());
            async move {
                let path = request.uri().path();
                let is_kick = path.ends_with("/kick");
                if is_kick {
                    kicks.fetch_add(1, Ordering::SeqCst);
                    answers.acquire().await.unwrap().forget();
                }
                let status = if path == "/things" { 201 } else { 200 };
                json_answer(
                    status,
                    &json!({ "id": id, "kicks": kicks.load(Ordering::SeqCst) }),
                )
            }
        });
        Self {
            service,
            kicks,
            answers,
        }
    }

    fn kicks(&self) -> usize {
        self.kicks.load(Ordering::SeqCst)
    }
}

async fn in_doubt(mesh: &Mesh) -> Vec<Value> {
    listed(mesh.site(1), "operations", "state=in-doubt").await
}

async fn kicked_and_killed(mesh: &mut Mesh, things: &Things) -> Made {
    let created = post(mesh.b(1), "/things", "{}")
        .scope(BOTH)
        .header("prefer", "wait=20")
        .await;
    let made = Made::by("B", "things", &created);
    let kick = post(mesh.b(1), &format!("{}/kick", made.path()), "{}");
    let kick = tokio::spawn(kick.try_send());
    until("the application kicks", async || things.kicks() == 1).await;
    mesh.site_mut(1).agent_mut().kill();
    assert!(kick.await.unwrap().is_err(), "a dead agent answered");
    things.answers.add_permits(1);
    mesh.site_mut(1).restart().await;
    mesh.site(1).until_sees("site2", true).await;
    until("the operation is shown as in doubt", async || {
        in_doubt(mesh).await.len() == 1
    })
    .await;
    made
}

async fn settle(mesh: &Mesh, executed: bool) {
    let doubted = in_doubt(mesh).await;
    assert_eq!(
        doubted[0]["path"].as_str().unwrap().rsplit('/').next(),
        Some("kick"),
        "{doubted:#?}"
    );
    let path = format!("/v1/operations/{}/settle", doubted[0]["id"].as_str().unwrap());
    mesh.site(1)
        .operate(Method::POST, &path, &json!({ "executed": executed }))
        .await;
    until("nothing is in doubt", async || in_doubt(mesh).await.is_empty()).await;
}

#[tokio::test]
async fn an_action_cut_short_by_a_crash_is_never_repeated() {
    let (here, there) = (Things::start(7), Things::start(8));
    let mut mesh = Mesh::of(2)
        .glue(GLUE)
        .limit("doubt_settle_ms", 200)
        .upstream(1, "B", here.service.addr())
        .upstream(2, "B", there.service.addr())
        .start()
        .await;
    let made = kicked_and_killed(&mut mesh, &here).await;
    made.until_state(&mesh, &[1], "in-doubt").await;

    // Later writes wait for the operator; the other site may take them, this one does not.
    let kick = format!("{}/kick", made.path());
    there.answers.add_permits(10);
    let later = post(mesh.b(1), &kick, "{}").await;
    assert!(
        later.status == 503 || later.executed_at() == ["site2"],
        "{later:?}"
    );
    assert_eq!(here.kicks(), 1, "it was repeated, or overtaken");
    get(mesh.b(1), &made.path()).await.is(200);

    here.answers.add_permits(10);
    settle(&mesh, true).await;
    let expected = there.kicks().max(1);
    until("the kick is known at both sites", async || {
        there.kicks() >= expected
    })
    .await;
    made.until_state(&mesh, &[1, 2], "ok").await;
    assert!(here.kicks() >= 1);
}

#[tokio::test]
async fn an_operator_may_say_that_it_did_not_execute() {
    let (here, there) = (Things::start(7), Things::start(8));
    let mut mesh = Mesh::of(2)
        .glue(GLUE)
        .limit("doubt_settle_ms", 200)
        .upstream(1, "B", here.service.addr())
        .upstream(2, "B", there.service.addr())
        .start()
        .await;
    let made = kicked_and_killed(&mut mesh, &here).await;
    settle(&mesh, false).await;
    // It was never acknowledged, and now it never was.
    made.until_state(&mesh, &[1, 2], "ok").await;
    assert_eq!((here.kicks(), there.kicks()), (1, 0));
    here.answers.add_permits(1);
    there.answers.add_permits(1);
    let kick = post(mesh.b(1), &format!("{}/kick", made.path()), "{}");
    kick.header("prefer", "wait=20").await.is(200);
    assert_eq!((here.kicks(), there.kicks()), (2, 1));
}
