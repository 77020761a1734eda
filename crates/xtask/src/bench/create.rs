//! What a caller waits for a replicated create, by the number of sites and their distance.
//!
//! For each distance a demo of five sites in a line is started. The same client then creates resources that
//! are not replicated, replicated to three sites and to five, taking turns, so that what changes on the
//! machine changes for all. A synced write is what the agent of the accepting site itself measured for its commits.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::{client::Client, report::Quartiles};
use crate::{command::AgentArgs, e2e::Demo, repo::Repo};

const SITES: u8 = 5;
const SCOPES: [(u8, Option<&str>); 3] = [
    (1, None),
    (3, Some("site1 & site2 & site3")),
    (5, Some("site1 & site2 & site3 & site4 & site5")),
];
/// Above the application's time and two synced writes.
const ALLOWANCE_MS: f64 = 1.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// One-way distances between neighbours in milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0, 50, 150])]
    one_way_ms: Vec<u16>,
    /// Creates of each kind per distance
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    creates: u32,
    /// Pause before each create, half as long to half as long again: the sites share this machine, and what
    /// they still do for the last one would count for the next
    #[arg(long, value_name = "MS", default_value_t = 50)]
    pause_ms: u64,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when a median is more than the application's time, two synced writes and 1 ms
    #[arg(long)]
    check: bool,
}

#[derive(Serialize)]
struct Line {
    one_way_ms: u16,
    sites: u8,
    ms: Quartiles,
    /// The median less that of a create that is not replicated.
    more_ms: f64,
    /// Two synced writes in the same run.
    two_writes_ms: f64,
    holds: bool,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = args.agent.program(repo)?;
    let mut lines = Vec::new();
    for one_way_ms in &args.one_way_ms {
        lines.extend(measure(&program, *one_way_ms, args)?);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
    } else {
        println!("one way  sites  median      quartiles           more     two synced writes");
        for line in &lines {
            println!(
                "{:>4} ms {:>6}  {:>6.2} ms  {:>6.2} … {:<6.2} ms  {:>6.2} ms  {:>6.2} ms  {}",
                line.one_way_ms,
                line.sites,
                line.ms.median,
                line.ms.q1,
                line.ms.q3,
                line.more_ms,
                line.two_writes_ms,
                if line.holds { "" } else { "more than allowed" }
            );
        }
    }
    let holds = lines.iter().all(|line| line.holds);
    Ok(if holds || !args.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn measure(program: &Path, one_way_ms: u16, args: &Args) -> Result<Vec<Line>> {
    eprintln!("five sites, {one_way_ms} ms one way between neighbours");
    let demo = Demo::of(program, SITES, one_way_ms * 2)?;
    let mut client = Client::connect(demo.entry)?;
    // Opens every connection.
    for (_, scope) in SCOPES {
        create(&mut client, scope)?;
    }
    let before = Commits::read(&demo.agents[0].admin)?;
    let mut times = SCOPES.map(|_| Vec::new());
    let mut pauses = 0;
    for _ in 0..args.creates {
        for (at, (_, scope)) in SCOPES.iter().enumerate() {
            pauses += 1;
            thread::sleep(pause(args.pause_ms, pauses));
            times[at].push(create(&mut client, *scope)?.as_secs_f64() * 1e3);
        }
    }
    let after = Commits::read(&demo.agents[0].admin)?;
    let two_writes_ms = 2.0 * after.mean_ms_since(&before)?;
    eprintln!(
        "{:.1} commits of the accepting site per replicated create",
        (after.count - before.count) / f64::from(args.creates) / (SCOPES.len() - 1) as f64
    );
    demo.stop()?;
    let times = times.map(Quartiles::of);
    let plain = times[0].median;
    let lines = SCOPES.iter().zip(times).map(|((sites, _), ms)| {
        let more_ms = ms.median - plain;
        Line {
            one_way_ms,
            sites: *sites,
            ms,
            more_ms,
            two_writes_ms,
            holds: more_ms <= two_writes_ms + ALLOWANCE_MS,
        }
    });
    Ok(lines.collect())
}

/// Spread evenly, so that what the other sites answer to earlier creates does not come at the same moment of
/// every later one.
fn pause(mean_ms: u64, number: u32) -> Duration {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let spread = (f64::from(number) * GOLDEN).fract();
    Duration::from_millis(mean_ms).mul_f64(0.5 + spread)
}

pub(super) fn create(client: &mut Client, scope: Option<&str>) -> Result<Duration> {
    let scope: Vec<_> = scope.into_iter().map(|scope| ("X-Scope", scope)).collect();
    let answer = client.send("POST", "/items", &scope, r#"{"name":"bolt"}"#)?;
    if answer.status != 201 {
        bail!(
            "a create was answered with {}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
    }
    Ok(answer.took)
}

/// The commits of an agent's store so far.
struct Commits {
    count: f64,
    sum_s: f64,
}

impl Commits {
    fn read(admin: &Path) -> Result<Self> {
        let mut socket = UnixStream::connect(admin)?;
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        let value = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let line = line.with_context(|| format!("the agent tells no {name}"))?;
            Ok(line.trim().parse()?)
        };
        Ok(Self {
            count: value("cheops_store_commit_seconds_count")?,
            sum_s: value("cheops_store_commit_seconds_sum")?,
        })
    }

    fn mean_ms_since(&self, earlier: &Self) -> Result<f64> {
        let count = self.count - earlier.count;
        if count < 1.0 {
            bail!("nothing was written to the store");
        }
        Ok((self.sum_s - earlier.sum_s) / count * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_around_their_mean() {
        let pauses: Vec<_> = (1..=100)
            .map(|number| pause(50, number).as_secs_f64() * 1e3)
            .collect();
        assert!(pauses.iter().all(|ms| (25.0..75.0).contains(ms)));
        let mean = pauses.iter().sum::<f64>() / 100.0;
        assert!((mean - 50.0).abs() < 1.0, "{mean}");
        assert_eq!(pause(0, 7), Duration::ZERO);
    }
}
