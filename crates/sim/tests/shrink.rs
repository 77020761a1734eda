//! A failing schedule becomes a small one that fails in the same way, and a story that can be read.

use cheops_sim::{Failure, Mutant, Without, run, run_without, shrink, story};

const BUDGET_STEPS: u64 = 300_000;
/// About two screens.
const LINES_MAX: usize = 80;

fn first_failure(mutant: Mutant, invariant: &str) -> Failure {
    let failures = (0..2000).filter_map(|seed| run(seed, Some(mutant)).err());
    let mut wanted = failures.filter(|failure| failure.invariant() == invariant);
    wanted.next().expect("the defect is found")
}

fn size(failure: &Failure, mutant: Mutant, without: &Without) -> usize {
    let (lines, outcome) = story(failure.seed, Some(mutant), without);
    for line in &lines {
        println!("{line}");
    }
    println!();
    assert!(outcome.is_err());
    lines.len()
}

fn is_shrunk(mutant: Mutant, invariant: &str) {
    let failure = first_failure(mutant, invariant);
    let without = shrink(&failure, Some(mutant), BUDGET_STEPS);
    assert!(!without.is_empty(), "nothing could be left out");
    let again = run_without(failure.seed, Some(mutant), &without).expect_err("it still fails");
    assert_eq!(again.invariant(), invariant);
    assert_eq!(shrink(&failure, Some(mutant), BUDGET_STEPS), without);
    println!("{}", again.replay());
    let small = size(&failure, mutant, &without);
    assert!(small <= LINES_MAX, "a story of {small} lines is not read");
}

#[test]
fn a_repeated_execution() {
    is_shrunk(Mutant::ExecuteTwice, "doubt");
}

#[test]
fn lost_conflicts() {
    is_shrunk(Mutant::DropConflicts, "conflicts");
}

#[test]
fn outcomes_claimed_too_early() {
    is_shrunk(Mutant::ClaimDone, "pruned");
}

/// What is left out of a schedule changes nothing of the rest but what follows from it.
#[test]
fn a_part_can_be_left_out() {
    let nothing = Without::default();
    for seed in 0..20 {
        let (whole, _) = story(seed, None, &nothing);
        let (again, _) = story(seed, None, &nothing);
        assert_eq!(whole, again, "seed {seed} is played in two ways");
        let beyond_the_end = Without {
            happenings: [1_000_000].into(),
            ..Without::default()
        };
        let (same, _) = story(seed, None, &beyond_the_end);
        assert_eq!(whole, same);
    }
}
