//! How much of what peers send for replication's sake is in memory at one time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cheops_types::{Limit, Limits, SiteName};

/// What all peers have under way at this agent.
///
/// Each has a share of its own, which ordinary batches fit into, so that a peer that sends as much as it can takes
/// nothing from the others. Longer messages share the rest, and none may have more than half of it.
#[derive(Debug, Default)]
pub(crate) struct Messages(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    peers: HashMap<SiteName, usize>,
    /// What peers have beyond their shares.
    beyond: usize,
}

/// What one message takes, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MessageLease {
    budget: Arc<Messages>,
    peer: SiteName,
    share: usize,
    bytes: usize,
}

impl Messages {
    pub(crate) fn lease(self: &Arc<Self>, peer: &SiteName, limits: &Limits) -> MessageLease {
        MessageLease {
            budget: Arc::clone(self),
            peer: peer.clone(),
            share: limits.peer_message_share_bytes,
            bytes: 0,
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MessageLease {
    /// Takes room for more of the message; false when there is none.
    pub(crate) fn grow(&mut self, bytes: usize, limits: &Limits) -> bool {
        let mut used = self.budget.used();
        let had = used.peers.get(&self.peer).copied().unwrap_or(0);
        let has = had.saturating_add(bytes);
        let more = has.saturating_sub(self.share) - had.saturating_sub(self.share);
        let max = limits.peer_messages_max_bytes;
        let is_too_much = used.beyond + more > max || has.saturating_sub(self.share) > max / 2;
        if more > 0 && is_too_much {
            drop(used);
            Limit::PeerMessages.hit();
            return false;
        }
        used.beyond += more;
        used.peers.insert(self.peer.clone(), has);
        self.bytes += bytes;
        true
    }
}

impl Drop for MessageLease {
    fn drop(&mut self) {
        let mut used = self.budget.used();
        let Some(had) = used.peers.get(&self.peer).copied() else {
            return;
        };
        let has = had.saturating_sub(self.bytes);
        used.beyond -= had.saturating_sub(self.share) - has.saturating_sub(self.share);
        if has == 0 {
            used.peers.remove(&self.peer);
        } else {
            used.peers.insert(self.peer.clone(), has);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    #[test]
    fn one_peer_does_not_take_what_the_others_need() {
        let limits = Limits {
            peer_message_share_bytes: 10,
            peer_messages_max_bytes: 100,
            ..Limits::default()
        };
        let budget = Arc::new(Messages::default());
        let mut greedy: Vec<_> = (0..7).map(|_| budget.lease(&site("greedy"), &limits)).collect();
        let taken = greedy
            .iter_mut()
            .filter_map(|lease| lease.grow(10, &limits).then_some(10));
        assert_eq!(taken.sum::<i32>(), 60, "its share and half of the rest");
        let mut second = budget.lease(&site("second"), &limits);
        assert!(second.grow(60, &limits));
        assert!(!second.grow(1, &limits));
        // Nothing is left beyond the shares, and a third peer still has its own.
        let mut third = budget.lease(&site("third"), &limits);
        assert!(third.grow(10, &limits));
        assert!(!third.grow(1, &limits));
        drop(greedy);
        assert!(third.grow(1, &limits));
        drop((second, third));
        let used = budget.used();
        assert_eq!((used.beyond, used.peers.len()), (0, 0));
    }
}
