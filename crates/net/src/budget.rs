//! What one client may take of a core.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use cheops_types::{Limit, Limits};

use crate::{Client, Network};

/// Heads up to this length are nobody's concern: it is what a connection has to read into anyway.
const HEAD_FREE_BYTES: usize = 8 * 1024;

/// One client may have one in so many of the bytes that heads may take.
const CLIENT_SHARE: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct BudgetOptions {
    /// Open connections of one client.
    pub connections_max: usize,
    /// What all heads that have not come to their end may take.
    pub heads_max_bytes: usize,
    /// What one of them can take at most.
    pub head_max_bytes: usize,
}

impl From<&Limits> for BudgetOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            connections_max: limits.address_connections_max,
            heads_max_bytes: limits.heads_max_bytes,
            head_max_bytes: limits.head_max_bytes,
        }
    }
}

#[derive(Debug, Default)]
struct Share {
    connections: AtomicUsize,
    head_bytes: AtomicUsize,
}

/// The clients of one core that have connections. On one thread, and made for several because streams must
/// be; its lock is taken when a connection opens and when it closes.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    shares: Mutex<HashMap<Client, Arc<Share>>>,
    head_bytes: AtomicUsize,
}

impl Budget {
    /// A place for a connection; none when its client has as many as it may.
    pub(crate) fn enter(
        self: &Arc<Self>,
        remote: IpAddr,
        exempt: &[Network],
        options: BudgetOptions,
    ) -> Option<Place> {
        let is_exempt = exempt.iter().any(|network| network.contains(remote));
        let client = Client::of(remote);
        let (share, open) = {
            let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares.entry(client).or_default().clone();
            let open = share.connections.fetch_add(1, Relaxed);
            (share, open)
        };
        let place = Place {
            budget: self.clone(),
            client,
            is_exempt,
            share,
            options,
            held_bytes: AtomicUsize::new(0),
        };
        if open >= options.connections_max && !is_exempt {
            Limit::AddressConnections.hit();
            return None;
        }
        Some(place)
    }
}

/// One connection's part of what its client may take.
#[derive(Debug)]
pub(crate) struct Place {
    budget: Arc<Budget>,
    client: Client,
    is_exempt: bool,
    share: Arc<Share>,
    options: BudgetOptions,
    held_bytes: AtomicUsize,
}

impl Place {
    /// Whose budgets count; none for one who is not counted.
    pub(crate) fn client(&self) -> Option<Client> {
        (!self.is_exempt).then_some(self.client)
    }

    /// Whether a head may have come this far without an end.
    pub(crate) fn may_hold(&self, head_bytes: usize) -> bool {
        if head_bytes <= HEAD_FREE_BYTES {
            return true;
        }
        let wanted_bytes = head_bytes.min(self.options.head_max_bytes);
        let more_bytes = wanted_bytes.saturating_sub(self.held_bytes.load(Relaxed));
        self.held_bytes.fetch_add(more_bytes, Relaxed);
        let of_client = self.share.head_bytes.fetch_add(more_bytes, Relaxed) + more_bytes;
        let of_all = self.budget.head_bytes.fetch_add(more_bytes, Relaxed) + more_bytes;
        let max_bytes = self.options.heads_max_bytes;
        let is_within = of_all <= max_bytes && (self.is_exempt || of_client <= max_bytes / CLIENT_SHARE);
        if !is_within {
            Limit::Heads.hit();
        }
        is_within
    }

    /// The head has come to its end.
    pub(crate) fn release(&self) {
        if self.held_bytes.load(Relaxed) == 0 {
            return;
        }
        let held_bytes = self.held_bytes.swap(0, Relaxed);
        self.share.head_bytes.fetch_sub(held_bytes, Relaxed);
        self.budget.head_bytes.fetch_sub(held_bytes, Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.release();
        let mut shares = self.budget.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if self.share.connections.fetch_sub(1, Relaxed) == 1 {
            shares.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BudgetOptions = BudgetOptions {
        connections_max: 2,
        heads_max_bytes: 400 * 1024,
        head_max_bytes: 128 * 1024,
    };

    fn enter(budget: &Arc<Budget>, address: &str, exempt: &[&str]) -> Option<Place> {
        let exempt: Vec<Network> = exempt.iter().map(|text| text.parse().unwrap()).collect();
        budget.enter(address.parse().unwrap(), &exempt, OPTIONS)
    }

    #[test]
    fn a_client_has_its_connections_and_no_more() {
        let budget = Arc::default();
        let places: Vec<_> = (0..2).filter_map(|_| enter(&budget, "192.0.2.1", &[])).collect();
        assert_eq!(places.len(), 2);
        assert!(enter(&budget, "192.0.2.1", &[]).is_none());
        assert!(
            enter(&budget, "192.0.2.2", &[]).is_some(),
            "another one is not concerned"
        );
        assert!(
            enter(&budget, "192.0.2.1", &["192.0.2.0/24"]).is_some(),
            "nor who is exempt"
        );
        drop(places);
        assert!(enter(&budget, "192.0.2.1", &[]).is_some());
        assert!(budget.shares.lock().unwrap().is_empty());
    }

    #[test]
    fn heads_without_an_end_have_a_sum() {
        let budget = Arc::default();
        let one = enter(&budget, "192.0.2.1", &[]).unwrap();
        let two = enter(&budget, "192.0.2.1", &[]).unwrap();
        let other = enter(&budget, "192.0.2.2", &[]).unwrap();
        assert!(one.may_hold(8 * 1024) && one.may_hold(60 * 1024));
        assert!(!two.may_hold(60 * 1024), "a quarter is one client's");
        assert!(other.may_hold(60 * 1024), "and another has its own");
        one.release();
        two.release();
        assert!(two.may_hold(60 * 1024));
        drop((one, two, other));
        assert_eq!(budget.head_bytes.load(Relaxed), 0);
    }

    #[test]
    fn all_heads_have_a_sum() {
        let budget = Arc::default();
        let places: Vec<_> = (1..=5)
            .map(|host| enter(&budget, &format!("192.0.2.{host}"), &[]).unwrap())
            .collect();
        let held = places.iter().filter(|place| place.may_hold(90 * 1024)).count();
        assert_eq!(held, 4);
    }
}
