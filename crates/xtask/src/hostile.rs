//! Hostile peers and clients against three real agents: nobody gets in, nothing evades, nobody starves.
//!
//! A peer here has a certificate of the mesh and speaks the protocol, but says what it likes. It may harm what it is a
//! part of, and nothing more. Each attack is a file in `attacks/` with a verdict of its own; what must hold under any
//! attack is looked at for all of them.

mod attacks;
mod client;
mod mallory;
mod measure;
mod own;
mod plain;
mod recorder;
mod report;
mod stage;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Result;

use crate::{command::AgentArgs, real::Interrupt, repo::Repo};
use attacks::{ATTACKS, Attack, Scene, SlowReaders, Verdict};
use mallory::{Mallory, Welcomes};
use own::Documents;
use plain::Plain;
use report::{Line, Report};
use stage::Stage;

/// What an agent may have in memory under any attack.
const MEMORY_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Of the time of a run, for each of the attacks that last as long as they are let.
const FLOODS: u64 = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// About how long the attacks go on
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(16..=86_400))]
    seconds: u64,
    /// Also measures ordinary callers beside the attacks, the agent on a core of its own, and memory under all attacks at
    /// once; needs two cores and `taskset`
    #[arg(long)]
    measure: bool,
    /// Plays only attacks with this in their names; may be given several times
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Prints the results as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
    /// Keep the directory with logs and stores also when all is well
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = args.agent.program(repo)?;
    let interrupt = Interrupt::listen()?;
    raise_files()?;
    let dir = tempfile::Builder::new()
        .prefix("cheops-hostile-")
        .tempdir()?
        .keep();
    let report = play(repo, args, &interrupt, &program, &dir);
    let holds = report.as_ref().is_ok_and(Report::holds);
    if holds && !args.keep {
        std::fs::remove_dir_all(&dir)?;
    } else {
        eprintln!("logs and stores are in {}", dir.display());
    }
    let report = report?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.conclude();
    }
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Thousands of connections need as many descriptors.
fn raise_files() -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

fn play(repo: &Repo, args: &Args, interrupt: &Interrupt, program: &Path, dir: &Path) -> Result<Report> {
    stage::certify(program, dir)?;
    let mallory = Mallory::start(&dir.join(stage::HOSTILE))?;
    let mut stage = Stage::start(program, &repo.read("glue/example.toml")?, dir, mallory.addr())?;
    let mut run = Run {
        own: own::make(&stage)?,
        plain: Plain::everywhere(&stage),
        slow_readers: SlowReaders::start(&stage)?,
        flood: Duration::from_secs(args.seconds / FLOODS),
        report: Report::new(args.json),
    };
    let is_wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|text| name.contains(text));
    for attack in ATTACKS.iter().filter(|attack| is_wanted(attack.name)) {
        interrupt.check()?;
        run.attack(&mut stage, &mallory, attack)?;
    }
    if is_wanted(RESTART) {
        interrupt.check()?;
        run.restart(&mut stage, &mallory)?;
    }
    if args.measure {
        interrupt.check()?;
        let Run {
            plain, mut report, ..
        } = run;
        drop(plain);
        measure::run(&stage, &mallory, args.seconds, &mut report)?;
        return Ok(report);
    }
    Ok(run.report)
}

const RESTART: &str = "a restart after all of it, greeted with absurd ages";

struct Run {
    own: Documents,
    plain: Plain,
    slow_readers: SlowReaders,
    flood: Duration,
    report: Report,
}

impl Run {
    fn attack(&mut self, stage: &mut Stage, mallory: &Mallory, attack: &Attack) -> Result<()> {
        self.begin(stage)?;
        let scene = Scene {
            stage,
            mallory,
            flood: self.flood,
            slow_readers: &self.slow_readers,
        };
        let verdict = (attack.play)(&scene).unwrap_or_else(|error| Verdict {
            holds: false,
            said: format!("it could not be played to its end: {error:#}"),
        });
        self.end(stage, Line::new(attack.by.word(), attack.name, verdict))
    }

    /// What the attacks have left in the stores must not show after a restart either.
    fn restart(&mut self, stage: &mut Stage, mallory: &Mallory) -> Result<()> {
        self.begin(stage)?;
        mallory.welcome(Welcomes::Absurd);
        stage.agents.iter_mut().for_each(stage::Agent::kill);
        stage.agents.iter_mut().try_for_each(stage::Agent::start)?;
        let is_up = stage.ready();
        mallory.welcome(Welcomes::Honest);
        // Nobody could answer while they were down.
        self.plain.take();
        let verdict = Verdict {
            holds: is_up.is_ok(),
            said: is_up.map_or_else(
                |error| format!("{error:#}"),
                |()| "all three came back".to_owned(),
            ),
        };
        self.end(stage, Line::new("peer", RESTART, verdict))
    }

    fn begin(&mut self, stage: &Stage) -> Result<()> {
        stage.agents.iter().try_for_each(stage::Agent::forget_peak)?;
        self.plain.take();
        Ok(())
    }

    /// What must hold whatever the attack was.
    fn end(&mut self, stage: &mut Stage, mut line: Line) -> Result<()> {
        line.see(&self.plain.take());
        let mut is_gone = false;
        for agent in &mut stage.agents {
            match agent.check() {
                Ok(()) => line.weigh(agent.site, agent.memory()?.peak_bytes),
                Err(error) => {
                    line.fault(format!("{error:#}"));
                    is_gone = true;
                    // The others are to be played all the same.
                    agent.kill();
                    agent.start()?;
                }
            }
        }
        if is_gone {
            stage.ready()?;
        }
        for agent in &stage.agents {
            match plain::calm(agent.b.addr) {
                None => line.fault(format!("the agent of {} does not recover", agent.site)),
                Some(0) => {}
                Some(seconds) => line.say(&format!("{} was itself again {seconds} s later", agent.site)),
            }
        }
        let now = own::read(stage)?;
        let differences = own::differences(&self.own, &now);
        if let Some(first) = differences.first() {
            line.fault(format!(
                "{} resources of others changed, e.g. {first}",
                differences.len()
            ));
        }
        // What one has changed is not held against the next.
        self.own = now;
        self.report.add(line);
        Ok(())
    }
}
