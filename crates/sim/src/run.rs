//! One seed, one schedule.

use std::panic::{self, AssertUnwindSafe};

use crate::{
    Mutant, Story, Without, World, invariant,
    shrink::{self, Played},
    without::Parts,
};

/// A schedule in which an invariant did not hold.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    /// What was left out of it.
    pub without: Without,
    pub violations: Vec<String>,
}

impl Failure {
    /// How to see it again.
    pub fn replay(&self) -> String {
        format!(
            "cargo run -p cheops-sim -- --seed {}{} --story",
            self.seed, self.without
        )
    }

    /// The invariant that did not hold: the word before the colon.
    pub fn invariant(&self) -> &str {
        let first = self.violations.first().map_or("", String::as_str);
        first.split(':').next().unwrap_or_default()
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
    run_without(seed, mutant, &Without::default())
}

/// The same, but for what is left out.
pub fn run_without(seed: u64, mutant: Option<Mutant>, without: &Without) -> Result<Summary, Failure> {
    let mut world = World::new(seed, mutant, without.twists, invariant::WATCH);
    play_safely(&mut world, without);
    verdict(seed, without, &world)
}

/// The same, telling everything that happens.
pub fn trace(
    seed: u64,
    mutant: Option<Mutant>,
    without: &Without,
) -> (Vec<String>, Result<Summary, Failure>) {
    let mut world = World::new(seed, mutant, without.twists, invariant::WATCH);
    world.trace = Some(vec![format!("{:#?}", world.plan)]);
    play_safely(&mut world, without);
    let verdict = verdict(seed, without, &world);
    (world.trace.take().unwrap_or_default(), verdict)
}

/// The same for people: what happened to the set concerned, and how it ended.
pub fn story(
    seed: u64,
    mutant: Option<Mutant>,
    without: &Without,
) -> (Vec<String>, Result<Summary, Failure>) {
    let mut world = World::new(seed, mutant, without.twists, invariant::WATCH);
    world.story = Some(Story::default());
    play_safely(&mut world, without);
    (world.tell_story(), verdict(seed, without, &world))
}

/// A smaller schedule that breaks the same invariant as this failure.
pub fn shrink(failure: &Failure, mutant: Option<Mutant>, budget_steps: u64) -> Without {
    let mut world = World::new(failure.seed, mutant, failure.without.twists, invariant::WATCH);
    world.prepare();
    let parts = Parts::of(&world);
    shrink::shrink(&parts, failure.invariant(), budget_steps, |without| {
        let mut world = World::new(failure.seed, mutant, failure.without.twists, invariant::WATCH);
        play_safely(&mut world, without);
        let failure = verdict(failure.seed, without, &world).err();
        Played {
            broke: failure.map(|failure| failure.invariant().to_owned()),
            steps: world.steps,
        }
    })
}

/// A broken assertion of the engine is a violation like others.
fn play_safely(world: &mut World, without: &Without) {
    let played = panic::catch_unwind(AssertUnwindSafe(|| play(world, without)));
    if let Err(panic) = played {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no words");
        world.oracle.violation(format!("panic: {text}"));
    }
}

fn play(world: &mut World, without: &Without) {
    world.prepare();
    without.apply(world);
    let end_ms = world.now_ms + world.plan.fault_ms;
    world.run_until(end_ms);
    if world.oracle.violations.is_empty() {
        world.tell(None, "everything works again".to_owned());
        world.heal();
    }
    if world.oracle.violations.is_empty() {
        invariant::at_rest(world);
    }
}

fn verdict(seed: u64, without: &Without, world: &World) -> Result<Summary, Failure> {
    if !world.oracle.violations.is_empty() {
        return Err(Failure {
            seed,
            without: without.clone(),
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
