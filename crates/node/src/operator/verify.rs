//! Replicas, read and compared.

use std::time::Duration;

use cheops_replica::{Event, Set};
use cheops_types::{Code, Problem, SiteName};
use tokio::{task::JoinSet, time::Instant};

use super::{Operator, view::View};
use crate::{
    asks,
    model::{Comparison, ReplicaState, SetHint, Verification, VerifiedReplica, differences},
    problems,
};

/// How often it is looked whether a repair has taken effect.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// One replica, as its site told it.
struct Told {
    site: SiteName,
    reading: Result<asks::ReplicaState, Problem>,
    /// Whether operations are still on their way to it.
    is_behind: bool,
}

impl Operator {
    /// Reads every replica and compares what the glue says matters. A repair lets the sites compare for
    /// themselves, which brings those that differ back to the reference through their applications.
    pub async fn verify(&self, id: &str, hint: &SetHint, repair: bool) -> Result<Verification, Problem> {
        let set = self.load(id, hint).await?;
        let meta = set.record().meta.clone();
        if set.is_deleted() {
            return Err(problems::deleted(&self.core.site, meta.as_str()));
        }
        if !set.members().contains_key(&self.core.site) {
            let detail = format!(
                "`{}` is not part of the set `{meta}`: ask one of its sites",
                self.core.site
            );
            return Err(Problem::new(Code::SetRefused, detail).at(&self.core.site));
        }
        let mut found = self.compare(&set).await;
        if !repair || found.same {
            return Ok(found);
        }
        self.can_be_repaired(&set)?;
        let patience = Duration::from_secs(self.core.surroundings.limits().prefer_wait_max_s);
        let started = Instant::now();
        self.repair(&set).await?;
        while !found.same && started.elapsed() < patience {
            tokio::time::sleep(LOOK_EVERY).await;
            let set = self.load_meta(&meta).await?;
            let set = set.ok_or_else(|| problems::unknown_set(&self.core.site, &meta))?;
            found = self.compare(&set).await;
            let is_hopeless = found
                .replicas
                .iter()
                .all(|replica| !matches!(replica.comparison, Comparison::Different | Comparison::Behind));
            if is_hopeless {
                break;
            }
        }
        found.repaired = true;
        Ok(found)
    }

    /// A repair sets documents. One that also has parts would be called the same again, whatever its parts are, and one that is
    /// missing would be made without them.
    fn can_be_repaired(&self, set: &Set) -> Result<(), Problem> {
        let record = set.record();
        let profile = self.core.surroundings.profile();
        if !profile.kind(&record.service, &record.kind).has_parts() {
            return Ok(());
        }
        let what = format!("the replicas of `{}` differ and cannot be repaired", record.meta);
        let instead = "write it and its data again through an agent, or delete it and create it anew where a replica is \
                       missing; without a repair, the same request shows what differs";
        let kind = (record.service.as_str(), record.kind.as_str());
        Err(problems::without_parts(&self.core.site, kind, &what, instead))
    }

    /// Every site reads its own replica again: what it remembers of it may be what has drifted. This site
    /// also tries again what it could not execute.
    async fn repair(&self, set: &Set) -> Result<(), Problem> {
        let meta = &set.record().meta;
        if set.degraded().is_some() {
            self.tell(meta, Event::Retry).await?;
        }
        for site in set.members().keys().filter(|site| **site != self.core.site) {
            // A site that is away compares when it is back.
            let _ = self.core.asks.check_at(site, meta).await;
        }
        self.tell(meta, Event::Check).await
    }

    async fn compare(&self, set: &Set) -> Verification {
        let told = self.read_all(set).await;
        let digests = |told: &Told| matches!(&told.reading, Ok(reading) if reading.digest.is_some());
        let reference = set
            .last_writer()
            .and_then(|site| told.iter().find(|told| told.site == *site && digests(told)))
            .or_else(|| told.iter().find(|told| digests(told) && !told.is_behind))
            .or_else(|| told.iter().find(|told| digests(told)));
        let replicas: Vec<_> = told.iter().map(|told| compared(told, reference)).collect();
        Verification {
            set: set.record().meta.to_string(),
            reference: reference.map(|told| told.site.clone()),
            same: replicas
                .iter()
                .all(|replica| matches!(replica.comparison, Comparison::Reference | Comparison::Same)),
            repaired: false,
            replicas,
        }
    }

    /// All replicas at once, this site's first.
    async fn read_all(&self, set: &Set) -> Vec<Told> {
        let meta = &set.record().meta;
        let mut reads = JoinSet::new();
        let replicas: Vec<_> = View::new(&self.core.site, set).replicas().collect();
        for (place, replica) in replicas.iter().enumerate() {
            let (core, meta, site) = (self.core.clone(), meta.clone(), replica.site.clone());
            reads.spawn(async move {
                let reading = if site == core.site {
                    core.asks.replica(&meta).await
                } else {
                    core.asks.replica_at(&site, &meta).await
                };
                (place, reading)
            });
        }
        let mut told: Vec<_> = reads.join_all().await;
        told.sort_by_key(|(place, _)| *place);
        let told = told.into_iter().zip(replicas);
        told.map(|((_, reading), replica)| Told {
            reading,
            is_behind: matches!(
                replica.state,
                ReplicaState::Pending | ReplicaState::Unknown | ReplicaState::Leaving
            ),
            site: replica.site,
        })
        .collect()
    }
}

fn compared(told: &Told, reference: Option<&Told>) -> VerifiedReplica {
    let mut replica = VerifiedReplica {
        site: told.site.clone(),
        comparison: Comparison::Unreachable,
        digest: None,
        differences: Vec::new(),
        reason: None,
    };
    let reading = match &told.reading {
        Ok(reading) => reading,
        Err(problem) => {
            replica.reason = Some(problem.detail.clone());
            return replica;
        }
    };
    replica.digest.clone_from(&reading.digest);
    if reading.local.is_none() {
        replica.comparison = Comparison::Absent;
        replica.reason = Some("there is no replica there".to_owned());
        return replica;
    }
    if reading.digest.is_none() {
        if let Some(404 | 410) = reading.status {
            replica.comparison = Comparison::Absent;
        }
        replica.reason = Some(match reading.status {
            Some(404 | 410) => "the service has lost its replica".to_owned(),
            Some(200) => "the service's answer cannot be compared".to_owned(),
            Some(status) => match &reading.said {
                Some(said) => format!("the service answered {status}: {said}"),
                None => format!("the service answered {status}"),
            },
            None => "the service could not be reached".to_owned(),
        });
        return replica;
    }
    let Some(Told {
        site,
        reading: Ok(theirs),
        ..
    }) = reference
    else {
        return replica;
    };
    replica.comparison = match () {
        () if *site == told.site => Comparison::Reference,
        () if theirs.digest == reading.digest => Comparison::Same,
        () if told.is_behind => Comparison::Behind,
        () => Comparison::Different,
    };
    if theirs.digest != reading.digest
        && let (Some(left), Some(right)) = (&theirs.state, &reading.state)
    {
        replica.differences = differences(left, right);
    }
    replica
}
