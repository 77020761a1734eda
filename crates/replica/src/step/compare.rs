//! Convergence is checked, not assumed: replicas that have executed the same are compared.

use cheops_types::SiteName;

use super::Step;
use crate::{Content, Digest, Install, Vector, Want};

impl Step<'_> {
    /// This replica's digest is known: the others hear it if they are to compare.
    pub(super) fn publish_digest(&mut self, digest: &Digest) {
        let at = self.set.done.clone();
        self.set.digest = Some((at.clone(), digest.clone()));
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
        if self.own_digest().is_some() {
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
        if self.reference().as_ref() != Some(self.here()) {
            return;
        }
        let Some(mine) = self.own_digest().cloned() else {
            return;
        };
        let done = self.set.done.clone();
        for peer in self.set.peers.values_mut() {
            if let Some((at, digest)) = peer.digest.take_if(|(at, _)| *at == done)
                && at == done
                && digest != mine
            {
                peer.want = peer.want.or(Some(Want::State));
            }
        }
    }

    /// The site that accepted the last operation; if it is gone or has no replica, the first that has.
    fn reference(&self) -> Option<SiteName> {
        let here = self.here();
        let has_replica = |site: &SiteName| {
            let local = if site == here {
                self.set.local.as_ref()
            } else {
                self.set.peers.get(site).and_then(|peer| peer.local.as_ref())
            };
            self.set.members.contains_key(site) && local.is_some()
        };
        let last = self.set.last.as_ref().map(|last| last.id.author.site.clone());
        last.filter(|site| has_replica(site))
            .or_else(|| self.set.members.keys().find(|site| has_replica(site)).cloned())
    }

    /// The reference's state, for a replica that differs from it.
    pub(super) fn take_state(&mut self, at: Vector, state: Vec<u8>) {
        if at == self.set.done && self.set.is_quiet() && self.set.deleted.is_none() {
            self.set.install = Some(Install {
                token: self.set.birth,
                recognise: self.set.recognise,
                at,
                state: Some(state),
                tries: 0,
                until_ms: 0,
            });
        }
    }
}
