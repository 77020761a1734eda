//! Agents that crash and start, stores that are lost or set back, clocks that are set.

use cheops_replica::{Event, Hello, Welcome};

use super::{Happening, World, drive::reload};
use crate::Node;

/// How often a site that has started asks the others again.
const HELLO_MS: u64 = 400;

impl World {
    pub(super) fn crash(&mut self, at: usize) {
        if !self.nodes[at].up {
            return;
        }
        if self.trace.is_some() {
            let name = self.nodes[at].name.clone();
            self.note(&format!("   {name} crashes"));
        }
        self.tell_site(at, "crashes");
        let node = &mut self.nodes[at];
        node.up = false;
        node.life += 1;
        node.wakes.clear();
        let down_ms = self.rng.between(1, 800);
        self.at(self.now_ms + down_ms, Happening::Start(at));
    }

    /// What the disk holds is read again, as it would be from its bytes.
    pub(super) fn start(&mut self, at: usize) {
        if self.nodes[at].up {
            return;
        }
        self.tell_site(at, "starts");
        self.nodes[at].up = true;
        reload(&mut self.nodes[at]);
        let start = self.rng.roll() >> 12;
        let disk = &mut self.nodes[at].disk;
        disk.site = disk.site.clone().started(start);
        if let Some(mutant) = self.mutant {
            mutant.restart(&mut self.nodes[at]);
        }
        let sets: Vec<_> = self.nodes[at].disk.sets.keys().cloned().collect();
        for set in sets {
            if self.nodes[at].up {
                self.drive(at, &set, Event::Resume);
            }
        }
        self.say_hello(at);
    }

    pub(super) fn lose_store(&mut self, at: usize) {
        let name = self.nodes[at].name.clone();
        self.oracle.lost.insert(name.clone());
        // Under a clock that is slow, the new incarnation is none, at first.
        let is_slow = self.rng.chance(300);
        let node = &mut self.nodes[at];
        let incarnation = node.disk.site.incarnation() + u64::from(!is_slow);
        let forgotten = Node::new(name, incarnation, node.skew_ms);
        node.disk = forgotten.disk;
        node.life += 1;
        node.wakes.clear();
        let start = self.rng.roll() >> 12;
        let disk = &mut self.nodes[at].disk;
        disk.site = disk.site.clone().started(start);
        self.say_hello(at);
    }

    /// The disk is what it was when it was copied. The application is not.
    pub(super) fn put_back(&mut self, at: usize) {
        let Some(copy) = self.nodes[at].copy.take() else {
            return;
        };
        self.crash(at);
        let node = &mut self.nodes[at];
        node.disk = *copy;
        // What it has forgotten is forgotten like what a lost store had.
        self.oracle.lost.insert(node.name.clone());
        self.oracle.set_back.insert(node.name.clone());
        self.tell_site(at, "finds its disk as it was long ago");
    }

    pub(super) fn set_clock(&mut self, at: usize, skew_ms: i64) {
        if self.nodes[at].skew_ms == skew_ms {
            return;
        }
        self.tell_site(
            at,
            &format!("has its clock set to {skew_ms} ms beside the right time"),
        );
        let node = &mut self.nodes[at];
        node.skew_ms = skew_ms;
        node.wakes.clear();
        // An agent that sees its clock go back looks after everything that waits for a time.
        for set in self.nodes[at].disk.sets.keys().cloned().collect::<Vec<_>>() {
            self.at(self.now_ms, Happening::Wake { node: at, set });
        }
    }

    /// Asks all others, and again until they have answered.
    pub(super) fn say_hello(&mut self, at: usize) {
        let site = self.nodes[at].disk.site.clone();
        for to in (0..self.nodes.len()).filter(|to| *to != at) {
            if self.healed || !site.has_confirmed(&self.nodes[to].name) {
                let hello = site.hello();
                let delay_ms = self.rng.between(1, self.plan.delay_max_ms + 1);
                let happening = Happening::Hello { from: at, to, hello };
                self.at(self.now_ms + delay_ms, happening);
            }
        }
    }

    pub(super) fn hear_hello(&mut self, from: usize, to: usize, hello: &Hello) {
        // Who did not hear is asked again, by the same start.
        let again = self.now_ms + HELLO_MS;
        let node = &self.nodes[from];
        if node.up && node.disk.site.start() == hello.age.start && !self.has_confirmed(from, to) {
            let hello = hello.clone();
            self.at(again, Happening::Hello { from, to, hello });
        }
        let is_lost = self.cut[from][to] || self.cut[to][from] || !self.nodes[to].up;
        if is_lost || !self.healed && self.rng.chance(self.plan.loss) {
            return;
        }
        let name = self.nodes[from].name.clone();
        let welcome = self.nodes[to].disk.site.welcome(&name, hello);
        let delay_ms = self.rng.between(1, self.plan.delay_max_ms + 1);
        let happening = Happening::Welcome {
            from: to,
            to: from,
            welcome,
        };
        self.at(self.now_ms + delay_ms, happening);
    }

    fn has_confirmed(&self, at: usize, other: usize) -> bool {
        let site = &self.nodes[at].disk.site;
        site.has_confirmed(&self.nodes[other].name)
    }

    pub(super) fn hear_welcome(&mut self, from: usize, to: usize, welcome: Welcome) {
        let name = self.nodes[from].name.clone();
        if !self.nodes[to].up {
            return;
        }
        // Incarnations stay small, so that traces are short.
        if self.nodes[to].disk.site.welcomed(&name, welcome, 0) {
            self.tell_site(to, "learns that its store has been set back: a new incarnation");
            self.say_hello(to);
        }
    }
}
