//! Events to standard error, one line each.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;

/// Names a filter such as `info` or `cheops_net=debug,info`; it has precedence over `-v`.
const FILTER_VARIABLE: &str = "CHEOPS_LOG";

/// Begins logging, once per process. `verbosity` counts the `-v`: info, debug, trace.
pub(crate) fn init(verbosity: u8) -> anyhow::Result<()> {
    let default = match verbosity {
        0 => "info",
        1 => "debug",
        _ => "trace",
    };
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).map_err(|error| {
            anyhow::anyhow!("{FILTER_VARIABLE} is not a filter: {error}; write e.g. `debug`")
        })?,
        _ => EnvFilter::new(default),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal() && crate::cli::colours_wanted())
        .with_target(verbosity > 0)
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging cannot begin: {error}"))
}
