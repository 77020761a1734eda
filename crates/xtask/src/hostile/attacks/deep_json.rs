//! A list that is arrays in arrays, as deep as its length allows.

use anyhow::Result;
use bytes::Bytes;

use super::{Scene, Verdict};
use crate::hostile::mallory::Script;

const DEPTH: usize = 8 * 1024 * 1024;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let script = Script {
        replicas: None,
        body: Bytes::from([br#"{"items":["#.to_vec(), vec![b'['; DEPTH]].concat()),
        times: 1,
    };
    let said = scene.gather(script, 4, "/items", "B: site1 & mallory", scene.victim().b.addr)?;
    Ok(Verdict::of(true, said))
}
