//! Who is up and how far away: what one agent knows about the sites around it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SiteName;

/// What is known about another site's reachability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// Not heard of yet; tried like a site that is up.
    #[default]
    Unknown,
    Up,
    Down,
}

/// A snapshot of health and measured round trips, this site's own and those that peers told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distances {
    health: BTreeMap<SiteName, Health>,
    /// Per site its measured round trips to others, in microseconds.
    rows: BTreeMap<SiteName, BTreeMap<SiteName, u32>>,
}

impl Distances {
    pub fn set_health(&mut self, site: &SiteName, health: Health) {
        self.health.insert(site.clone(), health);
    }

    pub fn health(&self, site: &str) -> Health {
        self.health.get(site).copied().unwrap_or_default()
    }

    /// Replaces what is known of the round trips that `from` measured.
    pub fn set_row(&mut self, from: &SiteName, row: BTreeMap<SiteName, u32>) {
        self.rows.insert(from.clone(), row);
    }

    pub fn row(&self, from: &str) -> Option<&BTreeMap<SiteName, u32>> {
        self.rows.get(from)
    }

    /// The round trip between two sites, as either of them measured it.
    pub fn round_trip_us(&self, from: &str, to: &str) -> Option<u32> {
        if from == to {
            return Some(0);
        }
        let measured = |from, to| self.rows.get(from).and_then(|row| row.get(to)).copied();
        measured(from, to).or_else(|| measured(to, from))
    }
}

/// What a site tells with a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    pub site: SiteName,
    /// Its own measured round trips.
    pub round_trips_us: BTreeMap<SiteName, u32>,
    /// The life of its store: it grows when the store is lost or restored. 0 where it has none.
    #[serde(default)]
    pub incarnation: u64,
}

impl Pulse {
    /// What `here` answers to a heartbeat.
    pub fn of(here: &SiteName, distances: &Distances) -> Self {
        Self {
            site: here.clone(),
            round_trips_us: distances.row(here).cloned().unwrap_or_default(),
            incarnation: 0,
        }
    }
}
