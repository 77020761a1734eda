//! Replica sets as operators see them. Pure: from the engine's state to the model.

mod conflicts;
mod operations;

use cheops_replica::{Degraded, Member, OpId, Phase, Set, Standing, Vector, Wait, Why};
use cheops_types::SiteName;

use crate::{
    model::{OperationState, Replica, ReplicaState, SetDetail, SetState, SetSummary},
    operation_ref::OperationRef,
};

pub(super) use operations::Item;

/// How many operations are told with their set.
const WAITING_MAX: usize = 100;

/// A set, as the site that keeps it sees it.
#[derive(Clone, Copy)]
pub(super) struct View<'s> {
    pub(super) here: &'s SiteName,
    pub(super) set: &'s Set,
}

/// What keeps a replica from following.
#[derive(Default)]
struct Trouble {
    operation: Option<String>,
    status: Option<u16>,
    waiting: Option<OperationState>,
    said: Option<String>,
}

impl<'s> View<'s> {
    pub(super) fn new(here: &'s SiteName, set: &'s Set) -> Self {
        Self { here, set }
    }

    /// Of a set without its log, one that waits is not told from one that is blocked.
    pub(super) fn summary(self) -> SetSummary {
        let record = self.set.record();
        let meta_id = record.meta.to_string();
        SetSummary {
            id: record.name.clone().unwrap_or_else(|| meta_id.clone()),
            meta_id,
            service: record.service.clone(),
            kind: record.kind.clone(),
            state: self.state(),
            local_id: self.set.local().map(ToString::to_string),
            sites: self.members().map(|(site, _)| site.clone()).collect(),
            consistency: record.consistency,
            conflicts: self.set.conflicts().count(),
            conflicts_dropped: self.set.conflicts_dropped(),
        }
    }

    fn state(self) -> SetState {
        let is_in_doubt = self.set.job().is_some_and(|job| job.phase == Phase::Stuck);
        let replicas: Vec<_> = self.replicas().map(|replica| replica.state).collect();
        let any = |state| replicas.contains(&state);
        if self.set.fenced().is_some() {
            return SetState::Fenced;
        }
        match self.set.standing() {
            Standing::Left => SetState::Left,
            Standing::Expelled => SetState::Expelled,
            Standing::Member if is_in_doubt => SetState::InDoubt,
            Standing::Member if any(ReplicaState::Degraded) => SetState::Degraded,
            Standing::Member if self.set.is_deleted() => SetState::Deleted,
            Standing::Member if replicas.iter().all(|state| *state == ReplicaState::Ok) => SetState::Ok,
            Standing::Member => SetState::Pending,
        }
    }

    pub(super) fn detail(self) -> SetDetail {
        let open = |item: &Item<'_>| self.state_of(*item).0.is_open();
        SetDetail {
            set: self.summary(),
            epoch: self.set.epoch(),
            replicas: self.replicas().collect(),
            removed: self.set.expelled().cloned().collect(),
            waiting: self
                .items()
                .filter(open)
                .take(WAITING_MAX)
                .map(|item| self.operation(item))
                .collect(),
            conflicts: self.conflicts().collect(),
            fenced: self.set.fenced().map(|fenced| fenced.why.clone()),
        }
    }

    /// The sites of the set, this one first.
    fn members(self) -> impl Iterator<Item = (&'s SiteName, &'s Member)> {
        let here = self.here;
        let members = self.set.members();
        let others = members.iter().filter(move |(site, _)| *site != here);
        members.get_key_value(here).into_iter().chain(others)
    }

    pub(super) fn replicas(self) -> impl Iterator<Item = Replica> {
        self.members().map(move |(site, member)| {
            if site == self.here {
                self.own_replica(member)
            } else {
                self.other_replica(site, member)
            }
        })
    }

    fn own_replica(self, member: &Member) -> Replica {
        let set = self.set;
        let is_in_doubt = set.job().is_some_and(|job| job.phase == Phase::Stuck);
        let is_pending = set.held() != set.done() || set.is_installing();
        let state = match set.local() {
            _ if member.leaving.is_some() => ReplicaState::Leaving,
            _ if is_in_doubt => ReplicaState::InDoubt,
            _ if set.degraded().is_some() || is_blocked(&set.waits()) => ReplicaState::Degraded,
            _ if set.is_deleted() => ReplicaState::Deleted,
            None => ReplicaState::Absent,
            Some(_) if is_pending => ReplicaState::Pending,
            Some(_) => ReplicaState::Ok,
        };
        let trouble = self.trouble(set.degraded(), set.waits().first());
        Replica {
            site: self.here.clone(),
            here: true,
            local_id: set.local().map(ToString::to_string),
            state,
            operation: trouble.operation,
            status: trouble.status,
            waiting: trouble.waiting,
            said: trouble.said,
            held: count(set.held()),
            done: count(set.done()),
        }
    }

    fn other_replica(self, site: &SiteName, member: &Member) -> Replica {
        let set = self.set;
        let peer = set.peer_view(site).filter(|peer| peer.incarnation > 0);
        let state = match peer {
            _ if member.leaving.is_some() => ReplicaState::Leaving,
            None => ReplicaState::Unknown,
            Some(peer) if peer.degraded.is_some() || is_blocked(&peer.waits) => ReplicaState::Degraded,
            Some(peer) if set.is_deleted() && peer.done.covers(set.held()) => ReplicaState::Deleted,
            Some(peer) if peer.done != *set.held() || peer.needs_snapshot => {
                if peer.local.is_some() {
                    ReplicaState::Pending
                } else {
                    ReplicaState::Absent
                }
            }
            Some(peer) if peer.local.is_none() => ReplicaState::Absent,
            Some(_) => ReplicaState::Ok,
        };
        let degraded = peer.and_then(|peer| peer.degraded.as_ref());
        let trouble = self.trouble(degraded, peer.and_then(|peer| peer.waits.first()));
        Replica {
            site: site.clone(),
            here: false,
            local_id: set.remote(site).map(ToString::to_string),
            state,
            operation: trouble.operation,
            status: trouble.status,
            waiting: trouble.waiting,
            said: trouble.said,
            held: peer.map_or(0, |peer| count(&peer.held)),
            done: peer.map_or(0, |peer| count(&peer.done)),
        }
    }

    fn trouble(self, degraded: Option<&Degraded>, wait: Option<&Wait>) -> Trouble {
        match (degraded, wait) {
            (Some(degraded), _) => Trouble {
                operation: degraded.operation.as_ref().map(|id| self.number(id)),
                status: Some(degraded.status).filter(|status| *status > 0),
                waiting: None,
                said: degraded.said.clone(),
            },
            (None, Some(wait)) => {
                let (waiting, status) = operations::waiting(wait.why);
                Trouble {
                    operation: Some(self.number(&wait.operation)),
                    status,
                    waiting: Some(waiting),
                    said: wait.said.clone(),
                }
            }
            (None, None) => Trouble::default(),
        }
    }

    /// Whether another site has everything that this one has.
    pub(super) fn is_ready(self, site: &SiteName) -> bool {
        self.replicas()
            .any(|replica| replica.site == *site && replica.state == ReplicaState::Ok)
    }

    /// A recorded path with what stands in its hole for callers.
    fn path(self, recorded: &str) -> String {
        let record = self.set.record();
        let own = record.name.as_deref().unwrap_or(record.meta.as_str());
        recorded.replace("{id}", own)
    }

    fn number(self, id: &OpId) -> String {
        OperationRef::number(&self.set.record().meta, id).to_string()
    }
}

/// Whether the first operation that does not just wait for its turn is one that the application does not let
/// happen.
fn is_blocked(waits: &[Wait]) -> bool {
    waits
        .first()
        .is_some_and(|wait| matches!(wait.why, Why::Blocked { .. }))
}

/// How many operations a vector stands for.
pub(super) fn count(vector: &Vector) -> u64 {
    vector.iter().map(|(_, last)| last).sum()
}
