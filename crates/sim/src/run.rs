//! One seed, one schedule.

use crate::{Mutant, World, invariant};

/// A schedule in which an invariant did not hold.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub violations: Vec<String>,
}

impl Failure {
    /// How to see it again.
    pub fn replay(&self) -> String {
        format!("cargo run -p cheops-sim -- --seed {} --trace", self.seed)
    }
}

/// What a schedule that held was made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    pub schedules: u64,
    pub steps: u64,
    pub accepted: u64,
    pub conflicts: u64,
    pub pruned: u64,
    /// Schedules with state that travelled instead of operations.
    pub copied: u64,
}

impl Summary {
    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.steps += other.steps;
        self.accepted += other.accepted;
        self.conflicts += other.conflicts;
        self.pruned += other.pruned;
        self.copied += other.copied;
    }
}

/// Plays the schedule of a seed: a fault phase, a heal phase, then the invariants.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Result<Summary, Failure> {
    let mut world = World::new(seed, mutant);
    play(&mut world);
    verdict(seed, &world)
}

/// The same, telling everything that happens.
pub fn trace(seed: u64, mutant: Option<Mutant>) -> (Vec<String>, Result<Summary, Failure>) {
    let mut world = World::new(seed, mutant);
    world.trace = Some(vec![format!("{:#?}", world.plan)]);
    play(&mut world);
    let verdict = verdict(seed, &world);
    (world.trace.take().unwrap_or_default(), verdict)
}

fn play(world: &mut World) {
    world.prepare();
    let end_ms = world.now_ms + world.plan.fault_ms;
    world.run_until(end_ms);
    if world.oracle.violations.is_empty() {
        world.heal();
    }
    if world.oracle.violations.is_empty() {
        invariant::at_rest(world);
    }
}

fn verdict(seed: u64, world: &World) -> Result<Summary, Failure> {
    if !world.oracle.violations.is_empty() {
        return Err(Failure {
            seed,
            violations: world.oracle.violations.clone(),
        });
    }
    let sets = || world.nodes.iter().flat_map(|node| node.disk.sets.values());
    Ok(Summary {
        schedules: 1,
        steps: world.steps,
        accepted: world.oracle.accepted.len() as u64,
        conflicts: sets().map(|set| set.conflicts().count() as u64).sum(),
        pruned: sets()
            .map(|set| set.pruned().iter().map(|(_, seq)| seq).sum::<u64>())
            .sum(),
        copied: u64::from(!world.oracle.copied.is_empty()),
    })
}
