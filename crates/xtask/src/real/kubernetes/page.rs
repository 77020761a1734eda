//! The page for users, command by command.

use anyhow::{Result, bail};

use super::{Scenario, Sites, sites};
use crate::{
    docs::{Stage, play_real},
    repo::Repo,
};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "page",
    shows: "every command of docs/kubernetes.md does what the page says, with agents of its own",
    play: page,
}];

const PAGE: &str = "docs/kubernetes.md";

fn page(sites: &mut Sites) -> Result<String> {
    let mut places = vec![(
        "/tmp/cheops-k8s".to_owned(),
        sites.dir.join("testbed").display().to_string(),
    )];
    for number in [1, 2] {
        // What the page uses: the testbed's usual ports, and ports for its agents.
        for (page, actual) in [
            (16_443, sites::API),
            (17_440, sites::PAGE_AGENT),
            (17_450, sites::PAGE_PEER),
        ] {
            places.push((
                (page + number).to_string(),
                sites.ports.at(actual + number).port().to_string(),
            ));
        }
    }
    let program_dir = sites.program.parent().unwrap_or(&sites.dir).to_owned();
    let cache = sites.dir.join("kubectl-cache").into_os_string();
    let stage = Stage::new(program_dir, vec![("KUBECACHEDIR".to_owned(), cache)], places);
    let (ran, findings) = play_real(&Repo::find()?, PAGE, stage)?;
    if !findings.is_empty() {
        let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
        bail!("{} of {ran} commands\n{}", findings.len(), findings.join("\n"));
    }
    Ok(format!("{ran} commands"))
}
