//! An operation again and again after others have followed it, and operations in the wrong order.

use anyhow::Result;
use cheops_replica::Verb;
use serde_json::json;

use super::{Scene, Verdict, counted, until};
use crate::hostile::mallory::write_to;

const TIMES: usize = 200;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let shared = scene.share()?;
    let first = write_to(&shared.write, r#"{"price":41}"#);
    let first = mallory.carry(&shared, [mallory.operation(&shared, 1, Verb::Merge, first)?]);
    mallory.send(victim, std::slice::from_ref(&first))?;
    let is_there = until(|| Ok(scene.look(&shared)?["price"] == 41))?;
    let status = scene.patch(&shared, &json!({"price": 50}))?;

    let own = mallory.carry(&shared, [shared.create.clone(), shared.write.clone()]);
    let again: Vec<_> = (0..TIMES).flat_map(|_| [first.clone(), own.clone()]).collect();
    let answers = mallory.send(victim, &again)?;

    // 4, 3, 2, then all of them: they count once each, in the order of their numbers.
    let mut later = Vec::new();
    for seq in 2..=4_u64 {
        let request = write_to(&shared.write, &format!(r#"{{"last":{seq}}}"#));
        later.push(mallory.carry(&shared, [mallory.operation(&shared, seq, Verb::Merge, request)?]));
    }
    let order = [2, 1, 0, 2, 0, 1, 2].map(|at: usize| later[at].clone());
    mallory.send(victim, &order)?;
    let is_last = until(|| Ok(scene.look(&shared)?["last"] == 4))?;
    let seen = scene.settle(&shared)?;
    let holds = is_there && is_last && status < 300 && seen["price"] == 50 && seen["last"] == 4;
    Ok(Verdict::of(
        holds,
        format!(
            "{} replays answered {}; price {}, last {}",
            again.len(),
            counted(&answers),
            seen["price"],
            seen["last"]
        ),
    ))
}
