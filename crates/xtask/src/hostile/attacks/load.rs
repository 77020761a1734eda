//! Attacks that go on at the same time, for what is measured beside them.

use std::thread;

use super::{Scene, large_heads, large_lists, large_messages, replicas_header};
use crate::hostile::mallory::Script;

/// Connections with large heads, beside everything else.
const HEADS: usize = 5_000;

/// A peer that sends as much as it can.
pub(in crate::hostile) fn messages(scene: &Scene<'_>) {
    // What it is answered is told by the attack that has this alone.
    let _ = large_messages::send(scene.mallory, scene.victim(), scene.flood);
}

/// Lists as long as they may be.
pub(in crate::hostile) fn lists(scene: &Scene<'_>) {
    gather(scene, large_lists::script());
}

/// Both. Slow readers are there already.
pub(in crate::hostile) fn mixed(scene: &Scene<'_>) {
    thread::scope(|threads| {
        threads.spawn(|| messages(scene));
        lists(scene);
    });
}

/// All that takes memory.
pub(in crate::hostile) fn everything(scene: &Scene<'_>) {
    thread::scope(|threads| {
        for agent in &scene.stage.agents {
            threads.spawn(|| large_messages::send(scene.mallory, agent, scene.flood));
        }
        let (held, _) = large_heads::open(scene.victim().b.addr, HEADS);
        // Half of the time each: the peer has one answer at a time.
        let half = Scene {
            flood: scene.flood / 2,
            ..*scene
        };
        lists(&half);
        gather(&half, replicas_header::script());
        drop(held);
    });
}

fn gather(scene: &Scene<'_>, script: Script) {
    let to = scene.victim().b.addr;
    // Whether the peer was asked is looked at by the attacks that have this alone.
    let _ = scene.gather(script, large_lists::CALLERS, "/items", "B: site1 & mallory", to);
}
