//! `cargo xtask sim`, or `cargo run -p cheops-sim -- --seed 7 --story`

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    panic,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cheops_sim::{
    Calm, Failure, Summary, Without, hostile, known, names, parse_range, pinned, run_without, shrink, story,
    trace,
};
use clap::Parser;

/// A step is mostly small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds that a thread takes at once.
const PORTION: u64 = 50;
/// What the search for a smaller schedule may take; about 20 seconds.
const SHRINK_STEPS: u64 = 3_000_000;
/// Failures that are told as a story; the others are listed.
const STORIES_MAX: usize = 3;
/// Failing seeds that are listed of one invariant.
const SEEDS_MAX: usize = 40;

#[derive(Parser)]
#[command(name = "cheops-sim", about = "Play simulated schedules of replicating sites")]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
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
    /// Tell everything that happens, as the program sees it
    #[arg(long)]
    trace: bool,
    /// Tell what happens to the set concerned, also if all goes well
    #[arg(long)]
    story: bool,
    /// Go on after a failure, and list all at the end
    #[arg(long)]
    keep_going: bool,
    /// Do not look for a smaller schedule that fails in the same way
    #[arg(long)]
    no_shrink: bool,
    /// Play the schedules of names in containers that span sites
    #[arg(long)]
    names: bool,
    /// Play a site that sends what it likes; a schedule has 100 events
    #[arg(long)]
    hostile: bool,
    /// One line for each failure, and nothing else
    #[arg(long)]
    brief: bool,
    /// Prepared happenings that are left out: 3,5-9
    #[arg(long, value_delimiter = ',', value_parser = parse_range, value_name = "NUMBERS")]
    without: Vec<std::ops::RangeInclusive<u64>>,
    /// Dice that are not thrown: loss, crashes and others
    #[arg(long, value_delimiter = ',', value_name = "DICE")]
    calm: Vec<Calm>,
    /// Seeds that are not played: 7,12
    #[arg(long, value_delimiter = ',', value_name = "SEEDS")]
    except: Vec<u64>,
    /// Sites that are part of nothing: 0,2
    #[arg(long, value_delimiter = ',', value_name = "SITES")]
    absent: Vec<usize>,
    /// Play those that once failed (tests/pinned.txt) too
    #[arg(long)]
    pinned: bool,
    /// No twists: names, meddling, odd answers and others
    #[arg(long)]
    classic: bool,
}

impl Args {
    fn left_out(&self) -> Without {
        Without {
            happenings: self.without.iter().cloned().flatten().collect(),
            calm: self.calm.iter().copied().collect(),
            absent: self.absent.iter().copied().collect(),
            twists: self.classic,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    // A broken assertion is told as a failure, by its seed.
    panic::set_hook(Box::new(|_| {}));
    if args.trace || args.story {
        return tell_one(&args);
    }
    let (total, mut failures) = play_all(&args);
    if args.pinned && failures.is_empty() {
        let played = pinned().map(|(seed, without, _)| run_without(seed, None, &without));
        failures.extend(played.filter_map(Result::err));
    }
    failures.sort_by_key(|failure| failure.seed);
    let (listed, mut failures): (Vec<_>, Vec<_>) = failures
        .into_iter()
        .partition(|failure| known_why(&args, failure.seed).is_some());
    if !args.keep_going {
        failures.truncate(1);
    }
    if args.brief {
        failures.iter().for_each(tell_briefly);
    } else {
        tell(&args, &failures);
        for failure in &listed {
            let why = known_why(&args, failure.seed).unwrap_or_default();
            println!("known: seed {}: {} ({why})", failure.seed, failure.invariant());
        }
        println!(
            "{total:?}, {} failed, {} known to fail",
            failures.len(),
            listed.len()
        );
    }
    code(failures.is_empty())
}

/// Why a seed may fail. The schedules of names have seeds of their own.
fn known_why(args: &Args, seed: u64) -> Option<&'static str> {
    known(seed).filter(|_| !args.names && !args.hostile)
}

fn code(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Plays the seeds by all threads. Unless it is to go on, seeds above one that failed are left out: which seed is
/// the first to fail does not depend on the threads.
fn play_all(args: &Args) -> (Summary, Vec<Failure>) {
    let end = AtomicU64::new(args.seed.saturating_add(args.schedules));
    let next = AtomicU64::new(args.seed);
    let without = args.left_out();
    let result = Mutex::new((Summary::default(), Vec::new(), Progress::new(args)));
    let work = || {
        loop {
            let begin = next.fetch_add(PORTION, Ordering::Relaxed);
            if begin >= end.load(Ordering::Relaxed) {
                return;
            }
            for seed in begin..begin + PORTION {
                if seed >= end.load(Ordering::Relaxed) {
                    break;
                }
                if args.except.contains(&seed) {
                    continue;
                }
                let played = if args.names {
                    play_names(seed)
                } else if args.hostile {
                    play_hostile(seed)
                } else {
                    run_without(seed, None, &without)
                };
                if played.is_err() && !args.keep_going && known_why(args, seed).is_none() {
                    end.fetch_min(seed, Ordering::Relaxed);
                }
                let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                let (total, failures, progress) = &mut *result;
                match played {
                    Ok(summary) => total.add(summary),
                    Err(failure) => failures.push(failure),
                }
                let played = total.schedules + failures.len() as u64;
                let is_news = |failure: &&Failure| known_why(args, failure.seed).is_none();
                progress.tell(played, failures.iter().filter(is_news).count());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(work);
        }
    });
    let (total, failures, progress) = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress.end();
    (total, failures)
}

fn play_names(seed: u64) -> Result<Summary, Failure> {
    let made = names::run(seed, None).map_err(|violation| Failure {
        seed,
        without: Without::default(),
        violations: vec![violation],
    })?;
    Ok(Summary {
        schedules: 1,
        accepted: made as u64,
        ..Summary::default()
    })
}

fn play_hostile(seed: u64) -> Result<Summary, Failure> {
    let steps = hostile::run(seed).map_err(|violation| Failure {
        seed,
        without: Without::default(),
        violations: vec![violation],
    })?;
    Ok(Summary {
        schedules: 1,
        steps,
        ..Summary::default()
    })
}

/// One seed with all that happens.
fn tell_one(args: &Args) -> ExitCode {
    let (lines, outcome) = if args.trace {
        trace(args.seed, None, &args.left_out())
    } else {
        story(args.seed, None, &args.left_out())
    };
    for line in lines {
        println!("{line}");
    }
    match &outcome {
        Ok(summary) => println!("{summary:?}"),
        Err(failure) => tell_briefly(failure),
    }
    code(outcome.is_ok() || known_why(args, args.seed).is_some())
}

fn tell_briefly(failure: &Failure) {
    let first = failure.violations.first().map_or("", String::as_str);
    let line = first.lines().next().unwrap_or_default();
    println!("seed {}: {line}", failure.seed);
}

/// The first failures as stories, then all of them by invariant.
fn tell(args: &Args, failures: &[Failure]) {
    let mut groups: BTreeMap<&str, Vec<&Failure>> = BTreeMap::new();
    for failure in failures {
        groups.entry(failure.invariant()).or_default().push(failure);
    }
    let firsts = groups.values().filter_map(|group| group.first());
    for failure in firsts.take(STORIES_MAX) {
        tell_briefly(failure);
        if !args.names && !args.hostile {
            tell_story(args, failure);
        }
    }
    if failures.len() > 1 {
        println!("failing seeds:");
        for (invariant, group) in groups {
            let seeds = group
                .iter()
                .take(SEEDS_MAX)
                .map(|failure| failure.seed.to_string());
            let seeds = seeds.collect::<Vec<_>>().join(" ");
            let more = group.len().saturating_sub(SEEDS_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            println!("  {invariant} ({}): {seeds}{more}", group.len());
        }
    }
}

/// What is left of a failing schedule when everything is left out that it does not take.
fn tell_story(args: &Args, failure: &Failure) {
    let is_shrunk = !args.no_shrink && failure.without.is_empty();
    let without = if is_shrunk {
        shrink(failure, None, SHRINK_STEPS)
    } else {
        failure.without.clone()
    };
    let (lines, _) = story(failure.seed, None, &without);
    for line in lines {
        println!("{line}");
    }
    let smaller = Failure {
        seed: failure.seed,
        without,
        violations: failure.violations.clone(),
    };
    println!("replay: {}", smaller.replay());
}

/// How far a long run is, on a line that is written over and over where there is a terminal.
struct Progress {
    begin: Instant,
    told: Instant,
    every: Duration,
    all: u64,
    is_terminal: bool,
    is_wanted: bool,
}

impl Progress {
    fn new(args: &Args) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self {
            begin: Instant::now(),
            told: Instant::now(),
            every: Duration::from_secs(if is_terminal { 1 } else { 15 }),
            all: args.schedules,
            is_terminal,
            is_wanted: !args.brief,
        }
    }

    fn tell(&mut self, done: u64, failed: usize) {
        if !self.is_wanted || self.told.elapsed() < self.every {
            return;
        }
        self.told = Instant::now();
        let elapsed_s = self.begin.elapsed().as_secs_f64();
        let rate = done as f64 / elapsed_s;
        let left_s = self.all.saturating_sub(done) as f64 / rate.max(0.001);
        let line = format!(
            "{done} of {} schedules, {rate:.0} per second, {} elapsed, {} left, {failed} failed",
            self.all,
            minutes(elapsed_s),
            minutes(left_s)
        );
        if self.is_terminal {
            eprint!("\r{line}\x1b[K");
            let _ = io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        if self.is_wanted && self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn minutes(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
