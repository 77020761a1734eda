//! Real applications behind agents, as users run them: `cargo xtask real <application>`.
//!
//! A suite starts unmodified control planes with a script of `testbed/`, one agent per site with links that
//! can be cut, plays its scenarios one after the other and prints a table. A scenario speaks to the
//! sites with the application's own client. Whatever was started ends with this program, however that
//! ends: children hold one end of a pipe and stop when it closes.

mod agent;
mod follow;
mod interrupt;
mod kubernetes;
mod mesh;
mod openstack;
mod ports;
mod run;
mod suite;
mod testbed;
mod wait;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::{
    command::{build_agent, existing},
    repo::Repo,
};
use agent::{Agent, AgentConfig};
use follow::Follow;
pub(crate) use interrupt::Interrupt;
use mesh::Mesh;
use ports::Ports;
use run::{Output, Run};
use suite::{Scenario, Suite};
use testbed::Testbed;
use wait::until;

#[derive(clap::Subcommand)]
pub(crate) enum Real {
    /// Kubernetes control planes; builds them once, which takes minutes
    Kubernetes(kubernetes::Args),
    /// Complete OpenStacks; installs Debian's packages, which needs root
    Openstack(openstack::Args),
}

/// What every suite can be told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Play only scenarios whose names contain this; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the scenarios and what they show, and start nothing
    #[arg(long)]
    list: bool,
    /// Leave everything running after the scenarios, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Cargo profile to build the agent with
    #[arg(long, default_value = "dev")]
    profile: String,
    /// Use this agent instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    program: Option<PathBuf>,
}

pub(crate) fn run(repo: &Repo, real: Real) -> Result<ExitCode> {
    match real {
        Real::Kubernetes(args) => kubernetes::run(repo, &args),
        Real::Openstack(args) => openstack::run(repo, &args),
    }
}

/// The agent that the options ask for, built if need be.
fn agent_program(repo: &Repo, options: &Options) -> Result<PathBuf> {
    match &options.program {
        Some(program) => existing(program),
        None => build_agent(repo, &options.profile),
    }
}
