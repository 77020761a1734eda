//! Sites that come and go.

use std::time::Duration;

use cheops_replica::{MetaId, Phase, Secret, Set, Standing, Verb};
use cheops_types::{Code, Problem, ServiceName, SiteName};
use tokio::time::Instant;

use super::{Operator, view::View};
use crate::{
    model::{AddSite, Move, ReplicaState, SetDetail, SetHint},
    problems,
};

/// How often it is looked whether another site is ready.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Operator {
    /// Gives the set a replica at another site, which starts from this site's.
    pub async fn add_site(&self, id: &str, hint: &SetHint, add: &AddSite) -> Result<SetDetail, Problem> {
        let set = self.load(id, hint).await?;
        let record = set.record();
        let credential = self.seal(record.service.as_str(), &record.kind, &add.credential)?;
        if let Some(member) = set.members().get(&add.site) {
            let detail = if member.leaving.is_some() {
                format!(
                    "`{}` is about to leave the set: add it when it has left",
                    add.site
                )
            } else {
                format!("`{}` has a replica already", add.site)
            };
            return Err(self.unchanged(detail));
        }
        self.join(&set, &add.site, credential).await?;
        self.detail(&record.meta).await
    }

    /// Takes a site out of the set. In good order it finishes and deletes its replica; by force the others
    /// go on without it.
    pub async fn remove_site(
        &self,
        id: &str,
        hint: &SetHint,
        site: &SiteName,
        force: bool,
    ) -> Result<SetDetail, Problem> {
        let set = self.load(id, hint).await?;
        self.leave(&set, site, force).await?;
        self.detail(&set.record().meta).await
    }

    /// Adds a site, waits until it has everything, then removes the other. When it is not ready in time
    /// nothing is removed, and the same may be asked again.
    pub async fn move_to(&self, id: &str, hint: &SetHint, asked: &Move) -> Result<SetDetail, Problem> {
        let Move { from, to, .. } = asked;
        if from == to {
            return Err(self.unchanged(format!("`{to}` is where the replica is already")));
        }
        let set = self.load(id, hint).await?;
        let meta = set.record().meta.clone();
        let is_member = |site| {
            let member = set.members().get(site);
            member.is_some_and(|member| member.leaving.is_none())
        };
        match (is_member(from), is_member(to)) {
            // It was asked before, and has happened.
            (false, true) => return self.detail(&meta).await,
            (false, false) => return Err(self.unchanged(format!("`{from}` has no replica"))),
            (true, true) => self.may_change(&set)?,
            (true, false) => {
                let record = set.record();
                let credential = self.seal(record.service.as_str(), &record.kind, &asked.credential)?;
                self.join(&set, to, credential).await?;
            }
        }
        let wait_max_s = self.core.surroundings.limits().prefer_wait_max_s;
        let wait_s = asked.wait_s.unwrap_or(wait_max_s).min(wait_max_s);
        let set = self.until_ready(&meta, to, Duration::from_secs(wait_s)).await?;
        self.leave(&set, from, false).await?;
        self.detail(&meta).await
    }

    pub(super) async fn join(
        &self,
        set: &Set,
        site: &SiteName,
        credential: Option<Secret>,
    ) -> Result<(), Problem> {
        self.known_site(site)?;
        self.may_change(set)?;
        let record = set.record();
        let what = format!("`{site}` cannot get a replica");
        self.has_no_parts(&record.service, &record.kind, &what)?;
        if set.local().is_none() {
            let detail = format!(
                "`{}` has no replica that `{site}` could start from: ask a site that has one",
                self.core.site
            );
            return Err(self.unchanged(detail));
        }
        let verb = Verb::Join {
            site: site.clone(),
            stay: 0,
        };
        self.change(&set.record().meta, verb, credential).await
    }

    /// Refuses what would bring the document of a resource to a site, and nothing else of it.
    pub(super) fn has_no_parts(&self, service: &ServiceName, kind: &str, what: &str) -> Result<(), Problem> {
        if !self.core.surroundings.profile().kind(service, kind).has_parts() {
            return Ok(());
        }
        let instead =
            "create it under a scope with all the sites that it is to be at, and send its data then";
        let site = &self.core.site;
        Err(problems::without_parts(site, (service, kind), what, instead))
    }

    async fn leave(&self, set: &Set, site: &SiteName, force: bool) -> Result<(), Problem> {
        self.may_change(set)?;
        let here = &self.core.site;
        let Some(member) = set.members().get(site) else {
            return Err(self.unchanged(format!("`{site}` has no replica")));
        };
        if member.leaving.is_some() && !force {
            let detail =
                format!("`{site}` is about to leave already; --force goes on without it if it is lost");
            return Err(self.unchanged(detail));
        }
        let stays =
            |(other, member): (&SiteName, &cheops_replica::Member)| other != site && member.leaving.is_none();
        if !set.members().iter().any(stays) {
            return Err(self.unchanged(format!(
                "`{site}` has the last replica: delete the resource instead"
            )));
        }
        if force && site == here {
            let detail =
                format!("`{here}` cannot remove itself by force: ask another site, or leave in good order");
            return Err(self.unchanged(detail));
        }
        let site = site.clone();
        let verb = if force {
            Verb::Expel { site }
        } else {
            Verb::Leave { site }
        };
        self.change(&set.record().meta, verb, None).await
    }

    /// Whether this site may change who is in the set.
    fn may_change(&self, set: &Set) -> Result<(), Problem> {
        let here = &self.core.site;
        let meta = &set.record().meta;
        let is_member = set.standing() == Standing::Member
            && set.members().get(here).is_some_and(|me| me.leaving.is_none());
        if !is_member {
            let sites = set.members().keys().filter(|site| *site != here);
            let sites: Vec<_> = sites.map(SiteName::as_str).collect();
            let detail = format!(
                "`{here}` is not part of the set `{meta}`: ask one of {}",
                sites.join(", ")
            );
            return Err(self.unchanged(detail));
        }
        if set.is_deleted() {
            return Err(problems::deleted(here, meta.as_str()));
        }
        if !set.record().consistency.is_eventual() {
            let detail = format!(
                "the sites of `{meta}` decide together, and which sites these are cannot be changed in this version: make the \
                 resource anew under `strong(...)` of the other sites"
            );
            return Err(self.unchanged(detail));
        }
        // What is asked for would wait behind it for ever.
        if set.job().is_some_and(|job| job.phase == Phase::Stuck) {
            let detail =
                format!("an execution for the set `{meta}` is in doubt at `{here}`: settle it first");
            return Err(Problem::new(Code::InDoubt, detail).at(here));
        }
        Ok(())
    }

    /// Waits until a site has everything that this one has.
    async fn until_ready(&self, meta: &MetaId, site: &SiteName, patience: Duration) -> Result<Set, Problem> {
        let started = Instant::now();
        loop {
            let set = self.load_meta(meta).await?;
            let set = set.ok_or_else(|| problems::unknown_set(&self.core.site, meta))?;
            let view = View::new(&self.core.site, &set);
            if view.is_ready(site) {
                return Ok(set);
            }
            let replica = view.replicas().find(|replica| replica.site == *site);
            let state = replica.as_ref().map(|replica| replica.state);
            if state == Some(ReplicaState::Degraded) {
                let status = replica.and_then(|replica| replica.status);
                let told = status.map_or_else(String::new, |status| format!(" with {status}"));
                let detail =
                    format!("the service at `{site}` refused the replica{told}: nothing was removed");
                return Err(Problem::new(Code::ReplicaRefused, detail).at(site));
            }
            if started.elapsed() >= patience {
                let state = state.map_or("unknown", ReplicaState::as_str);
                let detail = format!(
                    "`{site}` does not have everything after {} s ({state}): nothing was removed; look at the \
                     operations that wait there, and ask again",
                    patience.as_secs()
                );
                return Err(Problem::new(Code::ReplicaUnavailable, detail).at(site));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn unchanged(&self, detail: String) -> Problem {
        Problem::new(Code::SetRefused, detail).at(&self.core.site)
    }
}
