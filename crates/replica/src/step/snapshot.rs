//! State that travels instead of operations: for a site that joins, comes back, or was away too long.

use std::collections::BTreeMap;

use cheops_types::SiteName;

use super::Step;
use crate::{
    Attempt, Content, Digest, Entry, Install, LocalId, Member, Outcome, Recognise, Set, Snapshot, State,
    Want, Why, Work,
};

impl Step<'_> {
    /// Reads this site's replica when somebody wants it and it is at rest.
    pub(super) fn begin_read(&mut self) -> bool {
        let wanted = self.set.check || self.set.peers.values().any(|peer| peer.want.is_some());
        if !wanted || !self.set.is_quiet() {
            return false;
        }
        if self.set.local.is_some() {
            self.start(Work::Read);
            return true;
        }
        // There is nothing to read. A deleted resource is a state too.
        if self.set.deleted.is_some() {
            self.serve(None);
            return false;
        }
        for peer in self.set.peers.values_mut() {
            peer.want = None;
        }
        if self.set.check {
            self.publish_digest(&Digest(Vec::new()));
        }
        false
    }

    pub(super) fn read(&mut self, ticket: u64, state: Option<(Vec<u8>, Digest)>) {
        let is_current = |job: &crate::Job| job.ticket == ticket && matches!(job.work, Work::Read);
        if !self.set.job.as_ref().is_some_and(is_current) {
            return;
        }
        self.set.job = None;
        let Some((state, digest)) = state else {
            // Not again at once: whoever still wants it asks again.
            self.set.check = false;
            for peer in self.set.peers.values_mut() {
                peer.want = None;
            }
            return;
        };
        // It may have been a replica in motion when the read was decided, never when it ran: one
        // execution at a time.
        self.serve(Some(&state));
        self.publish_digest(&digest);
    }

    /// Sends the state to those that want it.
    fn serve(&mut self, state: Option<&[u8]>) {
        for site in self.set.others(&self.here().clone()) {
            match self.set.peer(&site).want.take() {
                Some(Want::Snapshot) => {
                    let snapshot = self.snapshot(&site, state.map(<[u8]>::to_vec));
                    self.send(&site, Content::Snapshot(Box::new(snapshot)), true);
                }
                Some(Want::State) => {
                    if let Some(state) = state.map(<[u8]>::to_vec) {
                        let at = self.set.done.clone();
                        self.send(&site, Content::State { at, state }, false);
                    }
                }
                None => {}
            }
        }
        if state.is_none() {
            self.set.check = false;
        }
    }

    fn snapshot(&self, to: &SiteName, state: Option<Vec<u8>>) -> Snapshot {
        let set = &*self.set;
        let joined = set.members.get(to).and_then(|member| member.joined.as_ref());
        let token = joined
            .and_then(|id| set.entry(id))
            .map_or(set.birth, |entry| entry.op.token);
        Snapshot {
            record: set.record.clone(),
            members: set.members.clone(),
            expelled: set.expelled.clone(),
            passages: set.passages.clone(),
            token,
            birth: set.birth,
            recognise: set.recognise,
            at: set.done.clone(),
            state,
            deleted: set.deleted.clone(),
            pruned: set.pruned.clone(),
            last: set.last.clone(),
            time: self.site.clock.last(),
            log: set.log.values().cloned().collect(),
            conflicts: set.conflicts.values().cloned().collect(),
            dismissed: set.dismissed.clone(),
            yours: set.peers.get(to).and_then(|peer| peer.local.clone()),
        }
    }

    /// Takes a snapshot if it has everything that has executed here, and more.
    pub(super) fn take_snapshot(&mut self, from: &SiteName, epoch: u64, snapshot: Snapshot) {
        if self.was_let_in_again(&snapshot) {
            // It was removed, and is back, without having heard of it.
            return self.return_with(from, epoch, snapshot);
        }
        let set = &*self.set;
        let is_ahead = snapshot.at.covers(&set.done) && snapshot.at != set.done;
        if is_ahead && set.job.is_none() && set.install.is_none() && self.is_in_time(&snapshot) {
            self.adopt(from, epoch, snapshot);
        }
    }

    /// This site was out of the set and is let in again. What only it had stays behind as conflicts.
    pub(super) fn return_with(&mut self, from: &SiteName, epoch: u64, snapshot: Snapshot) {
        if !self.was_let_in_again(&snapshot) || self.set.job.is_some() || !self.is_in_time(&snapshot) {
            return;
        }
        self.keep_as_conflicts(|id| !snapshot.at.includes(id));
        let kept: Vec<_> = snapshot.log.iter().map(|entry| entry.op.id.clone()).collect();
        self.set.conflicts.retain(|id, conflict| {
            let known = snapshot.at.includes(id) || kept.contains(id);
            !(known && conflict.cause == crate::Cause::Expelled)
        });
        // Of the time outside only the replica and the conflicts remain.
        let mut fresh = Set::new(snapshot.record.clone(), snapshot.members.clone());
        fresh.local = self.set.local.take();
        fresh.conflicts = std::mem::take(&mut self.set.conflicts);
        *self.set = fresh;
        self.adopt(from, epoch, snapshot);
    }

    /// Takes note of the snapshot's time. One that is too far ahead is not taken now; it comes again.
    fn is_in_time(&mut self, snapshot: &Snapshot) -> bool {
        let (now_ms, ahead_max_ms) = (self.now_ms(), self.context.tuning.ahead_max_ms);
        self.site
            .clock
            .witness(snapshot.time, now_ms, ahead_max_ms)
            .is_ok()
    }

    fn was_let_in_again(&self, snapshot: &Snapshot) -> bool {
        let stay = |members: &BTreeMap<SiteName, Member>| members.get(self.here()).map(|member| member.stay);
        stay(&snapshot.members) > stay(&self.set.members)
    }

    fn adopt(&mut self, from: &SiteName, epoch: u64, snapshot: Snapshot) {
        let set = &mut *self.set;
        set.epoch = set.epoch.max(epoch);
        set.members = snapshot.members;
        set.expelled = snapshot.expelled;
        set.passages = snapshot.passages;
        set.recognise = snapshot.recognise;
        set.birth = snapshot.birth;
        set.last = snapshot.last;
        set.held.join(&snapshot.at);
        set.pruned.join(&snapshot.pruned);
        set.log.retain(|rank, _| !snapshot.pruned.includes(&rank.id));
        set.local = set.local.take().or(snapshot.yours);
        set.dismissed.extend(snapshot.dismissed);
        for conflict in snapshot.conflicts {
            set.conflicts.entry(conflict.loser.id.clone()).or_insert(conflict);
        }
        set.conflicts.retain(|id, _| !set.dismissed.contains(id));
        set.install = Some(Install {
            token: snapshot.token,
            recognise: snapshot.recognise,
            at: snapshot.at.clone(),
            state: snapshot.state,
            tries: 0,
            until_ms: 0,
        });
        if snapshot.deleted.is_some() {
            set.deleted = snapshot.deleted;
        }
        set.peers.entry(from.clone()).or_default();
        for entry in snapshot.log {
            let rank = entry.op.rank();
            let now_ms = self.context.now_ms;
            let ahead = self
                .site
                .clock
                .witness(entry.op.time, now_ms, self.context.tuning.ahead_max_ms);
            if snapshot.at.includes(&entry.op.id) {
                let state = State::Done(Outcome::Installed);
                let known = self.set.log.entry(rank);
                known.or_insert_with(|| Entry::new(entry.op, entry.credential, state));
            } else if self.set.held.precedes(&entry.op.id) {
                let id = entry.op.id.clone();
                self.insert(entry.op, entry.credential);
                if ahead.is_err()
                    && let Some(entry) = self.set.entry_mut(&id)
                {
                    entry.state = State::Waiting(Why::Quarantined);
                }
            }
        }
    }

    pub(super) fn install_ended(&mut self, attempt: Attempt) {
        let now_ms = self.now_ms();
        let tuning = self.context.tuning;
        let Some(install) = &mut self.set.install else {
            self.set.job = None;
            return;
        };
        match attempt {
            Attempt::Unknown
            | Attempt::Answered {
                status: 500 | 502 | 504,
                ..
            } => self.doubt(),
            Attempt::Answered {
                status: 200..=399,
                local,
            } => {
                self.set.job = None;
                self.installed(local);
            }
            Attempt::Answered {
                status: 404 | 410, ..
            } if install.state.is_none() => {
                self.set.job = None;
                self.installed(None);
            }
            Attempt::Answered { status: 404, .. } if self.set.local.is_some() => {
                // The replica that was to be overwritten is not there: it is made anew. The application may
                // remember the token of the first time.
                install.token = self.site.derive(install.token);
                self.set.job = None;
                self.set.local = None;
            }
            Attempt::Answered { status: 409, .. }
                if install.recognise == Recognise::ChosenId && self.set.local.is_none() =>
            {
                // Its own work of an earlier attempt: it may not be this state, so it is set to it.
                self.set.job = None;
                self.set.local = Some(LocalId::new(self.set.record.meta.as_str()));
            }
            Attempt::Answered { status, .. } if matches!(status, 400 | 405 | 409 | 413 | 415 | 422) => {
                self.set.job = None;
                self.degrade(None, status);
                self.installed(None);
            }
            Attempt::Answered { .. } | Attempt::NotSent => {
                install.until_ms = now_ms + tuning.retry_ms(install.tries);
                install.tries += 1;
                self.set.job = None;
            }
        }
    }

    /// The state of another replica is this one's now, or was refused for good.
    pub(super) fn installed(&mut self, local: Option<LocalId>) {
        let Some(install) = self.set.install.take() else {
            return;
        };
        let set = &mut *self.set;
        if install.state.is_none() {
            set.local = None;
        } else if local.is_some() {
            set.local = local;
            set.degraded = None;
        }
        set.done.join(&install.at);
        set.digest = None;
        for entry in set
            .log
            .values_mut()
            .filter(|entry| install.at.includes(&entry.op.id))
        {
            entry.redo = false;
            if !entry.is_done() {
                entry.state = State::Done(Outcome::Installed);
            }
        }
        self.moved();
        self.tell_all();
    }
}
