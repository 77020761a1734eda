//! What ordinary callers of one site notice of attacks on it, with its agent on a core of its own, and its memory under all
//! attacks at once.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde::Serialize;

use super::{
    MEMORY_MAX_BYTES,
    attacks::{Scene, SlowReaders, load},
    client,
    mallory::Mallory,
    plain::{ANSWER_MAX, Seen},
    report::{Report, rounded},
    stage::{Agent, Stage},
};
use crate::command::succeed;

const AGENT_CORE: &str = "0";
const LOAD_CORE: &str = "1";
/// Windows without and with attacks take turns, so that what else the machine does meets both.
const ROUNDS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(5);
/// What attacks may add to the 99th percentile: as much again, or this.
const MORE_MS: f64 = 5.0;
const TIMES: f64 = 2.0;

/// Something that goes on for the time of a flood.
type Load = fn(&Scene<'_>);

const ALL: &str = "all of them and slow readers";

#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) holds: bool,
    /// Ordinary requests beside nothing, beside each kind of attack alone, and beside all of them.
    beside: Vec<(&'static str, Figures)>,
    /// The same requests meanwhile, past the agent: what of it the machine and the application take.
    past_the_agent: Vec<(&'static str, Figures)>,
    p99_max_ms: f64,
    /// Of each agent under all attacks at once.
    peak_mib: Vec<(&'static str, u64)>,
}

#[derive(Serialize)]
struct Figures {
    answered: usize,
    failed: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Figures {
    fn of(seen: &Seen) -> Self {
        Self {
            answered: seen.took.len(),
            failed: seen.failed.len(),
            p50_ms: rounded(seen.quantile_ms(0.5)),
            p99_ms: rounded(seen.quantile_ms(0.99)),
            max_ms: rounded(seen.quantile_ms(1.0)),
        }
    }

    fn show(&self, what: &str) {
        println!(
            "  beside {what}: {} answered, {} not, median {} ms, p99 {} ms, most {} ms",
            self.answered, self.failed, self.p50_ms, self.p99_ms, self.max_ms
        );
    }
}

impl Measured {
    pub(super) fn show(&self) {
        let verdict = if self.holds { "holds" } else { "FAILS" };
        println!("\n{verdict}  ordinary requests beside a hostile peer, hostile lists and slow readers");
        for ((what, figures), (_, past)) in self.beside.iter().zip(&self.past_the_agent) {
            figures.show(what);
            println!(
                "    past the agent, straight to the application: p99 {} ms, most {} ms",
                past.p99_ms, past.max_ms
            );
        }
        println!("  p99 beside all of them may be {} ms", self.p99_max_ms);
        for (site, mib) in &self.peak_mib {
            println!("  memory of {site} under all attacks at once: {mib} MiB");
        }
    }
}

pub(super) fn run(stage: &Stage, mallory: &Mallory, seconds: u64, report: &mut Report) -> Result<()> {
    pin(stage)?;
    let kinds: [(&str, Load); 4] = [
        ("nothing", |_| {}),
        ("a hostile peer", load::messages),
        ("hostile lists", load::lists),
        (ALL, load::mixed),
    ];
    let turns = u64::from(ROUNDS) * kinds.len() as u64;
    let window = Duration::from_secs((seconds / turns).max(5));
    let mut seen: Vec<_> = kinds.iter().map(|_| Both::default()).collect();
    for _ in 0..ROUNDS {
        for ((what, load), seen) in kinds.iter().zip(&mut seen) {
            let readers = if *what == ALL { SlowReaders::READERS } else { 0 };
            let slow_readers = SlowReaders::some(stage, readers)?;
            seen.add(beside(
                &scene(stage, mallory, &slow_readers, window),
                window,
                *load,
            ));
        }
    }
    let peak_mib = all_at_once(stage, mallory, window)?;
    let figures: Vec<_> = seen.iter().map(|seen| Figures::of(&seen.agent)).collect();
    let past = seen.iter().map(|seen| Figures::of(&seen.application));
    let past = kinds.iter().map(|(what, _)| *what).zip(past).collect();
    let (quiet, attacked) = (&figures[0], &figures[figures.len() - 1]);
    let p99_max_ms = rounded((quiet.p99_ms * TIMES).max(quiet.p99_ms + MORE_MS));
    let is_light = peak_mib
        .iter()
        .all(|(_, mib)| mib * 1024 * 1024 < MEMORY_MAX_BYTES);
    let holds = attacked.failed == 0 && attacked.p99_ms <= p99_max_ms && is_light;
    report.measured = Some(Measured {
        holds,
        beside: kinds.into_iter().map(|(what, _)| what).zip(figures).collect(),
        past_the_agent: past,
        p99_max_ms,
        peak_mib,
    });
    Ok(())
}

fn scene<'s>(
    stage: &'s Stage,
    mallory: &'s Mallory,
    slow_readers: &'s SlowReaders,
    flood: Duration,
) -> Scene<'s> {
    Scene {
        stage,
        mallory,
        flood,
        slow_readers,
    }
}

/// The attacked agent on one core; its application, the other sites and all load on the other.
fn pin(stage: &Stage) -> Result<()> {
    let others = stage.agents[1..].iter().map(Agent::pid);
    let others = others.chain(stage.applications.iter().map(crate::processes::Application::pid));
    let all = others.chain([std::process::id()]).map(|pid| (pid, LOAD_CORE));
    for (pid, core) in all.chain([(stage.agents[0].pid(), AGENT_CORE)]) {
        let mut taskset = Command::new("taskset");
        let args = ["--all-tasks", "--cpu-list", "--pid", core, &pid.to_string()];
        succeed(taskset.args(args).stdout(Stdio::null()))?;
    }
    Ok(())
}

/// What one caller saw at the agent, and at the application without it.
#[derive(Default)]
struct Both {
    agent: Seen,
    application: Seen,
}

impl Both {
    fn add(&mut self, other: Self) {
        self.agent.add(other.agent);
        self.application.add(other.application);
    }
}

/// Asks for so long while something else goes on, which gives way to the asking where the two want the same core.
fn beside(scene: &Scene<'_>, window: Duration, load: Load) -> Both {
    let to = [scene.victim().b.addr, scene.stage.applications[0].port.addr];
    let ended = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            give_way();
            load(scene);
            ended.store(true, Ordering::Relaxed);
        });
        let mut seen = ask_for(to, window);
        // What is under way still counts: a caller who comes late meets it too.
        while !ended.load(Ordering::Relaxed) {
            seen.add(ask_for(to, Duration::from_millis(200)));
        }
        seen
    })
}

/// This thread, and those that it starts, run only when nothing else wants their core. Being nice is not enough: a nice
/// thread that runs may use up its slice of some milliseconds before the one that is to be measured goes on.
pub(super) fn give_way() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    // Where that is not allowed, the figures are worse than they need to be.
    let _ = succeed(chrt.args(["--idle", "--pid", "0", &thread]).stdout(Stdio::null()));
}

/// One caller on connections that are kept: the agent, a pause, the application, a pause, and so on.
fn ask_for(to: [SocketAddr; 2], lasts: Duration) -> Both {
    let mut seen = Both::default();
    let mut connections = [None, None];
    let start = Instant::now();
    while start.elapsed() < lasts {
        let all = [&mut seen.agent, &mut seen.application];
        for ((to, connection), seen) in to.iter().zip(&mut connections).zip(all) {
            let asked = Instant::now();
            match ask(connection, *to) {
                Ok(()) => seen.took.push(asked.elapsed()),
                Err(error) => {
                    *connection = None;
                    seen.failed.push(format!("{error:#}"));
                }
            }
            thread::sleep(PAUSE);
        }
    }
    seen
}

fn ask(connection: &mut Option<TcpStream>, to: SocketAddr) -> Result<()> {
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(client::connect(client::ORDINARY, to)?),
    };
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(b"GET /string HTTP/1.1\r\nHost: cheops\r\n\r\n")?;
    let answer = client::read(stream)?;
    anyhow::ensure!(answer.status == 200, "answered with {}", answer.status);
    Ok(())
}

/// What each agent has in memory at most while everything that takes memory goes on.
fn all_at_once(stage: &Stage, mallory: &Mallory, window: Duration) -> Result<Vec<(&'static str, u64)>> {
    stage.agents.iter().try_for_each(Agent::forget_peak)?;
    let slow_readers = SlowReaders::start(stage)?;
    let scene = scene(stage, mallory, &slow_readers, window);
    load::everything(&scene);
    let peak = |agent: &Agent| Ok((agent.site, agent.memory()?.peak_bytes / 1024 / 1024));
    stage.agents.iter().map(peak).collect()
}
