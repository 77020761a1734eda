//! A list over five sites: what a page of it takes, beside a page of the farthest site alone, and what it costs the agent
//! in memory.
//!
//! A demo of five sites is started, a container is made that spans them, and filled at each of them. The same client then
//! reads pages of the merged list and pages of the farthest site's own, taking turns, so that what changes on the machine
//! changes for both. If the sites were asked one after the other, a merged page would take several round trips.

use std::{process::ExitCode, thread};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::{client::Client, report::Quartiles};
use crate::{
    command::AgentArgs,
    e2e::{Demo, Memory},
    repo::Repo,
};

const SITES: u8 = 5;
const SCOPE: &str = "site1 % site2 % site3 % site4 % site5";
const FARTHEST: &str = "site5";
/// Clients that fill one site at a time.
const FILLERS: u32 = 16;
/// A merged page takes less than this many pages of the farthest site: a second round trip would make it two.
const RATIO_MAX: f64 = 2.0;
/// What the agent may keep, in pages: one of each site, the merged one, and as much again while they are read and written.
const PAGES_IN_MEMORY_MAX: u64 = 4 * (SITES as u64 + 1);
const MIB: u64 = 1024 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Items in all, a fifth at each site
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    items: u32,
    /// Items of a page
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    page: u32,
    /// Round trip to the farthest site
    #[arg(long, value_name = "MS", default_value_t = 50)]
    rtt_ms: u16,
    /// Pages of each kind that are read
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when a merged page takes two pages of the farthest site, or memory is not bounded by the page
    #[arg(long)]
    check: bool,
}

#[derive(Serialize)]
struct Measured {
    items: u32,
    page: u32,
    page_bytes: usize,
    /// A page of the farthest site alone.
    one_ms: Quartiles,
    merged_ms: Quartiles,
    ratio: f64,
    /// All pages, one after the other.
    whole_ms: f64,
    grew_bytes: u64,
    holds: bool,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = args.agent.program(repo)?;
    // The sites stand in a line: the farthest is four steps away.
    let demo = Demo::of(&program, SITES, args.rtt_ms.div_ceil(u16::from(SITES) - 1))?;
    let mut client = Client::connect(demo.entry)?;
    let prefer = [("X-Scope", SCOPE), ("Prefer", "wait=30")];
    let made = client.send("POST", "/rooms", &prefer, r#"{"name":"hall"}"#)?;
    if made.status != 201 {
        bail!(
            "the container cannot be made: {}",
            String::from_utf8_lossy(&made.body)
        );
    }
    eprintln!("filling {} items", args.items);
    for (site, agent) in (1..).zip(&demo.agents) {
        fill(agent.b, site, args.items / u32::from(SITES))?;
    }
    let measured = measure(&mut client, args, demo.agents[0].pid)?;
    demo.stop()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
    } else {
        show(&measured);
    }
    Ok(if measured.holds || !args.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn fill(address: std::net::SocketAddr, site: u32, items: u32) -> Result<()> {
    let fillers: Vec<_> = (0..FILLERS)
        .map(|filler| {
            thread::spawn(move || -> Result<()> {
                let mut client = Client::connect(address)?;
                for item in (0..items).filter(|item| item % FILLERS == filler) {
                    let body =
                        format!(r#"{{"name":"box-{item:06}-{site}","colour":"blue","weight":{item}}}"#);
                    let made = client.send("POST", "/rooms/hall/boxes", &[], &body)?;
                    if made.status != 201 {
                        bail!("an item cannot be made: {}", String::from_utf8_lossy(&made.body));
                    }
                }
                Ok(())
            })
        })
        .collect();
    for filler in fillers {
        filler
            .join()
            .map_err(|_| anyhow::anyhow!("a filler panicked"))??;
    }
    Ok(())
}

fn measure(client: &mut Client, args: &Args, agent: u32) -> Result<Measured> {
    let first = format!("/rooms/hall/boxes?limit={}", args.page);
    let alone = [("X-Scope", FARTHEST)];
    let read = |client: &mut Client, path: &str, scope: &[(&str, &str)]| {
        let answer = client.send("GET", path, scope, "")?;
        if answer.status != 200 {
            bail!("a page cannot be read: {}", String::from_utf8_lossy(&answer.body));
        }
        Ok(answer)
    };
    // Opens every connection.
    let page_bytes = read(client, &first, &[])?.body.len();
    read(client, &first, &alone)?;
    let before = Memory::of(agent)?;
    let (mut one, mut merged) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        one.push(read(client, &first, &alone)?.took.as_secs_f64() * 1e3);
        merged.push(read(client, &first, &[])?.took.as_secs_f64() * 1e3);
    }
    let (mut whole_ms, mut items, mut path) = (0.0, 0, first.clone());
    loop {
        let answer = read(client, &path, &[])?;
        whole_ms += answer.took.as_secs_f64() * 1e3;
        let page: Value = serde_json::from_slice(&answer.body)?;
        items += page["items"].as_array().context("a page has items")?.len();
        match page["next"].as_str() {
            Some(next) => path = format!("{first}&page_token={next}"),
            None => break,
        }
    }
    let expected = args.items / u32::from(SITES) * u32::from(SITES);
    if items != expected as usize {
        bail!("the list has {items} items, and there are {expected}");
    }
    let grew_bytes = Memory::of(agent)?.growth_since(before);
    let (one_ms, merged_ms) = (Quartiles::of(one), Quartiles::of(merged));
    let ratio = merged_ms.median / one_ms.median;
    let memory_max = PAGES_IN_MEMORY_MAX * page_bytes as u64 + 8 * MIB;
    Ok(Measured {
        items: args.items,
        page: args.page,
        page_bytes,
        ratio,
        whole_ms,
        grew_bytes,
        holds: ratio < RATIO_MAX && grew_bytes < memory_max,
        one_ms,
        merged_ms,
    })
}

fn show(measured: &Measured) {
    let line = |what: &str, ms: &Quartiles| {
        println!("{what:28} {:>7.1} ms  ({:.1} … {:.1})", ms.median, ms.q1, ms.q3);
    };
    println!(
        "{} items over {SITES} sites, pages of {} ({} KiB)",
        measured.items,
        measured.page,
        measured.page_bytes / 1024
    );
    line("a page of the farthest site", &measured.one_ms);
    line("a merged page", &measured.merged_ms);
    println!("{:28} {:>7.2}", "ratio", measured.ratio);
    println!(
        "{:28} {:>7.0} ms",
        "the whole list, page by page", measured.whole_ms
    );
    println!(
        "{:28} {:>7.1} MiB",
        "the agent grew by",
        measured.grew_bytes as f64 / MIB as f64
    );
    println!("{}", if measured.holds { "holds" } else { "DOES NOT HOLD" });
}
