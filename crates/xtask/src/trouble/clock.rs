//! Wall clocks of agents that can be set, by libfaketime: the agent itself needs no hook.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::packages;

/// Where Debian's package puts the library for programs with threads, below `/usr/lib/<machine>`.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const PACKAGE: &str = "faketime";

/// The library, which is installed if it is missing.
pub(crate) fn library() -> Result<PathBuf> {
    if let Some(library) = find() {
        return Ok(library);
    }
    packages::install("the suite", &[PACKAGE])?;
    find().with_context(|| format!("the package {PACKAGE} has no {LIBRARY}"))
}

fn find() -> Option<PathBuf> {
    let machines = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    let mut libraries = machines.map(|machine| machine.path().join(LIBRARY));
    libraries.find(|library| library.is_file())
}

/// The wall clock of one agent, through all its lives.
#[derive(Debug)]
pub(super) struct Clock {
    library: PathBuf,
    /// Says how wrong the clock is; read at each look at the clock.
    file: PathBuf,
}

impl Clock {
    pub(super) fn new(library: &Path, dir: &Path) -> Result<Self> {
        let clock = Self {
            library: library.to_owned(),
            file: dir.join("clock"),
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Makes a process read this clock. Only the wall clock is wrong, as it would be on a machine whose clock is
    /// set: time that passes and times of files are not.
    pub(super) fn wear(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1")
            .env_remove("FAKETIME")
            .env_remove("FAKETIME_SHARED");
    }

    pub(super) fn set(&self, offset_s: i64) -> Result<()> {
        // Never half a file under somebody who reads it.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{offset_s:+}\n"))?;
        fs::rename(&new, &self.file)?;
        Ok(())
    }
}

/// Removes what the library leaves behind in a process that was killed.
pub(super) fn forget(pid: u32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// Seconds from the first line with one text to the first with another, by the times that a log's lines begin with.
/// Never as much as a day.
pub(super) fn passed_s(log: &str, from: &str, to: &str) -> Option<u64> {
    const DAY_S: u64 = 24 * 60 * 60;
    let at = |text: &str| log.lines().find(|line| line.contains(text)).and_then(day_s);
    Some((at(to)? + DAY_S - at(from)?) % DAY_S)
}

/// The second of the day of `2026-01-01T10:20:30.123Z ...`.
fn day_s(line: &str) -> Option<u64> {
    let (_, time) = line.split_whitespace().next()?.split_once('T')?;
    let mut parts = time.split([':', '.']).map_while(|part| part.parse::<u64>().ok());
    Some(parts.next()? * 3_600 + parts.next()? * 60 + parts.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_log_tell_what_passed() {
        let log =
            "2026-11-18T23:50:00.123456Z  INFO ready site=a\n2026-11-19T00:20:01.000001Z  INFO reloaded x\n";
        assert_eq!(passed_s(log, " ready ", " reloaded "), Some(1_801));
        assert_eq!(passed_s(log, " ready ", " stopped "), None);
        assert_eq!(passed_s("no time ready \n", " ready ", " ready "), None);
    }
}
