//! `cargo run -p cheops-sim --release -- --schedules 100000`

use cheops_sim::{Summary, run, trace};
use clap::Parser;

#[derive(Parser)]
#[command(name = "cheops-sim", about = "Play simulated schedules of replicating sites")]
struct Args {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds from there on
    #[arg(long, default_value_t = 1)]
    schedules: u64,
    /// Tell everything that happens
    #[arg(long)]
    trace: bool,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
}

fn main() -> Result<(), String> {
    let args = Args::parse();
    let mut total = Summary::default();
    let mut failed = 0;
    for seed in args.seed..args.seed + args.schedules {
        let outcome = if args.trace {
            let (lines, outcome) = trace(seed, None);
            for line in lines {
                println!("{line}");
            }
            outcome
        } else {
            run(seed, None)
        };
        match outcome {
            Ok(summary) => total.add(summary),
            Err(failure) => {
                failed += 1;
                for violation in &failure.violations {
                    println!("seed {seed}: {violation}");
                }
                println!("replay: {}", failure.replay());
                if !args.keep_going {
                    break;
                }
            }
        }
    }
    println!("{total:?}, {failed} failed");
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} schedules break the contract"))
    }
}
