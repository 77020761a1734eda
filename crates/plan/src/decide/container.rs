//! Requests about what lies in a container that spans sites.
//!
//! A container's children are each at one site. They are listed as one, found from everywhere, and changed where they
//! are; a new one gets its name from the container's prime site before anything executes.

use cheops_glue::Effect;
use cheops_types::{Code, Problem, SiteName, VerbClass};

use super::{Case, not_available, replica::check_span};
use crate::{Concern, Container, Make, Party, Place, Plan, Tell, View, asked::Asked};

impl<V: View + ?Sized, T: Tell> Case<'_, V, T> {
    /// The container that decides. What is a resource of several sites itself is found by that.
    pub(super) fn container_of<'c>(&self, concern: &'c Concern) -> Option<&'c Container> {
        let makes = concern.effect == Effect::Create || concern.is_upsert;
        let is_meant = !concern.is_own && (self.request.caller != Party::Peer || makes);
        concern.container.as_ref().filter(|_| is_meant)
    }

    /// None: as the scope says.
    pub(super) fn within(
        &mut self,
        container: &Container,
        concern: &Concern,
    ) -> Result<Option<Plan>, Problem> {
        let plan = if concern.is_write() {
            self.write_within(container, concern)?
        } else {
            self.read_within(container, concern)
        };
        if plan.is_some() {
            self.tell.say(|| {
                let sites = container.sites.join(", ");
                format!("it lies in a container that spans {sites}")
            });
        }
        if let Some(Plan::Make(Make { prime, .. })) = &plan
            && !self.view.is_up(prime)
        {
            self.tell.say(|| {
                format!("{prime} gives its names away and does not answer: the name may not be had now")
            });
        }
        Ok(plan)
    }

    /// The sites that the request is about; none where the scope names others than several together.
    fn sites_within(&self, container: &Container) -> Option<Vec<SiteName>> {
        match &self.asked {
            Asked::Span(sites) => Some(sites.clone()),
            _ if !self.request.is_placed => Some(container.sites.clone()),
            _ => None,
        }
    }

    fn read_within(&mut self, container: &Container, concern: &Concern) -> Option<Plan> {
        let sites = self.sites_within(container)?;
        let is_list = self.request.verb == VerbClass::ReadCollection;
        let is_for_one = self.request.is_stream || concern.effect == Effect::Free || self.request.switches;
        match (is_list, concern.is_item) {
            // Nobody joins several sites' connections: this one shows its own part.
            (true, _) if self.request.switches => Some(Plan::Local),
            (false, true) if is_for_one => Some(Plan::Owner(sites)),
            (true, _) | (false, true) => Some(Plan::Gather(sites)),
            (false, false) => None,
        }
    }

    fn write_within(&mut self, container: &Container, concern: &Concern) -> Result<Option<Plan>, Problem> {
        let Concern {
            is_item, is_upsert, ..
        } = *concern;
        let is_create = concern.effect == Effect::Create && !is_item;
        let sites = self.sites_within(container);
        if self.request.switches {
            return Ok(sites.filter(|_| is_item).map(Plan::Owner));
        }
        if !is_create && !is_item {
            // A whole collection: of one site, where the scope names one.
            return match sites {
                None => Ok(None),
                Some(_) => Err(not_available(
                    "a whole collection of a container that spans sites cannot be changed at once: name one site in the scope, and ask once for each; nothing executed",
                )),
            };
        }
        if is_item && !is_upsert {
            return Ok(sites.map(Plan::Owner));
        }
        let place = self.place(container, concern)?;
        let unless_at = match (is_item, &place) {
            (false, _) => Vec::new(),
            (true, Place::Site(site)) => sites.unwrap_or_else(|| vec![site.clone()]),
            (true, Place::Sites(target)) => target.sites().to_vec(),
        };
        Ok(Some(Plan::Make(Make {
            prime: container.prime().clone(),
            place,
            unless_at,
        })))
    }

    fn place(&self, container: &Container, concern: &Concern) -> Result<Place, Problem> {
        let place = match &self.asked {
            Asked::Plan(Plan::Local) | Asked::Latest(_) => Place::Site(self.here().clone()),
            Asked::Plan(Plan::Forward(site)) => Place::Site(site.clone()),
            Asked::Replicas { .. } if self.asked.is_strong() => {
                return Err(not_available(
                    "something strong in a container that spans sites is not part of this version: leave `strong` out, or make \
                     it outside of the container; nothing executed",
                ));
            }
            Asked::Replicas { sites, .. } => Place::Sites(self.target(sites, concern)),
            Asked::Span(sites) => {
                check_span(concern)?;
                Place::Sites(self.target(sites, concern))
            }
            Asked::Plan(_) => {
                return Err(not_available(
                    "a name is reserved for one place: name one site, or several joined by `&` or `%`; nothing executed",
                ));
            }
        };
        let mut sites = place.sites().iter();
        let Some(outside) = sites.find(|site| !container.sites.contains(site)) else {
            return Ok(place);
        };
        let extents: Vec<String> = container.sites.iter().map(|site| format!("`{site}`")).collect();
        let detail = format!(
            "the container does not reach site `{outside}`: it spans {}; add the site with `cheops cross add-site`; nothing executed",
            extents.join(", ")
        );
        Err(Problem::new(Code::SetRefused, detail))
    }
}
