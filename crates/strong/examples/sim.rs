//! Plays many games of the simulator: `sim --from <seed> --seeds <count>`.

#[path = "../sim/world.rs"]
mod world;

use world::play::{Plan, play};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)?.parse().ok())
            .unwrap_or(default)
    };
    let (from, seeds) = (number("--from", 0), number("--seeds", 1000));
    let (mut wrong, mut operations, mut slowest) = (0, 0, (0, 0));
    for seed in from..from + seeds {
        let report = play(seed, &Plan::of(seed));
        operations += report.operations;
        slowest = slowest.max((report.healed_ms, seed));
        if !report.failures.is_empty() {
            wrong += 1;
            println!(
                "seed {seed} fails: {}\n{}",
                report.failures.join("\n"),
                report.counts
            );
        } else if seeds == 1 {
            println!("seed {seed} holds: {}", report.counts);
        }
    }
    let (slowest_ms, slowest) = slowest;
    println!("{seeds} games, {operations} operations, {wrong} fail");
    println!("the slowest was whole {slowest_ms} ms after healing: seed {slowest}");
    if wrong > 0 {
        std::process::exit(1);
    }
}
