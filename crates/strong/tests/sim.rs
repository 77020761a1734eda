//! Sites that are cut, crash and lose messages, from seeds. A seed that fails is played again with
//! `cargo run -p cheops-strong --example sim -- --from <seed> --seeds 1`.

#[path = "../sim/world.rs"]
mod world;

use cheops_strong::Flaws;
use world::play::{Plan, play};

/// How many games the ordinary test run plays.
const SEEDS: u64 = 200;

#[test]
fn all_seeds_hold() {
    let mut wrong = Vec::new();
    let (mut operations, mut crashes, mut skipped, mut slept) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let report = play(seed, &Plan::of(seed));
        operations += report.operations;
        crashes += report.crashes;
        skipped += report.skipped;
        slept += report.slept;
        if !report.failures.is_empty() {
            wrong.push(format!("seed {seed}: {}", report.failures.join("\n")));
        }
    }
    println!(
        "{SEEDS} games: {operations} operations, {crashes} crashes, {skipped} snapshots taken over, asleep {slept} times"
    );
    assert!(
        wrong.is_empty(),
        "{} of {SEEDS} fail\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // A simulator in which nothing happens finds nothing.
    assert!(operations > 30 * SEEDS as usize && crashes > SEEDS && skipped > 0 && slept > 0);
}

/// Seeds until the simulator finds a planted bug.
fn finds(seeds: u64, flaws: Flaws) {
    let found = (0..seeds).find(|seed| {
        let plan = Plan {
            flaws,
            // Leaders come back sooner.
            moves: true,
            ..Plan::of(*seed)
        };
        !play(*seed, &plan).failures.is_empty()
    });
    println!("{flaws:?}: found by seed {found:?}");
    assert!(found.is_some(), "{flaws:?} is not found by {seeds} seeds");
}

#[test]
fn finds_a_read_that_asks_nobody() {
    finds(
        100,
        Flaws {
            read_without_index: true,
            ..Flaws::default()
        },
    );
}

#[test]
fn finds_an_answer_before_the_outcome_is_committed() {
    finds(
        300,
        Flaws {
            answer_before_outcome: true,
            ..Flaws::default()
        },
    );
}

#[test]
fn finds_a_stale_outcome_that_counts() {
    let stale = Flaws {
        propose_stale_outcomes: true,
        ..Flaws::default()
    };
    finds(
        600,
        Flaws {
            later_outcome_counts: true,
            ..stale
        },
    );
    // The first outcome counts: then a late one does no harm.
    for seed in 0..30 {
        let plan = Plan {
            flaws: stale,
            ..Plan::of(seed)
        };
        assert_eq!(play(seed, &plan).failures, [""; 0], "seed {seed}");
    }
}

#[test]
fn a_seed_is_played_alike() {
    for seed in [3, 4, 6] {
        let (one, other) = (play(seed, &Plan::of(seed)), play(seed, &Plan::of(seed)));
        assert_eq!(
            (one.counts, one.operations, one.healed_ms),
            (other.counts, other.operations, other.healed_ms)
        );
    }
}

#[test]
fn finds_an_execution_before_the_commit() {
    finds(
        50,
        Flaws {
            execute_before_commit: true,
            ..Flaws::default()
        },
    );
}

#[test]
fn finds_a_forgotten_vote() {
    finds(
        500,
        Flaws {
            forget_votes: true,
            ..Flaws::default()
        },
    );
}

#[test]
fn finds_a_read_of_what_is_undecided() {
    finds(
        500,
        Flaws {
            read_undecided: true,
            ..Flaws::default()
        },
    );
}
