//! Which sites are to be compared with this one, and what comparisons have done.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use cheops_types::SiteName;
use tokio::sync::Semaphore;

/// What others tell the upkeep, and what it has done.
#[derive(Debug)]
pub(crate) struct Comparisons {
    /// Sites that can be reached again.
    returned: Mutex<BTreeSet<SiteName>>,
    /// One scan of all sets at a time.
    pub(crate) scans: Semaphore,
    pub(crate) compared: AtomicU64,
    pub(crate) walks: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) exchanges: AtomicU64,
    pub(crate) disagreed: AtomicU64,
}

impl Default for Comparisons {
    fn default() -> Self {
        Self {
            returned: Mutex::default(),
            scans: Semaphore::new(1),
            compared: AtomicU64::default(),
            walks: AtomicU64::default(),
            expired: AtomicU64::default(),
            exchanges: AtomicU64::default(),
            disagreed: AtomicU64::default(),
        }
    }
}

impl Comparisons {
    /// A site can be reached again: what the two hold is compared soon.
    pub(crate) fn peer_up(&self, site: &SiteName) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.insert(site.clone());
    }

    pub(crate) fn take_returned(&self) -> BTreeSet<SiteName> {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *returned)
    }
}

/// Counters in Prometheus' text form.
impl fmt::Display for Comparisons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = [
            ("comparisons_begun_total", &self.compared),
            ("comparison_walks_total", &self.walks),
            ("tombstones_expired_total", &self.expired),
            ("range_exchanges_total", &self.exchanges),
            ("range_disagreements_total", &self.disagreed),
        ];
        for (name, counter) in counters {
            let value = counter.load(Ordering::Relaxed);
            writeln!(f, "# TYPE cheops_{name} counter\ncheops_{name} {value}")?;
        }
        Ok(())
    }
}
