//! `cargo xtask sim`, or `cargo run -p cheops-sim --release -- --schedules 100000`

use std::{
    cell::Cell,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use cheops_sim::{Failure, Summary, run, trace};
use clap::Parser;

/// Seeds that a thread takes at once, and after which progress is told.
const PORTION: u64 = 250;

#[derive(Parser)]
#[command(name = "cheops-sim", about = "Play simulated schedules of replicating sites")]
struct Args {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds from there on
    #[arg(long, default_value_t = 1)]
    schedules: u64,
    /// Threads that play them
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Tell everything that happens
    #[arg(long)]
    trace: bool,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
}

thread_local! {
    /// What a broken assertion of the engine is blamed on.
    static SEED: Cell<u64> = const { Cell::new(0) };
}

fn main() -> ExitCode {
    let args = Args::parse();
    blame_panics();
    let end = args.seed.saturating_add(args.schedules);
    let next = AtomicU64::new(args.seed);
    let result = Mutex::new((Summary::default(), 0_u64));
    thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let begin = next.fetch_add(PORTION, Ordering::Relaxed);
                    if begin >= end {
                        return;
                    }
                    let (played, failed) = portion(&args, begin, end.min(begin + PORTION));
                    let mut result = result.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    result.0.add(played);
                    result.1 += failed;
                    if args.schedules > PORTION {
                        let done = result.0.schedules + result.1;
                        eprintln!("{done} of {} schedules, {} failed", args.schedules, result.1);
                    }
                    if failed > 0 && !args.keep_going {
                        next.store(end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (total, failed) = result
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{total:?}, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Plays some seeds; stops at the first failure unless it is to go on.
fn portion(args: &Args, begin: u64, end: u64) -> (Summary, u64) {
    let (mut total, mut failed) = (Summary::default(), 0);
    for seed in begin..end {
        SEED.set(seed);
        match play(seed, args.trace) {
            Ok(summary) => total.add(summary),
            Err(failure) => {
                failed += 1;
                tell(&failure);
                if !args.keep_going {
                    break;
                }
            }
        }
    }
    (total, failed)
}

fn play(seed: u64, is_traced: bool) -> Result<Summary, Failure> {
    if !is_traced {
        return run(seed, None);
    }
    let (lines, outcome) = trace(seed, None);
    for line in lines {
        println!("{line}");
    }
    outcome
}

fn tell(failure: &Failure) {
    for violation in &failure.violations {
        println!("seed {}: {violation}", failure.seed);
    }
    println!("replay: {}", failure.replay());
}

fn blame_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let failure = Failure {
            seed: SEED.get(),
            violations: vec!["the engine broke an invariant of its own".to_owned()],
        };
        tell(&failure);
        usual(info);
    }));
}
