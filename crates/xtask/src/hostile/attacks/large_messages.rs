//! Many messages of the greatest length at the same time.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use bytes::Bytes;
use cheops_types::headers::PEER_REPLICATION_PATH;
use http::Method;

use super::{Scene, Verdict, told};
use crate::hostile::{
    mallory::{Mallory, ask},
    stage::Agent,
};

const STREAMS: usize = 32;
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let counts = send(
        scene.mallory,
        scene.victim(),
        scene.flood.max(Duration::from_secs(10)),
    )?;
    Ok(Verdict::of(true, told(&counts)))
}

/// Sends for so long, and counts how the messages are answered.
pub(in crate::hostile) fn send(
    mallory: &Mallory,
    to: &Agent,
    lasts: Duration,
) -> Result<BTreeMap<String, usize>> {
    // One message, as its length says, that is read only when all of it is there.
    let mut body = vec![0_u8; MESSAGE_BYTES];
    body[0] = 3;
    body[1..5].copy_from_slice(&u32::try_from(MESSAGE_BYTES - 5)?.to_be_bytes());
    let body = Bytes::from(body);
    let path = format!("{PEER_REPLICATION_PATH}messages");
    mallory.talk(to, async |link| {
        let start = tokio::time::Instant::now();
        let streams: Vec<_> = (0..STREAMS)
            .map(|_| {
                let (link, body, path) = (link.clone(), body.clone(), path.clone());
                tokio::task::spawn_local(async move {
                    let mut ends = Vec::new();
                    while start.elapsed() < lasts {
                        let asked = ask(&link, (Method::POST, &path), &[], body.clone());
                        let end = match tokio::time::timeout(lasts, asked).await {
                            Ok(Ok((status, _))) => status.to_string(),
                            Ok(Err(_)) => "cut off".to_owned(),
                            Err(_) => "under way".to_owned(),
                        };
                        ends.push(end);
                    }
                    ends
                })
            })
            .collect();
        let mut counts = BTreeMap::new();
        for stream in streams {
            for end in stream.await? {
                *counts.entry(end).or_default() += 1;
            }
        }
        Ok(counts)
    })
}
