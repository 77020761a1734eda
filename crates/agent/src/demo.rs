//! `cheops demo`: several sites on this machine, each with an agent and the example application,
//! with links between them that are as slow as between places, and a tour through what they can do.

mod child;
mod config_file;
mod exchange;
mod layout;
mod overview;
mod screen;
mod sites;
mod tour;

use std::process::ExitCode;

use crate::demo::{screen::Screen, sites::Sites};

use crate::stop::Stop;

/// What the tour needs to show everything.
const TOUR_SITES_MIN: u8 = 3;
/// With less between neighbours, which site is nearer is a matter of chance.
const TOUR_RTT_MIN_MS: u16 = 10;
/// The exit code of a process that was interrupted before it was done.
const INTERRUPTED: u8 = 130;

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct DemoArgs {
    /// Plays every collaboration, checks each answer and ends; exits with 1 when one is wrong
    #[arg(long)]
    tour: bool,
    /// Prints one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// How many sites there are
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=9))]
    sites: u8,
    /// The round trip between neighbours; site1 and site3 are twice as far from each other
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    rtt_ms: u16,
    /// Keeps the directory with configurations, logs and data
    #[arg(long)]
    keep: bool,
    /// Ends when standard input does
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if args.tour && args.sites < TOUR_SITES_MIN {
        eprintln!("the tour needs {TOUR_SITES_MIN} sites: leave out `--sites` or name more");
        return Ok(ExitCode::from(2));
    }
    if args.tour && args.rtt_ms < TOUR_RTT_MIN_MS {
        eprintln!(
            "the tour needs {TOUR_RTT_MIN_MS} ms between neighbours: leave out `--rtt-ms` or ask for more"
        );
        return Ok(ExitCode::from(2));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(play(args))
}

async fn play(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let mut stop = Stop::listen(args.exit_with_stdin)?;
    let screen = Screen::new(args.json);
    screen.dim(&format!("starting {} sites on this machine", args.sites));
    let mut sites = tokio::select! {
        sites = Sites::start(args.sites, args.rtt_ms) => sites?,
        () = stop.asked() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let result = if args.tour {
        tokio::select! {
            right = tour::play(&sites.map, screen) => {
                right.map(|right| if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            ended = sites.children.first_ended() => Err(ended),
            () = stop.asked() => Ok(ExitCode::from(INTERRUPTED)),
        }
    } else {
        overview::print(&sites.map, screen);
        tokio::select! {
            ended = sites.children.first_ended() => Err(ended),
            () = stop.asked() => Ok(ExitCode::SUCCESS),
        }
    };
    screen.dim("stopping");
    let kept = sites.stop(args.keep, &mut stop).await;
    if let Some(dir) = kept {
        screen.line(&format!("configurations, logs and data are in {}", dir.display()));
    }
    result
}
