//! Processes that end with their parent.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use tokio::time::{self, Instant};

use crate::stop::Stop;

/// How often processes are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long processes may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How many lines of a log are shown when its process failed.
const TAIL_LINES: usize = 15;

/// One process. Its standard input is a pipe that this process holds: when it closes, for
/// whatever reason, the child ends by itself.
#[derive(Debug)]
struct Child {
    /// What it is, e.g. "the agent of site1".
    what: String,
    log: PathBuf,
    process: std::process::Child,
}

impl Child {
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    fn close_stdin(&mut self) {
        drop(self.process.stdin.take());
    }

    fn kill(&mut self) {
        // Only fails when it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All processes of a demo. Dropping them kills the ones that are left.
#[derive(Debug, Default)]
pub(super) struct Children(Vec<Child>);

impl Children {
    /// Starts this program once more, with `args`; what it writes goes to `log`.
    pub(super) fn spawn<I>(&mut self, what: String, args: I, log: &Path) -> anyhow::Result<()>
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let program = std::env::current_exe().context("this program's own file cannot be found")?;
        let output = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        let process = Command::new(&program)
            .args(args)
            .env_remove("CHEOPS_CONFIG")
            .env_remove("CHEOPS_ADMIN")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(output)
            // A group of its own: Ctrl-C is for the parent, which then stops its children.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started as {what}", program.display()))?;
        self.0.push(Child {
            what,
            log: log.to_owned(),
            process,
        });
        Ok(())
    }

    /// An error that tells of a process that ended, if one did.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for child in &mut self.0 {
            if let Some(status) = child.ended()? {
                return Err(anyhow!("{} ended: {status}{}", child.what, tail(&child.log)));
            }
        }
        Ok(())
    }

    /// Waits until a process ends that should not.
    pub(super) async fn first_ended(&mut self) -> anyhow::Error {
        loop {
            if let Err(ended) = self.check() {
                return ended;
            }
            time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Stops all processes and waits for them; `stop` asked once more, or too long a wait, kills
    /// the rest.
    pub(super) async fn stop(&mut self, stop: &mut Stop) {
        for child in &mut self.0 {
            child.close_stdin();
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        let gone = async {
            while Instant::now() < deadline && !self.0.is_empty() {
                self.0.retain_mut(|child| matches!(child.ended(), Ok(None)));
                time::sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = gone => {}
            () = stop.asked() => {}
        }
        self.0.clear();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a log, to be put below a message.
pub(super) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    if shown.is_empty() {
        return "; it wrote nothing".to_owned();
    }
    let mut tail = "; its last words:".to_owned();
    for line in shown {
        tail.push_str("\n  | ");
        tail.push_str(line);
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(tail(&log), "; it wrote nothing");
        let lines: Vec<_> = (0..100).map(|n| format!("line {n}")).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        let tail = tail(&log);
        assert!(tail.ends_with("\n  | line 99"));
        assert_eq!(tail.lines().count(), 1 + TAIL_LINES);
    }
}
