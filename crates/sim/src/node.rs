//! One simulated agent: its disk, its clock and the application beside it.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{MetaId, Set, Site};
use cheops_types::SiteName;

use crate::App;

/// What survives a crash.
#[derive(Debug, Clone)]
pub struct Disk {
    pub site: Site,
    pub sets: BTreeMap<MetaId, Set>,
    pub payloads: BTreeSet<[u8; 32]>,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub name: SiteName,
    pub up: bool,
    /// Counts starts: what an earlier life asked for, no later one hears of.
    pub life: u32,
    pub skew_ms: i64,
    /// How wrong its clock is when nobody sets it.
    pub usual_skew_ms: i64,
    pub disk: Disk,
    /// The disk as it was, for an accident.
    pub copy: Option<Box<Disk>>,
    pub app: App,
    /// When each set is to be woken, in virtual time.
    pub wakes: BTreeMap<MetaId, u64>,
    /// Operations for which an operator has to bring a credential.
    pub refused_credentials: BTreeSet<MetaId>,
    /// Payloads that are being asked for.
    pub fetches: BTreeSet<(MetaId, [u8; 32])>,
}

impl Node {
    pub fn new(name: SiteName, incarnation: u64, skew_ms: i64) -> Self {
        Self {
            disk: Disk {
                site: Site::new(name.clone(), incarnation),
                sets: BTreeMap::new(),
                payloads: BTreeSet::new(),
            },
            name,
            up: true,
            life: 0,
            copy: None,
            skew_ms,
            usual_skew_ms: skew_ms,
            app: App::default(),
            wakes: BTreeMap::new(),
            refused_credentials: BTreeSet::new(),
            fetches: BTreeSet::new(),
        }
    }

    pub fn set(&self, meta: &MetaId) -> Option<&Set> {
        self.disk.sets.get(meta)
    }

    /// This site's wall clock.
    pub fn wall_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add_signed(self.skew_ms)
    }

    /// The virtual time at which this site's wall clock shows `wall_ms`.
    pub fn virtual_ms(&self, wall_ms: u64) -> u64 {
        wall_ms.saturating_add_signed(-self.skew_ms)
    }
}
