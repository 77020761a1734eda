//! State that travels instead of operations: for a site that joins, comes back, or was away too long.
//!
//! A snapshot is one replica's document with the vector of what made it. Who takes it has then executed all of that, without having
//! executed any of it, and goes on with the operations behind it.
//!
//! ```text
//! paris has executed p1 … p9 and no longer keeps p1 … p6; rome, which was away, holds p1 … p4
//! rome lacks p5, which nobody can send       → a snapshot at [p9]: rome is set to the document, and continues with p10
//! had rome held p1 … p7                      → no snapshot: p8 and p9 come, as their origin has signed them
//! ```
//!
//! A state is one member's word, an operation has its origin's signature. So a state is taken only where operations cannot
//! help (`calls_for`). It must be ahead of all that has executed here: otherwise it would undo what this site has
//! acknowledged. What only this site had, while it was out of the set, becomes conflicts.

use std::collections::BTreeMap;

use cheops_types::SiteName;

use super::Step;
use crate::{
    Content, Degraded, Digest, Entry, Install, Member, Operation, Outcome, Peer, Rank, Set, Snapshot, State,
    Token, Verb, Want, Why, Work, set::bounded,
};

impl Step<'_> {
    /// Reads this site's replica when somebody wants it and it is at rest.
    pub(super) fn begin_read(&mut self) -> bool {
        let is_asked = |peer: &crate::Peer| peer.want.is_some() || peer.asks_digest;
        let compares = self.set.check && self.set.compare_ms <= self.now_ms() && self.has_no_digest();
        let wanted = !self.is_unsettled() && (compares || self.set.peers.values().any(is_asked));
        // Whoever begins needs no more than what has executed: what waits here, perhaps for a word of that very site,
        // comes with it.
        let begins = |peer: &crate::Peer| peer.want == Some(Want::Snapshot);
        let may_begin = self.set.is_still() && self.set.is_in_order();
        let is_ready = self.set.is_quiet() || may_begin && self.set.peers.values().any(begins);
        if !wanted || !is_ready {
            return false;
        }
        if self.set.local.is_some() && self.set.deleted.is_some() {
            return self.begin_removal();
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
        self.serve_without_replica();
        self.publish_digest(&Digest(Vec::new()));
        false
    }

    /// This site could not make its replica. Whoever begins anew gets its state from another site; if there is
    /// none, it gets the record alone, and keeps the replica that it may have from before.
    fn serve_without_replica(&mut self) {
        let has_replica: Vec<_> = self
            .set
            .others(self.site.name())
            .into_iter()
            .filter(|site| self.set.remote(site).is_some())
            .collect();
        for (site, peer) in &mut self.set.peers {
            let is_only_hope = has_replica.iter().all(|other| other == site);
            peer.want = peer.want.filter(|want| *want == Want::Snapshot && is_only_hope);
        }
        self.serve(None);
    }

    pub(super) fn read(&mut self, ticket: u64, state: Option<(Vec<u8>, Digest)>) {
        if !self.has_read(ticket) {
            return;
        }
        let Some((state, digest)) = state else {
            // Not again at once. Whoever still wants it asks again.
            self.postpone_comparison();
            for peer in self.set.peers.values_mut() {
                peer.want = None;
                peer.asks_digest = false;
            }
            return;
        };
        // It may have been a replica in motion when the read was decided, never when it ran: one
        // execution at a time.
        self.serve(Some((&state, &digest)));
        self.publish_digest(&digest);
    }

    /// The replica is not there: somebody deleted it without telling. The others are asked for its state.
    pub(super) fn vanished(&mut self, ticket: u64) {
        if self.has_read(ticket) {
            self.has_vanished();
        }
    }

    pub(super) fn has_vanished(&mut self) {
        self.set.local = None;
        self.set.is_inherited = false;
        self.set.digest = None;
        // What came of an earlier repair says nothing about the next replica.
        self.set.repair = None;
        self.set.want_comparison();
        self.degrade(None, 404, None);
        self.moved();
        self.tell_all();
    }

    fn has_no_digest(&self) -> bool {
        let digest = self.set.digest.as_ref();
        digest.is_none_or(|(at, _)| *at != self.set.done)
    }

    /// Ends the read of this ticket. False when it no longer counts.
    fn has_read(&mut self, ticket: u64) -> bool {
        let is_current = |job: &mut crate::Job| job.ticket == ticket && matches!(job.work, Work::Read);
        self.set.job.take_if(is_current).is_some()
    }

    /// Sends the state to those that want it.
    pub(super) fn serve(&mut self, state: Option<(&[u8], &Digest)>) {
        for site in self.set.others(&self.here().clone()) {
            match self.set.peer(&site).want.take() {
                Some(Want::Snapshot) => {
                    let snapshot = self.snapshot(&site, state.map(|(state, _)| state.to_vec()));
                    self.send(&site, Content::Snapshot(Box::new(snapshot)), true);
                }
                Some(Want::State) => {
                    if let Some((state, digest)) = state {
                        // What it was, it soon is no longer.
                        self.set.peer(&site).digest = None;
                        let content = Content::State {
                            at: self.set.done.clone(),
                            state: state.to_vec(),
                            digest: digest.clone(),
                        };
                        self.send(&site, content, false);
                    }
                }
                None => {}
            }
        }
        if self.set.deleted.is_some() {
            self.set.check = false;
            for peer in self.set.peers.values_mut() {
                peer.asks_digest = false;
            }
        }
    }

    fn snapshot(&self, to: &SiteName, state: Option<Vec<u8>>) -> Snapshot {
        let set = &*self.set;
        let joined = set.members.get(to).and_then(|member| member.joined.as_ref());
        let joined = joined.and_then(|id| set.entry(id));
        let token = joined.map_or(set.birth, |entry| entry.op.token);
        Snapshot {
            record: set.record.clone(),
            members: set.members.clone(),
            expelled: set.expelled.clone(),
            passages: set.passages.clone(),
            token,
            birth: set.birth,
            born: set.born.clone(),
            recognise: set.recognise,
            at: set.done.clone(),
            state,
            deleted: set.deleted.clone(),
            creates: set.creates.clone(),
            buried: set.buried.iter().copied().collect(),
            degraded: set.degraded.clone(),
            pruned: set.pruned.clone(),
            pruned_writes: set.pruned_writes.clone(),
            last: set.last.clone(),
            division: set.division.clone(),
            time: set.time,
            log: set.log.values().cloned().collect(),
            conflicts: set.conflicts.values().cloned().collect(),
            dismissed: set.dismissed.clone(),
            forgone: set.forgone.clone(),
            credential: joined.and_then(|entry| entry.credential.clone()),
            yours: set.peers.get(to).and_then(|peer| peer.local.clone()),
        }
    }

    /// Takes a snapshot if it has everything that has executed here, and more.
    pub(super) fn take_snapshot(&mut self, from: &SiteName, epoch: u64, snapshot: Snapshot) {
        if self.was_let_in_again(&snapshot) {
            // It was removed, and is back, without having heard of it.
            return self.return_with(from, epoch, snapshot);
        }
        self.note_ended(&snapshot.at);
        let set = &*self.set;
        let is_ahead = snapshot.at.covers(&set.done) && snapshot.at != set.done;
        if !is_ahead || !self.calls_for(&snapshot) {
            return;
        }
        let set = &*self.set;
        if is_ahead && set.job.is_none() && set.install.is_none() && self.is_in_time(from, &snapshot) {
            self.begin_with(from, epoch, snapshot);
        }
    }

    /// Whether only a state helps this site: it has nothing yet, or its sender no longer keeps what this site lacks. Else
    /// operations will come, which their origins have signed.
    fn calls_for(&self, snapshot: &Snapshot) -> bool {
        let set = &*self.set;
        let lacks = |entry: &Entry| entry.bare && snapshot.pruned.includes(&entry.op.id);
        set.held.is_empty() || !set.held.covers(&snapshot.pruned) || set.log.values().any(lacks)
    }

    /// Whether one that was a member, as far as this site knows, has let it in again, and has signed that. A site that came
    /// while this one was out may bring it back then; a stranger may not.
    pub(super) fn is_sponsored(&self, snapshot: &Snapshot) -> bool {
        let me = snapshot.members.get(self.here());
        let is_way_in = |op: &Operation| match &op.verb {
            Verb::Join { site, stay } => {
                let is_mine = site == self.here() && me.is_some_and(|me| me.stay == *stay);
                is_mine && self.set.knows(&op.id.author.site)
            }
            _ => false,
        };
        snapshot.log.iter().any(|entry| is_way_in(&entry.op))
    }

    /// This site was out of the set and is let in again. What only it had stays behind as conflicts.
    pub(super) fn return_with(&mut self, from: &SiteName, epoch: u64, snapshot: Snapshot) {
        if !self.was_let_in_again(&snapshot) || self.set.job.is_some() || !self.is_in_time(from, &snapshot) {
            return;
        }
        self.keep_as_conflicts(|id| !snapshot.at.includes(id));
        let kept: Vec<_> = snapshot.log.iter().map(|entry| entry.op.id.clone()).collect();
        self.set.conflicts.retain(|id, conflict| {
            let known = snapshot.at.includes(id) || kept.contains(id);
            !(known && conflict.cause == crate::Cause::Expelled)
        });
        // Of the time outside only the replica remains, with what it may have of an earlier life, and the conflicts.
        let mut fresh = Set::new(snapshot.record.clone(), snapshot.members.clone());
        fresh.log = std::mem::take(&mut self.set.log);
        fresh.log.clear();
        fresh.local = self.set.local.take();
        fresh.life = self.set.life;
        fresh.is_weighed = self.set.is_weighed;
        fresh.is_inherited = self.set.is_inherited;
        fresh.unsettled_ms = self.set.unsettled_ms;
        fresh.unsettled_start = self.set.unsettled_start;
        fresh.conflicts = std::mem::take(&mut self.set.conflicts);
        fresh.conflicts_dropped = self.set.conflicts_dropped;
        *self.set = fresh;
        self.begin_with(from, epoch, snapshot);
    }

    /// Takes note of the snapshot's time. One that is too far ahead is not taken now; it comes again.
    fn is_in_time(&mut self, from: &SiteName, snapshot: &Snapshot) -> bool {
        // One that is no member yet, as far as this site knows, may have had a clock that was wrong once.
        self.witness(snapshot.time, from) || self.is_speaker_in_line
    }

    fn was_let_in_again(&self, snapshot: &Snapshot) -> bool {
        stay(&snapshot.members, self.here()) > stay(&self.set.members, self.here())
    }

    /// The token of the create that a snapshot may take. Its own recognises what an earlier life of this store has made. What
    /// this store remembers to have made with it is gone if it is not here: that must not be taken for this one.
    fn token_of(&mut self, snapshot: &Snapshot) -> Token {
        let me = snapshot.members.get(self.here());
        let mut makers = snapshot.born.iter().chain(me.and_then(|me| me.joined.as_ref()));
        if makers.any(|maker| self.set.done.includes(maker)) {
            self.site.derive(snapshot.token)
        } else {
            snapshot.token
        }
    }

    fn begin_with(&mut self, from: &SiteName, epoch: u64, mut snapshot: Snapshot) {
        let rules = self.context.rules;
        // Who lost its store has nothing but the word of others on which resource was its replica. They know what it called its
        // own, and could name any.
        snapshot
            .yours
            .take_if(|local| rules.is_anothers(&self.set.record, local));
        let token = self.token_of(&snapshot);
        let has_state = snapshot.state.is_some() || snapshot.deleted.is_some();
        if self.set.local.is_none() && snapshot.yours.is_some() {
            // An earlier life of this store has made it. What that asked for last, nobody here remembers: it may take effect
            // after this state has.
            self.unsettle();
            // Without a state it is what that life has made of it.
            self.set.is_inherited = !has_state;
        }
        let set = &mut *self.set;
        set.epoch = set.epoch.max(epoch);
        // What a site had in an earlier stay, it has given up.
        set.peers
            .retain(|site, _| stay(&set.members, site) == stay(&snapshot.members, site));
        set.members = snapshot.members;
        set.expelled = snapshot.expelled;
        set.passages = snapshot.passages;
        set.recognise = snapshot.recognise;
        set.birth = snapshot.birth;
        set.born = snapshot.born;
        set.last = snapshot.last;
        set.time = set.time.max(snapshot.time);
        set.division = snapshot.division;
        set.held.join(&snapshot.at);
        set.pruned.join(&snapshot.pruned);
        set.pruned_writes.join(&snapshot.pruned_writes);
        let stale = |rank: &Rank| snapshot.pruned.includes(&rank.id);
        for rank in set
            .log
            .iter()
            .map(|(rank, _)| rank.clone())
            .filter(stale)
            .collect::<Vec<_>>()
        {
            set.log.remove(&rank);
        }
        set.local = set.local.take().or(snapshot.yours);
        set.dismissed.extend(snapshot.dismissed);
        set.forgone.extend(snapshot.forgone);
        for conflict in snapshot.conflicts {
            set.conflicts.entry(conflict.loser.id.clone()).or_insert(conflict);
        }
        set.conflicts.retain(|id, _| !set.dismissed.contains(id));
        self.bound_conflicts();
        let set = &mut *self.set;
        let degraded = snapshot.degraded.map(|degraded| Degraded {
            said: bounded(degraded.said),
            ..degraded
        });
        set.install = has_state.then_some(Install {
            token,
            recognise: snapshot.recognise,
            credential: snapshot.credential,
            degraded,
            source: Some(from.clone()),
            ..Install::of(snapshot.at.clone(), snapshot.state)
        });
        set.deleted = snapshot.deleted;
        set.creates = snapshot.creates;
        set.bury(snapshot.buried);
        set.peers.entry(from.clone()).or_default();
        // As where its join is noted: nobody may have brought it in yet, and the site that let it in may not be able to.
        for (site, _) in set.members.iter().filter(|(_, member)| member.joined.is_some()) {
            set.peers.entry(site.clone()).or_insert_with(|| Peer {
                needs_snapshot: true,
                ..Peer::default()
            });
        }
        for entry in snapshot.log {
            let rank = entry.op.rank();
            let is_in_time = self.witness(entry.op.time, &entry.op.id.author.site);
            if snapshot.at.includes(&entry.op.id) {
                // What the sender could not execute is not in its state, and will not be in this replica either, also if
                // it has executed here.
                let state = match entry.state {
                    State::Done(_) if entry.has_failed() => entry.state,
                    _ => State::Done(Outcome::Installed),
                };
                if self.set.log.at(&rank).is_some() {
                    if entry.has_failed()
                        && let Some(mine) = self.set.entry_mut(&entry.op.id)
                    {
                        mine.state = state;
                        mine.redo = false;
                    }
                } else {
                    let bare = self.comes_bare(&entry.op);
                    let entry = Entry::new(entry.op, entry.credential, state);
                    self.set.log.insert(Entry { bare, ..entry });
                }
            } else if self.set.held.precedes(&entry.op.id) {
                let id = entry.op.id.clone();
                self.insert(entry.op, entry.credential);
                if !is_in_time && let Some(entry) = self.set.entry_mut(&id) {
                    entry.state = State::Waiting(Why::Quarantined);
                }
            }
        }
        if !has_state {
            self.begin_without_state(&snapshot.at);
        }
    }
}

fn stay(members: &BTreeMap<SiteName, Member>, site: &SiteName) -> Option<u32> {
    members.get(site).map(|member| member.stay)
}
