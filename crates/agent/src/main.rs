//! `cheops`, the agent of one site and the command line to it.
//!
//! The only crate that knows the wall clock, the environment and the terminal. It reads the
//! configuration, starts the others and tells what they do; it never decides where a request
//! executes.

mod admin;
mod builtin;
mod ca;
mod cli;
mod config;
mod demo;
mod example_app;
mod logging;
mod run;
mod stop;

use std::process::ExitCode;

use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A panic ends the process, so that nothing goes on that is half done. Only a step of the replication engine is caught by
/// whoever runs it: there it ends one replica set.
fn end_with_a_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        if !cheops_node::is_guarded() {
            std::process::abort();
        }
    }));
}

fn main() -> ExitCode {
    end_with_a_panic();
    if let Some(through) = cli::Through::called(std::env::args_os()) {
        return through.execute().unwrap_or_else(|error| cli::report(&error));
    }
    let cli = cli::Cli::parse();
    let done = logging::init(cli.verbosity()).and_then(|()| cli.execute());
    done.unwrap_or_else(|error| cli::report(&error))
}
