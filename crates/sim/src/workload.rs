//! What clients and fate do during the fault phase.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Birth, Conditions, Draft, Footprint, MetaId, Need, Recognise, Request, Secret, Verb};
use cheops_types::{ServiceName, SiteName, Span, SpanForm, Unreserved};

use crate::{Actions, Change, Errand, Happening, Meddling, Resource, World};

const FIELDS: [&str; 3] = ["a", "b", "c"];
/// The field whose writes set the count that is divided, where one is.
const COUNTED: &str = "a";

impl World {
    /// Puts a whole fault phase into the queue.
    pub fn prepare(&mut self) {
        let begin_ms = self.now_ms;
        let end_ms = begin_ms + self.plan.fault_ms;
        for n in 0..self.plan.sets {
            let meta = MetaId::new(&format!("m{n}"));
            let created_ms = begin_ms + self.rng.between(1, 200);
            let sites = self.prepare_beginning(&meta, created_ms);
            for _ in 0..self.plan.writes {
                let when_ms = self.rng.between(created_ms, end_ms + 1);
                let node = *self.rng.pick(&sites);
                let draft = self.write(&meta);
                let draft = Box::new(self.twist(draft));
                let set = meta.clone();
                self.at(when_ms, Happening::Write { node, set, draft });
            }
            for _ in 0..self.plan.errands {
                let when_ms = self.rng.between(created_ms, end_ms + 1);
                let node = *self.rng.pick(&sites);
                let (set, errand) = (meta.clone(), *self.rng.pick(&Errand::ALL));
                self.at(when_ms, Happening::Errand { node, set, errand });
            }
            if self.plan.membership {
                for _ in 0..self.rng.between(1, 4) {
                    let when_ms = self.rng.between(created_ms, end_ms + 1);
                    self.prepare_membership(&meta, when_ms);
                }
            }
            if self.rng.chance(300) {
                let node = *self.rng.pick(&sites);
                let when_ms = self.rng.between(created_ms, end_ms + 1);
                let set = meta.clone();
                self.at(when_ms, Happening::Check { node, set });
            }
        }
        for _ in 0..self.plan.cuts {
            let (from, to) = (self.rng.index(self.plan.sites), self.rng.index(self.plan.sites));
            let cut_ms = self.rng.between(begin_ms, end_ms);
            let heal_ms = cut_ms + self.rng.between(1, 3000);
            let both = self.rng.chance(600);
            for (from, to) in [(from, to), (to, from)].into_iter().take(1 + usize::from(both)) {
                self.at(cut_ms, Happening::Cut { from, to, is: true });
                self.at(heal_ms, Happening::Cut { from, to, is: false });
            }
        }
        if self.plan.crash > 0 && self.rng.chance(500) {
            let node = self.rng.index(self.plan.sites);
            let when_ms = self.rng.between(begin_ms, end_ms);
            self.at(when_ms, Happening::Crash(node));
        }
        if self.plan.set_back {
            let node = self.rng.index(self.plan.sites);
            let copied_ms = self.rng.between(begin_ms, end_ms);
            let latest_ms = if self.plan.twists.lying_disk {
                (copied_ms + 60).min(end_ms)
            } else {
                end_ms
            };
            let when_ms = self.rng.between(copied_ms, latest_ms + 1);
            self.at(copied_ms, Happening::Copy(node));
            self.at(when_ms, Happening::PutBack(node));
        }
        for _ in 0..self.plan.clock_jumps {
            let node = self.rng.index(self.plan.sites);
            let when_ms = self.rng.between(begin_ms, end_ms);
            let far = *self.rng.pick(&[-900_000, -2_000, 2_000, 600_000, 31_536_000_000]);
            let right_ms = self.rng.between(when_ms, end_ms + 1);
            let skew_ms = self.nodes[node].skew_ms;
            self.at(when_ms, Happening::SetClock { node, skew_ms: far });
            self.at(right_ms, Happening::SetClock { node, skew_ms });
        }
        self.prepare_twists(begin_ms, end_ms);
        if self.plan.losses {
            let node = self.rng.index(self.plan.sites);
            let when_ms = self.rng.between(begin_ms, end_ms);
            self.at(when_ms, Happening::LoseStore(node));
        }
    }

    /// The set begins with a create, or with a resource that is there already.
    fn prepare_beginning(&mut self, meta: &MetaId, when_ms: u64) -> Vec<usize> {
        let mut nodes: Vec<_> = (0..self.plan.sites).collect();
        if nodes.len() > 2 && (self.plan.membership || self.rng.chance(400)) {
            let without = self.rng.index(nodes.len());
            nodes.remove(without);
        }
        let sites: BTreeSet<SiteName> = nodes.iter().map(|at| self.nodes[*at].name.clone()).collect();
        self.oracle.involved.insert(meta.clone(), sites.clone());
        self.oracle.first.insert(meta.clone(), sites.clone());
        let whole = self.resource();
        let node = *self.rng.pick(&nodes);
        let set = meta.clone();
        if self.rng.chance(self.plan.adopts) {
            self.oracle.adopted.insert(meta.clone(), whole.clone());
            self.at(when_ms, Happening::Adopt { node, set, whole });
            for other in nodes.iter().filter(|other| **other != node) {
                let site = self.nodes[*other].name.clone();
                let draft = Box::new(self.membership(Verb::Join { site, stay: 0 }));
                let join_ms = when_ms + self.rng.between(1, self.plan.fault_ms);
                let set = meta.clone();
                self.at(join_ms, Happening::Write { node, set, draft });
            }
            return nodes;
        }
        let recognise = self.plan.recognise;
        let mut draft = self.draft(
            Verb::Create(Box::new(self.birth(meta, sites))),
            Footprint::Whole,
            recognise,
            &Change::Whole(whole),
        );
        if self.plan.family && *meta != parent() {
            draft.needs.push(Need {
                set: parent(),
                gone: false,
            });
        }
        let draft = Box::new(draft);
        self.at(when_ms, Happening::Create { node, set, draft });
        nodes
    }

    fn birth(&self, meta: &MetaId, sites: BTreeSet<SiteName>) -> Birth {
        Birth {
            name: self.plan.twists.named.then(|| meta.to_string()),
            ..birth(sites)
        }
    }

    fn prepare_twists(&mut self, begin_ms: u64, end_ms: u64) {
        for meta in self.sets() {
            // The name, and the list of its sites, are what makes the set.
            let sites = self.oracle.first[&meta].clone();
            let nodes: Vec<_> = sites.iter().filter_map(|site| self.node_of(site)).collect();
            let creates = if self.plan.twists.named {
                self.rng.between(1, 6)
            } else {
                0
            };
            for _ in 0..creates {
                let whole = self.resource();
                let verb = Verb::Create(Box::new(self.birth(&meta, sites.clone())));
                let recognise = self.plan.recognise;
                let draft = self.draft(verb, Footprint::Whole, recognise, &Change::Whole(whole));
                // Many at about the same time, others when the first is long gone.
                let soon_ms = if self.rng.chance(400) {
                    begin_ms + 400
                } else {
                    end_ms
                };
                let when_ms = self.rng.between(begin_ms, soon_ms + 1);
                let (node, set, draft) = (*self.rng.pick(&nodes), meta.clone(), Box::new(draft));
                self.at(when_ms, Happening::Create { node, set, draft });
            }
            for _ in 0..self.plan.twists.meddles {
                let meddling = if self.rng.chance(500) {
                    Meddling::Delete
                } else {
                    Meddling::Change(self.rng.between(1000, 2000))
                };
                let when_ms = self.rng.between(begin_ms, end_ms);
                let (node, set) = (*self.rng.pick(&nodes), meta.clone());
                self.at(when_ms, Happening::Meddle { node, set, meddling });
            }
            for _ in 0..self.plan.twists.meddlesome_operators {
                let when_ms = self.rng.between(begin_ms, end_ms);
                let node = *self.rng.pick(&nodes);
                let (set, errand) = (meta.clone(), *self.rng.pick(&Errand::HASTY));
                self.at(when_ms, Happening::Errand { node, set, errand });
            }
        }
    }

    /// Makes a write one that was promised, that demands something, or that is recorded in other words.
    fn twist(&mut self, mut draft: Draft) -> Draft {
        let twists = self.plan.twists.clone();
        draft.promised = self.is_twisted(twists.promised);
        let is_update = matches!(draft.verb, Verb::Replace | Verb::Merge);
        if is_update && self.is_twisted(twists.conditional) {
            draft.conditions = Some(Conditions {
                headers: vec![("if-a".to_owned(), b"even".to_vec())],
                body: None,
            });
            self.oracle.conditional.insert(draft.token);
        } else if matches!(draft.verb, Verb::Merge) && self.is_twisted(twists.recast) {
            draft.verb = Verb::Action {
                commutes: false,
                idempotent: false,
            };
            draft.touches = Footprint::Whole;
            self.oracle.recasts.insert(draft.token);
        }
        draft
    }

    fn prepare_membership(&mut self, meta: &MetaId, when_ms: u64) {
        let site = self.nodes[self.rng.index(self.plan.sites)].name.clone();
        let verb = match self.rng.index(4) {
            0 | 1 => Verb::Join {
                site: site.clone(),
                stay: 0,
            },
            2 => Verb::Leave { site: site.clone() },
            _ => Verb::Expel { site: site.clone() },
        };
        if let Verb::Expel { .. } = verb {
            self.oracle.forced.insert(meta.clone());
        } else {
            let involved = self.oracle.involved.entry(meta.clone()).or_default();
            involved.insert(site);
        }
        let node = self.rng.index(self.plan.sites);
        let draft = Box::new(self.membership(verb));
        let set = meta.clone();
        self.at(when_ms, Happening::Write { node, set, draft });
    }

    pub fn membership(&mut self, verb: Verb) -> Draft {
        let nothing = Footprint::Parts(BTreeSet::new());
        let mut draft = self.draft(verb, nothing, Recognise::Nothing, &Change::Add(0));
        draft.credential = None;
        draft
    }

    fn resource(&mut self) -> Resource {
        let fields = FIELDS
            .iter()
            .map(|name| ((*name).to_owned(), self.rng.roll() % 1000));
        Resource {
            fields: fields.collect(),
            count: self.rng.roll() % 10,
            part: 0,
        }
    }

    /// Some write.
    fn write(&mut self, meta: &MetaId) -> Draft {
        if self.rng.chance(self.plan.deletes) {
            return self.delete(meta);
        }
        let action = match self.plan.actions {
            Actions::None => 0,
            Actions::Commuting => self.rng.index(2),
            Actions::Any => self.rng.index(3),
        };
        if action > 0 && self.rng.chance(700) {
            let n = self.rng.roll() % 100;
            let commutes = action == 1;
            let change = if commutes {
                Change::Add(n)
            } else {
                Change::Double(n)
            };
            let recognise = if self.plan.recognise == Recognise::Key {
                Recognise::Key
            } else {
                Recognise::Nothing
            };
            let verb = Verb::Action {
                commutes,
                idempotent: false,
            };
            return self.draft(verb, Footprint::parts(["/count"]), recognise, &change);
        }
        if self.rng.chance(self.plan.merges) {
            let mut fields = BTreeMap::new();
            for _ in 0..self.rng.between(1, 3) {
                let name = *self.rng.pick(&FIELDS);
                fields.insert(name.to_owned(), self.rng.roll() % 1000);
            }
            let paths: Vec<_> = fields.keys().map(|name| format!("/fields/{name}")).collect();
            let touches = Footprint::parts(paths.iter().map(String::as_str));
            return self.draft(Verb::Merge, touches, Recognise::Nothing, &Change::Fields(fields));
        }
        let whole = self.resource();
        self.draft(
            Verb::Replace,
            Footprint::Whole,
            Recognise::Nothing,
            &Change::Whole(whole),
        )
    }

    /// A delete, which waits for the children of what is deleted.
    pub fn delete(&mut self, meta: &MetaId) -> Draft {
        let mut draft = self.draft(
            Verb::Delete,
            Footprint::Whole,
            Recognise::Nothing,
            &Change::Add(0),
        );
        if self.plan.family && *meta == parent() {
            let child = |n| Need {
                set: MetaId::new(&format!("m{n}")),
                gone: true,
            };
            draft.needs = (1..self.plan.sets).map(child).collect();
        }
        draft
    }

    fn draft(&mut self, verb: Verb, touches: Footprint, recognise: Recognise, change: &Change) -> Draft {
        Draft {
            token: self.token(),
            verb,
            touches,
            recognise,
            needs: Vec::new(),
            request: Request {
                method: "POST".to_owned(),
                path: "/things".to_owned(),
                headers: Vec::new(),
                body: change.body(),
                scope: String::new(),
                caller: None,
                shares: Vec::new(),
            },
            conditions: None,
            credential: Some(Secret(b"secret".to_vec())),
            promised: false,
            remakes: false,
        }
    }
}

impl World {
    /// What a site that accepts a write makes of a count in it: each member's part. Of the dice nothing is used, so that a
    /// schedule is the same with and without.
    pub(crate) fn divide(&self, at: usize, meta: &MetaId, draft: &mut Draft) {
        let members: Vec<SiteName> = match (&draft.verb, self.nodes[at].set(meta)) {
            (Verb::Create(birth), _) => birth.sites.iter().cloned().collect(),
            (Verb::Replace | Verb::Merge, Some(set)) => set.members().keys().cloned().collect(),
            _ => return,
        };
        if !self.plan.divided {
            return;
        }
        let total = match Change::of(&draft.request.body) {
            Change::Whole(whole) => whole.fields.values().sum::<u64>() % 50,
            Change::Fields(fields) if fields.contains_key(COUNTED) => fields[COUNTED] % 50,
            _ => return,
        };
        let span = Span {
            form: SpanForm::Divided,
            order: members.clone(),
            unreserved: Unreserved::Refuse,
        };
        draft.request.shares = vec![span.divide("/part".to_owned(), total, &members, &[])];
        if let Footprint::Parts(parts) = &mut draft.touches {
            parts.insert("/part".to_owned());
        }
    }
}

/// The set whose resource the others refer to, where they are a family.
fn parent() -> MetaId {
    MetaId::new("m0")
}

pub(crate) fn birth(sites: impl IntoIterator<Item = SiteName>) -> Birth {
    Birth {
        service: ServiceName::new("service").expect("a name"),
        kind: "thing".to_owned(),
        parents: Vec::new(),
        name: None,
        sites: sites.into_iter().collect(),
        span: None,
        generation: 0,
        consistency: cheops_types::Consistency::Eventual,
    }
}
