//! What is sent, and again until it is known to have arrived.

use cheops_types::SiteName;

use super::Step;
use crate::{Carried, Content, Effect, Message, OpId, Report, Standing, Want};

impl Step<'_> {
    pub(super) fn ship(&mut self) {
        let here = self.here().clone();
        if self.set.standing == Standing::Expelled {
            return;
        }
        for site in self.set.others(&here) {
            self.set.peer(&site);
            self.ship_to(&site);
        }
        // Those that are no members (any more) but asked.
        for site in std::mem::take(&mut self.tell) {
            self.send(&site, Content::Report, false);
        }
    }

    fn ship_to(&mut self, site: &SiteName) {
        let now_ms = self.now_ms();
        let tuning = self.context.tuning;
        let owes = self.set.owes(site);
        let pruned = self.set.pruned.clone();
        let peer = self.set.peer(site);
        // What is no longer kept here cannot be sent, nor its payload to one that has only the operation.
        let lacks = |id: &OpId| pruned.includes(id) && !peer.done.includes(id);
        if !peer.held.covers(&pruned) || peer.bare.iter().any(lacks) {
            peer.needs_snapshot = true;
        }
        let due = owes && peer.resend_ms <= now_ms;
        if due {
            peer.sent = peer.held.clone();
            peer.tries += 1;
            peer.resend_ms = now_ms + tuning.resend_ms(peer.tries.saturating_sub(1));
            // The site that let it in comes first; the others step in when that does not help.
            if peer.needs_snapshot && (peer.incarnation != 0 || peer.tries > 2) {
                peer.want = peer.want.or(Some(Want::Snapshot));
            }
        }
        let mut batches = self.missing(site);
        let told = self.tell.remove(site);
        if batches.is_empty() {
            if due || told {
                self.send(site, Content::Report, due);
            }
            return;
        }
        let last = batches.len() - 1;
        for (at, carried) in batches.drain(..).enumerate() {
            self.send(site, Content::Operations(carried), due && at == last);
        }
        let peer = self.set.peer(site);
        peer.resend_ms = peer.resend_ms.max(now_ms + tuning.resend_min_ms);
    }

    /// What a member lacks and is not on its way, in batches.
    fn missing(&mut self, site: &SiteName) -> Vec<Vec<Carried>> {
        let tuning = self.context.tuning;
        let set = &mut *self.set;
        let Some(peer) = set.peers.get_mut(site).filter(|peer| !peer.needs_snapshot) else {
            return Vec::new();
        };
        let mut batches: Vec<Vec<Carried>> = Vec::new();
        let mut bytes = 0;
        for entry in set.log.values() {
            if !peer.sent.precedes(&entry.op.id) {
                continue;
            }
            peer.sent.advance(&entry.op.id);
            let size = entry.op.bytes();
            let fits = batches.last().is_some_and(|batch| {
                batch.len() < tuning.batch_max_ops && bytes + size <= tuning.batch_max_bytes
            });
            if !fits {
                batches.push(Vec::new());
                bytes = 0;
            }
            bytes += size;
            if let Some(batch) = batches.last_mut() {
                batch.push(Carried {
                    op: entry.op.clone(),
                    credential: entry.credential.clone(),
                });
            }
        }
        batches
    }

    /// A member that asked lacks something: what is not in its report goes out now.
    pub(super) fn peer_up_soon(&mut self, site: &SiteName) {
        let peer = self.set.peer(site);
        peer.sent = peer.held.clone();
    }

    pub(super) fn send(&mut self, to: &SiteName, content: Content, ask: bool) {
        let message = self.compose(to, content, ask);
        self.effects.push(Effect::Send {
            to: to.clone(),
            message,
        });
    }

    pub(super) fn compose(&self, to: &SiteName, content: Content, ask: bool) -> Message {
        let set = &*self.set;
        Message {
            set: set.record.meta.clone(),
            from: self.site.name().clone(),
            incarnation: set.peers.get(to).map_or(0, |peer| peer.incarnation),
            epoch: set.epoch,
            now_ms: self.context.now_ms,
            report: Report {
                incarnation: self.site.incarnation(),
                age: self.site.age(),
                stay: set.members.get(self.here()).map_or(0, |me| me.stay),
                held: set.held.clone(),
                done: set.done.clone(),
                local: set.local.clone(),
                degraded: set.degraded.clone(),
                left: set.standing == Standing::Left,
                ask,
                waits: set.waits(),
                bare: set.told_bare(),
            },
            content,
        }
    }
}
