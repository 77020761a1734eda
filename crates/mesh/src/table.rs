//! What heartbeats told: pure bookkeeping of health and distance.

use std::collections::{BTreeMap, VecDeque};

use cheops_types::{Distances, Health, Pulse, SiteName};

/// The distance is the shortest of so many recent round trips: a late answer says more about a busy
/// moment than about the distance.
const SAMPLES: usize = 8;

#[derive(Debug, Default, Clone)]
struct Peer {
    misses: u64,
    /// How often an answer came after none.
    recoveries: u64,
    incarnation: u64,
    /// The latest last.
    round_trips_us: VecDeque<u32>,
    last_error: Option<String>,
}

/// The state of all peers as one site sees it.
#[derive(Debug)]
pub struct Table {
    here: SiteName,
    misses_max: u64,
    peers: BTreeMap<SiteName, Peer>,
    distances: Distances,
}

impl Table {
    pub fn new(here: SiteName, misses_max: u64) -> Self {
        Self {
            here,
            misses_max,
            peers: BTreeMap::new(),
            distances: Distances::default(),
        }
    }

    pub fn set_misses_max(&mut self, misses_max: u64) {
        self.misses_max = misses_max;
    }

    pub fn distances(&self) -> &Distances {
        &self.distances
    }

    pub fn last_error(&self, site: &str) -> Option<&str> {
        self.peers.get(site)?.last_error.as_deref()
    }

    /// How often each peer answered after it had not: at first, and after every cut however short.
    pub fn recoveries(&self) -> impl Iterator<Item = (&SiteName, u64)> {
        self.peers.iter().map(|(site, peer)| (site, peer.recoveries))
    }

    /// The life of each peer's store, of those that told one.
    pub fn incarnations(&self) -> impl Iterator<Item = (&SiteName, u64)> {
        let told = self.peers.iter().filter(|(_, peer)| peer.incarnation > 0);
        told.map(|(site, peer)| (site, peer.incarnation))
    }

    /// A heartbeat came back; `pulse` is what the peer told. Returns whether the peer's health changed.
    pub fn answered(&mut self, site: &SiteName, round_trip_us: u32, pulse: Pulse) -> bool {
        let peer = self.peers.entry(site.clone()).or_default();
        if peer.misses > 0 || peer.recoveries == 0 {
            peer.recoveries += 1;
        }
        peer.misses = 0;
        peer.incarnation = pulse.incarnation;
        peer.last_error = None;
        if peer.round_trips_us.len() == SAMPLES {
            peer.round_trips_us.pop_front();
        }
        peer.round_trips_us.push_back(round_trip_us);
        self.distances.set_row(site, pulse.round_trips_us);
        self.publish_own_row();
        self.set_health(site, Health::Up)
    }

    /// A heartbeat failed. Returns whether the peer's health changed.
    pub fn missed(&mut self, site: &SiteName, error: String) -> bool {
        let peer = self.peers.entry(site.clone()).or_default();
        peer.misses += 1;
        peer.last_error = Some(error);
        if peer.misses < self.misses_max {
            return false;
        }
        // Distances of before a cut say nothing about after it.
        peer.round_trips_us.clear();
        self.distances.set_row(site, BTreeMap::new());
        self.publish_own_row();
        self.set_health(site, Health::Down)
    }

    /// Keeps only the given peers.
    pub fn retain(&mut self, keep: impl Fn(&SiteName) -> bool) {
        self.peers.retain(|site, _| keep(site));
        let old = std::mem::take(&mut self.distances);
        for site in self.peers.keys() {
            self.distances.set_health(site, old.health(site));
            self.distances
                .set_row(site, old.row(site).cloned().unwrap_or_default());
        }
        self.publish_own_row();
    }

    fn set_health(&mut self, site: &SiteName, health: Health) -> bool {
        let changed = self.distances.health(site) != health;
        self.distances.set_health(site, health);
        changed
    }

    fn publish_own_row(&mut self) {
        let own = self
            .peers
            .iter()
            .filter_map(|(site, peer)| Some((site.clone(), *peer.round_trips_us.iter().min()?)));
        self.distances.set_row(&self.here, own.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn pulse<const N: usize>(row: [(SiteName, u32); N]) -> Pulse {
        Pulse {
            site: site("b"),
            round_trips_us: row.into(),
            incarnation: 7,
        }
    }

    #[test]
    fn down_after_misses_and_up_at_once() {
        let (here, b) = (site("a"), site("b"));
        let mut table = Table::new(here.clone(), 3);
        assert!(table.answered(&b, 800, pulse([])));
        assert_eq!(table.incarnations().next(), Some((&b, 7)));
        assert!(!table.missed(&b, "cut".into()));
        assert!(!table.missed(&b, "cut".into()));
        assert_eq!(table.distances().health("b"), Health::Up);
        assert!(table.missed(&b, "cut".into()));
        assert_eq!(table.recoveries().next(), Some((&b, 1)));
        assert_eq!(table.distances().health("b"), Health::Down);
        assert_eq!(table.distances().round_trip_us(&here, &b), None);
        assert_eq!(table.last_error("b"), Some("cut"));
        assert!(table.answered(&b, 1600, pulse([])));
        assert_eq!(table.recoveries().next(), Some((&b, 2)));
        assert_eq!(table.distances().round_trip_us(&here, &b), Some(1600));
        table.answered(&b, 800, pulse([]));
        assert_eq!(table.distances().round_trip_us(&here, &b), Some(800));
        for _ in 0..SAMPLES {
            table.answered(&b, 900, pulse([]));
        }
        assert_eq!(table.distances().round_trip_us(&here, &b), Some(900));
    }

    #[test]
    fn a_peer_tells_its_own_distances() {
        let (b, c) = (site("b"), site("c"));
        let mut table = Table::new(site("a"), 3);
        table.answered(&b, 800, pulse([(c.clone(), 50)]));
        assert_eq!(table.distances().round_trip_us(&b, &c), Some(50));
        assert_eq!(table.distances().round_trip_us(&c, &b), Some(50));
        table.retain(|_| false);
        assert_eq!(table.distances().round_trip_us(&b, &c), None);
    }
}
