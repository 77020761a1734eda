//! What clients and fate do during the fault phase.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Birth, Draft, Footprint, MetaId, Recognise, Request, Secret, Verb};
use cheops_types::{ServiceName, SiteName};

use crate::{Actions, Change, Happening, Resource, World};

const FIELDS: [&str; 3] = ["a", "b", "c"];

impl World {
    /// Puts a whole fault phase into the queue.
    pub fn prepare(&mut self) {
        let begin_ms = self.now_ms;
        let end_ms = begin_ms + self.plan.fault_ms;
        for n in 0..self.plan.sets {
            let meta = MetaId::new(&format!("m{n}"));
            let created_ms = begin_ms + self.rng.between(1, 200);
            let sites = self.prepare_create(&meta, created_ms);
            for _ in 0..self.plan.writes {
                let when_ms = self.rng.between(created_ms, end_ms + 1);
                let node = *self.rng.pick(&sites);
                let draft = Box::new(self.write());
                let set = meta.clone();
                self.at(when_ms, Happening::Write { node, set, draft });
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
        if self.plan.losses {
            let node = self.rng.index(self.plan.sites);
            let when_ms = self.rng.between(begin_ms, end_ms);
            self.at(when_ms, Happening::LoseStore(node));
        }
    }

    fn prepare_create(&mut self, meta: &MetaId, when_ms: u64) -> Vec<usize> {
        let mut nodes: Vec<_> = (0..self.plan.sites).collect();
        if nodes.len() > 2 && (self.plan.membership || self.rng.chance(400)) {
            let without = self.rng.index(nodes.len());
            nodes.remove(without);
        }
        let sites: BTreeSet<SiteName> = nodes.iter().map(|at| self.nodes[*at].name.clone()).collect();
        self.oracle.involved.insert(meta.clone(), sites.clone());
        let birth = Birth {
            service: ServiceName::new("service").expect("a name"),
            kind: "thing".to_owned(),
            name: None,
            sites,
        };
        let whole = self.resource();
        let recognise = self.plan.recognise;
        let draft = self.draft(
            Verb::Create(Box::new(birth)),
            Footprint::Whole,
            recognise,
            &Change::Whole(whole),
        );
        let node = *self.rng.pick(&nodes);
        let (set, draft) = (meta.clone(), Box::new(draft));
        self.at(when_ms, Happening::Create { node, set, draft });
        nodes
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
        }
    }

    /// Some write.
    fn write(&mut self) -> Draft {
        if self.rng.chance(self.plan.deletes) {
            return self.draft(
                Verb::Delete,
                Footprint::Whole,
                Recognise::Nothing,
                &Change::Add(0),
            );
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
        if self.plan.merges && self.rng.chance(600) {
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
            },
            credential: Some(Secret(b"secret".to_vec())),
        }
    }
}
