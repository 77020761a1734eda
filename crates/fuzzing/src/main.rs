//! `cargo xtask fuzz`, or `cargo run -p cheops-fuzzing -- scope --seconds 10`

mod report;
mod supervise;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use cheops_fuzzing::{Budget, Corpus, Finding, Hunted, Judge, Target, framing};
use clap::Parser;

use self::report::{Line, Progress};

/// The one target that is no function: HTTP/1.1 through a whole agent.
const FRAMING: &str = "framing";
/// One execution of it, a whole connection, stands for so many of the others.
const FRAMING_SHARE: u64 = 50;

#[derive(Parser, Clone)]
#[command(name = "cheops-fuzzing", about = "Hunt for inputs that break what reads them")]
struct Args {
    /// What to hunt in; all, unless some are named
    targets: Vec<String>,
    /// Executions of each target; of `framing`, one for 50 of them
    #[arg(long, default_value_t = u64::MAX)]
    executions: u64,
    /// Seconds for each target
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Another seed, other inputs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One line of JSON for each target
    #[arg(long)]
    json: bool,
    /// The agent for `framing`, which is left out without one
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<PathBuf>,
    /// Run one input and say what is wrong with it
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Where inputs that break something are written
    #[arg(long, default_value = "fuzz/artifacts", value_name = "DIR")]
    artifacts: PathBuf,
    /// List the targets
    #[arg(long)]
    list: bool,
    /// Hunt in this process: if it dies, so does the hunt
    #[arg(long, hide = true)]
    child: bool,
    /// Write every input here before it is run
    #[arg(long, hide = true, value_name = "FILE")]
    careful: Option<PathBuf>,
}

impl Args {
    fn budget(&self) -> Budget {
        Budget {
            executions: self.executions,
            time: Duration::from_secs(self.seconds),
        }
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing was found.
fn run(args: &Args) -> Result<bool> {
    if args.list {
        for target in Target::ALL {
            println!("{:<12} {}", target.name, target.about);
        }
        println!(
            "{FRAMING:<12} HTTP/1.1 through a whole agent: its service sees what the client meant, and nothing else"
        );
        return Ok(true);
    }
    let names = names(args)?;
    if let Some(file) = &args.replay {
        let [name] = &names[..] else {
            bail!("name the one target that `--replay` is for");
        };
        return replay(args, name, file);
    }
    if args.child {
        return supervise::hunt_here(args, &names);
    }
    let mut is_good = true;
    for name in &names {
        let hunted = match *name {
            FRAMING => hunt_framing(args)?,
            name => supervise::hunt(args, name)?,
        };
        let line = Line::new(args, name, &hunted)?;
        line.print(args.json);
        is_good &= hunted.finding.is_none();
    }
    Ok(is_good)
}

/// The targets to hunt in, in the order of their table.
fn names(args: &Args) -> Result<Vec<&'static str>> {
    let known: Vec<_> = Target::ALL
        .iter()
        .map(|target| target.name)
        .chain([FRAMING])
        .collect();
    if let Some(unknown) = args.targets.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no target `{unknown}`; there are {}", known.join(", "));
    }
    let is_wanted = |name: &&str| {
        if args.targets.is_empty() {
            *name != FRAMING || args.agent.is_some()
        } else {
            args.targets.iter().any(|wanted| wanted == name)
        }
    };
    Ok(known.into_iter().filter(is_wanted).collect())
}

fn agent(args: &Args) -> Result<&PathBuf> {
    args.agent
        .as_ref()
        .context("`framing` needs an agent: `--agent target/debug/cheops`")
}

fn hunt_framing(args: &Args) -> Result<Hunted> {
    let seeds = Corpus::of(FRAMING)?.inputs;
    let progress = Progress::new(args, FRAMING);
    let budget = Budget {
        executions: args.executions.div_ceil(FRAMING_SHARE),
        ..args.budget()
    };
    let hunted = framing::hunt(agent(args)?, &seeds, args.seed, budget, &|executions| {
        progress.tell(executions);
    });
    progress.end();
    hunted
}

fn replay(args: &Args, name: &str, file: &PathBuf) -> Result<bool> {
    let input = fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let found: Option<Finding> = match Target::named(name) {
        Some(target) => Judge::new(target.run).look_closely(&input).err(),
        None => framing::replay(agent(args)?, &input)?,
    };
    match &found {
        Some(finding) => println!("{name}: {finding}"),
        None => println!("{name}: nothing is wrong with {}", file.display()),
    }
    Ok(found.is_none())
}
