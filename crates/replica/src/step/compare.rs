//! Convergence is checked, not assumed: replicas that have executed the same are compared.

use cheops_types::SiteName;

use super::Step;
use crate::{Content, Digest, Install, Vector, Want};

impl Step<'_> {
    /// This replica's digest is known: the others hear it if they are to compare.
    pub(super) fn publish_digest(&mut self, digest: &Digest) {
        let at = self.set.done.clone();
        self.set.digest = Some((at.clone(), digest.clone()));
        if let Some(repair) = self.set.repair.as_mut().filter(|repair| repair.at == at) {
            repair.digest.get_or_insert_with(|| digest.clone());
        }
        if std::mem::take(&mut self.set.check) {
            for site in self.set.others(&self.here().clone()) {
                let content = Content::Digest {
                    at: at.clone(),
                    digest: digest.clone(),
                };
                self.send(&site, content, false);
            }
        }
        self.compare();
    }

    pub(super) fn take_digest(&mut self, from: &SiteName, at: Vector, digest: Digest) {
        if at != self.set.done {
            return;
        }
        self.set.peer(from).digest = Some((at, digest));
        if let Some(digest) = self.own_digest().cloned() {
            // A replica that is degraded hears what it should be: it may have come to the same. From the
            // reference alone, or two that are degraded would answer each other for ever.
            let is_reference = self.reference().as_ref() == Some(self.here());
            if is_reference && self.set.peer(from).degraded.is_some() {
                let at = self.set.done.clone();
                self.send(from, Content::Digest { at, digest }, false);
            }
            self.compare();
        } else {
            self.set.check = true;
        }
    }

    fn own_digest(&self) -> Option<&Digest> {
        self.set
            .digest
            .as_ref()
            .filter(|(at, _)| *at == self.set.done)
            .map(|(_, digest)| digest)
    }

    /// If this site is the reference, it sends its state to those that differ.
    fn compare(&mut self) {
        let Some(mine) = self.own_digest().cloned() else {
            return;
        };
        let done = self.set.done.clone();
        let reference = self.reference();
        if reference.as_ref() != Some(self.here()) {
            let theirs = reference.and_then(|site| self.set.peers.get(&site)?.digest.as_ref());
            if theirs.is_some_and(|(at, digest)| *at == done && *digest == mine) {
                // It has come to the same, one way or another.
                self.set.degraded = None;
            }
            return;
        }
        let heard_of_all = |site| self.set.peers.get(site).is_some_and(|peer| peer.incarnation != 0);
        if self.set.others(self.here()).iter().all(heard_of_all) {
            // No replica is any better.
            self.set.degraded = None;
        }
        for peer in self.set.peers.values_mut() {
            if let Some((at, digest)) = peer.digest.take_if(|(at, _)| *at == done)
                && at == done
                && digest != mine
            {
                peer.want = peer.want.or(Some(Want::State));
            }
        }
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

    /// The reference's state, for a replica that differs from it.
    pub(super) fn take_state(&mut self, at: Vector, state: Vec<u8>, digest: &Digest) {
        if at == self.set.done && self.set.is_quiet() && self.set.deleted.is_none() {
            if self.own_digest() == Some(digest) {
                // It was sent before a repair that has made the two the same.
                if self.set.degraded.take().is_some() {
                    self.tell_all();
                }
                return;
            }
            if self.is_beyond_repair() {
                self.degrade(None, 0, None);
                return self.tell_all();
            }
            self.set.install = Some(self.repair(at, Some(state)));
        }
    }

    /// Whether this replica took the state already and is what it was after that: to set it again would
    /// change nothing, for ever.
    fn is_beyond_repair(&self) -> bool {
        let repaired = self
            .set
            .repair
            .as_ref()
            .filter(|repair| repair.at == self.set.done);
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
            at,
            state,
            credential: None,
            made: false,
            status: None,
            tries: 0,
            until_ms: 0,
            said: None,
        }
    }
}
