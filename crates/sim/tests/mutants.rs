//! The simulator can fail: each defect made on purpose is found within some schedules, by the
//! invariant that is about it.

use cheops_sim::{Mutant, run};

fn is_caught(mutant: Mutant, by: &[&str], within: u64) {
    let mut found = Vec::new();
    for seed in 0..within {
        if let Err(failure) = run(seed, Some(mutant)) {
            let first = failure.violations.first().cloned().unwrap_or_default();
            if by.iter().any(|invariant| first.starts_with(invariant)) {
                println!(
                    "{mutant:?}: seed {seed}: {}",
                    first.lines().next().unwrap_or_default()
                );
                return;
            }
            found.push(first.lines().next().unwrap_or_default().to_owned());
        }
    }
    panic!("{mutant:?} is not caught by {by:?} within {within} schedules; others: {found:?}");
}

#[test]
fn effects_before_the_commit() {
    is_caught(Mutant::ReleaseFirst, &["durable", "once", "doubt", "equal"], 400);
}

#[test]
fn forgotten_tombstones() {
    is_caught(
        Mutant::DropTombstones,
        &["equal", "calm", "once", "durable"],
        2000,
    );
}

#[test]
fn executions_begun_anew_after_a_crash() {
    is_caught(Mutant::ExecuteTwice, &["doubt", "once"], 400);
}

#[test]
fn lost_conflicts() {
    is_caught(Mutant::DropConflicts, &["conflicts"], 400);
}

#[test]
fn executions_repeated_that_had_a_result() {
    is_caught(Mutant::ForgetOutcome, &["once", "doubt"], 400);
}

#[test]
fn a_clock_that_is_not_persisted() {
    is_caught(Mutant::ForgetClock, &["clock"], 1000);
}

#[test]
fn a_site_that_forgets_how_old_its_store_is() {
    is_caught(Mutant::ForgetAge, &["numbers", "rest", "equal"], 1000);
}

#[test]
fn outcomes_claimed_too_early() {
    is_caught(Mutant::ClaimDone, &["pruned"], 400);
}

#[test]
fn resources_made_before_those_they_refer_to() {
    is_caught(Mutant::IgnoreNeeds, &["needs"], 400);
}

#[test]
fn messages_to_strangers() {
    is_caught(Mutant::SendToAll, &["involved"], 400);
}

#[test]
fn forgotten_divisions() {
    is_caught(Mutant::ForgetDivision, &["parts"], 2000);
}
