//! A few hundred bytes that name many places in a list.

use std::fmt::Write as _;

use anyhow::Result;
use bytes::Bytes;

use super::{Scene, Verdict};
use crate::hostile::mallory::Script;

pub(in crate::hostile) fn script() -> Script {
    let mut replicas = String::new();
    for group in 0..32 {
        let separator = if group == 0 { "" } else { ";" };
        let _ = write!(replicas, "{separator}s{group}=0-16777214");
    }
    Script {
        replicas: Some(replicas),
        body: Bytes::from_static(br#"{"items":[{"id":1,"name":"one"},{"id":2,"name":"two"}]}"#),
        times: 1,
    }
}

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let said = scene.gather(script(), 4, "/items", "B: site1 & mallory", scene.victim().b.addr)?;
    Ok(Verdict::of(true, said))
}
