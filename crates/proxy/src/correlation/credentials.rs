//! Which workflows began with which credential.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use cheops_scope::Loc;

use super::{Workflow, lock};

/// Fingerprints of credentials, and the workflows that began with them. Only workflows whose scope says
/// where the service is are in it, so it is empty for most applications and most of the time.
#[derive(Default)]
pub(super) struct Credentials {
    /// By service and fingerprint.
    begun: Mutex<HashMap<String, HashMap<u128, Vec<Begun>>>>,
    /// How many fingerprints there are.
    len: AtomicUsize,
}

/// The workflows with one credential that place the service alike, in the order in which they began.
struct Begun {
    loc: Loc,
    workflows: Vec<Weak<Workflow>>,
}

impl Begun {
    fn last(&self) -> Option<Arc<Workflow>> {
        self.workflows.iter().rev().find_map(Weak::upgrade)
    }
}

impl Credentials {
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    pub(super) fn note(&self, service: &str, fingerprint: u128, workflow: &Arc<Workflow>) {
        let Some(loc) = workflow.carried.scope.loc_of(service) else {
            return;
        };
        let mut begun = lock(&self.begun);
        let places = begun.entry(service.to_owned()).or_default();
        let places = places.entry(fingerprint).or_insert_with(|| {
            self.len.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        });
        let workflow = Arc::downgrade(workflow);
        match places.iter_mut().find(|place| place.loc == *loc) {
            Some(place) => place.workflows.push(workflow),
            None => places.push(Begun {
                loc: loc.clone(),
                workflows: vec![workflow],
            }),
        }
    }

    pub(super) fn find(&self, service: &str, fingerprint: u128) -> Vec<Arc<Workflow>> {
        let begun = lock(&self.begun);
        let places = begun.get(service).and_then(|services| services.get(&fingerprint));
        places.into_iter().flatten().filter_map(Begun::last).collect()
    }

    /// Drops what belongs to forgotten workflows.
    pub(super) fn tidy(&self) {
        if self.is_empty() {
            return;
        }
        let mut begun = lock(&self.begun);
        let mut len = 0;
        begun.retain(|_, services| {
            services.retain(|_, places| {
                for place in &mut *places {
                    place.workflows.retain(|workflow| workflow.strong_count() > 0);
                }
                places.retain(|place| !place.workflows.is_empty());
                !places.is_empty()
            });
            len += services.len();
            !services.is_empty()
        });
        self.len.store(len, Ordering::Relaxed);
    }
}
