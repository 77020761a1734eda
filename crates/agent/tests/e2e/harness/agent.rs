//! One agent process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::until;

/// How many lines of an agent's log a failed test shows.
const TAIL_LINES: usize = 40;

pub(crate) fn cheops() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cheops"));
    command
        .env_remove("CHEOPS_CONFIG")
        .env_remove("CHEOPS_ADMIN")
        .env_remove("CHEOPS_LOG");
    command
}

/// The binary with a hard limit of open files.
fn with_files(max: Option<u64>) -> Command {
    let cheops = cheops();
    let Some(max) = max else { return cheops };
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -n {max} && exec \"$0\" \"$@\"")])
        .arg(cheops.get_program());
    for (name, _) in cheops.get_envs() {
        command.env_remove(name);
    }
    command
}

/// Runs a command of the binary to its end, which must be good.
pub(crate) fn run_cheops(args: &[&str]) -> Output {
    let output = cheops().args(args).output().unwrap();
    assert!(output.status.success(), "cheops {args:?}: {output:?}");
    output
}

/// A running agent. It ends with its handle, and with the test's process however that ends.
#[derive(Debug)]
pub(crate) struct Agent {
    name: String,
    log: PathBuf,
    process: Child,
}

impl Agent {
    /// `files_max`: how many files it may have open, and no more for the asking.
    pub(crate) fn spawn(name: &str, config: &Path, log: &Path, files_max: Option<u64>) -> Self {
        let output = File::options().create(true).append(true).open(log).unwrap();
        let process = with_files(files_max)
            .args(["run", "--exit-with-stdin", "-c"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Self {
            name: name.to_owned(),
            log: log.to_owned(),
            process,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Panics with the agent's last words if it is gone.
    pub(crate) fn check(&mut self) {
        if let Some(status) = self.process.try_wait().unwrap() {
            panic!("the agent of {} ended: {status}\n{}", self.name, self.tail());
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits until the process ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until(&format!("the end of the agent of {}", self.name), || {
            status = self.process.try_wait().unwrap();
            std::future::ready(status.is_some())
        })
        .await;
        status.unwrap()
    }

    /// `VmRSS`, `VmHWM` and the like, in KiB.
    pub(crate) fn memory_kib(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let value = line.and_then(|rest| rest.strip_prefix(':'));
        value
            .and_then(|value| value.trim().strip_suffix("kB")?.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {field} in\n{status}"))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the agent of {} ---\n{}", self.name, self.tail());
        }
    }
}
