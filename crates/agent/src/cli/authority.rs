//! `cheops ca`.

use std::{path::Path, process::ExitCode};

use cheops_mesh::ListenerName;
use cheops_types::SiteName;

use super::{BadInput, output};
use crate::ca::{self, CaError, Terms};

pub(super) fn init(dir: &Path, terms: Terms) -> anyhow::Result<ExitCode> {
    let made = ca::init_with(dir, terms).map_err(blame)?;
    output::print(&format!(
        "made {certificate} and {key}\n\n\
         Copy {certificate} to every site. Keep {key} here and nowhere else: whoever has it can be any site.\n\
         Next: `cheops ca issue <site> --dir {dir}` for each site.",
        certificate = made.certificate.display(),
        key = made.key.display(),
        dir = dir.display(),
    ))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn issue(site: &SiteName, dir: &Path, out: &Path, terms: Terms) -> anyhow::Result<ExitCode> {
    let made = ca::issue_with(dir, site, out, terms).map_err(blame)?;
    output::print(&format!(
        "made {certificate} and {key}\n\n\
         Copy both, and {ca}, next to the configuration of {site}:\n\n\
         [peer]\n\
         listen = \"0.0.0.0:7443\"\n\
         ca = \"ca.pem\"\n\
         cert = \"{site}.pem\"\n\
         key = \"{site}.key\"",
        certificate = made.certificate.display(),
        key = made.key.display(),
        ca = out.join("ca.pem").display(),
    ))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn listener(
    site: &SiteName,
    names: &[ListenerName],
    dir: &Path,
    out: &Path,
    terms: Terms,
) -> anyhow::Result<ExitCode> {
    let made = ca::issue_listener(dir, site, names, out, terms).map_err(blame)?;
    output::print(&format!(
        "made {certificate} and {key}\n\n\
         Copy both beside {site}.pem at {site}, and write `tls = \"mesh\"` under its services.\n\
         Users trust {ca}.",
        certificate = made.certificate.display(),
        key = made.key.display(),
        ca = dir.join("ca.pem").display(),
    ))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn serial(path: &Path) -> anyhow::Result<ExitCode> {
    let serial = ca::serial(path).map_err(blame)?;
    output::print(&serial.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn blame(error: CaError) -> anyhow::Error {
    match error {
        CaError::Exists(_) | CaError::Read { .. } | CaError::NoCertificate { .. } => {
            BadInput(error.to_string()).into()
        }
        CaError::Write { .. } | CaError::Unusable { .. } => error.into(),
    }
}
