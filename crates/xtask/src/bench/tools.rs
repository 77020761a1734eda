//! The programs a benchmark needs, from Debian's packages.

use anyhow::Result;

use crate::{command::find_program, packages};

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
    let mut missing: Vec<_> = TOOLS
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    packages::install("the benchmark", &missing)
}
