//! The heal phase: everything works again, and an operator does what only operators can.

use cheops_replica::{Event, LocalId, MetaId, OpId, Phase, Secret, Set, Standing, State, Verb, Why};

use super::{Happening, World};
use crate::{Node, describe, rules::must_wait};

/// How long healing may take, in rounds of an operator's visit.
const ROUNDS: usize = 30;
const ROUND_MS: u64 = 4_000;
/// Rounds in which what is under way may end by itself.
const PATIENCE: usize = 5;

/// What brings a site that is apart back to the main side.
enum Remedy {
    /// It was let in by a side that was given up since, or is out without having been removed.
    Admit,
    /// It was removed, and is let in again.
    Readmit,
    /// It is let in again, and does not know that it was out.
    Yield,
    /// It has to come in anew: first it goes.
    Expel,
}

impl World {
    pub fn heal(&mut self) {
        self.healed = true;
        for row in &mut self.cut {
            row.fill(false);
        }
        for node in 0..self.nodes.len() {
            self.set_clock(node, self.nodes[node].usual_skew_ms);
            self.start(node);
        }
        let mut calm = 0;
        for round in 0..ROUNDS {
            self.introduce();
            self.keep_in_touch(round);
            // Whoever looks into an application waits until it is done with what it was asked.
            self.run_until(self.now_ms + ROUND_MS);
            self.visit(round);
            if !self.oracle.violations.is_empty() {
                return;
            }
            // What heals, heals by the engine alone: nobody asks for a comparison here.
            calm = if self.is_calm() { calm + 1 } else { 0 };
            if calm >= 3 && !self.has_news_under_way() {
                return;
            }
        }
        // News that is sent for ever, to a site that will not know the set, changes nothing.
        if calm >= 3 {
            return;
        }
        self.oracle.violation(format!(
            "rest: not calm {ROUNDS} rounds after healing: {}",
            self.unrest()
        ));
    }

    /// What agents do from time to time: they tell each other how old their stores are, and, where a store was set
    /// back without anyone knowing, compare.
    fn keep_in_touch(&mut self, round: usize) {
        for at in 0..self.nodes.len() {
            self.say_hello(at);
        }
        for meta in self.sets().into_iter().filter(|_| round == 2) {
            // An application may be at work on what a lost store had asked of it.
            if self.oracle.meddled.contains(&meta) || !self.oracle.lost.is_empty() {
                // The walk of each agent comes by.
                for at in 0..self.nodes.len() {
                    self.drive(at, &meta, Event::Check);
                }
            }
        }
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
                    let is_another = self.oracle.lost.contains(&site);
                    if is_another && lost != at {
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

    /// Whether a site has yet to hear of a set for the first time.
    fn has_news_under_way(&self) -> bool {
        self.happenings.values().any(|happening| match happening {
            Happening::Deliver { to, message } => self.nodes[*to].set(&message.set).is_none(),
            _ => false,
        })
    }

    /// The sets that are not at rest, as all their sites see them.
    pub(super) fn unrest(&self) -> String {
        let is_calm = |node: &Node, set: &Set| match set.standing() {
            Standing::Member => set.is_settled(&node.name) && set.members().contains_key(&node.name),
            Standing::Left => true,
            Standing::Expelled => false,
        };
        let mut unrest = String::new();
        for meta in self.sets() {
            let views = || {
                let of = |node| Node::set(node, &meta).map(|set| (node, set));
                self.nodes.iter().filter_map(of)
            };
            if !views().all(|(node, set)| is_calm(node, set)) {
                unrest.extend(views().map(|(node, set)| format!("\n{}", describe(&node.name, set))));
            }
        }
        unrest
    }

    fn visit(&mut self, round: usize) {
        for at in 0..self.nodes.len() {
            let sets: Vec<_> = self.nodes[at].disk.sets.keys().cloned().collect();
            for meta in sets {
                self.settle(at, &meta);
                self.bring_credentials(at, &meta);
                self.retry_spent(at, &meta);
                self.claim(at, &meta);
                self.delete_children(at, &meta);
                if round > PATIENCE {
                    self.retry_parents(at, &meta);
                }
            }
        }
        for meta in self.sets() {
            self.reunite(&meta, round > PATIENCE);
        }
    }

    /// A delete waits for the resource's children: so they go.
    fn delete_children(&mut self, at: usize, meta: &MetaId) {
        let Some(set) = self.nodes[at].set(meta) else {
            return;
        };
        let waiting = set.log().filter(|entry| matches!(entry.state, State::Waiting(_)));
        let needs = waiting.flat_map(|entry| &entry.op.needs);
        let needs = needs.chain(set.queue().flat_map(|draft| &draft.needs));
        let sets = &self.nodes[at].disk.sets;
        let in_the_way = needs.filter(|need| need.gone && must_wait(need, sets));
        for child in in_the_way.map(|need| need.set.clone()).collect::<Vec<_>>() {
            let draft = self.delete(&child);
            self.drive(at, &child, Event::Request(draft));
        }
    }

    /// A write waits for a resource that the application here has refused, and no other site has a replica to repair it
    /// from: only a retry ends that.
    fn retry_parents(&mut self, at: usize, meta: &MetaId) {
        let node = &self.nodes[at];
        let Some(set) = node.set(meta) else {
            return;
        };
        let is_beyond_repair = |parent: &Set| {
            let has_no_replica = parent.local().is_none() && parent.degraded().is_some();
            has_no_replica && parent.members().keys().all(|site| parent.remote(site).is_none())
        };
        let needs = set.queue().flat_map(|draft| &draft.needs);
        let needs = needs.filter(|need| !need.gone && must_wait(need, &node.disk.sets));
        let parents = needs.map(|need| need.set.clone());
        let parents = parents.filter(|parent| node.set(parent).is_some_and(is_beyond_repair));
        for parent in parents.collect::<Vec<_>>() {
            self.drive(at, &parent, Event::Retry);
        }
    }

    /// The operator looks into the application and tells the truth.
    pub(crate) fn settle(&mut self, at: usize, meta: &MetaId) {
        let node = &self.nodes[at];
        let Some(token) = node.disk.sets.get(meta).and_then(Set::token_in_doubt) else {
            return;
        };
        let executed = node.app.seen.contains(&token);
        let local = node.app.made.get(&token).cloned();
        self.oracle.open.remove(&(at, token));
        self.drive(at, meta, Event::Settle { executed, local });
    }

    /// The name is held by a resource that the agent does not know: what a lost disk had made. The operator says that
    /// it is the replica.
    fn claim(&mut self, at: usize, meta: &MetaId) {
        let node = &self.nodes[at];
        let is_taken = |set: &&Set| set.local().is_none() && set.degraded().is_some();
        let name = node
            .set(meta)
            .filter(is_taken)
            .and_then(|set| set.record().name.clone());
        let Some(local) = name.map(|name| LocalId::new(&name)) else {
            return;
        };
        if self.oracle.lost.contains(&node.name) && node.app.resources.contains_key(&local) {
            self.drive(at, meta, Event::Claim { local });
        }
    }

    /// What got no answer too often is tried again by nobody else.
    fn retry_spent(&mut self, at: usize, meta: &MetaId) {
        let is_spent = |set: &Set| set.log().any(|entry| entry.state == State::Waiting(Why::SPENT));
        if self.nodes[at].set(meta).is_some_and(is_spent) {
            self.drive(at, meta, Event::Retry);
        }
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
            let node = &self.nodes[*at];
            // A site that leaves takes no orders: where another one is as good, that is asked.
            let stays = |set: &Set| {
                set.members()
                    .get(&node.name)
                    .is_some_and(|me| me.leaving.is_none())
            };
            let set = node.disk.sets.get(meta);
            let size = set.map(|set| (set.epoch(), set.members().len(), stays(set)));
            (size, std::cmp::Reverse(*at))
        };
        (0..self.nodes.len()).filter(is_member).max_by_key(weight)
    }

    /// Brings removed sites back, one side giving in.
    fn reunite(&mut self, meta: &MetaId, is_impatient: bool) {
        let Some(main) = self.main_node(meta) else {
            return self.revive(meta);
        };
        let main_set = &self.nodes[main].disk.sets[meta];
        if main_set.job().is_some_and(|job| job.phase == Phase::Stuck) {
            return;
        }
        if main_set.members().values().all(|member| member.leaving.is_some()) {
            // All were told to leave at the same time, each by another: one stays.
            let site = self.nodes[main].name.clone();
            self.order(main, meta, Verb::Join { site, stay: 0 });
        }
        for at in (0..self.nodes.len()).filter(|at| *at != main) {
            let name = self.nodes[at].name.clone();
            match self.remedy(main, at, meta, is_impatient) {
                Some(Remedy::Yield) => self.give_in(at, meta),
                Some(Remedy::Readmit) => {
                    if self.nodes[at].set(meta).map(Set::standing) == Some(Standing::Member) {
                        self.give_in(at, meta);
                    }
                    self.order(main, meta, Verb::Join { site: name, stay: 0 });
                }
                Some(Remedy::Admit) => self.order(main, meta, Verb::Join { site: name, stay: 0 }),
                Some(Remedy::Expel) => {
                    self.oracle.forced.insert(meta.clone());
                    self.order(main, meta, Verb::Expel { site: name });
                }
                None => {}
            }
        }
    }

    /// All that is left of a set is a site that was removed: it goes on without those that removed it.
    fn revive(&mut self, meta: &MetaId) {
        let is_out = |node: &Node| {
            let set = node.set(meta)?;
            let other = set.members().keys().find(|site| **site != node.name)?;
            (set.standing() == Standing::Expelled).then(|| other.clone())
        };
        let left = self.nodes.iter().map(is_out).enumerate();
        if let Some((at, site)) = left.clone().find_map(|(at, site)| Some((at, site?))) {
            self.oracle.forced.insert(meta.clone());
            self.order(at, meta, Verb::Expel { site });
        }
    }

    fn give_in(&mut self, at: usize, meta: &MetaId) {
        self.oracle.yielded.insert(meta.clone());
        self.drive(at, meta, Event::Yield);
    }

    fn order(&mut self, at: usize, meta: &MetaId, verb: Verb) {
        self.note(&format!("the operator, at {at}: {verb:?}"));
        let draft = self.membership(verb);
        self.drive(at, meta, Event::Request(draft));
    }

    /// What the main side has to do about a site that is not, or not rightly, part of it.
    fn remedy(&self, main: usize, at: usize, meta: &MetaId, is_impatient: bool) -> Option<Remedy> {
        let site = self.nodes[at].name.clone();
        let set = self.nodes[at].set(meta)?;
        let main_set = self.nodes[main].set(meta)?;
        let member = main_set.members().get(&site);
        let was_let_in = member.map(|member| member.stay) > set.members().get(&site).map(|me| me.stay);
        let is_apart = match set.standing() {
            // Its leave may have been lost with a side that was given up, or it had what only that side had.
            Standing::Left => member.is_some_and(|member| member.leaving.is_none() || is_impatient),
            Standing::Expelled => !was_let_in,
            Standing::Member => {
                let stays = |set: &Set| -> Vec<_> {
                    let members = set.members().iter();
                    members
                        .map(|(site, member)| (site.clone(), member.stay))
                        .collect()
                };
                set.has_expelled(&self.nodes[main].name) || (is_impatient && stays(set) != stays(main_set))
            }
        };
        if main_set.has_expelled(&site) && set.standing() != Standing::Left {
            return Some(Remedy::Readmit);
        }
        // Two sides that both dropped what the other lacks: one of them begins anew.
        let is_split = is_impatient
            && self.plan.has_small_log()
            && set.standing() == Standing::Member
            && set.held() != main_set.held();
        match member {
            Some(_) if is_split => Some(Remedy::Expel),
            Some(_) if is_apart && was_let_in => Some(Remedy::Yield),
            Some(_) if is_apart => Some(Remedy::Expel),
            None if set.standing() == Standing::Member && !is_apart => Some(Remedy::Admit),
            // It left in good order, lost its store, and a message of that time made it begin again: nobody removed it,
            // and it was told that it is out.
            None if set.standing() == Standing::Expelled && is_impatient => Some(Remedy::Admit),
            _ => None,
        }
    }
}
