//! Schedules of the ordinary test run. `SIM_SEED` plays one, `SIM_SCHEDULES` another number of them.

use cheops_sim::{Summary, Without, known, pinned, run, run_without};

const SCHEDULES: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_schedule_keeps_the_contract() {
    let seeds = match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SCHEDULES").unwrap_or(SCHEDULES),
    };
    let alone = seeds.end - seeds.start == 1;
    let mut total = Summary::default();
    for seed in seeds.filter(|seed| alone || known(*seed).is_none()) {
        match run(seed, None) {
            Ok(summary) => total.add(summary),
            Err(failure) => panic!(
                "seed {seed} breaks the contract\n{}\nreplay: {}\n    or: SIM_SEED={seed} cargo test -p cheops-sim --test schedules",
                failure.violations.join("\n"),
                failure.replay(),
            ),
        }
    }
    println!("{total:?}");
    // Schedules in which nothing happens would keep every contract.
    if !alone {
        assert!(total.accepted > total.schedules * 5, "{total:?}");
        assert!(total.conflicts > total.schedules, "{total:?}");
        assert!(total.pruned > total.schedules * 5, "{total:?}");
        assert!(total.copied > total.schedules / 20, "{total:?}");
    }
}

#[test]
fn what_once_went_wrong_does_not() {
    for (seed, without, what) in pinned() {
        if let Err(failure) = run_without(seed, None, &without) {
            panic!("seed {seed} ({what}): {}", failure.violations.join("\n"));
        }
    }
}

#[test]
fn a_seed_is_a_schedule() {
    for seed in 0..20 {
        let (first, _) = cheops_sim::trace(seed, None, &Without::default());
        let (second, _) = cheops_sim::trace(seed, None, &Without::default());
        assert!(first == second, "seed {seed} is played in two ways");
    }
}
