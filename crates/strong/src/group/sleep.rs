//! Groups that nobody uses say nothing and wake nobody.
//!
//! The leader of an idle group asks all members that are up to sleep; each agrees if its log is the
//! leader's, whole and applied. If all do, the leader sleeps too. A member that sleeps keeps its vote
//! and its leader, its clock stands still. Who needs the group wakes its leader, and the leader all:
//!
//! ```text
//! a member that was away     nobody told it to sleep: it hears no leader, and would be one
//!   asks for votes ─▶ a sleeping member: "later", and wakes the leader
//!                     the leader: heartbeats to all ─▶ the newcomer follows
//! ```
//!
//! When the leader's site is down the members stand for election one after another.

use std::rc::Rc;

use futures_util::future::join_all;
use openraft::{AsyncRuntime, async_runtime::watch::WatchReceiver};
use tokio::time::Instant;

use cheops_types::SiteName;

use super::{Group, Leadership};
use crate::{
    codec::{Reply, Request},
    member::Member,
    runtime::Runtime,
    site::ms,
    types::{LogId, Vote},
};

impl Group {
    /// A command came.
    pub(super) fn used(&self) {
        self.used_at.set(Instant::now());
    }

    /// Somebody needs the group.
    pub(super) fn wake(self: &Rc<Self>) {
        if self.is_awake.replace(true) {
            return;
        }
        let now = Instant::now();
        self.turned_at.set(now);
        // A leader may be only asleep: it is heard of before anybody else wants to lead.
        self.elect_at
            .set(Some(now + ms(self.site.tuning.election_max_ms)));
        self.raft.runtime_config().elect(false);
        self.raft.runtime_config().tick(true);
        self.used();
        self.nudge.notify_one();
        self.call_others();
    }

    /// Wakes the leader, or as the leader all others.
    pub(super) fn call_others(self: &Rc<Self>) {
        let group = Rc::clone(self);
        let called: Vec<Member> = match self.leadership() {
            Leadership::There(leader) => vec![leader],
            Leadership::Here(_) | Leadership::Nobody => self.others(),
        };
        Runtime::spawn(async move {
            if matches!(group.leadership(), Leadership::Here(_)) {
                let _ = group.raft.trigger().heartbeat().await;
            }
            let within = group.links.request_timeout;
            // Whoever does not hear it is woken by heartbeats.
            join_all(
                called
                    .iter()
                    .map(|member| group.links.ask(member, Request::Wake, within)),
            )
            .await;
        });
    }

    fn sleep(&self) {
        self.is_awake.set(false);
        self.turned_at.set(Instant::now());
        self.elect_at.set(None);
        self.raft.runtime_config().tick(false);
        self.nudge.notify_one();
    }

    /// As the leader of an idle group, goes to sleep with all others.
    pub(super) async fn doze_off(&self) {
        let used_at = self.used_at.get();
        let is_idle = self.is_awake.get()
            && used_at.elapsed() >= ms(self.site.tuning.idle_ms)
            && self.machine.open_len() == 0
            && self.writes.get() == 0;
        // Whoever has no vote, because nobody founded the group or it was removed, asks nobody.
        if is_idle && !self.voters().iter().flatten().any(|member| *member == self.me) {
            self.sleep();
            return;
        }
        if !is_idle || self.ready_term().is_none() || self.missing().is_some() {
            return;
        }
        let (Some(vote), last) = (self.log.vote(), self.log.last()) else {
            return;
        };
        if self.machine.applied() != last {
            return;
        }
        let up: Vec<Member> = self
            .others()
            .into_iter()
            .filter(|member| self.is_up(member))
            .collect();
        let within = self.links.request_timeout;
        let asked = up.iter().map(|member| {
            let request = Request::Doze {
                vote: vote.clone(),
                last,
            };
            self.links.ask(member, request, within)
        });
        let all_agree = join_all(asked)
            .await
            .into_iter()
            .all(|reply| matches!(reply, Ok(Reply::Dozing(true))));
        // A command may have come meanwhile. Members that sleep too early hear heartbeats.
        if all_agree && self.used_at.get() == used_at && self.log.last() == last && self.writes.get() == 0 {
            self.sleep();
        } else if self.used_at.get() == used_at {
            // Not again at once.
            self.used();
        }
    }

    /// The leader is about to sleep. Returns whether this member does, too.
    pub(super) fn doze(&self, from: &Member, vote: &Vote, last: Option<LogId>) -> bool {
        let is_same = self.log.vote().as_ref() == Some(vote)
            && vote.leader_id.voted_for == *from
            && vote.committed
            && self.log.last() == last
            && self.machine.applied() == last;
        if is_same && self.is_awake.get() {
            self.sleep();
        }
        is_same
    }

    /// A site went down. When it is the leader's, members stand for election in the order of their
    /// names, this one in its turn.
    pub(crate) fn peer_down(self: &Rc<Self>, site: &SiteName) {
        let Leadership::There(leader) = self.leadership() else {
            return;
        };
        if leader.site != *site {
            return;
        }
        let up = self
            .voters()
            .into_iter()
            .flatten()
            .filter(|member| self.is_up(member));
        let mut up: Vec<Member> = up.collect();
        up.sort();
        up.dedup();
        let Some(rank) = up.iter().position(|member| *member == self.me) else {
            return;
        };
        let turn = Instant::now() + ms(self.site.tuning.stagger_ms) * rank as u32;
        self.stand_at.set(Some(turn));
        if !self.is_awake.replace(true) {
            self.turned_at.set(Instant::now());
            self.used();
            self.elect_at.set(Some(turn));
            self.raft.runtime_config().elect(false);
            self.raft.runtime_config().tick(true);
        }
        self.nudge.notify_one();
    }

    /// A site came up again: what it missed is sent to it.
    pub(crate) fn peer_up(self: &Rc<Self>, site: &SiteName) {
        let others = self.others();
        let Some(member) = others.into_iter().find(|member| member.site == *site) else {
            return;
        };
        let metrics = self.raft.metrics();
        let is_behind = {
            let metrics = metrics.borrow_watched();
            let matched = metrics
                .replication
                .as_ref()
                .and_then(|all| all.get(&member).copied());
            metrics.replication.is_some() && matched.flatten() != self.log.last()
        };
        if is_behind {
            self.wake();
        }
        let group = Rc::clone(self);
        Runtime::spawn(async move {
            let _ = group.raft.trigger().reset_backoff([member]).await;
        });
        self.nudge.notify_one();
    }
}
