//! Measurements against other programs, as ratios from paired rounds.

mod agent;
mod client;
mod contender;
mod cpu;
mod create;
mod forward;
mod greedy;
mod idle;
mod instructions;
mod list;
mod load;
mod proxy;
mod report;
mod scoped;
mod server;
mod sets;
mod strong;
mod tools;
mod writers;

use std::process::ExitCode;

use anyhow::Result;

use crate::repo::Repo;

#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// CPU and latency of a plain local request: the agent, nginx and HAProxy side by side
    Proxy(proxy::Args),
    /// What a caller waits for a replicated create, by the number of sites and their distance
    Create(create::Args),
    /// A forward to another site: two agents beside two HAProxy processes, with TLS between them
    Forward(forward::Args),
    /// A flood of scoped requests by one caller: what it leaves to replication and to other callers
    Greedy(greedy::Args),
    /// What an agent has in memory after its start, after some use, and with a thousand connections
    Idle(idle::Args),
    /// Instructions that the agent takes for a request, counted by callgrind: plain, and with a scope
    Instructions(instructions::Args),
    /// A merged list of many items over five sites: its pages beside those of one site, and the agent's memory
    List(list::Args),
    /// Scoped load at full rate: nothing may be refused, and the agent's memory must stay below 60 MiB
    Scoped(scoped::Args),
    /// What many replica sets cost: start-up, memory, and requests that have nothing to do with them
    Sets(sets::Args),
    /// Strongly consistent writes at sites far apart, beside puts into etcd over links as long
    Strong(strong::Args),
    /// Replicated creates by many writers at once, beside puts into etcd: rate, time, and CPU at each agent
    Writers(writers::Args),
}

pub(crate) fn run(repo: &Repo, bench: Bench) -> Result<ExitCode> {
    match bench {
        Bench::Proxy(args) => proxy::run(repo, &args),
        Bench::Create(args) => create::run(repo, &args),
        Bench::Forward(args) => forward::run(repo, &args),
        Bench::Greedy(args) => greedy::run(repo, &args),
        Bench::Idle(args) => idle::run(repo, &args),
        Bench::Instructions(args) => instructions::run(repo, &args),
        Bench::List(args) => list::run(repo, &args),
        Bench::Scoped(args) => scoped::run(repo, &args),
        Bench::Sets(args) => sets::run(repo, &args),
        Bench::Strong(args) => strong::run(repo, &args),
        Bench::Writers(args) => writers::run(repo, &args),
    }
}
