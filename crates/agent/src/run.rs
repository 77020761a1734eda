//! `cheops run`.

use std::process::ExitCode;

use crate::{cli::ConfigArg, config::Config};

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// End when standard input ends, so that no child outlives its parent
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let _ = args.exit_with_stdin;
    Config::load(&args.config.path()?)?;
    anyhow::bail!("not built yet")
}
