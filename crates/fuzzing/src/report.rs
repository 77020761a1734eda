//! What is told of hunts, while they last and at their end.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use cheops_fuzzing::Hunted;
use serde_json::json;

use super::{Args, FRAMING};

const TELL_EVERY: Duration = Duration::from_millis(500);
/// What of an input is shown.
const SHOWN_BYTES: usize = 200;

/// A line on a terminal that says how far a hunt is; nothing elsewhere.
pub(super) struct Progress {
    name: &'static str,
    begin: Instant,
    last: Option<Mutex<Instant>>,
}

impl Progress {
    pub(super) fn new(args: &Args, name: &'static str) -> Self {
        let begin = Instant::now();
        let is_shown = io::stderr().is_terminal() && !args.json;
        let last = is_shown.then(|| Mutex::new(begin));
        Self { name, begin, last }
    }

    pub(super) fn tell(&self, executions: u64) {
        let Some(last) = &self.last else { return };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= TELL_EVERY {
            *last = Instant::now();
            let seconds = self.begin.elapsed().as_secs();
            let _ = write!(
                io::stderr(),
                "\r{}: {executions} executions, {seconds} s\x1b[K",
                self.name
            );
        }
    }

    pub(super) fn end(&self) {
        if self.last.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// What came of one target.
pub(super) struct Line<'l> {
    name: &'static str,
    hunted: &'l Hunted,
    /// What is wrong, with the file of the input and the command that replays it.
    found: Option<(String, PathBuf, String)>,
}

impl<'l> Line<'l> {
    /// Writes the input of a finding to its file.
    pub(super) fn new(args: &Args, name: &'static str, hunted: &'l Hunted) -> Result<Self> {
        let found = match &hunted.finding {
            None => None,
            Some((finding, input)) => {
                let dir = args.artifacts.join(name);
                fs::create_dir_all(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
                let sum = input.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
                    (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
                });
                let file = dir.join(format!("{sum:016x}"));
                fs::write(&file, input).with_context(|| format!("{} cannot be written", file.display()))?;
                let replay = format!("cargo xtask fuzz {name} --replay {}", file.display());
                Some((finding.to_string(), file, replay))
            }
        };
        Ok(Self { name, hunted, found })
    }

    pub(super) fn print(&self, as_json: bool) {
        let Self { name, hunted, found } = self;
        let per_second = hunted.executions as f64 / hunted.took.as_secs_f64().max(0.001);
        let read_percent = hunted.read as f64 * 100.0 / (hunted.executions.max(1)) as f64;
        if as_json {
            let found = found
                .as_ref()
                .map(|(what, file, replay)| json!({"what": what, "file": file, "replay": replay}));
            let line = json!({
                "target": name,
                "executions": hunted.executions,
                "read": hunted.read,
                "seconds": hunted.took.as_secs_f64(),
                "finding": found,
            });
            println!("{line}");
            return;
        }
        let read = if *name == FRAMING { "answered" } else { "readable" };
        println!(
            "{name:<12} {:>10} executions, {per_second:>8.0} per second, {read_percent:>3.0} % {read}{}",
            hunted.executions,
            if found.is_none() { ", nothing found" } else { "" }
        );
        if let (Some((what, _, replay)), Some((_, input))) = (found, &hunted.finding) {
            println!("  {what}");
            println!(
                "  input: {}",
                input[..input.len().min(SHOWN_BYTES)].escape_ascii()
            );
            println!("  again: {replay}");
        }
    }
}
