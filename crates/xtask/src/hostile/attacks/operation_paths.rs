//! Operations of a set whose requests are about something else, such as `DELETE /admin/users/42`.

use std::fs;

use anyhow::Result;
use cheops_replica::{MetaId, OpId, Verb};
use cheops_types::KeptBody;

use super::{Scene, Verdict, counted, until};
use crate::hostile::client;

/// What the agent logs of an operation that it does not execute.
const REFUSED: &str = "it asks for what is none of its business";
/// A part of the set's own resource.
const BELOW: &str = "OWN/nothing";

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let body = serde_json::json!({"name": "crown"});
    client::call(victim.b.addr, ("POST", "/labels"), &[], Some(&body))?;
    // Below the set's own resource: lawful, and unknown to the application, which says so.
    let below = Verb::Action {
        commutes: false,
        idempotent: true,
    };
    let requests = [
        ("POST", BELOW, below),
        ("DELETE", "/admin/users/42", Verb::Delete),
        ("DELETE", "/admin/users/42", Verb::Merge),
        ("POST", "/admin/users", Verb::Replace),
        ("DELETE", "/labels/crown", Verb::Merge),
        ("DELETE", "/labels/crown", Verb::Delete),
        ("DELETE", "/items/1/../../labels/crown", Verb::Delete),
        ("DELETE", "http://127.0.0.1/labels/crown", Verb::Delete),
        ("DELETE /labels/crown HTTP/1.1\r\nx:", "/items", Verb::Delete),
        (
            "GET",
            "/items\r\nHost: x\r\n\r\nDELETE /labels/crown",
            Verb::Merge,
        ),
    ];
    let mut answers = Vec::new();
    let mut reached = Vec::new();
    for (method, path, verb) in requests {
        let shared = scene.share()?;
        let mut request = shared.write.request.clone();
        let own = request.path.clone();
        (request.method, request.path) = (method.to_owned(), path.replace("OWN", &own));
        if method != "POST" {
            request.body = KeptBody::EMPTY;
        }
        let op = mallory.operation(&shared, 1, verb, request)?;
        answers.extend(mallory.send(victim, &[mallory.carry(&shared, [op])])?);
        if is_asked(scene, &shared.set, &mallory.id(1))? {
            reached.push(format!("{method} {path}").replace("\r\n", " "));
        }
    }
    let crown = client::call(
        scene.stage.applications[0].port.addr,
        ("GET", "/labels/crown"),
        &[],
        None,
    )?;
    let lawful = format!("POST {BELOW}");
    let holds = reached == [lawful.clone()] && crown.status == 200;
    let what = if reached == [lawful] {
        "only the lawful one reached the application".to_owned()
    } else {
        format!("the application was asked {}", reached.join(" and "))
    };
    Ok(Verdict::of(
        holds,
        format!(
            "{} operations answered {}; {what}; what they were to delete is answered {}",
            answers.len(),
            counted(&answers),
            crown.status
        ),
    ))
}

/// Waits until it is known what became of an operation at the victim, and says whether its application was asked. A refusal of the
/// agent is in its log; the operation itself may be covered by a repair since.
fn is_asked(scene: &Scene<'_>, set: &MetaId, id: &OpId) -> Result<bool> {
    let path = format!("/v1/operations/{set}:{id}");
    let mut row = serde_json::Value::Null;
    let is_over = until(|| {
        row = scene.victim().admin(&path)?["operation"].clone();
        Ok(!matches!(row["state"].as_str(), Some("waiting" | "running")))
    })?;
    anyhow::ensure!(is_over, "nothing became of {row}");
    let log = fs::read_to_string(scene.victim().dir().join("agent.log"))?;
    let of_set = format!("set={set} ");
    let is_refused = |line: &str| line.contains(&of_set) && line.contains(REFUSED);
    Ok(!log.lines().any(is_refused))
}
