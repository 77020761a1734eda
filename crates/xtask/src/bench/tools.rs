//! The programs a benchmark needs, from Debian's packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{find_program, succeed};

/// Programs and the packages that hold them.
const TOOLS: &[(&str, &str)] = &[
    ("nginx", "nginx-light"),
    ("haproxy", "haproxy"),
    ("wrk", "wrk"),
    ("taskset", "util-linux"),
    ("setpriv", "util-linux"),
    ("timeout", "coreutils"),
];

/// Installs what is missing.
pub(super) fn ensure() -> Result<()> {
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let packages_text = packages.join(" ");
    if find_program("apt-get").is_none() {
        let programs: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
        bail!(
            "{} missing, and there is no apt-get: install them and try again",
            programs.join(", ")
        );
    }
    if !is_root() {
        bail!("the benchmark needs `sudo apt-get install {packages_text}`: run that and try again");
    }
    eprintln!("installing {packages_text}");
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
        apt
    };
    succeed(apt().arg("update"))?;
    succeed(
        apt()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&packages),
    )
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
