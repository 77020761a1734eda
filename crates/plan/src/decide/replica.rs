//! Requests about a replica set, or that are to make one.

use cheops_glue::Effect;
use cheops_types::{Code, Consistency, Problem, SiteName, VerbClass};

use super::{Case, not_available};
use crate::{Concern, Cross, Known, Party, Plan, Standing, Target, Tell, View, asked::Asked, nearest_first};

impl<V: View + ?Sized, T: Tell> Case<'_, V, T> {
    /// A divided resource that is to be seen as a whole. Whoever names one site wants the part of that.
    pub(super) fn whole(&mut self, concern: &Concern) -> Option<Plan> {
        let request = self.request;
        let known = concern.known.as_ref();
        let known = known.filter(|known| concern.is_own && known.is_divided())?;
        let is_read = concern.effect == Effect::Read && request.is_get && !request.is_stream;
        let wants_whole =
            !request.is_placed || matches!(&self.asked, Asked::Span(_) | Asked::Plan(Plan::Gather(_)));
        let is_meant = is_read && wants_whole && concern.is_item && request.caller == Party::User;
        if !is_meant || known.standing != Standing::Member || request.switches {
            return None;
        }
        self.tell.say(|| {
            format!(
                "the resource is divided among {}: their parts are shown as one",
                names(&known.sites)
            )
        });
        Some(Plan::Whole(known.sites.clone()))
    }

    /// The nearest replica answers, unless the scope asks for certain sites.
    pub(super) fn read(&mut self, concern: &Concern) -> Result<Plan, Problem> {
        let is_list = self.request.verb == VerbClass::ReadCollection;
        let asks_for_one = match &self.asked {
            Asked::Plan(Plan::Local) | Asked::Replicas { .. } => true,
            Asked::Plan(Plan::Gather(_)) | Asked::Span(_) | Asked::Latest(_) => !is_list,
            Asked::Plan(_) => false,
        };
        if let Asked::Latest(sites) = &self.asked {
            let sites = sites.clone();
            return self.latest(concern, sites);
        }
        let known = concern.known.as_ref();
        let known = known.filter(|known| known.standing == Standing::Member && asks_for_one);
        if let Some(known) = known
            && let Some(plan) = self.read_known(known)?
        {
            return Ok(plan);
        }
        match &self.asked {
            Asked::Plan(plan) => Ok(plan.clone()),
            Asked::Span(sites) | Asked::Latest(sites) => Ok(Plan::Gather(sites.clone())),
            Asked::Replicas { sites, .. } => {
                let stays = self.is_from_peer() || sites.contains(self.here());
                let sites = if stays {
                    vec![self.here().clone()]
                } else {
                    sites.clone()
                };
                self.tell
                    .say(|| "it changes nothing: one of the sites is enough".to_owned());
                Ok(self.first_of(sites))
            }
        }
    }

    /// None: the application says that there is nothing any more.
    fn read_known(&mut self, known: &Known) -> Result<Option<Plan>, Problem> {
        if known.local.is_some() {
            self.tell.say(|| {
                let what = if known.span.is_some() {
                    "its part"
                } else {
                    "a replica"
                };
                format!(
                    "this site has {what} of it, which answers for all of {}",
                    names(&known.sites)
                )
            });
            return Ok(Some(Plan::Local));
        }
        let others = known.sites.iter().filter(|site| *site != self.here());
        let others: Vec<_> = others.cloned().collect();
        if others.is_empty() {
            return Ok(None);
        }
        if self.is_from_peer() {
            return Err(unavailable(self.here()));
        }
        self.tell.say(|| {
            format!(
                "this site has no replica of it yet; {} may have one",
                names(&others)
            )
        });
        Ok(Some(self.first_of(others)))
    }

    pub(super) fn write(&mut self, concern: &Concern) -> Result<Plan, Problem> {
        let Some(known) = &concern.known else {
            return self.write_unknown(concern);
        };
        self.check_strong(known)?;
        if self.request.is_inside_replica && known.local.is_some() {
            self.tell
                .say(|| "a replica's own execution makes it: each site changes its own".to_owned());
            return Ok(self.asked.clone().at_one_site(self.view));
        }
        self.tell.say(|| {
            let sites = names(&known.sites);
            match known.span {
                None if known.consistency == Consistency::Strong => {
                    format!("{sites} decide together what is written to it, whatever the scope")
                }
                None => format!("it is a replica set of {sites}: the write goes to all of them, whatever the scope"),
                Some(_) => format!("it is one resource that spans {sites}: the write is for the whole of it, whatever the scope"),
            }
        });
        Ok(Plan::Accept(Target::Set {
            meta: known.meta.clone(),
            spans: known.span.is_some(),
        }))
    }

    /// A write to something that is no replica here.
    fn write_unknown(&mut self, concern: &Concern) -> Result<Plan, Problem> {
        let (sites, spans) = match &self.asked {
            Asked::Plan(plan) => return Ok(plan.clone()),
            Asked::Replicas { sites, .. } => (sites.clone(), false),
            Asked::Span(sites) => (sites.clone(), true),
            // Only reads ask for that.
            Asked::Latest(_) => return Ok(Plan::Local),
        };
        let is_create = concern.effect == Effect::Create;
        if concern.kind.is_none() || !(is_create || concern.is_item) {
            return Err(not_available(
                "`&` on a write is for one resource, and the path names a whole collection or a document that is no resource; nothing executed",
            ));
        }
        let makes = is_create || concern.is_upsert;
        if spans && !makes && self.is_from_peer() {
            return Err(Problem::new(
                Code::BadRequest,
                "another agent finds the owner of a resource itself; nothing executed",
            ));
        }
        if spans && makes {
            check_span(concern)?;
        }
        if spans && !makes {
            self.tell
                .say(|| "it is at one of the sites: whoever has it changes it".to_owned());
            return Ok(Plan::Owner(sites));
        }
        let (here, is_listed) = (self.here(), sites.contains(self.here()));
        if !is_listed && !self.is_from_peer() {
            let target = self.target(&sites, concern);
            let mut to = sites;
            nearest_first(&mut to, self.view);
            self.tell
                .say(|| "this site is none of them: the nearest of them accepts it".to_owned());
            return Ok(Plan::HandOver { to, target });
        }
        if !makes {
            let detail = format!(
                "site `{here}` has no replica of that resource: drop `&` from the scope to change the resource of one site, or make it a replica with `cheops replicas adopt`; nothing executed"
            );
            return Err(Problem::new(Code::UnknownReplicaSet, detail).at(here));
        }
        if !is_listed {
            return Err(Problem::new(
                Code::BadRequest,
                "a site of the replica set must accept its create; nothing executed",
            ));
        }
        Ok(Plan::Accept(self.target(&sites, concern)))
    }

    /// What is to be made at several sites.
    pub(super) fn target(&self, sites: &[SiteName], concern: &Concern) -> Target {
        match self.asked {
            Asked::Span(_) => Target::Cross(Cross {
                sites: sites.to_vec(),
                weights: concern.weights.clone(),
                unreserved: concern.unreserved,
            }),
            Asked::Replicas { consistency, .. } => Target::New {
                sites: sites.to_vec(),
                consistency,
            },
            Asked::Plan(_) | Asked::Latest(_) => Target::new(sites.to_vec()),
        }
    }
}

/// Refuses `%` for something that can neither be divided nor contain others.
pub(super) fn check_span(concern: &Concern) -> Result<(), Problem> {
    match &concern.kind {
        Some(kind) if !concern.can_span => Err(cannot_span(kind)),
        _ => Ok(()),
    }
}

pub fn cannot_span(kind: &str) -> Problem {
    let detail = format!(
        "a `{kind}` can neither be divided nor contain others, so it cannot span sites with `%`: use `&` for a replica at each site, or name one site; nothing executed"
    );
    Problem::new(Code::SetRefused, detail)
}

/// Another site has a replica, and this one has none yet.
pub fn unavailable(here: &SiteName) -> Problem {
    Problem::new(
        Code::ReplicaUnavailable,
        format!("site `{here}` is to have a replica but has none yet; ask another site or try again"),
    )
    .at(here)
}

pub(super) fn names(sites: &[SiteName]) -> String {
    sites.join(", ")
}
