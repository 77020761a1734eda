//! Reads of what is decided.

use std::sync::Arc;

use cheops_ports::{Held, Latest};
use cheops_replica::MetaId;
use cheops_strong::{Founding, ReadError};
use cheops_types::{Code, Problem, SiteName};

use super::write::{away, no_majority};
use crate::{core::Core, ids};

/// Waits until this site has executed everything that is decided, and holds off what is to come.
pub(crate) async fn latest(core: Arc<Core>, of: Latest) -> Result<Held, Problem> {
    let founding = Founding::of(of.sites.iter().cloned());
    let find = || ids::find(&core, &of.service, of.kind.as_str(), &of.id, &of.key);
    let mut known = find()?;
    // What has been made elsewhere is known here once this site is as far as the others.
    loop {
        let set = known
            .as_ref()
            .map_or_else(String::new, |known| known.meta.to_string());
        let held = core.groups.read(founding.clone(), set.clone()).await;
        let held = held.map_err(|error| failed(&core.site, &error))?;
        let now = find()?;
        let is_same =
            now.as_ref().map(|now| MetaId::new(&now.meta)) == known.map(|known| MetaId::new(&known.meta));
        if is_same {
            return Ok(Box::new(held));
        }
        known = now;
    }
}

fn failed(here: &SiteName, error: &ReadError) -> Problem {
    match error {
        ReadError::NoMajority { missing } => no_majority(
            here,
            &format!("nobody knows what is decided by now: {}", away(missing)),
        ),
        ReadError::UnknownLeader | ReadError::Timeout => no_majority(
            here,
            &format!("this site cannot tell what is decided by now: {error}; try again in a second"),
        ),
        ReadError::NotMember => Problem::new(
            Code::SetRefused,
            format!("site `{here}` is none of the sites that decide; nothing executed"),
        )
        .at(here),
        ReadError::Stopped => crate::problems::stopping(here),
    }
}
