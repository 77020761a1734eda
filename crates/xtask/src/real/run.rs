//! A command that ends: its output, within a time.

use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{Read, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

use super::{Follow, Interrupt};

const POLL: Duration = Duration::from_millis(5);
/// Longer than any client of an application takes that is not stuck.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A command to be run with an environment of its own: nothing that the caller has set for a client or for
/// the agent's command line reaches it.
pub(crate) struct Run {
    command: Command,
    interrupt: Interrupt,
    input: Vec<u8>,
    timeout: Duration,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    /// As a person would type it.
    pub(crate) command: String,
    /// Nothing after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Beginnings of variables, in any case, that change what clients and the agent's command line do.
const UNSET: &[&str] = &["CHEOPS_", "OS_", "KUBE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
/// Beginning of those that the testbeds' scripts read.
const KEPT: &str = "CHEOPS_TESTBED_";

impl Run {
    pub(crate) fn new(interrupt: &Interrupt, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        for (name, _) in env::vars_os() {
            let upper = name.to_string_lossy().to_uppercase();
            if UNSET.iter().any(|start| upper.starts_with(start)) && !upper.starts_with(KEPT) {
                command.env_remove(name);
            }
        }
        command.env("NO_COLOR", "1");
        Self {
            command,
            interrupt: interrupt.clone(),
            input: Vec::new(),
            timeout: TIMEOUT,
        }
    }

    pub(crate) fn args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// What the command reads from its standard input.
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it to its end, good or not. An error is a command that could not start or did not end.
    pub(crate) fn output(mut self) -> Result<Output> {
        let shown = show(&self.command);
        self.interrupt.check()?;
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("`{shown}` cannot be started"))?;
        let stdout = reader(child.stdout.take());
        let stderr = reader(child.stderr.take());
        let mut stdin = child.stdin.take();
        // A thread: a command may print before it reads.
        let writer = thread::spawn(move || {
            // A command that does not read its input ends the pipe.
            let _ = stdin.as_mut().map(|stdin| stdin.write_all(&self.input));
        });
        let ended = end(&mut child, &self.interrupt, self.timeout);
        let _ = writer.join();
        let output = Output {
            code: ended.as_ref().ok().copied().flatten(),
            stdout: text(stdout),
            stderr: text(stderr),
            command: shown,
        };
        match ended {
            Ok(_) => Ok(output),
            Err(error) => Err(error.context(output)),
        }
    }

    /// Starts it and follows what it prints.
    pub(crate) fn follow(self) -> Result<Follow> {
        Follow::start(self.command, self.interrupt)
    }

    /// Runs it to an end that must be good.
    pub(crate) fn ok(self) -> Result<Output> {
        let output = self.output()?;
        if output.code != Some(0) {
            bail!(output);
        }
        Ok(output)
    }

    /// Runs it to an end that must be bad.
    pub(crate) fn fails(self) -> Result<Output> {
        let output = self.output()?;
        if output.code == Some(0) {
            bail!("{output}\nwhich should have failed");
        }
        Ok(output)
    }

    /// Its standard output, which must be JSON.
    pub(crate) fn json(self) -> Result<Value> {
        let output = self.ok()?;
        serde_json::from_str(&output.stdout).with_context(|| format!("no JSON: {output}"))
    }
}

impl Output {
    pub(crate) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// What it said, without the line's end.
    pub(crate) fn said(&self) -> &str {
        self.stdout.trim_end()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self
            .code
            .map_or("no exit code".to_owned(), |code| code.to_string());
        write!(f, "`{}` ended with {end}", self.command)?;
        for text in [&self.stdout, &self.stderr] {
            if !text.trim().is_empty() {
                write!(f, "\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

fn end(child: &mut Child, interrupt: &Interrupt, timeout: Duration) -> Result<Option<i32>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        let given_up = if interrupt.is_asked() {
            Some(anyhow!("interrupted"))
        } else if start.elapsed() > timeout {
            Some(anyhow!("it did not end within {timeout:?}"))
        } else {
            None
        };
        if let Some(error) = given_up {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        thread::sleep(POLL);
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is told.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

pub(super) fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words = words.map(|word| {
        let word = word.to_string_lossy();
        if word.is_empty() || word.contains(|c: char| c.is_whitespace() || "'\"{}[]&|;%$*?()<>".contains(c)) {
            format!("'{}'", word.replace('\'', r"'\''"))
        } else {
            word.into_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
