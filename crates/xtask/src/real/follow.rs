//! A command that goes on, and what it prints meanwhile.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{Interrupt, run::show};

const POLL: Duration = Duration::from_millis(50);

/// A running command. It ends with its handle.
pub(crate) struct Follow {
    child: Child,
    command: String,
    /// Lines of standard output and standard error as they come.
    lines: Receiver<String>,
    seen: Vec<String>,
    interrupt: Interrupt,
}

impl Follow {
    pub(super) fn start(mut command: Command, interrupt: Interrupt) -> Result<Self> {
        let shown = show(&command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{shown}` cannot be started"))?;
        let (sender, lines) = mpsc::channel();
        pass_on(child.stdout.take(), &sender);
        pass_on(child.stderr.take(), &sender);
        Ok(Self {
            child,
            command: shown,
            lines,
            seen: Vec::new(),
            interrupt,
        })
    }

    /// Waits for a line that contains `text` and returns it; lines are looked at once.
    pub(crate) fn line(&mut self, text: &str, deadline: Duration) -> Result<String> {
        let start = Instant::now();
        loop {
            self.interrupt.check()?;
            match self.lines.recv_timeout(POLL) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return Ok(line);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) if start.elapsed() < deadline => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!(
                        "`{}` did not print `{text}` within {deadline:?}, but\n{}",
                        self.command,
                        self.seen.join("\n")
                    )
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => bail!(
                    "`{}` ended ({:?}) without `{text}`, it printed\n{}",
                    self.command,
                    self.child.wait(),
                    self.seen.join("\n")
                ),
            }
        }
    }

    /// Fails if the command has ended.
    pub(crate) fn goes_on(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "`{}` ended with {status}:\n{}",
                self.command,
                self.seen.join("\n")
            );
        }
        Ok(())
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pass_on(from: Option<impl Read + Send + 'static>, to: &Sender<String>) {
    let to = to.clone();
    thread::spawn(move || {
        let lines = from.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        for line in lines.map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}
