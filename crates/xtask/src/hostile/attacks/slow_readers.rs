//! Clients that ask for much and read nothing. They begin with the suite, and are looked at in its end.

use std::{
    io::Write as _,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Scene, Verdict};
use crate::hostile::{client, stage::Stage};

/// When the application's connections must be free: nginx lets go after 75 s, HAProxy after 40 s.
const FREE_AFTER: Duration = Duration::from_secs(80);
const PINNED_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

pub(in crate::hostile) struct SlowReaders {
    since: Instant,
    readers: Vec<TcpStream>,
    /// All of them had their answers begun.
    have_pinned: bool,
}

impl SlowReaders {
    pub(in crate::hostile) const READERS: usize = 24;

    pub(in crate::hostile) fn start(stage: &Stage) -> Result<Self> {
        Self::some(stage, Self::READERS)
    }

    pub(in crate::hostile) fn some(stage: &Stage, count: usize) -> Result<Self> {
        let mut readers = Vec::new();
        for _ in 0..count {
            let mut stream = client::connect(client::STRANGER, stage.agents[0].c.addr)?;
            stream.write_all(client::request(("GET", "/big"), &[], None).as_bytes())?;
            readers.push(stream);
        }
        let since = Instant::now();
        while stage.recorder.pinned() < count && since.elapsed() < PINNED_WITHIN {
            thread::sleep(POLL);
        }
        Ok(Self {
            since,
            have_pinned: stage.recorder.pinned() >= count,
            readers,
        })
    }
}

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let readers = scene.slow_readers;
    anyhow::ensure!(
        readers.have_pinned,
        "the slow readers never had a connection of the application"
    );
    let left = || scene.stage.recorder.pinned();
    while left() > 0 && readers.since.elapsed() < FREE_AFTER {
        thread::sleep(POLL);
    }
    let pinned = left();
    Ok(Verdict::of(
        pinned == 0,
        format!(
            "{pinned} of {} connections of the application still pinned after {} s",
            readers.readers.len(),
            readers.since.elapsed().as_secs()
        ),
    ))
}
