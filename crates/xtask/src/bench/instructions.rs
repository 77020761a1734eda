//! How many instructions the agent takes for a request, outside the kernel.
//!
//! Time is noisy, instructions are not: the same program takes the same number for the same requests, whatever else the
//! machine is doing. The agent runs under callgrind, which counts. One connection sends a few requests, then many; what
//! the many took more is divided among them, so that start and end of the agent do not count.

use std::{
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    agent,
    client::Client,
    contender::{PLAIN_BODY, start_upstream},
    server::{Server, free_address},
    tools,
};
use crate::{
    command::{AgentArgs, find_program},
    packages,
    repo::Repo,
};

/// Requests until connections, caches and buffers are as they stay.
const FEW: u32 = 200;
const CORE: usize = 0;
const UPSTREAM_CORE: usize = 1;

/// What a case may take, with `--check`. About 7 % above what was measured last with the build that users get: the profile
/// `release` takes some 3 % more, and other versions of the compiler differ by less than the rest.
const CASES: [Case; 5] = [
    Case {
        name: "plain",
        method: "GET",
        headers: &[],
        body: "",
        differs: false,
        max: 21_300,
    },
    Case {
        name: "plain, each another",
        method: "GET",
        headers: &[],
        body: "",
        differs: true,
        max: 23_950,
    },
    Case {
        name: "plain write",
        method: "PUT",
        headers: &[],
        body: PLAIN_BODY,
        differs: false,
        max: 22_000,
    },
    Case {
        name: "local with a scope",
        method: "GET",
        headers: &[("X-Scope", "bench")],
        body: "",
        differs: false,
        max: 30_700,
    },
    Case {
        name: "scope, each another",
        method: "GET",
        headers: &[("X-Scope", "bench")],
        body: "",
        differs: true,
        max: 33_500,
    },
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Requests that are counted, of each kind
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    requests: u32,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object per kind of request
    #[arg(long)]
    json: bool,
    /// Fail when a request takes more than it may; the bounds are of the profile `release`
    #[arg(long)]
    check: bool,
}

/// One kind of request.
struct Case {
    name: &'static str,
    method: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    /// Whether each request has a target and an id of its own: what a connection repeats is cheaper.
    differs: bool,
    max: u64,
}

#[derive(Serialize)]
struct Line {
    request: &'static str,
    instructions: u64,
    max: u64,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    tools::ensure()?;
    if find_program("valgrind").is_none() {
        packages::install("counting instructions", &["valgrind"])?;
    }
    let program = args.agent.program(repo)?;
    let dir = tempfile::tempdir()?;
    let (upstream, _upstream_server) = start_upstream(UPSTREAM_CORE, dir.path(), PLAIN_BODY)?;
    let mut holds = true;
    for case in &CASES {
        let few = case.count(&program, upstream, dir.path(), FEW)?;
        let many = case.count(&program, upstream, dir.path(), FEW + args.requests)?;
        let line = Line {
            request: case.name,
            instructions: many.saturating_sub(few) / u64::from(args.requests),
            max: case.max,
        };
        holds &= line.holds();
        if args.json {
            println!("{}", serde_json::to_string(&line)?);
        } else {
            println!("{line}");
        }
    }
    Ok(if holds || !args.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Case {
    /// What an agent takes from its start to its end with so many requests.
    fn count(&self, program: &Path, upstream: SocketAddr, dir: &Path, requests: u32) -> Result<u64> {
        let dir = tempfile::tempdir_in(dir)?;
        let public = free_address()?;
        let counted = dir.path().join("counted");
        let agent = start(program, public, upstream, dir.path(), &counted)?;
        let mut client = Client::connect(public)?;
        for number in 0..requests {
            let answer = if self.differs {
                // All are equally long, so that they take the same.
                let (path, id) = (format!("/items/{number:06}"), format!("{number:032x}"));
                let headers = [self.headers, &[("X-Request-Id", &id)]].concat();
                client.send(self.method, &path, &headers, self.body)?
            } else {
                client.send(self.method, "/items/1", self.headers, self.body)?
            };
            anyhow::ensure!(answer.status == 200, "answered with {}", answer.status);
        }
        drop(client);
        // It ends by itself when it is asked to, and callgrind writes what it has counted.
        drop(agent);
        let text = fs::read_to_string(&counted).context("callgrind wrote nothing")?;
        total(&text)
    }
}

/// The agent as a program that callgrind runs.
fn start(
    program: &Path,
    public: SocketAddr,
    upstream: SocketAddr,
    dir: &Path,
    counted: &Path,
) -> Result<Server> {
    let valgrind: PathBuf = find_program("valgrind").context("valgrind is not installed")?;
    let counted = format!("--callgrind-out-file={}", counted.display());
    let program = program.display().to_string();
    let before = ["--tool=callgrind", &counted, &program];
    agent::start_with(&valgrind, &before, CORE, public, upstream, dir)
}

/// The number in a line `totals: 12345`.
fn total(text: &str) -> Result<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let number = number.context("callgrind's file has no totals")?;
    Ok(number.trim().parse()?)
}

impl Line {
    fn holds(&self) -> bool {
        self.instructions > 0 && self.instructions <= self.max
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "within" } else { "MORE THAN" };
        let Self {
            request,
            instructions,
            max,
        } = self;
        write!(f, "{request:<20}{instructions:>8} instructions, {verdict} {max}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_callgrind_writes() {
        assert_eq!(total("events: Ir\n\ntotals: 123\n").unwrap(), 123);
        total("events: Ir\n").unwrap_err();
    }
}
