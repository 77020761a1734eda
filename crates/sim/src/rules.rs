//! What a simulated site knows of its other sets.

use std::collections::BTreeMap;

use cheops_replica::{MetaId, Need, Presence, Rules, Set};

/// The ordinary conventions, over the sets on a disk.
pub(crate) struct DiskRules<'d> {
    pub(crate) sets: &'d BTreeMap<MetaId, Set>,
    /// Made on purpose: nothing is waited for.
    pub(crate) is_blind: bool,
}

impl Rules for DiskRules<'_> {
    fn presence(&self, set: &MetaId) -> Presence {
        if self.is_blind {
            Presence::Uninvolved
        } else {
            presence(self.sets.get(set))
        }
    }
}

pub(crate) fn presence(set: Option<&Set>) -> Presence {
    set.map_or(Presence::Uninvolved, Set::presence)
}

/// Whether an operation has to wait for this, seen from outside.
pub(crate) fn must_wait(need: &Need, sets: &BTreeMap<MetaId, Set>) -> bool {
    match presence(sets.get(&need.set)) {
        Presence::Pending => !need.gone,
        Presence::Here => need.gone,
        Presence::Uninvolved | Presence::Gone => false,
    }
}
