//! Programs and libraries that a suite needs, from Debian's packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{find_program, succeed};

/// Installs packages by name; `who` needs them.
pub(crate) fn install(who: &str, packages: &[&str]) -> Result<()> {
    let text = packages.join(" ");
    if find_program("apt-get").is_none() {
        bail!("{who} needs {text}, and there is no apt-get: install them and try again");
    }
    if !is_root() {
        bail!("{who} needs `sudo apt-get install {text}`: run that and try again");
    }
    eprintln!("installing {text}");
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
        apt
    };
    succeed(apt().arg("update"))?;
    succeed(
        apt()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages),
    )
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
