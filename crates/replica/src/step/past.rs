//! A replica that has seen more than this store remembers.
//!
//! ```text
//! paris asks its application for an update; its disk is put back to before that
//! paris accepts another write. Only then the application gets to the first one, which nobody remembers
//! paris accepted the last write, so the others are measured by its replica: what it accepted would be undone everywhere
//! ```
//!
//! The same goes for a store that was lost, where the site begins again on the replica that it had. Such a replica
//! counts as degraded, so that every good one goes before it, until it was compared: not before the application must be
//! done with what was asked of it in the earlier life.

use cheops_types::SiteName;

use super::Step;
use crate::{Operation, Outcome, Standing, State, Verb, Work};

impl Step<'_> {
    /// This site's store has begun a new life since the last step, with what it still knows of the set.
    pub(super) fn note_own_life(&mut self) {
        let life = self.site.incarnation();
        if self.set.life != life {
            self.set.life = life;
            self.set.is_weighed = false;
            self.note_past();
        }
    }

    /// A member speaks to an earlier life of this store: it had a replica of this set then, perhaps.
    pub(super) fn note_earlier_life(&mut self, from: &SiteName, incarnation: u64) {
        if self.set.members.contains_key(from) && incarnation < self.site.incarnation() {
            self.note_past();
        }
    }

    /// The replica may have what this store does not remember. Once in a life: after that it was compared, or was set to
    /// another one's state.
    pub(super) fn note_past(&mut self) {
        let is_in = self.set.standing == Standing::Member && self.set.deleted.is_none();
        if !is_in || self.set.is_weighed {
            return;
        }
        self.set.is_weighed = true;
        self.unsettle();
        self.forget_digest();
        if self.set.degraded.is_none() {
            self.degrade(None, 0, None);
        }
        self.tell_all();
    }

    /// Gives the application time for what an earlier life of the store has asked of it. That was before this start of the
    /// agent: a time that began in it is long enough, also if another life begins meanwhile.
    pub(super) fn unsettle(&mut self) {
        let start = self.site.start();
        if self.is_unsettled() && self.set.unsettled_start == start {
            return;
        }
        self.set.unsettled_ms = self.now_ms() + self.context.tuning.settle_ms;
        self.set.unsettled_start = start;
    }

    /// What was read of the replica, or is being read, says nothing about what it will be: it is read and compared anew.
    fn forget_digest(&mut self) {
        self.set.job.take_if(|job| matches!(job.work, Work::Read));
        self.set.digest = None;
        self.set.want_comparison();
    }

    /// The replica is what an earlier life of this store has left: with what this site wrote then, whatever became of that
    /// elsewhere.
    pub(super) fn inherit(&mut self) {
        let here = self.here().clone();
        self.set.log.change(|entry| {
            let is_in = entry.op.id.author.site == here && entry.has_failed();
            if is_in {
                entry.state = State::Done(Outcome::Installed);
            }
            is_in
        });
        self.note_past();
    }

    /// Whether an earlier life of this store has executed an operation, on this very replica, that must not be repeated: a
    /// site executes what it accepts before anybody else hears of it.
    pub(super) fn is_in_heritage(&self, op: &Operation) -> bool {
        let is_mine = op.id.author.site == *self.here() && op.id.author != self.set.author(self.site);
        let is_action = matches!(op.verb, Verb::Action { .. }) && !op.verb.is_idempotent();
        self.set.is_inherited && is_mine && is_action
    }

    /// Whether the application may still be at what an earlier life of this store has asked of it.
    pub(super) fn is_unsettled(&self) -> bool {
        self.set.unsettled_ms > self.now_ms()
    }

    /// The application must be done by now with what an earlier life of this store has asked of it. What came of that, this site
    /// cannot tell from what its replica should be, also if it has set it to another one's state meanwhile: it is no
    /// reference before it was compared with a good one.
    ///
    /// ```text
    /// paris asks its application for write 2, which takes long; paris loses its disk
    /// rome sends its state, with 2 and 3: paris sets its replica to it. Then write 2 takes effect
    /// ```
    pub(super) fn settle_past(&mut self) {
        if self.set.unsettled_ms == 0 || self.is_unsettled() {
            return;
        }
        self.set.unsettled_ms = 0;
        self.forget_digest();
        if self.set.local.is_some() && self.set.deleted.is_none() && self.set.degraded.is_none() {
            self.degrade(None, 0, None);
            self.tell_all();
        }
    }
}
