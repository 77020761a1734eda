//! What an agent does with the engine: step, commit, release — and crash at every moment between.

use cheops_replica::{Context, Draft, Effect, Event, MetaId, Need, Set, Site, Standing, Verb, create, step};

use super::{Happening, World};
use crate::{Mutant, Node, rules::DiskRules};

impl World {
    /// Lets something happen to a set at a node. True when it was committed.
    pub(crate) fn drive(&mut self, at: usize, meta: &MetaId, event: Event) -> bool {
        self.tell_event(at, meta, &event);
        self.transact(at, meta, |site, slot, context| match slot {
            Some(set) => step(site, set, event, context),
            None => Vec::new(),
        })
    }

    pub(super) fn create(&mut self, at: usize, meta: &MetaId, draft: Draft) {
        if let Some(set) = self.nodes[at].set(meta).filter(|_| self.nodes[at].up) {
            // A name that has a set: it is made again, or the application says that it is taken.
            if is_usable(set, &draft) {
                self.drive(at, meta, Event::Request(draft));
            }
            return;
        }
        if self.nodes[at].up {
            self.transact(at, meta, |site, slot, context| {
                let (set, effects) = create(site, meta, draft, context);
                *slot = Some(set);
                effects
            });
        }
    }

    /// One transaction: a step, its commit and the release of its effects, unless the agent crashes
    /// before or between. Whether it crashes before is decided first, so that only then the disk has to
    /// be brought back.
    pub(crate) fn transact(
        &mut self,
        at: usize,
        meta: &MetaId,
        work: impl FnOnce(&mut Site, &mut Option<Set>, &Context<'_>) -> Vec<Effect>,
    ) -> bool {
        self.steps += 1;
        let dies = self.crashes();
        let node = &mut self.nodes[at];
        let mut slot = node.disk.sets.remove(meta);
        let before = slot.as_ref().map(|set| set.pruned().clone());
        let backup = dies.then(|| (node.disk.site.clone(), slot.clone()));
        let context = Context {
            now_ms: node.wall_ms(self.now_ms),
            tuning: &self.plan.tuning,
            rules: &DiskRules {
                sets: &node.disk.sets,
                is_blind: self.mutant == Some(Mutant::IgnoreNeeds),
            },
        };
        let mut effects = work(&mut node.disk.site, &mut slot, &context);
        node.disk.site.grow();
        for effect in &mut effects {
            if let Effect::Send { message, .. } = effect {
                message.stamp(&node.disk.site);
            }
        }
        if let Some((site, set)) = backup {
            node.disk.site = site;
            node.disk.sets.extend(set.map(|set| (meta.clone(), set)));
            if self.mutant == Some(Mutant::ReleaseFirst) {
                self.release_all(at, meta, effects);
            }
            self.crash(at);
            return false;
        }
        if !effects.contains(&Effect::Forget) {
            node.disk.sets.extend(slot.map(|set| (meta.clone(), set)));
        }
        self.tell_commit(at, meta);
        (self.watch.promises)(self, at, meta, &effects);
        self.keep_payloads(at, meta);
        (self.watch.commits)(self, at, meta, before.as_ref());
        self.schedule_wake(at, meta);
        if self.crashes() {
            self.crash(at);
            return true;
        }
        self.release_all(at, meta, effects);
        true
    }

    fn release_all(&mut self, at: usize, meta: &MetaId, effects: Vec<Effect>) {
        let life = self.nodes[at].life;
        for effect in effects {
            if self.nodes[at].life != life || !self.nodes[at].up {
                return;
            }
            self.release(at, meta, effect);
            if self.crashes() {
                self.crash(at);
            }
        }
    }

    fn release(&mut self, at: usize, meta: &MetaId, effect: Effect) {
        if self.trace.is_some() {
            let name = self.nodes[at].name.clone();
            self.note(&format!("   {name} {meta}: {effect:?}"));
        }
        self.tell_effect(at, meta, &effect);
        match effect {
            Effect::Send { to, message } => self.send(at, &to, message),
            Effect::Execute(execution) => {
                (self.watch.asks)(self, at, meta, &execution);
                self.execute(at, meta, execution);
            }
            Effect::Look { ticket, token } => {
                let happening = Happening::Look {
                    node: at,
                    life: self.nodes[at].life,
                    set: meta.clone(),
                    ticket,
                    token,
                };
                let delay_ms = self.rng.between(1, 20);
                self.at(self.now_ms + delay_ms, happening);
            }
            Effect::Read { ticket, local } => self.read(at, meta, ticket, &local),
            Effect::Answer { token, answer } => self.oracle.hear(meta, token, &answer),
            Effect::Moved(moved) => self.wake_those_that_need(at, &moved),
            // The sets of these schedules are eventual ones.
            Effect::Progress { .. } | Effect::Forget | Effect::Propose { .. } => {}
        }
    }

    fn wake_those_that_need(&mut self, at: usize, moved: &MetaId) {
        let is_about = |need: &Need| need.set == *moved;
        let waits = |set: &Set| {
            set.queue().any(|draft| draft.needs.iter().any(is_about))
                || set.log().any(|entry| entry.op.needs.iter().any(is_about))
        };
        let sets = self.nodes[at].disk.sets.iter();
        let waiting: Vec<_> = sets
            .filter(|(_, set)| waits(set))
            .map(|(meta, _)| meta.clone())
            .collect();
        for set in waiting {
            self.at(self.now_ms, Happening::Wake { node: at, set });
        }
    }

    fn crashes(&mut self) -> bool {
        !self.healed && self.rng.chance(self.plan.crash) && self.rng.chance(300)
    }

    pub(super) fn schedule_wake(&mut self, at: usize, meta: &MetaId) {
        let node = &self.nodes[at];
        let wake = node
            .disk
            .sets
            .get(meta)
            .and_then(|set| set.wake_at_ms(&node.name, self.plan.tuning.ahead_max_ms));
        let Some(wall_ms) = wake else {
            return;
        };
        let when_ms = node.virtual_ms(wall_ms).max(self.now_ms + 1);
        if node.wakes.get(meta).is_some_and(|known| *known <= when_ms) {
            return;
        }
        self.nodes[at].wakes.insert(meta.clone(), when_ms);
        self.at(
            when_ms,
            Happening::Wake {
                node: at,
                set: meta.clone(),
            },
        );
    }
}

/// Whether a create can be an operation of a set that is here already: the agent's own rule.
fn is_usable(set: &Set, draft: &Draft) -> bool {
    let Verb::Create(birth) = &draft.verb else {
        return false;
    };
    let is_first_list =
        set.members().keys().eq(&birth.sites) && birth.sites.iter().all(|site| !set.has_moved(site));
    set.standing() == Standing::Member && (!set.is_deleted() || is_first_list)
}

pub(super) fn reload(node: &mut Node) {
    let site = serde_json::to_vec(&node.disk.site).expect("the site can be written");
    node.disk.site = serde_json::from_slice(&site).expect("the site can be read");
    for set in node.disk.sets.values_mut() {
        let bytes = serde_json::to_vec(&*set).expect("a set can be written");
        let read: Set = serde_json::from_slice(&bytes).expect("a set can be read");
        assert_eq!(read, *set, "a set is read as it was written");
        *set = read;
    }
}
