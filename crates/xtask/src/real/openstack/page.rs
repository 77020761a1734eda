//! The page "OpenStack in ten minutes", as a reader types it.

use std::{env, iter};

use anyhow::{Result, bail};

use super::{Scenario, Sites, sites::COMPLETE};
use crate::{
    docs::{self, Stage},
    repo::Repo,
};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "page",
    shows: "the commands of docs/openstack.md print what the page says",
    play: page,
}];

const PAGE: &str = "docs/openstack.md";

fn page(sites: &mut Sites) -> Result<String> {
    for site in COMPLETE {
        sites.remove_images(site, "debian")?;
    }
    let program_dir = sites.program.parent().unwrap_or(&sites.program).to_owned();
    let inherited = env::var_os("PATH").unwrap_or_default();
    let dirs = [program_dir.clone(), sites.client.dir().to_owned()];
    let path = env::join_paths(dirs.into_iter().chain(env::split_paths(&inherited)))?;
    let environment = [
        ("PATH", path),
        ("CHEOPS_ADMIN", sites.mesh.site(1).admin().into()),
        ("OS_COMPUTE_API_VERSION", "2.90".into()),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
    let prefix = sites.addresses.prefix();
    // Each page has its sites on the addresses that are kept for documentation.
    let places = COMPLETE.map(|site| (format!("192.0.2.{site}:"), format!("{prefix}{site}:")));
    let stage = Stage::new(program_dir, environment, places.into());
    let (ran, findings) = docs::play_real(&Repo::find()?, PAGE, stage)?;
    if !findings.is_empty() {
        let first = format!("{} of {ran} commands print something else", findings.len());
        let findings = findings.iter().map(ToString::to_string);
        bail!(
            "{}",
            iter::once(first).chain(findings).collect::<Vec<_>>().join("\n")
        );
    }
    Ok(format!("{ran} commands"))
}
