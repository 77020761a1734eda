//! A script of `testbed/` while it runs its sites.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::Interrupt;

const POLL: Duration = Duration::from_millis(50);
/// How long the sites may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The line that a script prints when its sites are up.
const READY: &str = "ready";

/// Running sites: `<script> run …`, which starts them, prints `ready` and keeps them until its standard input
/// ends.
pub(crate) struct Testbed {
    name: String,
    child: Child,
}

impl Testbed {
    /// Runs the script and waits for its sites. What it says goes to `log`, and what it does to the terminal.
    pub(crate) fn run(
        interrupt: &Interrupt,
        command: &mut Command,
        log: &Path,
        timeout: Duration,
    ) -> Result<Self> {
        let name = PathBuf::from(command.get_program());
        let name = name
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        let mut testbed = Self { name, child };
        testbed.ready(interrupt, log, timeout)?;
        Ok(testbed)
    }

    fn ready(&mut self, interrupt: &Interrupt, log: &Path, timeout: Duration) -> Result<()> {
        let output = self.child.stdout.take().context("the script has an output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let start = Instant::now();
        loop {
            match lines.recv_timeout(POLL) {
                Ok(line) if line == READY => return Ok(()),
                Ok(line) => eprintln!("  {line}"),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    bail!(
                        "{} ended with {status} before its sites were up:\n{said}",
                        self.name
                    );
                }
            }
            interrupt.check()?;
            if start.elapsed() > timeout {
                bail!("{} has no sites after {timeout:?}", self.name);
            }
        }
    }
}

impl Drop for Testbed {
    /// Its processes are the script's to end: it knows them by id.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > STOP_TIMEOUT {
                eprintln!("{} does not end; its sites may be left running", self.name);
                return;
            }
            thread::sleep(POLL);
        }
    }
}
