//! Sets in memory, as many as are used at the same time.

use std::collections::{BTreeMap, HashMap};

use cheops_replica::MetaId;

use super::change::LoadedSet;

/// Decoded sets, those used last. What is in here is what is stored, except during a batch: dropping one
/// loses nothing.
#[derive(Debug)]
pub(super) struct Cache {
    sets: HashMap<MetaId, (u64, LoadedSet)>,
    order: BTreeMap<u64, MetaId>,
    uses: u64,
    max: usize,
}

impl Cache {
    pub(super) fn new(max: usize) -> Self {
        Self {
            sets: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            max,
        }
    }

    pub(super) fn get(&self, meta: &MetaId) -> Option<&LoadedSet> {
        self.sets.get(meta).map(|(_, held)| held)
    }

    pub(super) fn get_mut(&mut self, meta: &MetaId) -> Option<&mut LoadedSet> {
        self.sets.get_mut(meta).map(|(_, held)| held)
    }

    pub(super) fn take(&mut self, meta: &MetaId) -> Option<LoadedSet> {
        let (use_number, held) = self.sets.remove(meta)?;
        self.order.remove(&use_number);
        Some(held)
    }

    pub(super) fn put(&mut self, meta: MetaId, held: LoadedSet) {
        self.uses += 1;
        self.order.insert(self.uses, meta.clone());
        if let Some((before, _)) = self.sets.insert(meta, (self.uses, held)) {
            self.order.remove(&before);
        }
    }

    /// Drops what was not used for longest. Between batches only.
    pub(super) fn trim(&mut self) {
        while self.sets.len() > self.max {
            let Some((_, meta)) = self.order.pop_first() else {
                return;
            };
            self.sets.remove(&meta);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cheops_replica::{Birth, Context, LocalId, MetaId, PlainRules, Recognise, Set, Site, Token, Tuning};
    use cheops_types::{Consistency, ServiceName, SiteName};

    use super::*;

    fn set(meta: &str) -> Set {
        let mut site = Site::new(SiteName::new("site1").unwrap(), 1);
        let context = Context {
            now_ms: 1,
            tuning: &Tuning::default(),
            rules: &PlainRules,
        };
        let birth = Birth {
            service: ServiceName::new("A").unwrap(),
            kind: "/orders".into(),
            parents: Vec::new(),
            name: None,
            sites: BTreeSet::new(),
            span: None,
            generation: 0,
            consistency: Consistency::Eventual,
        };
        let (token, local) = (Token(1), LocalId::new("7"));
        let recognise = Recognise::Nothing;
        cheops_replica::adopt(
            &mut site,
            &MetaId::new(meta),
            birth,
            local,
            token,
            recognise,
            &context,
        )
        .0
    }

    #[test]
    fn keeps_what_was_used_last() {
        let mut cache = Cache::new(2);
        for meta in ["a", "b", "c"] {
            cache.put(MetaId::new(meta), LoadedSet::new(1, 1, set(meta), true));
        }
        let a = cache.take(&MetaId::new("a")).unwrap();
        cache.put(MetaId::new("a"), a);
        cache.trim();
        assert!(cache.get(&MetaId::new("b")).is_none());
        assert!(cache.get(&MetaId::new("a")).is_some());
        assert!(cache.get(&MetaId::new("c")).is_some());
    }
}
