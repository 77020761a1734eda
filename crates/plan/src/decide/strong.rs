//! Requests through `strong(...)`.

use cheops_types::{Code, Problem, SiteName};

use super::{Case, replica::names};
use crate::{Concern, Known, Plan, Tell, View, asked::Asked, nearest_first};

impl<V: View + ?Sized, T: Tell> Case<'_, V, T> {
    /// A read that shows everything which was decided before it: any of the sites can answer it.
    pub(super) fn latest(&mut self, concern: &Concern, sites: Vec<SiteName>) -> Result<Plan, Problem> {
        if let Some(known) = concern.known.as_ref().filter(|known| known.is_member()) {
            self.check_strong(known)?;
        }
        if sites.contains(self.here()) {
            self.tell.say(|| {
                "this site answers, once it has executed all that the sites have decided by now".to_owned()
            });
            let via = Vec::new();
            return Ok(Plan::Latest { sites, via });
        }
        if self.is_from_peer() {
            return Err(Problem::new(
                Code::BadRequest,
                "a site that decides must show what is decided; nothing executed",
            ));
        }
        let mut via = sites.clone();
        nearest_first(&mut via, self.view);
        self.tell
            .say(|| "this site is none of them: the nearest of them answers".to_owned());
        Ok(Plan::Latest { sites, via })
    }

    /// Whether a resource that is there is what `strong(...)` says that it is.
    pub(super) fn check_strong(&self, known: &Known) -> Result<(), Problem> {
        let sites = match &self.asked {
            Asked::Replicas { sites, .. } if self.asked.is_strong() => sites,
            Asked::Latest(sites) => sites,
            _ => return Ok(()),
        };
        if !known.is_member() {
            return Ok(());
        }
        let refused = |detail: String| Err(Problem::new(Code::SetRefused, detail).at(self.here()));
        let are = names(&known.sites);
        if known.consistency.is_eventual() {
            return refused(format!(
                "the resource is an eventual replica set of {are}, and cannot become a strong one: leave `strong` out of the \
                 scope; nothing executed"
            ));
        }
        let mut asked = sites.clone();
        let mut has = known.sites.clone();
        asked.sort();
        has.sort();
        if asked != has {
            return refused(format!(
                "the sites of the resource are {are}: name these in `strong(...)`, or leave the scope out; nothing executed"
            ));
        }
        Ok(())
    }
}
