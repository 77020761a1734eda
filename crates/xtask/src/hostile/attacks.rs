//! The attacks, one file each, in the order in which they are played.

mod ambiguous_paths;
mod control;
mod deep_json;
mod forged;
mod framing;
mod guesses;
mod large_heads;
mod large_lists;
mod large_messages;
pub(super) mod load;
mod malformed;
mod membership;
mod operation_paths;
mod replayed;
mod replicas_header;
mod reports;
mod scoped_flood;
mod services;
mod slow_readers;
mod snapshots;
mod state;
mod strangers;
mod trailers;
mod watch_line;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    client,
    mallory::{Mallory, Script, Shared},
    stage::{Agent, Stage},
};
pub(super) use slow_readers::SlowReaders;

/// What an attack sees and uses.
pub(super) struct Scene<'s> {
    pub(super) stage: &'s Stage,
    pub(super) mallory: &'s Mallory,
    /// How long a flood lasts.
    pub(super) flood: Duration,
    pub(super) slow_readers: &'s SlowReaders,
}

/// What became of an attack, with figures. That agents live on, that what is none of the attacker's business stays as it
/// is, that ordinary callers are answered and how much memory it took is looked at for all attacks alike.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) holds: bool,
    pub(super) said: String,
}

pub(super) struct Attack {
    pub(super) by: By,
    pub(super) name: &'static str,
    pub(super) play: fn(&Scene<'_>) -> Result<Verdict>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// What a peer sends.
    Peer,
    /// What a peer answers.
    PeerAnswers,
    Client,
}

impl By {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::PeerAnswers => "peer's answers",
            Self::Client => "client",
        }
    }
}

macro_rules! attacks {
    ($($by:ident $name:literal $play:path;)*) => {
        pub(super) const ATTACKS: &[Attack] = &[$(Attack { by: By::$by, name: $name, play: $play }),*];
    };
}

attacks! {
    Peer "an ordinary write (control)" control::play;
    Peer "strangers at the peer port" strangers::play;
    Peer "forged operations" forged::play;
    Peer "replayed and reordered operations" replayed::play;
    Peer "oversized, truncated, damaged bodies" malformed::play;
    Peer "contradicting reports" reports::play;
    Peer "snapshots with impossible vectors" snapshots::play;
    Peer "state that nobody asked for" state::play;
    Peer "membership games" membership::play;
    Peer "operations with other paths" operation_paths::play;
    Peer "services and sets that are not its own" services::play;
    Peer "32 messages of 64 MiB at once" large_messages::play;
    PeerAnswers "a header with 16 million places" replicas_header::play;
    PeerAnswers "lists of 16 MB, eight at once" large_lists::play;
    PeerAnswers "deep JSON" deep_json::play;
    PeerAnswers "a watch line without an end" watch_line::play;
    Client "5,000 connections with heads of 60 KB" large_heads::play;
    Client "ambiguous paths" ambiguous_paths::play;
    Client "trailers and headers of agents" trailers::play;
    Client "framing and hosts with two readings" framing::play;
    Client "scoped requests while a peer is down" scoped_flood::play;
    Client "guesses of operations" guesses::play;
    Client "slow readers" slow_readers::play;
}

impl Verdict {
    pub(super) fn of(holds: bool, said: impl Into<String>) -> Self {
        Self {
            holds,
            said: said.into(),
        }
    }
}

impl<'s> Scene<'s> {
    /// The site that is attacked first.
    pub(super) fn victim(&self) -> &'s Agent {
        &self.stage.agents[0]
    }

    /// A replica set of the victim and the hostile site.
    pub(super) fn share(&self) -> Result<Shared> {
        self.mallory.share(self.stage, 0)
    }

    /// What callers at the victim see of a shared set.
    pub(super) fn look(&self, shared: &Shared) -> Result<Value> {
        let path = format!("/items/{}", shared.id);
        client::call(self.victim().b.addr, ("GET", &path), &[], None)?.json()
    }

    /// Changes a shared set as an ordinary caller at the victim.
    pub(super) fn patch(&self, shared: &Shared, body: &Value) -> Result<u16> {
        let path = format!("/items/{}", shared.id);
        Ok(client::call(self.victim().b.addr, ("PATCH", &path), &[], Some(body))?.status)
    }

    /// Writes a mark to the shared set as an ordinary caller and waits for it: whatever was sent before has had its
    /// chance then.
    pub(super) fn settle(&self, shared: &Shared) -> Result<Value> {
        let mark = format!("{:?}", Instant::now());
        let status = self.patch(shared, &json!({"mark": mark}))?;
        anyhow::ensure!(
            status < 300,
            "an ordinary write to the shared set is answered with {status}"
        );
        until(|| Ok(self.look(shared)?["mark"] == mark.as_str()))?;
        self.look(shared)
    }

    /// Answers with a script while strangers gather lists, and counts how these are answered. An error if nobody asked it: then nothing
    /// was tried.
    pub(super) fn gather(
        &self,
        script: Script,
        callers: usize,
        path: &str,
        scope: &str,
        to: SocketAddr,
    ) -> Result<String> {
        self.mallory.play(script);
        let request = client::request(("GET", path), &[("X-Scope", scope)], None);
        let before = self.mallory.asked();
        let counts = flood(callers, self.flood, move || {
            let mut stream = client::connect(client::STRANGER, to)?;
            let answer = client::exchange(&mut stream, request.as_bytes())?;
            Ok(answer.status)
        });
        self.mallory.play(Script::default());
        let asked = self.mallory.asked() - before;
        anyhow::ensure!(
            asked > 0,
            "the peer was never asked; callers were answered {}",
            told(&counts)
        );
        Ok(format!("{}; the peer was asked {asked} times", told(&counts)))
    }
}

/// Whether something becomes true soon.
pub(super) fn until(mut is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    const SOON: Duration = Duration::from_secs(15);
    let start = Instant::now();
    while start.elapsed() < SOON {
        if is_so()? {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}

/// Lets many callers do something over and over, and counts how it ends.
pub(super) fn flood(
    callers: usize,
    lasts: Duration,
    act: impl Fn() -> Result<u16> + Send + Sync + 'static,
) -> BTreeMap<String, usize> {
    let act = Arc::new(act);
    let start = Instant::now();
    let threads: Vec<_> = (0..callers)
        .map(|_| {
            let act = act.clone();
            thread::spawn(move || {
                let mut ends = Vec::new();
                while start.elapsed() < lasts {
                    ends.push(act().map_or_else(|_| "no answer".to_owned(), |status| status.to_string()));
                }
                ends
            })
        })
        .collect();
    let mut counts = BTreeMap::new();
    for end in threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap_or_default())
    {
        *counts.entry(end).or_default() += 1;
    }
    counts
}

/// `200 x 12, no answer x 3`.
pub(super) fn told(counts: &BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    for (end, count) in counts {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{end} x {count}");
    }
    if text.is_empty() {
        "nothing ended".to_owned()
    } else {
        text
    }
}

/// The same for statuses.
pub(super) fn counted(statuses: &[u16]) -> String {
    let mut counts = BTreeMap::new();
    for status in statuses {
        *counts.entry(status.to_string()).or_default() += 1;
    }
    told(&counts)
}
