//! What did not get to other sites.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use cheops_replica::MetaId;
use cheops_types::SiteName;

/// Sets that are kept per site. Of the others, the engine sends again what it owes, and is asked for the rest.
const SETS_MAX: usize = 16_384;

/// The sets about which a message to a site was dropped since the site could last be reached again.
///
/// A site may reach this one while this one does not reach it, or has not noticed yet that it does. What it asked for is
/// dropped then, and nothing in the set says that it still waits.
#[derive(Debug, Default)]
pub(crate) struct Missed(Mutex<HashMap<SiteName, Sets>>);

/// The last ones, in the order in which they came.
#[derive(Debug, Default)]
struct Sets {
    order: VecDeque<MetaId>,
    known: HashSet<MetaId>,
}

impl Missed {
    /// `is_known` says whether the configuration has the site: names that another site made up must not pile up here.
    pub(crate) fn note(&self, site: &SiteName, set: MetaId, is_known: impl FnOnce() -> bool) {
        let mut all = self.lock();
        if !all.contains_key(site) && !is_known() {
            return;
        }
        let sets = all.entry(site.clone()).or_default();
        if !sets.known.insert(set.clone()) {
            return;
        }
        sets.order.push_back(set);
        if sets.order.len() > SETS_MAX
            && let Some(first) = sets.order.pop_front()
        {
            sets.known.remove(&first);
        }
    }

    /// All that was noted of a site.
    pub(crate) fn take(&self, site: &SiteName) -> Vec<MetaId> {
        let sets = self.lock().remove(site).unwrap_or_default();
        sets.order.into()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SiteName, Sets>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::site;

    #[test]
    fn the_last_sets_of_each_site_are_kept_once() {
        let missed = Missed::default();
        for number in (0..=SETS_MAX).chain([SETS_MAX]) {
            missed.note(&site("a"), MetaId::new(&number.to_string()), || true);
        }
        missed.note(&site("b"), MetaId::new("0"), || true);
        let taken = missed.take(&site("a"));
        assert_eq!(taken.len(), SETS_MAX);
        assert_eq!(taken[0], MetaId::new("1"));
        assert!(missed.take(&site("a")).is_empty());
        assert_eq!(missed.take(&site("b")), [MetaId::new("0")]);
    }

    #[test]
    fn nothing_is_kept_of_sites_that_nobody_knows() {
        let missed = Missed::default();
        missed.note(&site("a"), MetaId::new("0"), || false);
        assert!(missed.lock().is_empty());
    }
}
