//! What nobody asks for: a task for each group that looks after it while it is awake.

use std::{collections::BTreeSet, rc::Rc};

use openraft::{AsyncRuntime, Instant as _, async_runtime::watch::WatchReceiver};
use tokio::time::{Instant, sleep};

use super::{Group, Leadership};
use crate::{runtime::Runtime, site::ms, tuning::FOLLOW_WRITES};

impl Group {
    pub(super) async fn attend(self: Rc<Self>) {
        let mut changes = self.raft.server_metrics();
        let beat = ms(self.site.tuning.heartbeat_ms);
        while !self.is_stopped() {
            // An attendant of a group that sleeps has no timer.
            let has_timer = self.is_awake.get() || self.stand_at.get().is_some();
            tokio::select! {
                biased;
                () = self.nudge.notified() => {}
                changed = changes.changed() => if changed.is_err() { return },
                () = sleep(beat), if has_timer => {}
            }
            self.take_over();
            self.mute();
            self.stand().await;
            self.compact().await;
            self.follow();
            self.doze_off().await;
        }
    }

    /// A new leader decides what former leaders left open, each set by itself.
    fn take_over(self: &Rc<Self>) {
        let Some(term) = self.ready_term() else {
            return;
        };
        if self.taken_over.replace(Some(term)) == Some(term) {
            return;
        }
        for set in self.machine.open_sets() {
            let group = Rc::clone(self);
            Runtime::spawn(async move {
                let _gate = group.gate(&set).write_owned().await;
                group.drive(&set).await;
            });
        }
    }

    /// See [`Links::is_muted`](crate::network::Links::is_muted): silent and loud in turns, each long
    /// enough for the members to elect somebody.
    fn mute(&self) {
        let metrics = self.raft.metrics();
        let acked = metrics.borrow_watched().last_quorum_acked;
        let is_alone = self.voters().iter().all(|voters| voters.len() == 1);
        let since = match acked {
            Some(acked) if matches!(self.leadership(), Leadership::Here(_)) && !is_alone => {
                // What nobody said while the group slept tells nothing.
                acked.elapsed().min(self.turned_at.get().elapsed())
            }
            _ => {
                self.links.is_muted.set(false);
                return;
            }
        };
        let lease = ms(self.site.tuning.election_max_ms) + ms(self.site.tuning.heartbeat_ms);
        let phase = ms(self.site.tuning.election_max_ms * 3);
        let overdue = since.checked_sub(lease);
        let is_quiet =
            overdue.is_some_and(|overdue| (overdue.as_millis() / phase.as_millis()).is_multiple_of(2));
        if self.links.is_muted.replace(is_quiet) != is_quiet {
            tracing::debug!(group = %self.id, is_quiet, "no majority answers the leader");
        }
    }

    /// Stands for election when it may, or when the leader's site is down.
    async fn stand(&self) {
        let now = Instant::now();
        if self.elect_at.get().is_some_and(|at| at <= now) {
            self.elect_at.set(None);
            self.raft.runtime_config().elect(true);
        }
        if self.stand_at.get().is_some_and(|at| at <= now) {
            self.stand_at.set(None);
            let is_leaderless = match self.leadership() {
                Leadership::Here(_) => false,
                Leadership::There(leader) => !self.is_up(&leader),
                Leadership::Nobody => true,
            };
            if is_leaderless && self.missing().is_none() {
                // Asks before it disturbs: whoever hears the leader says so.
                let _ = self.raft.trigger().elect(true).await;
            }
        }
    }

    /// Keeps the log from holding too many bytes; openraft itself counts entries.
    async fn compact(&self) {
        if self.log.bytes() <= self.site.tuning.log_bytes_max {
            return;
        }
        let applied = self.machine.applied().map(|applied| applied.index);
        let behind = self.machine.snapshot_index();
        if behind < applied {
            // The next look purges what it covers.
            let _ = self.raft.trigger().snapshot().await;
        }
        if let Some(index) = behind {
            let _ = self.raft.trigger().purge_log(index).await;
        }
    }

    /// Leadership follows the writes, so that they need not cross to another site and back.
    fn follow(self: &Rc<Self>) {
        let opened = self.machine.take_opened();
        let mut writers = self.writers.borrow_mut();
        if !matches!(self.leadership(), Leadership::Here(_)) {
            writers.clear();
            return;
        }
        writers.extend(opened.into_iter().map(|intent| intent.from));
        let surplus = writers.len().saturating_sub(FOLLOW_WRITES);
        writers.drain(..surplus);
        let is_early = self
            .followed_at
            .get()
            .is_some_and(|at| at.elapsed() < ms(self.site.tuning.follow_ms));
        if writers.len() < FOLLOW_WRITES || is_early {
            return;
        }
        let sites: BTreeSet<_> = writers.iter().collect();
        let most = sites
            .into_iter()
            .find(|site| writers.iter().filter(|from| from == site).count() > FOLLOW_WRITES / 2);
        let Some(site) = most.filter(|site| **site != self.me.site).cloned() else {
            return;
        };
        drop(writers);
        let voters = self.voters();
        let target = voters.into_iter().flatten().find(|member| member.site == site);
        if let Some(member) = target.filter(|member| self.is_up(member)) {
            self.followed_at.set(Some(Instant::now()));
            let group = Rc::clone(self);
            Runtime::spawn(async move {
                let done = group.hand_over(&member).await;
                tracing::debug!(group = %group.id, to = %member, ?done, "leadership follows the writes");
            });
        }
    }
}
