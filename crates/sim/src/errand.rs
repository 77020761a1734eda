//! What operators do while things go wrong.

use cheops_replica::{Event, LocalId, MetaId, OpId, Secret, Set, State, Verb, Why, adopt};

use crate::{Errand, Happening, Resource, World, workload::birth};

impl World {
    /// Does the errand, if there is anything to do it about.
    pub fn run_errand(&mut self, at: usize, meta: &MetaId, errand: Errand) {
        let Some(set) = self.nodes[at].set(meta).filter(|_| self.nodes[at].up) else {
            return;
        };
        let loser = set.conflicts().next().map(|conflict| conflict.loser.id.clone());
        match (errand, loser) {
            (Errand::Dismiss, Some(loser)) => {
                let draft = self.membership(Verb::Dismiss { loser: loser.clone() });
                self.drive(at, meta, Event::Request(draft));
                // A set with one site drops the operation in the same step: no log ever shows it.
                let set = self.nodes[at].set(meta);
                let is_gone =
                    set.is_some_and(|set| set.conflicts().all(|conflict| conflict.loser.id != loser));
                if is_gone {
                    self.oracle.dismissed.insert((meta.clone(), loser));
                }
            }
            (Errand::Reapply, Some(loser)) => {
                let token = self.token();
                let credential = Some(Secret(b"operator".to_vec()));
                let event = Event::Reapply {
                    loser,
                    token,
                    credential,
                };
                self.drive(at, meta, event);
            }
            (Errand::Abandon, _) => {
                if let Some(operation) = stuck(set) {
                    self.drive(at, meta, Event::Abandon { operation });
                }
            }
            (Errand::Retry, _) => drop(self.drive(at, meta, Event::Retry)),
            (Errand::Settle, _) => self.settle_early(at, meta),
            (Errand::Dismiss | Errand::Reapply, None) => {}
        }
    }

    /// Whoever settles something waits until the application is done with it.
    fn settle_early(&mut self, at: usize, meta: &MetaId) {
        let Some(token) = self.nodes[at].set(meta).and_then(Set::token_in_doubt) else {
            return;
        };
        let is_pending = self.happenings.values().any(|happening| match happening {
            Happening::Effect { node, execution, .. } => *node == at && execution.token == token,
            _ => false,
        });
        if !is_pending {
            self.settle(at, meta);
        }
    }

    /// A set begins with a resource that is there already. Again, until it is on the disk.
    pub fn adopt(&mut self, at: usize, meta: &MetaId, whole: Resource) {
        let local = LocalId::new(&format!("found-{meta}"));
        let app = &mut self.nodes[at].app;
        app.resources
            .entry(local.clone())
            .or_insert_with(|| whole.clone());
        if self.nodes[at].up {
            let (token, recognise) = (self.token(), self.plan.recognise);
            let birth = birth([self.nodes[at].name.clone()]);
            self.transact(at, meta, |site, slot, context| {
                let (set, effects) = adopt(site, meta, birth, local, token, recognise, context);
                *slot = Some(set);
                effects
            });
        }
        if self.nodes[at].set(meta).is_none() {
            let set = meta.clone();
            self.at(self.now_ms + 100, Happening::Adopt { node: at, set, whole });
        }
    }
}

/// An operation that an operator might lose patience with.
fn stuck(set: &Set) -> Option<OpId> {
    let is_stuck = |state| {
        matches!(
            state,
            State::Waiting(Why::Blocked { .. } | Why::NeedsCredentials | Why::Retry { .. })
        )
    };
    set.log()
        .find(|entry| is_stuck(entry.state))
        .map(|entry| entry.op.id.clone())
}
