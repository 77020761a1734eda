//! An event of a watch that never comes to its end.

use anyhow::Result;
use bytes::Bytes;

use super::{Scene, Verdict};
use crate::hostile::mallory::Script;

const PIECE_BYTES: usize = 64 * 1024;
const PIECES: usize = 1024;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let script = Script {
        replicas: None,
        body: Bytes::from(vec![b'a'; PIECE_BYTES]),
        times: PIECES,
    };
    let said = scene.gather(
        script,
        2,
        "/notes?watch=1&since=1",
        "C: site1 & mallory",
        scene.victim().c.addr,
    )?;
    Ok(Verdict::of(true, said))
}
