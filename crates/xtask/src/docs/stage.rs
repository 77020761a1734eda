//! What the blocks of a page speak to when a suite runs them.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

/// Running sites and where they are. What the page's commands leave in the background ends with it.
pub(crate) struct Stage {
    /// Where `cheops` is.
    pub(crate) program_dir: PathBuf,
    /// Added to the environment of each command.
    pub(crate) environment: Vec<(String, OsString)>,
    /// As the page writes it, and as it is: addresses, directories. Longer ones first.
    pub(crate) places: Vec<(String, String)>,
    /// Process groups of commands that end with `&`: a member is left, so that nobody else has the number.
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

    /// Runs a command of the page in a shell that is given its text as last argument.
    pub(super) fn run(
        &mut self,
        shell: &mut Command,
        prelude: &str,
        command: &str,
    ) -> Result<(Option<i32>, String)> {
        let child = shell
            .arg(prelude.to_owned() + &self.to_sites(command))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("sh cannot be started")?;
        if command.trim_end().ends_with('&') {
            self.groups.push(child.id());
        }
        let output = child.wait_with_output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for group in &self.groups {
            // What ended by itself is complained about.
            let _ = Command::new("sh")
                .args(["-c", &format!("kill -TERM -{group}")])
                .stderr(Stdio::null())
                .status();
        }
    }
}
