//! Lists of the greatest length, of very many small items, for eight callers at once.

use anyhow::Result;
use bytes::Bytes;

use super::{Scene, Verdict};
use crate::hostile::mallory::Script;

const LIST_BYTES: usize = 16 * 1024 * 1024 - 1024;
pub(in crate::hostile) const CALLERS: usize = 8;

pub(in crate::hostile) fn script() -> Script {
    let mut body = br#"{"items":["#.to_vec();
    while body.len() < LIST_BYTES {
        body.extend_from_slice(br#"{"id":1},"#);
    }
    body.extend_from_slice(br#"{"id":1}]}"#);
    Script {
        replicas: None,
        body: Bytes::from(body),
        times: 1,
    }
}

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let said = scene.gather(
        script(),
        CALLERS,
        "/items",
        "B: site1 & mallory",
        scene.victim().b.addr,
    )?;
    Ok(Verdict::of(true, said))
}
