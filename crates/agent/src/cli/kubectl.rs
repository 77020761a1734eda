//! `cheops kubectl`: the user's own kubectl, asking through a forwarder that adds the scope.

mod answer;
mod dial;
mod forwarder;
mod kubeconfig;
mod proxy;
mod trust;
mod typed;
mod words;

use std::{
    env,
    ffi::{OsStr, OsString},
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Child,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time,
};

use super::{
    BAD_INPUT, output, scope,
    through::{self, Taken},
};
use forwarder::{Forwarder, Hopeless};
use kubeconfig::{Kubeconfig, Resolved};
use typed::Typed;
use words::{Options, Words};

/// Names another kubectl than the one on `PATH`.
const PROGRAM_VARIABLE: &str = "KUBECTL";
const FILES_VARIABLE: &str = "KUBECONFIG";
const HINT: &str = "install kubectl, correct PATH, or name it with KUBECTL=/path/to/kubectl";
/// How long kubectl may take to end when it is told to.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// What shells give for a process that a signal ended: this and the signal's number.
const BY_SIGNAL: i32 = 128;
/// What cobra's scripts read as "there is nothing to propose".
const NO_PROPOSAL: &str = ":4";

/// Runs kubectl with what was typed. Its exit code is ours.
pub(super) fn run(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let Some(mut taken) = take(args)? else {
        output::print(NO_PROPOSAL)?;
        return Ok(ExitCode::SUCCESS);
    };
    let program = env::var_os(PROGRAM_VARIABLE)
        .filter(|program| !program.is_empty())
        .unwrap_or_else(|| "kubectl".into());
    let scope = taken.effective_scope()?;
    let words = Words::read(&taken.args);
    // `kubectl config` asks no server, and works on the files themselves.
    let asks_nobody = words.command.as_deref() == Some(OsStr::new("config"));
    let Some(text) = scope.filter(|_| !asks_nobody) else {
        return Err(through::become_program(&program, &taken.args, HINT));
    };
    let header = match through::header(&text) {
        Ok(header) => header,
        Err(told) => return Ok(through::refuse(&told)),
    };
    let resolved = match resolve(&program, &words.options)? {
        Ok(resolved) => resolved,
        Err(code) => return Ok(code),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let (sender, hopeless) = mpsc::unbounded_channel();
        let forwarder = Forwarder::bind(&resolved.server, header, sender).await?;
        let layer = write_layer(&resolved, &forwarder)?;
        let mut run = Run {
            program,
            files: files(layer.path(), &words.options)?,
            signals: Signals::listen()?,
            hopeless,
            scope: text,
        };
        tokio::spawn(forwarder.serve());
        let typed = if is_written_everywhere(&run.scope) {
            Typed::of(&words.rest)
        } else {
            None
        };
        match typed {
            Some(typed) => run.in_two_steps(&typed).await,
            None => {
                run.end(&mut run.start(&words.rest, Stdio::inherit(), Stdio::inherit())?)
                    .await
            }
        }
    });
    // What is still open is kubectl's, which is gone.
    runtime.shutdown_background();
    ended
}

/// Whether a scope makes replicas of what is created: then an agent must read it.
fn is_written_everywhere(scope: &str) -> bool {
    // The signs have no other meaning in the language, and `all` is the only function that begins so.
    scope.contains(['&', '%']) || scope.contains("all")
}

/// What is typed without the scope; none where a shell asks how the scope may go on.
fn take(mut args: Vec<OsString>) -> anyhow::Result<Option<Taken>> {
    if !args.first().is_some_and(|first| through::is_completion(first)) {
        return Ok(Some(Taken::from(args)?));
    }
    // The last word is not finished.
    let last = args.pop().unwrap_or_default();
    let mut taken = Taken::from(args)?;
    if taken.is_open || through::is_scope(&last) {
        return Ok(None);
    }
    taken.args.push(last);
    Ok(Some(taken))
}

/// What this kubectl would ask, with these options. When it complained itself: its exit code.
fn resolve(program: &OsStr, options: &Options) -> anyhow::Result<Result<Resolved, ExitCode>> {
    let view = |is_minified: bool| {
        let mut command = Command::new(program);
        command.args(["config", "view", "--raw", "--flatten", "--output=json"]);
        if is_minified {
            command.arg("--minify");
        }
        for (name, value) in [
            ("--kubeconfig", options.kubeconfig.as_deref().map(Path::as_os_str)),
            ("--context", options.context.as_deref().map(OsStr::new)),
        ] {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        command
            .output()
            .map_err(|error| through::cannot_run(program, &error, HINT))
    };
    // A single context where possible: what is wrong elsewhere in the files is no concern of this command.
    let mut seen = None;
    if options.cluster.is_none() && options.user.is_none() {
        seen = Some(view(true)?).filter(|seen| seen.status.success());
    }
    let seen = match seen {
        Some(seen) => seen,
        None => view(false)?,
    };
    if !seen.status.success() {
        output::complain(String::from_utf8_lossy(&seen.stderr).trim_end());
        return Ok(Err(code(seen.status)));
    }
    let files = Kubeconfig::parse(&seen.stdout)
        .with_context(|| format!("`{} config view` cannot be understood", program.display()))?;
    files.resolve(options).map(Ok)
}

/// The file that leads kubectl to the forwarder. Only its owner can read it; it goes when it is dropped.
fn write_layer(resolved: &Resolved, forwarder: &Forwarder) -> anyhow::Result<NamedTempFile> {
    let name = format!("cheops:{}", forwarder.url());
    let layer = resolved.layer(&name, forwarder.url(), forwarder.certificate());
    let mut file = tempfile::Builder::new()
        .prefix("cheops-kubeconfig-")
        .tempfile()
        .context("no temporary file can be made")?;
    file.write_all(layer.to_string().as_bytes())?;
    Ok(file)
}

/// kubectl's list of files: ours, then those that it would have read.
fn files(layer: &Path, options: &Options) -> anyhow::Result<OsString> {
    let mut files = vec![layer.to_owned()];
    if let Some(file) = &options.kubeconfig {
        files.push(file.clone());
    } else if let Some(listed) = env::var_os(FILES_VARIABLE).filter(|listed| !listed.is_empty()) {
        files.extend(env::split_paths(&listed));
    } else if let Some(home) = env::var_os("HOME") {
        files.push(PathBuf::from(home).join(".kube/config"));
    }
    files.retain(|file| file.exists());
    Ok(env::join_paths(files)?)
}

/// What this process is told while kubectl runs.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    /// The terminal sends these to kubectl too, which decides; this process stays to serve it.
    _interrupt: tokio::signal::unix::Signal,
    _quit: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            _interrupt: signal(SignalKind::interrupt())?,
            _quit: signal(SignalKind::quit())?,
        })
    }
}

/// kubectl, and what it is run with.
struct Run {
    program: OsString,
    /// Its list of configuration files.
    files: OsString,
    signals: Signals,
    hopeless: mpsc::UnboundedReceiver<Hopeless>,
    scope: String,
}

impl Run {
    fn start(&self, args: &[OsString], stdin: Stdio, stdout: Stdio) -> anyhow::Result<Child> {
        tokio::process::Command::new(&self.program)
            .args(args)
            .env(FILES_VARIABLE, &self.files)
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .map_err(|error| through::cannot_run(&self.program, &error, HINT))
    }

    /// Makes an object, then sends it.
    async fn in_two_steps(&mut self, typed: &Typed) -> anyhow::Result<ExitCode> {
        let mut child = self.start(&typed.make, Stdio::inherit(), Stdio::piped())?;
        let mut shown = child.stdout.take().context("kubectl has no output")?;
        let reading = tokio::spawn(async move {
            let mut object = Vec::new();
            shown.read_to_end(&mut object).await.map(|_| object)
        });
        let made = self.end(&mut child).await?;
        if made != ExitCode::SUCCESS {
            return Ok(made);
        }
        let object = reading.await??;
        let mut child = self.start(&typed.send, Stdio::piped(), Stdio::inherit())?;
        let mut input = child.stdin.take().context("kubectl has no input")?;
        tokio::spawn(async move {
            // kubectl tells itself what it thinks of a part of an object.
            let _ = input.write_all(&object).await;
        });
        self.end(&mut child).await
    }

    /// Waits until it ends, by itself or because it must.
    async fn end(&mut self, child: &mut Child) -> anyhow::Result<ExitCode> {
        loop {
            tokio::select! {
                status = child.wait() => return Ok(code(status?)),
                _ = self.signals.terminate.recv() => pass_on(child, Signal::TERM),
                _ = self.signals.hang_up.recv() => pass_on(child, Signal::HUP),
                Some(why) = self.hopeless.recv() => {
                    pass_on(child, Signal::TERM);
                    if time::timeout(END_TIMEOUT, child.wait()).await.is_err() {
                        child.kill().await?;
                    }
                    return match why {
                        Hopeless::Scope(problem) => {
                            output::complain(&scope::render_problem(&self.scope, &problem));
                            Ok(ExitCode::from(BAD_INPUT))
                        }
                        Hopeless::Unreachable(message) => Err(anyhow!(message)),
                    };
                }
            }
        }
    }
}

fn pass_on(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // It only fails when kubectl has ended, and then there is nothing to tell.
        let _ = kill_process(pid, signal);
    }
}

/// The code of a program that ended, as a shell tells it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
