//! The command line: what there is to type. What it does is in the modules below.

mod ask;
mod authority;
mod conflicts;
mod credential;
mod cross;
mod curl;
mod glue;
mod groups;
mod kubectl;
mod ops;
mod output;
mod pages;
mod replicas;
mod scope;
mod settings;
#[cfg(test)]
mod tests;
mod through;
mod time;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use cheops_mesh::ListenerName;
use cheops_types::SiteName;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::{ca, demo::DemoArgs, example_app::ExampleArgs};
use conflicts::ConflictsCommand;
use cross::CrossCommand;
use glue::GlueCommand;
use groups::GroupsCommand;
use ops::OpsCommand;
pub(crate) use output::{BAD_INPUT, BadInput, print, report};
use replicas::ReplicasCommand;
pub(crate) use through::Through;

/// Looked at in this order when no configuration is named.
const CONFIG_PATHS: [&str; 2] = ["cheops.toml", "/etc/cheops/cheops.toml"];
/// How much a list shows unless told otherwise.
const LIST_LIMIT: u32 = 100;

/// Requests run where the caller says: one application, many sites.
#[derive(Debug, Parser)]
#[command(
    name = "cheops",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  cheops demo                                three sites on this machine, to try
  cheops run -c site1.toml                   one site
  cheops scope check 'A: site1 ; site2'      judge a scope
  cheops explain --service A 'site1 & site2' what a running agent would do
  cheops replicas ls                         the resources that it replicates
  cheops cross ls                            the resources that span sites
  cheops kubectl get pods --scope 'a & b'    kubectl, with a scope

Exit codes: 0 well, 1 it failed, 2 the input is wrong."
)]
pub(crate) struct Cli {
    /// The admin socket of the agent to ask, instead of the configuration's
    #[arg(long, global = true, value_name = "PATH", env = "CHEOPS_ADMIN")]
    admin: Option<PathBuf>,
    /// Log more: once for debug, twice for trace
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one site
    Run(RunArgs),
    /// Start three sites with an example application on this machine
    Demo(DemoArgs),
    /// Work with scopes
    #[command(subcommand)]
    Scope(ScopeCommand),
    /// Show the plan that a running agent would follow, with nothing executed
    Explain(ExplainArgs),
    /// Work with configurations
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Work with glue: descriptions of applications
    #[command(subcommand)]
    Glue(GlueCommand),
    /// Make the mesh's certificates
    #[command(subcommand)]
    Ca(CaCommand),
    /// Show how a running agent is
    Status(AskArgs),
    /// Show the sites that a running agent knows, and how far away they are
    Sites(AskArgs),
    /// Show the services of a running agent
    Services(AskArgs),
    /// Show every limit of a running agent and how often it was hit
    Limits(AskArgs),
    /// Make a running agent read its configuration again
    Reload(AskArgs),
    /// Work with replica sets: resources that have a replica at several sites
    #[command(subcommand)]
    Replicas(ReplicasCommand),
    /// Work with cross resources: one resource that spans several sites
    #[command(subcommand)]
    Cross(CrossCommand),
    /// Look at the groups of sites that decide together about strong resources
    #[command(subcommand)]
    Groups(GroupsCommand),
    /// Work with operations: recorded writes on their way to the sites of a set
    #[command(subcommand)]
    Ops(OpsCommand),
    /// Work with conflicts: writes that lost against a concurrent one
    #[command(subcommand)]
    Conflicts(ConflictsCommand),
    /// Run kubectl with a scope on all that it asks
    #[command(after_help = "\
All arguments are kubectl's but `--scope`, which may stand anywhere before a bare `--`.
Without a scope kubectl runs as if it had been called directly.

The scope is sent with every request to the server of your kubeconfig, which must be an agent.
A link to this program called kubectl-cheops on PATH makes it a plugin: `kubectl cheops get pods`.

Environment:
  CHEOPS_SCOPE  the scope where no --scope is given; `--scope=` is none
  KUBECTL       the kubectl to run, instead of the one on PATH

Examples:
  cheops kubectl create -f pod.yaml --scope '{site1 & site2}'
  cheops kubectl get pods --scope '{site1 & site2}'
  cheops kubectl help                        kubectl's own help")]
    Kubectl(ProgramArgs),
    /// Run curl with a scope on all that it asks
    #[command(after_help = "\
All arguments are curl's but `--scope`. `-i` shows the receipt.

Environment:
  CHEOPS_SCOPE  the scope where no --scope is given; `--scope=` is none

Example:
  cheops curl -i http://127.0.0.1:18101/orders --scope 'site1 & site2'")]
    Curl(ProgramArgs),
    /// Print a completion script for a shell
    #[command(after_help = "\
Example:
  cheops completions bash > ~/.local/share/bash-completion/completions/cheops")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run the example application
    #[command(hide = true)]
    ExampleApp(ExampleArgs),
}

/// The arguments of another program. They come here for help and completion only, and where an option of ours
/// stands before the program's name; see [`Through`].
#[derive(Debug, Args)]
struct ProgramArgs {
    /// Where the requests run, as in the X-Scope header
    #[arg(long, value_name = "SCOPE")]
    scope: Option<OsString>,
    /// The program's arguments
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl ProgramArgs {
    /// As they were typed.
    fn words(self) -> Vec<OsString> {
        let scope = self.scope.map(|scope| ["--scope".into(), scope]);
        scope.into_iter().flatten().chain(self.args).collect()
    }
}

#[derive(Debug, Subcommand)]
enum ScopeCommand {
    /// Judge a scope and print its canonical form
    #[command(after_help = "\
Without --config the scope's syntax and meaning are judged, not its names.

Examples:
  cheops scope check 'A: site1, B: site2 | site3'
  cheops scope check --config site1.toml --json 'around(site1, 10ms)'")]
    Check(ScopeCheckArgs),
}

#[derive(Debug, Args)]
struct ScopeCheckArgs {
    /// The scope, as in the X-Scope header
    scope: String,
    /// Judge names too: this configuration's sites and services
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cheops explain --service A --method POST --path /items 'site1 ; site2'")]
struct ExplainArgs {
    /// The service that the request addresses
    #[arg(long, value_name = "NAME")]
    service: String,
    /// The method of the request
    #[arg(long, default_value = "GET")]
    method: String,
    /// The path of the request, with its query if it has one
    #[arg(long, default_value = "/")]
    path: String,
    /// The Content-Type of the body that it would have: patches differ by it
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// The scope, as in the X-Scope header; nothing for a request without one
    #[arg(default_value = "")]
    scope: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Judge a configuration and the files that it names
    Check {
        #[command(flatten)]
        config: ConfigArg,
        /// Print JSON: the configuration as it is understood, or the errors
        #[arg(long)]
        json: bool,
    },
    /// Print a complete configuration with a comment on every key
    #[command(after_help = "\
Example:
  cheops config example > cheops.toml")]
    Example,
}

#[derive(Debug, Subcommand)]
enum CaCommand {
    /// Make the mesh's certificate authority: ca.pem and ca.key
    Init {
        /// Where the CA is kept
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// How long the CA counts
        #[arg(long, default_value_t = ca::CA_DAYS, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        days: u32,
        /// Replace a CA that is there; every site then needs a new certificate
        #[arg(long)]
        force: bool,
    },
    /// Make all that a site needs: <site>.pem, <site>.key and a copy of ca.pem
    #[command(after_help = "\
Example:
  cheops ca init --dir mesh
  cheops ca issue site1 --dir mesh --out /etc/cheops")]
    Issue {
        /// The site's name, as in its configuration
        site: SiteName,
        /// Where the CA is kept
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Where the site's files go; the CA's directory if not given
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// How long the certificate counts
        #[arg(long, default_value_t = ca::SITE_DAYS, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        days: u32,
        /// Replace files that are there
        #[arg(long)]
        force: bool,
    },
    /// Make a certificate for the listeners of a site: <site>-tls.pem and <site>-tls.key
    #[command(after_help = "\
Example:
  cheops ca listener site1 agent.site1.example 192.0.2.1 --dir mesh --out /etc/cheops")]
    Listener {
        /// The site's name, as in its configuration
        site: SiteName,
        /// What users write to reach the site: DNS names and IP addresses
        #[arg(required = true, value_name = "NAME")]
        names: Vec<ListenerName>,
        /// Where the CA is kept
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Where the files go; the CA's directory if not given
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// How long the certificate counts
        #[arg(long, default_value_t = ca::SITE_DAYS, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        days: u32,
        /// Replace files that are there
        #[arg(long)]
        force: bool,
    },
    /// Show a certificate's serial number, for `peer.revoked`
    Serial {
        /// A PEM file; of a chain, the first certificate counts
        #[arg(value_name = "FILE")]
        certificate: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// The data directory was put back from a copy: what happened since is asked of the other sites
    #[arg(long)]
    restored: bool,
    /// End when standard input ends, so that no child outlives its parent
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

/// What every command that asks a running agent takes.
#[derive(Debug, Args)]
struct AskArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The configuration of the site.
#[derive(Debug, Clone, Default, Args)]
struct ConfigArg {
    /// The site's configuration [default: ./cheops.toml, then /etc/cheops/cheops.toml]
    #[arg(short = 'c', long = "config", value_name = "FILE", env = "CHEOPS_CONFIG")]
    file: Option<PathBuf>,
}

impl ConfigArg {
    /// The file that was named, or else the first of the usual ones that is there.
    pub(crate) fn path(&self) -> Result<PathBuf, BadInput> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        CONFIG_PATHS
            .iter()
            .map(Path::new)
            .find(|path| path.exists())
            .map(Path::to_owned)
            .ok_or_else(|| {
                BadInput(format!(
                    "no configuration: there is no {}; name one with -c, or the socket of a running agent with --admin or CHEOPS_ADMIN (the demo prints its own), or begin with `cheops config example > {}`",
                    CONFIG_PATHS.join(" and no "),
                    CONFIG_PATHS[0]
                ))
            })
    }
}

impl Cli {
    /// How much is to be logged, by `-v`.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbose
    }

    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let admin = self.admin.as_deref();
        match self.command {
            Command::Run(args) => crate::run::run(&args.config.path()?, args.restored, args.exit_with_stdin),
            Command::Demo(args) => crate::demo::run(&args),
            Command::ExampleApp(args) => crate::example_app::run(args),
            Command::Scope(ScopeCommand::Check(args)) => scope::check(&args),
            Command::Explain(args) => ask::explain(admin, args),
            Command::Config(ConfigCommand::Check { config, json }) => settings::check(&config, json),
            Command::Config(ConfigCommand::Example) => settings::example(),
            Command::Ca(CaCommand::Init { dir, days, force }) => {
                authority::init(&dir, ca::Terms { days, force })
            }
            Command::Ca(CaCommand::Issue {
                site,
                dir,
                out,
                days,
                force,
            }) => authority::issue(
                &site,
                &dir,
                out.as_deref().unwrap_or(&dir),
                ca::Terms { days, force },
            ),
            Command::Ca(CaCommand::Serial { certificate }) => authority::serial(&certificate),
            Command::Ca(CaCommand::Listener {
                site,
                names,
                dir,
                out,
                days,
                force,
            }) => authority::listener(
                &site,
                &names,
                &dir,
                out.as_deref().unwrap_or(&dir),
                ca::Terms { days, force },
            ),
            Command::Status(args) => ask::status(admin, &args),
            Command::Sites(args) => ask::sites(admin, &args),
            Command::Services(args) => ask::services(admin, &args),
            Command::Limits(args) => ask::limits(admin, &args),
            Command::Reload(args) => ask::reload(admin, &args),
            Command::Replicas(command) => replicas::run(admin, command),
            Command::Cross(command) => cross::run(admin, command),
            Command::Groups(command) => groups::run(admin, command),
            Command::Ops(command) => ops::run(admin, command),
            Command::Conflicts(command) => conflicts::run(admin, command),
            Command::Glue(command) => glue::run(command),
            Command::Kubectl(args) => Through::kubectl(args.words()).execute(),
            Command::Curl(args) => Through::curl(args.words()).execute(),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "cheops", &mut script);
                print(&String::from_utf8_lossy(&script))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
