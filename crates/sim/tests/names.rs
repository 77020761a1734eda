//! A name in a container that spans sites is at one of them.

use cheops_sim::names::{NameMutant, run};

const SCHEDULES: u64 = 3000;

#[test]
fn every_schedule_keeps_names_unique() {
    let mut made = 0;
    for seed in 0..SCHEDULES {
        match run(seed, None) {
            Ok(count) => made += count,
            Err(violation) => panic!("{violation}"),
        }
    }
    // The schedules do something: on average several creates succeed in each.
    assert!(made as u64 > 3 * SCHEDULES, "{made}");
}

fn is_caught(mutant: NameMutant) {
    let caught = (0..SCHEDULES).find_map(|seed| run(seed, Some(mutant)).err());
    println!("{mutant:?}: {}", caught.expect("the defect is found"));
}

#[test]
fn names_taken_from_creates_that_are_under_way() {
    is_caught(NameMutant::Impatient);
}

#[test]
fn a_successor_that_does_not_look() {
    is_caught(NameMutant::Trusting);
}

#[test]
fn a_prime_site_that_lost_its_store_and_does_not_look() {
    is_caught(NameMutant::Forgetful);
}
