//! What the blocks of a page speak to when a suite runs them.

use std::{
    ffi::OsString,
    io::{Read as _, Seek as _},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// Longer than any command of a page may take, also one that waits for a slow application.
const TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(10);

/// Running sites and where they are. What the page's commands leave in the background ends with it.
pub(crate) struct Stage {
    /// Where `cheops` is.
    pub(crate) program_dir: PathBuf,
    /// Added to the environment of each command.
    pub(crate) environment: Vec<(String, OsString)>,
    /// As the page writes it, and as it is: addresses, directories. Longer ones first.
    pub(crate) places: Vec<(String, String)>,
    /// Process groups of commands that left something in the background: nobody else has the number then.
    groups: Vec<u32>,
}

impl Stage {
    pub(crate) fn new(
        program_dir: PathBuf,
        environment: Vec<(String, OsString)>,
        places: Vec<(String, String)>,
    ) -> Self {
        Self {
            program_dir,
            environment,
            places,
            groups: Vec::new(),
        }
    }

    /// What a page says, for these sites.
    pub(super) fn to_sites(&self, text: &str) -> String {
        let replace = |text: String, (page, actual): &(String, String)| text.replace(page, actual);
        self.places.iter().fold(text.to_owned(), replace)
    }

    /// What these sites say, for the page.
    pub(super) fn to_page(&self, text: &str) -> String {
        let replace = |text: String, (page, actual): &(String, String)| text.replace(actual, page);
        self.places.iter().fold(text.to_owned(), replace)
    }

    /// Runs a command of the page in a shell that is given its text as last argument. It is over when the shell is,
    /// also if something in the background goes on.
    pub(super) fn run(
        &mut self,
        shell: &mut Command,
        prelude: &str,
        command: &str,
    ) -> Result<(Option<i32>, String)> {
        // Files: a pipe would stay open as long as what is in the background.
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut child = shell
            .arg(prelude.to_owned() + &self.to_sites(command))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .process_group(0)
            .spawn()
            .context("sh cannot be started")?;
        let group = child.id();
        let start = Instant::now();
        let code = loop {
            match child.try_wait()? {
                Some(status) => break status.code(),
                None if start.elapsed() < TIMEOUT => thread::sleep(POLL),
                None => {
                    signal(group, "-TERM");
                    child.wait()?;
                    break None;
                }
            }
        };
        if signal(group, "-0") {
            self.groups.push(group);
        }
        let mut bytes = Vec::new();
        for file in [&mut stdout, &mut stderr] {
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
        }
        Ok((code, String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for group in &self.groups {
            signal(*group, "-TERM");
        }
    }
}

/// Whether a process group has a member, which gets the signal.
fn signal(group: u32, signal: &str) -> bool {
    let kill = Command::new("sh")
        .args(["-c", &format!("kill {signal} -{group}")])
        .stderr(Stdio::null())
        .status();
    kill.is_ok_and(|status| status.success())
}
