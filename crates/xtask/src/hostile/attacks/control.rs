//! What the others are measured against: an ordinary operation of the peer in a set that it shares is executed. If this
//! fails, the suite speaks another language than the agents, and no refusal means anything.

use anyhow::Result;
use cheops_replica::Verb;

use super::{Scene, Verdict, counted, until};
use crate::hostile::mallory::write_to;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let shared = scene.share()?;
    let request = write_to(&shared.write, r#"{"price":41}"#);
    let op = scene.mallory.operation(&shared, 1, Verb::Merge, request)?;
    let message = scene.mallory.carry(&shared, [op]);
    let answers = scene.mallory.send(scene.victim(), &[message])?;
    let is_there = until(|| Ok(scene.look(&shared)?["price"] == 41))?;
    let what = if is_there {
        "executed"
    } else {
        "NOT executed: the suite's messages are not understood"
    };
    Ok(Verdict::of(
        is_there,
        format!("{what}, answered {}", counted(&answers)),
    ))
}
