//! What other members ask, and whether it can be true.
//!
//! The peer link certifies which site speaks. What it says may be anything: openraft trusts its
//! members and would panic on what cannot be, so that is refused here.

use std::rc::Rc;

use openraft::{EntryPayload, async_runtime::watch::WatchReceiver};

use super::{Group, Leadership};
use crate::{
    codec::{ReadIndexError, Reply, Request},
    error::Refused,
    founding::MEMBERS_MAX,
    machine::snapshot_meta,
    member::Member,
    site::ms,
    types::{Entry, LogId, Membership, Snapshot, StoredMembership, Vote, term_of},
};

/// No group gets as far: a term or an index above is a lie that would leave no room for the truth.
const NUMBER_MAX: u64 = 1 << 48;
/// How far another member's term may be ahead. With pre-vote terms grow by elections that are won.
const TERM_STEP_MAX: u64 = 1 << 20;
/// How many entries one message has at most.
const ENTRIES_MAX: usize = 4096;

type Checked = Result<(), Refused>;

fn sane(is_sane: bool, what: &'static str) -> Checked {
    is_sane.then_some(()).ok_or(Refused::Insane(what))
}

impl Group {
    /// Answers a request of another member. The sender's site and both members' incarnations are
    /// checked; whether the sender is a member is checked here.
    pub(crate) async fn receive(self: &Rc<Self>, from: &Member, request: Request) -> Result<Reply, Refused> {
        if self.is_stopped() {
            return Err(Refused::Stopped);
        }
        self.check_member(from)?;
        match request {
            Request::Append(rpc) => {
                self.check_leader(from, &rpc.vote)?;
                self.check_entries(&rpc.vote, rpc.prev_log_id, &rpc.entries, rpc.leader_commit)?;
                self.heard_leader(!rpc.entries.is_empty());
                let done = self.raft.append_entries(rpc).await;
                done.map(Reply::Append).map_err(|_| Refused::Stopped)
            }
            Request::PreVote(rpc) => {
                self.check_candidate(from, &rpc.vote, rpc.last_log_id)?;
                if !self.is_awake.get() && self.defer_to_leader() {
                    return Ok(Reply::Later);
                }
                let done = self.raft.pre_vote(rpc).await;
                done.map(Reply::Vote).map_err(|_| Refused::Stopped)
            }
            Request::Vote(rpc) => {
                self.check_candidate(from, &rpc.vote, rpc.last_log_id)?;
                self.wake();
                let done = self.raft.vote(rpc).await;
                done.map(Reply::Vote).map_err(|_| Refused::Stopped)
            }
            Request::Snapshot { vote, snapshot } => {
                self.check_leader(from, &vote)?;
                let meta =
                    snapshot_meta(&snapshot).map_err(|error| Refused::Unreadable(error.to_string()))?;
                let last = meta.last_log_id.ok_or(Refused::Insane("a snapshot of nothing"))?;
                check_log_id(&last, vote.leader_id.term)?;
                check_stored(&meta.last_membership)?;
                self.check_known(&last)?;
                self.heard_leader(true);
                let done = self
                    .raft
                    .install_full_snapshot(vote, Snapshot { meta, snapshot })
                    .await;
                done.map(Reply::Snapshot).map_err(|_| Refused::Stopped)
            }
            Request::Transfer(rpc) => {
                self.check_leader(from, rpc.from_leader())?;
                if let Some(last) = rpc.last_log_id() {
                    check_log_id(last, rpc.from_leader().leader_id.term)?;
                }
                self.wake();
                let done = self.raft.handle_transfer_leader(rpc).await;
                done.map(|done| Reply::Transferred(done.is_ok()))
                    .map_err(|_| Refused::Stopped)
            }
            Request::ReadIndex => {
                self.used();
                self.wake();
                Ok(Reply::ReadIndex(match self.leadership() {
                    Leadership::Here(_) => self.ask_together().await,
                    // Nobody is asked in turn: two members that each think that the other leads would never end.
                    _ => Err(ReadIndexError::NotLeader(self.leader_site())),
                }))
            }
            Request::Hello => Ok(Reply::Hello {
                is_founded: self.is_founded(),
            }),
            Request::Wake => {
                if self.is_awake.get() && matches!(self.leadership(), Leadership::Here(_)) {
                    // Whoever asks may not have heard of this leader.
                    let _ = self.raft.trigger().heartbeat().await;
                }
                self.wake();
                Ok(Reply::Awake)
            }
            Request::Doze { vote, last } => {
                self.check_leader(from, &vote)?;
                Ok(Reply::Dozing(self.doze(from, &vote, last)))
            }
        }
    }

    /// The leader says something. One that slept and does not any more wakes its members, but a
    /// heartbeat that was sent before the leader fell asleep does not.
    fn heard_leader(self: &Rc<Self>, is_news: bool) {
        let is_late = self.turned_at.get().elapsed() >= ms(self.site.tuning.request_timeout_ms);
        if !self.is_awake.get() && (is_news || is_late) {
            self.wake();
        }
    }

    /// As a member that sleeps: whether the leader only sleeps, too. It is woken.
    fn defer_to_leader(self: &Rc<Self>) -> bool {
        let is_there = match self.leadership() {
            Leadership::Here(_) => true,
            Leadership::There(leader) => self.is_up(&leader),
            Leadership::Nobody => false,
        };
        self.wake();
        is_there
    }

    fn check_member(&self, from: &Member) -> Checked {
        let members = self.members();
        // Before the group is founded its founders may speak, in whatever life; then its members, and the
        // founders that a member which is behind does not know under their new incarnation.
        let is_member = members.contains(from) || self.founding.founders.contains(&from.site);
        is_member
            .then_some(())
            .ok_or_else(|| Refused::NotMember(from.site.clone()))
    }

    fn check_term(&self, term: u64) -> Checked {
        let own = self.raft.metrics().borrow_watched().current_term;
        sane(
            term < NUMBER_MAX && term <= own.saturating_add(TERM_STEP_MAX),
            "a term too high",
        )
    }

    fn check_leader(&self, from: &Member, vote: &Vote) -> Checked {
        sane(
            vote.committed && vote.leader_id.voted_for == *from,
            "the sender does not lead",
        )?;
        self.check_term(vote.leader_id.term)
    }

    fn check_candidate(&self, from: &Member, vote: &Vote, last: Option<LogId>) -> Checked {
        sane(
            !vote.committed && vote.leader_id.voted_for == *from,
            "the sender is no candidate",
        )?;
        self.check_term(vote.leader_id.term)?;
        last.map_or(Ok(()), |last| check_log_id(&last, vote.leader_id.term))
    }

    fn check_entries(
        &self,
        vote: &Vote,
        prev: Option<LogId>,
        entries: &[Entry],
        commit: Option<LogId>,
    ) -> Checked {
        let term = vote.leader_id.term;
        sane(entries.len() <= ENTRIES_MAX, "too many entries")?;
        let mut last = prev;
        if let Some(prev) = &prev {
            check_log_id(prev, term)?;
        }
        for entry in entries {
            check_log_id(&entry.log_id, term)?;
            let is_next = match &last {
                Some(last) => entry.log_id.index == last.index + 1 && term_of(&entry.log_id) >= term_of(last),
                None => entry.log_id.index == 0,
            };
            sane(is_next, "entries out of order")?;
            if let EntryPayload::Membership(membership) = &entry.payload {
                check_membership(membership)?;
            }
            self.check_known(&entry.log_id)?;
            last = Some(entry.log_id);
        }
        commit.map_or(Ok(()), |commit| {
            check_log_id(&commit, term)?;
            self.check_known(&commit)
        })
    }

    /// What is committed here is committed everywhere, under the same name.
    fn check_known(&self, log_id: &LogId) -> Checked {
        let applied = self.machine.applied();
        let is_applied = applied.is_some_and(|applied| applied.index >= log_id.index);
        let is_other = self.log.log_id(log_id.index).is_some_and(|own| own != *log_id);
        sane(!(is_applied && is_other), "a committed entry is another one")
    }
}

fn check_log_id(log_id: &LogId, term_max: u64) -> Checked {
    sane(
        log_id.index < NUMBER_MAX && term_of(log_id) <= term_max,
        "an entry of the future",
    )
}

fn check_membership(membership: &Membership) -> Checked {
    let configs = membership.get_joint_config();
    sane((1..=2).contains(&configs.len()), "a membership of too many kinds")?;
    let is_small = configs
        .iter()
        .all(|voters| (1..=MEMBERS_MAX).contains(&voters.len()));
    sane(
        is_small && membership.nodes().count() <= 2 * MEMBERS_MAX,
        "a membership of too many",
    )?;
    let has_nodes = membership
        .voter_ids()
        .all(|voter| membership.get_node(&voter).is_some());
    sane(has_nodes, "a voter who is no member")
}

fn check_stored(stored: &StoredMembership) -> Checked {
    check_membership(stored.membership())
}
