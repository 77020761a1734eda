//! What takes too long for `cargo test`: long bodies, by the agents that users build.
//!
//! A demo is started and a body goes from a client of site1 to service B of site2, and one back. Then one is
//! uploaded to a resource that has a replica at each of three sites. The agents must not keep them: their memory
//! may grow by less than [`GROWTH_MAX_BYTES`].

mod demo;
mod http;
mod memory;
mod replicated;

use std::{process::ExitCode, time::Instant};

use anyhow::{Result, bail};

use crate::{command::build_agent, repo::Repo};
pub(crate) use demo::Demo;
pub(crate) use memory::Memory;

const MIB: u64 = 1024 * 1024;
const GROWTH_MAX_BYTES: u64 = 64 * MIB;
/// Opens every connection and runs every path before memory is read.
const WARM_UP_BYTES: u64 = 4 * MIB;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Length of each body in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    mebibytes: u64,
    /// Length of the body that is replicated to three sites, in MiB; each site keeps it twice for a while
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    replicated_mebibytes: u64,
    /// Round trip between the sites
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    rtt_ms: u16,
    /// Cargo profile to build the agent with
    #[arg(long, default_value = "release")]
    profile: String,
}

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = build_agent(repo, &args.profile)?;
    let demo = Demo::start(&program, args.rtt_ms)?;
    let bytes = args.mebibytes * MIB;
    let holds = [
        measure(&demo, "upload", bytes, http::upload)?,
        measure(&demo, "download", bytes, http::download)?,
    ];
    demo.stop()?;
    let replicated = replicated::run(&program, args.rtt_ms, args.replicated_mebibytes * MIB)?;
    Ok(if holds == [true, true] && replicated {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Moves one body and judges what it did to the agents. `carry` goes through site1 to site2.
fn measure(
    demo: &Demo,
    what: &str,
    bytes: u64,
    carry: fn(std::net::SocketAddr, u64) -> Result<()>,
) -> Result<bool> {
    carry(demo.entry, WARM_UP_BYTES)?;
    let before = memories(demo)?;
    let start = Instant::now();
    carry(demo.entry, bytes)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {} MiB in {seconds:.1} s, {:.0} MB/s",
        bytes / MIB,
        bytes as f64 / 1e6 / seconds
    );
    judge(demo, &before)
}

fn memories(demo: &Demo) -> Result<Vec<Memory>> {
    demo.agents.iter().map(|agent| Memory::of(agent.pid)).collect()
}

/// Whether no agent's memory grew too much.
fn judge(demo: &Demo, before: &[Memory]) -> Result<bool> {
    let mut holds = true;
    for (agent, before) in demo.agents.iter().zip(before) {
        let after = Memory::of(agent.pid)?;
        if after.peak_bytes == 0 {
            bail!("/proc/{}/status tells no peak of memory", agent.pid);
        }
        let growth = after.growth_since(*before);
        let verdict = if growth < GROWTH_MAX_BYTES {
            "within"
        } else {
            "MORE THAN"
        };
        holds &= growth < GROWTH_MAX_BYTES;
        println!(
            "  agent of {}: {:.1} MiB before, {:.1} MiB at most, grew by {:.1} MiB, {verdict} {} MiB",
            agent.site,
            mib(before.resident_bytes),
            mib(after.peak_bytes),
            mib(growth),
            GROWTH_MAX_BYTES / MIB
        );
    }
    Ok(holds)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}
