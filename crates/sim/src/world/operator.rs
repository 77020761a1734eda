//! The heal phase: everything works again, and an operator does what only operators can.

use cheops_replica::{Event, MetaId, OpId, Phase, Secret, Set, Standing, State, Verb, Why};

use super::World;
use crate::describe;

/// How long healing may take, in rounds of an operator's visit.
const ROUNDS: usize = 30;
const ROUND_MS: u64 = 4_000;

impl World {
    pub fn heal(&mut self) {
        self.healed = true;
        for row in &mut self.cut {
            row.fill(false);
        }
        for node in 0..self.nodes.len() {
            self.start(node);
        }
        self.introduce();
        let mut calm = 0;
        for _ in 0..ROUNDS {
            // Whoever looks into an application waits until it is done with what it was asked.
            self.run_until(self.now_ms + ROUND_MS);
            self.visit();
            if !self.oracle.violations.is_empty() {
                return;
            }
            // Replicas are compared once all is calm, and once more after what that repaired.
            calm = if self.is_calm() { calm + 1 } else { 0 };
            if calm == 3 {
                return;
            }
            if calm > 0 {
                self.check_all();
            }
        }
        self.oracle.violation(format!(
            "not calm {ROUNDS} rounds after healing: {}",
            self.unrest()
        ));
    }

    /// Sites that connect tell each other which life of their store they are in.
    fn introduce(&mut self) {
        for lost in 0..self.nodes.len() {
            let (site, incarnation) = (
                self.nodes[lost].name.clone(),
                self.nodes[lost].disk.site.incarnation(),
            );
            for at in 0..self.nodes.len() {
                for set in self.nodes[at].disk.sets.keys().cloned().collect::<Vec<_>>() {
                    let (site, incarnation) = (site.clone(), incarnation);
                    if incarnation > 1 && lost != at {
                        self.drive(at, &set, Event::PeerReset { site, incarnation });
                    }
                }
            }
        }
    }

    pub fn sets(&self) -> Vec<MetaId> {
        self.oracle.involved.keys().cloned().collect()
    }

    fn is_calm(&self) -> bool {
        self.unrest().is_empty()
    }

    /// What is still under way.
    fn unrest(&self) -> String {
        let mut unrest = String::new();
        for node in &self.nodes {
            for set in node.disk.sets.values() {
                let calm = match set.standing() {
                    Standing::Member => set.is_settled(&node.name) && set.members().contains_key(&node.name),
                    Standing::Left => true,
                    Standing::Expelled => false,
                };
                if !calm {
                    unrest.push('\n');
                    unrest.push_str(&describe(&node.name, set));
                }
            }
        }
        unrest
    }

    fn visit(&mut self) {
        for at in 0..self.nodes.len() {
            let sets: Vec<_> = self.nodes[at].disk.sets.keys().cloned().collect();
            for meta in sets {
                self.settle(at, &meta);
                self.bring_credentials(at, &meta);
                let node = &self.nodes[at];
                let set = node.disk.sets.get(&meta);
                if set.is_some_and(|set| !set.is_settled(&node.name)) {
                    self.drive(at, &meta, Event::Retry);
                }
            }
        }
        for meta in self.sets() {
            self.reunite(&meta);
        }
    }

    /// The operator looks into the application and tells the truth.
    fn settle(&mut self, at: usize, meta: &MetaId) {
        let node = &self.nodes[at];
        let Some(token) = node.disk.sets.get(meta).and_then(Set::token_in_doubt) else {
            return;
        };
        let executed = node.app.seen.contains(&token);
        let local = node.app.made.get(&token).cloned();
        self.oracle.open.remove(&(at, token));
        self.drive(at, meta, Event::Settle { executed, local });
    }

    fn bring_credentials(&mut self, at: usize, meta: &MetaId) {
        let Some(set) = self.nodes[at].disk.sets.get(meta) else {
            return;
        };
        let waiting: Vec<OpId> = set
            .log()
            .filter(|entry| entry.state == State::Waiting(Why::NeedsCredentials))
            .map(|entry| entry.op.id.clone())
            .collect();
        for operation in waiting {
            let credential = Secret(b"secret again".to_vec());
            self.drive(
                at,
                meta,
                Event::Credential {
                    operation,
                    credential,
                },
            );
        }
    }

    /// The node whose word counts where sides have removed each other.
    pub fn main_node(&self, meta: &MetaId) -> Option<usize> {
        let is_member = |at: &usize| {
            let node = &self.nodes[*at];
            node.disk.sets.get(meta).is_some_and(|set| {
                set.standing() == Standing::Member && set.members().contains_key(&node.name)
            })
        };
        let weight = |at: &usize| {
            let set = self.nodes[*at].disk.sets.get(meta);
            let size = set.map(|set| (set.epoch(), set.members().len()));
            (size, std::cmp::Reverse(*at))
        };
        (0..self.nodes.len()).filter(is_member).max_by_key(weight)
    }

    /// Brings removed sites back, one side giving in.
    fn reunite(&mut self, meta: &MetaId) {
        let Some(main) = self.main_node(meta) else {
            return;
        };
        let main_set = &self.nodes[main].disk.sets[meta];
        if main_set.job().is_some_and(|job| job.phase == Phase::Stuck) {
            return;
        }
        for at in 0..self.nodes.len() {
            let name = self.nodes[at].name.clone();
            let Some(set) = self.nodes[at].disk.sets.get(meta) else {
                continue;
            };
            let standing = set.standing();
            let main_name = self.nodes[main].name.clone();
            let member = self.nodes[main].disk.sets[meta].members().get(&name);
            if standing == Standing::Left && member.is_some_and(|member| member.leaving.is_none()) {
                // Its leave was lost with a side that was given up.
                let draft = self.membership(Verb::Expel { site: name });
                self.drive(main, meta, Event::Request(draft));
                continue;
            }
            let was_let_in = member.map(|member| member.stay) > set.members().get(&name).map(|me| me.stay);
            if standing == Standing::Member && was_let_in && set.has_expelled(&main_name) {
                self.oracle.yielded.insert(meta.clone());
                self.drive(at, meta, Event::Yield);
            }
            if standing == Standing::Left || !self.nodes[main].disk.sets[meta].has_expelled(&name) {
                continue;
            }
            if standing == Standing::Member {
                self.oracle.yielded.insert(meta.clone());
                self.drive(at, meta, Event::Yield);
            }
            let draft = self.membership(Verb::Join { site: name, stay: 0 });
            self.drive(main, meta, Event::Request(draft));
        }
    }

    fn check_all(&mut self) {
        for meta in self.sets() {
            for at in 0..self.nodes.len() {
                let set = self.nodes[at].disk.sets.get(&meta);
                if set.is_some_and(|set| set.standing() == Standing::Member) {
                    self.drive(at, &meta, Event::Check);
                }
            }
        }
    }
}
