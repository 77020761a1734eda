//! Convergence is checked, not assumed: replicas that have executed the same are compared.
//!
//! A wish to compare (`Set::check`) lasts until it is answered at one vector. The *reference* is the replica that
//! the others are measured by; every site computes it by itself. The reference has compared when each other
//! member has told the same digest, or has told another one and is known to be degraded. Any other site has
//! compared when it knows the reference's digest and has the same, or is degraded itself.
//!
//! ```text
//! b (unsure)              a (reference)
//!   reads, digest B@v ──▶  not at v yet: dropped. b's wish stays, its timer sends again
//!   digest B@v        ──▶  at v: reads A, differs
//!             state A ◀──
//!   overwrites, reads
//!   digest A@v        ──▶  the same: a has compared
//!           digest A@v ◀── b has compared
//! ```

use cheops_types::SiteName;

use super::Step;
use crate::{Content, Digest, Entry, Install, Operation, Outcome, State, Vector, Verb, Want, set::Repair};

impl Step<'_> {
    /// This replica's digest is known. Whoever asked for it hears it.
    pub(super) fn publish_digest(&mut self, digest: &Digest) {
        let at = self.set.done.clone();
        self.set.digest = Some((at.clone(), digest.clone()));
        self.set.digest_ms = self.now_ms();
        if let Some(repair) = self.set.repair.as_mut().filter(|repair| repair.at == at) {
            repair.digest.get_or_insert_with(|| digest.clone());
        }
        for site in self.set.others(&self.here().clone()) {
            if std::mem::take(&mut self.set.peer(&site).asks_digest) {
                self.send_digest(&site, false);
            }
        }
        self.compare();
    }

    pub(super) fn take_digest(
        &mut self,
        from: &SiteName,
        at: Vector,
        digest: Digest,
        mended: bool,
        asks: bool,
    ) {
        // One of the two is behind. The sender keeps its wish and tells again.
        if at != self.set.done {
            return;
        }
        let peer = self.set.peer(from);
        peer.digest = Some((at, digest));
        peer.mended = mended;
        // What was read long ago says nothing about what somebody did to the replica since.
        let is_old = self.now_ms().saturating_sub(self.set.digest_ms) > self.context.tuning.resend_max_ms;
        if asks && is_old {
            self.set.digest = None;
        }
        if asks && self.reference().as_ref() == Some(self.here()) {
            // Whoever asks is content with this one's word. It may be the last that knows of a reason to compare them all:
            // who was the reference when that came up need not be it any more.
            self.set.want_comparison();
        }
        if self.own_digest().is_none() {
            self.set.peer(from).asks_digest |= asks;
            return self.set.want_comparison();
        }
        if asks {
            self.send_digest(from, false);
        }
        self.compare();
    }

    fn own_digest(&self) -> Option<&Digest> {
        self.set
            .digest
            .as_ref()
            .filter(|(at, _)| *at == self.set.done)
            .map(|(_, digest)| digest)
    }

    /// What a member has told about its replica as of now.
    fn digest_of(&self, site: &SiteName) -> Option<&Digest> {
        let (at, digest) = self.set.peers.get(site)?.digest.as_ref()?;
        (*at == self.set.done).then_some(digest)
    }

    fn send_digest(&mut self, to: &SiteName, ask: bool) {
        if let Some((at, digest)) = self.set.digest.clone() {
            // One that somebody has changed since can be set once more.
            let reference = self.reference();
            let wanted = reference.and_then(|site| self.digest_of(&site));
            let mended = self.is_beyond_repair(wanted);
            self.send(to, Content::Digest { at, digest, mended }, ask);
        }
    }

    /// Draws conclusions from the digests that are known at this vector.
    fn compare(&mut self) {
        let Some(mine) = self.own_digest().cloned() else {
            return;
        };
        let Some(reference) = self.reference() else {
            return;
        };
        if reference != *self.here() {
            // Equal to a degraded one, it lacks what that lacks.
            if self.digest_of(&reference) == Some(&mine) && self.is_good(&reference) {
                self.has_come_to_the_same();
            }
            return;
        }
        if !self.become_good() {
            return;
        }
        // One that leaves is brought to the same state too: it goes only when it has been.
        for site in self.set.others(&self.here().clone()) {
            let differs = self.digest_of(&site).is_some_and(|digest| *digest != mine);
            let is_hopeless = self.is_hopeless(&site);
            let peer = self.set.peer(&site);
            if differs && !is_hopeless {
                peer.want = peer.want.or(Some(Want::State));
                // Where one differs, others may.
                self.set.want_comparison();
            }
        }
    }

    /// This replica is what it should be, one way or another: what it could not execute is in it.
    fn has_come_to_the_same(&mut self) {
        if self.set.degraded.take().is_none() {
            return;
        }
        self.set.log.change(|entry| {
            let has_failed = entry.has_failed();
            if has_failed {
                entry.state = State::Done(Outcome::Installed);
                entry.redo = false;
            }
            has_failed
        });
        self.tell_all();
    }

    /// The reference may be degraded itself, where no replica is any better. What it could not execute is then
    /// in no good replica: the set goes on without it, and it is kept as conflicts everywhere. False while it
    /// is not settled that this replica is what the others should be.
    fn become_good(&mut self) -> bool {
        if self.set.degraded.is_none() {
            return true;
        }
        if !self
            .set
            .others(self.here())
            .iter()
            .all(|site| self.has_heard_of(site))
        {
            return false;
        }
        let lost: Vec<Operation> = self
            .set
            .log
            .values()
            .filter(|entry| entry.has_failed() && !self.set.is_covered(&entry.op))
            .map(|entry| entry.op.clone())
            .collect();
        if lost.is_empty() && self.compared().iter().any(|site| self.is_behind(site)) {
            // One that executes what is missing there may have a good replica then.
            return false;
        }
        if lost.is_empty() {
            self.set.degraded = None;
            self.tell_all();
            return true;
        }
        self.forgo(lost);
        false
    }

    fn has_heard_of(&self, site: &SiteName) -> bool {
        let peer = self.set.peers.get(site);
        peer.is_some_and(|peer| peer.incarnation != 0)
    }

    /// Whether a member has yet to execute something that has executed here.
    fn is_behind(&self, site: &SiteName) -> bool {
        let peer = self.set.peers.get(site);
        peer.is_none_or(|peer| !peer.done.covers(&self.set.done))
    }

    /// Whether a member has another state than this one, took this one's as far as it can, and says so.
    fn is_hopeless(&self, site: &SiteName) -> bool {
        let peer = self.set.peers.get(site);
        peer.is_some_and(|peer| peer.degraded.is_some() && peer.mended)
    }

    /// The members whose replicas this one, as the reference, is to be compared with.
    fn compared(&self) -> Vec<SiteName> {
        let members = self.set.members.iter();
        members
            .filter(|(site, member)| *site != self.here() && member.leaving.is_none())
            .map(|(site, _)| site.clone())
            .collect()
    }

    /// Those that the wish to compare still waits for; none when all has been compared.
    fn uncompared(&self) -> Vec<SiteName> {
        let Some(mine) = self.own_digest() else {
            return Vec::new();
        };
        let agrees = |site: &SiteName| self.digest_of(site) == Some(mine);
        match self.reference() {
            // Nobody is known to have a replica. Those may have one that were not heard of yet, or not since the resource
            // was made again.
            None => {
                let compared = self.compared().into_iter();
                compared.filter(|site| self.may_have_more(site)).collect()
            }
            Some(reference) if reference == *self.here() => {
                let open = |site: &SiteName| {
                    !(agrees(site) || self.digest_of(site).is_some() && self.is_hopeless(site))
                };
                self.compared().into_iter().filter(open).collect()
            }
            Some(reference) => {
                // Two that are degraded alike prove nothing: what makes the reference good makes this one good.
                let are_good = self.set.degraded.is_none() || self.is_good(&reference);
                let is_settled = agrees(&reference) && are_good
                    || self.digest_of(&reference).is_some_and(|wanted| {
                        self.set.degraded.is_some() && self.is_beyond_repair(Some(wanted))
                    });
                if is_settled { Vec::new() } else { vec![reference] }
            }
        }
    }

    /// Whether a member was not heard of yet, or not since it has executed what has executed here.
    fn may_have_more(&self, site: &SiteName) -> bool {
        !self.has_heard_of(site) || self.is_behind(site)
    }

    /// Whether no site has a replica, by the word of each, and nothing that is kept here could make one: not what waits, nor
    /// a refused create that an operator has tried again.
    pub(super) fn is_nowhere(&self) -> bool {
        let is_missed = |entry: &Entry| {
            let is_create = matches!(entry.op.verb, Verb::Create(_));
            is_create && entry.has_failed() && !self.set.is_covered(&entry.op)
        };
        let others = self.set.others(self.here());
        self.set.is_quiet()
            && self.reference().is_none()
            && !others.iter().any(|site| self.may_have_more(site))
            && !self.set.log.values().any(is_missed)
    }

    /// Whether this replica and another one were found to be equal, as of now.
    pub(super) fn is_verified_by(&self, site: &SiteName) -> bool {
        let mine = self.own_digest();
        mine.is_some() && self.digest_of(site) == mine
    }

    /// Whether a member has read its replica since the last operation.
    pub(super) fn was_read_at(&self, site: &SiteName) -> bool {
        self.digest_of(site).is_some()
    }

    /// Goes on with a comparison that is wished for: tells the digest, again and again, until all has been compared.
    pub(super) fn pursue_comparison(&mut self) {
        if !self.set.check || self.own_digest().is_none() || !self.set.is_quiet() {
            return;
        }
        let open = self.uncompared();
        if open.is_empty() {
            self.set.check = false;
            return;
        }
        if self.set.compare_ms > self.now_ms() {
            return;
        }
        for site in open {
            self.send_digest(&site, true);
        }
        self.postpone_comparison();
    }

    pub(super) fn postpone_comparison(&mut self) {
        self.set.compare_ms = self.now_ms() + self.context.tuning.resend_ms(self.set.compare_tries);
        self.set.compare_tries = self.set.compare_tries.saturating_add(1);
    }

    /// Whether another member's replica is what it should be, by its own word.
    fn is_good(&self, site: &SiteName) -> bool {
        let peer = self.set.peers.get(site);
        peer.is_some_and(|peer| peer.degraded.is_none())
    }

    /// The site that accepted the last operation; if it has no replica, or one that lacks what it refused, the
    /// first that has a good one, or any.
    fn reference(&self) -> Option<SiteName> {
        let set = &*self.set;
        let replica = |site: &SiteName| {
            let member = set.members.get(site)?;
            let (local, degraded) = if site == self.here() {
                (&set.local, &set.degraded)
            } else {
                let peer = set.peers.get(site)?;
                (&peer.local, &peer.degraded)
            };
            local
                .as_ref()
                .map(|_| member.leaving.is_none() && degraded.is_none())
        };
        let last = set.last.as_ref().map(|last| &last.id.author.site);
        let sites = || last.into_iter().chain(set.members.keys());
        let good = sites().find(|site| replica(site) == Some(true));
        good.or_else(|| sites().find(|site| replica(site).is_some()))
            .cloned()
    }

    /// The reference's state, for a replica that differs from it. Nobody else's counts: two sites that each took
    /// the other for wrong would only swap their states.
    pub(super) fn take_state(&mut self, from: &SiteName, at: &Vector, state: Vec<u8>, digest: &Digest) {
        let is_due = *at == self.set.done && self.set.is_quiet() && self.set.deleted.is_none();
        if !is_due || self.reference().as_ref() != Some(from) {
            return;
        }
        let (Some(mine), Some(told)) = (self.own_digest(), self.digest_of(from)) else {
            // Nobody here has found that the two differ: they are compared first.
            return self.set.want_comparison();
        };
        if told == mine && mine != digest {
            // It has changed since it was found to be the same. Its word on that comes again, if it is so.
            return self.set.want_comparison();
        }
        if mine == digest {
            // It was sent before a repair that has made the two the same.
            return self.has_come_to_the_same();
        }
        if self.is_beyond_repair(Some(digest)) {
            self.degrade(None, 0, None);
            self.set.want_comparison();
            return self.tell_all();
        }
        self.set.install = Some(Install {
            wanted: Some(digest.clone()),
            source: Some(from.clone()),
            ..self.repair(at.clone(), Some(state))
        });
    }

    /// Whether this replica took the state already, more than once, and is what it was after that: to set it again would
    /// change nothing, for ever. The reference may be another one by now, with another state (`wanted`): that was
    /// not tried yet.
    fn is_beyond_repair(&self, wanted: Option<&Digest>) -> bool {
        let repaired = self
            .set
            .repair
            .as_ref()
            .filter(|repair| repair.at == self.set.done && repair.times >= Repair::TIMES_MAX)
            .filter(|repair| wanted.is_none() || repair.wanted.is_none() || repair.wanted.as_ref() == wanted);
        repaired
            .and_then(|repair| repair.digest.as_ref())
            .is_some_and(|digest| self.own_digest() == Some(digest))
    }

    /// The resource is deleted, and this site's application still has its replica.
    pub(super) fn begin_removal(&mut self) -> bool {
        for peer in self.set.peers.values_mut() {
            peer.want = peer.want.filter(|want| *want == Want::Snapshot);
        }
        if std::mem::take(&mut self.set.check) {
            self.set.install = Some(self.repair(self.set.done.clone(), None));
            return true;
        }
        self.serve(None);
        false
    }

    fn repair(&mut self, at: Vector, state: Option<Vec<u8>>) -> Install {
        Install {
            // An application that remembers the refused create by its token would refuse this one too.
            token: self.site.derive(self.set.birth),
            recognise: self.set.recognise,
            ..Install::of(at, state)
        }
    }

    /// Goes on without operations that no good replica has. All sites keep them as conflicts.
    pub(super) fn forgo(&mut self, lost: Vec<Operation>) {
        let lost_ids = lost.iter().map(|op| op.id.clone());
        let dismissed: Vec<_> = lost_ids.filter(|id| self.set.dismissed.contains(id)).collect();
        self.decide(Verb::Forgo { lost });
        // Sites where it has executed have dropped it, and with it that an operator has dealt with it.
        for loser in dismissed {
            self.decide(Verb::Dismiss { loser });
        }
    }

    /// An operation of the set that nobody has asked for.
    fn decide(&mut self, verb: Verb) {
        let Some(id) = self.next_id() else {
            return;
        };
        let token = self.site.derive(self.set.birth);
        let (op, credential) = self.record(id.clone(), crate::Draft::of_the_set(token, verb));
        self.insert(op, credential);
        self.note(&id);
    }
}
