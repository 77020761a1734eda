//! A site that sends what it likes, in the ordinary test run: 100,000 events. `HOSTILE_SCHEDULES` plays another number
//! of schedules, `cheops-sim --hostile --schedules N` more of them.

use cheops_sim::hostile;

const SCHEDULES: u64 = 100_000 / hostile::STEPS;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Schedules that once found something, and what.
const FOUND: [(u64, &str); 3] = [
    (54, "two sites in new lives tell each other so for ever"),
    (220, "the same, in a set that the hostile site is no member of"),
    (
        453,
        "a number follows own ones that were brought back and have not executed",
    ),
];

#[test]
fn what_once_went_wrong_does_not() {
    for (seed, what) in FOUND {
        assert_eq!(hostile::run(seed), Ok(hostile::STEPS), "seed {seed}: {what}");
    }
}

#[test]
fn a_hostile_site_harms_only_what_it_is_a_part_of() {
    let schedules = number("HOSTILE_SCHEDULES").unwrap_or(SCHEDULES);
    let mut steps = 0;
    for seed in 0..schedules {
        match hostile::run(seed) {
            Ok(played) => steps += played,
            Err(what) => panic!("{what}\nreplay: cargo run -p cheops-sim -- --hostile --seed {seed}"),
        }
    }
    assert_eq!(
        steps,
        schedules * hostile::STEPS,
        "every schedule is played to its end"
    );
}
