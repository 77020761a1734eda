//! The `openstack` client, as Debian has it, with the extension for scopes beside it.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{
    service::{Door, Service},
    sites::Sites,
};
use crate::{
    real::{Interrupt, Run},
    repo::Repo,
};

const EXTENSION: &str = "clients/openstack";
const PYTHON: &str = "/usr/bin/python3";
/// The command as pip makes it where it installs the client too. Here that is Debian's, for another Python.
const COMMAND: &str = "#!/bin/sh\nexec \"$(dirname \"$0\")/python\" -m openstackclient.shell \"$@\"\n";

/// The client in a virtual environment of its own.
pub(super) struct Client {
    program: PathBuf,
}

impl Client {
    pub(super) fn install(repo: &Repo, interrupt: &Interrupt, dir: &Path) -> Result<Self> {
        let venv = dir.join("client");
        // A build leaves files beside its source.
        let source = dir.join("client-source");
        copy(&repo.root.join(EXTENSION), &source)?;
        Run::new(interrupt, PYTHON)
            .args(["-m", "venv", "--system-site-packages"])
            .args([&venv])
            .ok()?;
        let python = venv.join("bin/python");
        // Nothing is fetched: what it needs is the client itself.
        Run::new(interrupt, &python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--no-deps",
                "--no-build-isolation",
            ])
            .args([&source])
            .ok()?;
        let program = venv.join("bin/openstack");
        fs::write(&program, COMMAND)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Self { program })
    }
}

impl Client {
    /// Where the command is.
    pub(super) fn dir(&self) -> &Path {
        self.program.parent().unwrap_or(&self.program)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())
    }
}

impl Sites {
    /// `openstack …` of admin at a site, through the agents.
    pub(super) fn openstack<I>(&self, site: usize, args: I) -> Run
    where
        I: IntoIterator,
        I::Item: AsRef<std::ffi::OsStr>,
    {
        self.client(site, Door::Public).args(args)
    }

    /// The client of admin at a site, without arguments.
    pub(super) fn client(&self, site: usize, door: Door) -> Run {
        self.with_account(Run::new(&self.interrupt, &self.client.program), site, door)
    }

    /// Gives a command what a client needs to know to be admin at a site.
    pub(super) fn with_account(&self, run: Run, site: usize, door: Door) -> Run {
        let identity = self.addresses.of(site, Service::Identity, door);
        let interface = match door {
            Door::Itself => "admin",
            Door::Public => "public",
            Door::Internal => "internal",
        };
        run.env("OS_AUTH_URL", format!("http://{identity}/v3"))
            .env("OS_USERNAME", "admin")
            .env("OS_PASSWORD", "secret")
            .env("OS_PROJECT_NAME", "admin")
            .env("OS_USER_DOMAIN_ID", "default")
            .env("OS_PROJECT_DOMAIN_ID", "default")
            .env("OS_IDENTITY_API_VERSION", "3")
            .env("OS_REGION_NAME", format!("Site{site}"))
            .env("OS_INTERFACE", interface)
            .env("OS_COMPUTE_API_VERSION", "2.90")
            // Tables as wide as they need to be, wherever this runs.
            .env("CLIFF_MAX_TERM_WIDTH", "0")
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("{} cannot be listed", from.display()))? {
        let entry = entry?;
        let copied = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &copied)?;
        } else {
            fs::copy(entry.path(), copied)?;
        }
    }
    Ok(())
}
