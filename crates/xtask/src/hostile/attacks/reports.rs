//! Reports that contradict each other and everything else. The shared set may suffer; the agent may not.

use anyhow::Result;
use cheops_replica::{Age, Content, LocalId, Vector};
use serde_json::json;

use super::{Scene, Verdict, counted};
use crate::hostile::mallory::boundless;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let shared = scene.share()?;
    let everything = boundless(&shared.create.id.author);
    let honest = mallory.message(&shared, Content::Report);
    let mut messages = Vec::new();
    for round in 0..8_u64 {
        for lie in 0..10 {
            let mut message = honest.clone();
            let report = &mut message.report;
            match lie {
                0 => report.held = everything.clone(),
                1 => (report.held, report.done) = (Vector::new(), everything.clone()),
                2 => report.stay = u32::MAX,
                3 => report.incarnation = u64::MAX - round,
                4 => report.left = true,
                5 => report.local = Some(LocalId::new(&"x".repeat(1 << 20))),
                6 => {
                    report.age = Age {
                        incarnation: u64::MAX,
                        steps: u64::MAX,
                        start: round,
                    }
                }
                7 => (message.epoch, message.now_ms) = (u64::MAX, u64::MAX),
                8 => message.incarnation = u64::MAX,
                _ => report.ask = true,
            }
            messages.push(message);
        }
        let mut expelled = honest.clone();
        expelled.content = Content::Expelled;
        expelled.epoch = round;
        messages.push(expelled);
    }
    let answers = mallory.send(victim, &messages)?;
    // It is a member and may say that the victim was expelled; a caller gets an answer in any case.
    let status = scene.patch(&shared, &json!({"price": 77}))?;
    Ok(Verdict::of(
        true,
        format!(
            "{} reports answered {}; a caller's write to that set afterwards {status}",
            messages.len(),
            counted(&answers)
        ),
    ))
}
