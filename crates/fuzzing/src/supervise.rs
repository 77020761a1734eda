//! Hunts in a process of their own: a stack that overflows ends a process, and no one can catch that.

use std::{
    env, fs,
    io::Read as _,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use cheops_fuzzing::{Corpus, Finding, Hunt, Hunted, Target};
use serde_json::{Value, json};

use super::{Args, Progress};

/// What a runtime's threads have, and the engine's.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Hunts in a child. Where that dies, the same hunt is repeated with every input written down first.
pub(super) fn hunt(args: &Args, name: &'static str) -> Result<Hunted> {
    let (status, said) = child(args, name, None)?;
    if status.success() {
        return hunted(&said);
    }
    let last = tempfile::NamedTempFile::new()?;
    // It takes longer to write inputs down than to run them.
    let patient = Args {
        seconds: args.seconds.saturating_mul(20).max(60),
        ..args.clone()
    };
    let (again, _) = child(&patient, name, Some(last.path()))?;
    if again.success() {
        bail!(
            "{name}: the hunt ended with {status}, and not when it was repeated: look at the memory of the machine"
        );
    }
    let finding = Finding::Broken(format!("ends the process: {again}"));
    Ok(Hunted {
        executions: 0,
        read: 0,
        took: Duration::ZERO,
        finding: Some((finding, fs::read(last.path())?)),
    })
}

fn child(args: &Args, name: &str, careful: Option<&std::path::Path>) -> Result<(ExitStatus, String)> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args([name, "--child", "--executions", &args.executions.to_string()])
        .args([
            "--seconds",
            &args.seconds.to_string(),
            "--seed",
            &args.seed.to_string(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(file) = careful {
        command.arg("--careful").arg(file).stderr(Stdio::null());
    }
    if args.json {
        command.arg("--json");
    }
    let mut child = command.spawn().context("the hunt cannot be started")?;
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut said)?;
    }
    Ok((child.wait()?, said))
}

/// The child's side: says what came of it as a line of JSON.
pub(super) fn hunt_here(args: &Args, names: &[&'static str]) -> Result<bool> {
    let [name] = names else {
        bail!("a child hunts in one target");
    };
    let target = Target::named(name).context("no such target")?;
    let corpus = Corpus::of(name)?;
    let progress = Progress::new(args, name);
    let hunted = thread::scope(|scope| {
        let work = || {
            let hunt = Hunt {
                target,
                corpus,
                seed: args.seed,
                before: &mut |input| {
                    if let Some(file) = &args.careful {
                        // Where it cannot be written, the finding has no input.
                        let _ = fs::write(file, input);
                    }
                },
                tell: &mut |executions| progress.tell(executions),
            };
            hunt.run(args.budget())
        };
        let thread = thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)?;
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("the hunt itself panicked"))
    })?;
    progress.end();
    let finding = hunted
        .finding
        .map(|(finding, input)| json!({"what": finding.to_string(), "input": input}));
    let told = json!({
        "executions": hunted.executions,
        "read": hunted.read,
        "took_ms": hunted.took.as_millis() as u64,
        "finding": finding,
    });
    println!("{told}");
    Ok(true)
}

fn hunted(said: &str) -> Result<Hunted> {
    let told: Value = serde_json::from_str(said).context("the hunt said something else than its result")?;
    let number = |name: &str| {
        told[name]
            .as_u64()
            .with_context(|| format!("no {name} in {said}"))
    };
    let finding = told["finding"].as_object().map(|finding| {
        let what = finding["what"].as_str().unwrap_or_default().to_owned();
        let bytes = finding["input"].as_array().into_iter().flatten();
        let input = bytes
            .filter_map(|byte| u8::try_from(byte.as_u64()?).ok())
            .collect();
        (Finding::Broken(what), input)
    });
    Ok(Hunted {
        executions: number("executions")?,
        read: number("read")?,
        took: Duration::from_millis(number("took_ms")?),
        finding,
    })
}
