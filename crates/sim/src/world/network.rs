//! Messages that get lost, come twice, late, or out of order.

use cheops_replica::{Event, Message, receive};
use cheops_types::SiteName;

use super::{Happening, World};
use crate::Mutant;

impl World {
    pub(super) fn send(&mut self, from: usize, to: &SiteName, mut message: Message) {
        (self.watch.sends)(self, to, &message);
        if self.mutant == Some(Mutant::ClaimDone) {
            message.report.done = message.report.held.clone();
        }
        if self.mutant == Some(Mutant::SendToAll) {
            for node in 0..self.nodes.len() {
                let name = self.nodes[node].name.clone();
                (self.watch.sends)(self, &name, &message);
            }
        }
        let Some(to) = self.node_of(to) else {
            return;
        };
        if self.cut[from][to] {
            return self.tell_lost(from, to, &message, "cut off");
        }
        let lossy = !self.healed;
        if lossy && self.rng.chance(self.plan.loss) {
            return self.tell_lost(from, to, &message, "lost");
        }
        let copies = if lossy && self.rng.chance(self.plan.duplicate) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let mut delay_ms = self.rng.between(1, self.plan.delay_max_ms + 1);
            // A copy that turns up when everybody has forgotten about it.
            if copies == 2 && self.rng.chance(100) {
                delay_ms += self.rng.between(1000, 20_000);
            }
            let message = Box::new(message.clone());
            self.at(self.now_ms + delay_ms, Happening::Deliver { to, message });
        }
    }

    pub(super) fn deliver(&mut self, to: usize, message: Message) {
        if !self.nodes[to].up {
            return;
        }
        let set = message.set.clone();
        if self.nodes[to].disk.sets.contains_key(&set) {
            self.drive(to, &set, Event::Message(message));
            return;
        }
        self.transact(to, &set, |site, slot, context| {
            let (born, effects) = receive(site, message, context);
            *slot = born;
            effects
        });
    }
}
