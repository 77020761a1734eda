//! A run: writes under faults, then everything healed, then waiting for agreement.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::process::Signal;

use super::{
    callers::{Callers, Tally, tally},
    faults::{Fault, Log, Planned},
    history::{History, SITES, WriteId, is_same},
    look::{Agents, Applications},
    sites::Sites,
    verdict,
};
use crate::real::Interrupt;

const POLL: Duration = Duration::from_millis(10);
/// How often sites are compared while they agree.
const LOOK: Duration = Duration::from_millis(300);
const PROGRESS: Duration = Duration::from_secs(5);

/// What happened while there were faults.
pub(super) struct Disturbed {
    pub(super) history: History,
    pub(super) tally: Tally,
    pub(super) log: Log,
}

/// What sites have and say when they agree, or when time is up.
pub(super) struct Healed {
    pub(super) applications: Applications,
    pub(super) agents: Agents,
    pub(super) born: BTreeMap<String, WriteId>,
    /// None if they never agreed.
    pub(super) agreed_after: Option<Duration>,
}

/// Runs callers and faults for their time.
pub(super) fn disturb(
    interrupt: &Interrupt,
    sites: &mut Sites,
    (seed, seconds): (u64, u64),
    planned: Vec<Planned>,
) -> Result<Disturbed> {
    let begin = Instant::now();
    let length = Duration::from_secs(seconds);
    let callers = Callers::start(seed, begin, sites.public());
    let mut waiting = planned.into_iter().peekable();
    let mut under_way: Vec<Planned> = Vec::new();
    let mut log = Log::default();
    let mut shown = Instant::now();
    while begin.elapsed() < length {
        interrupt.check()?;
        let now_ms = millis(begin);
        for ended in under_way.extract_if(.., |one| one.until_ms <= now_ms) {
            end(sites, ended.fault)?;
            log.0.push(Planned {
                // Until now, and not longer: the log must not claim a cut that was over.
                until_ms: now_ms,
                ..ended
            });
        }
        while let Some(one) = waiting.next_if(|one| one.at_ms <= now_ms) {
            start(sites, one.fault)?;
            let at_ms = millis(begin);
            let until_ms = at_ms + (one.until_ms - one.at_ms);
            under_way.push(Planned {
                at_ms,
                until_ms,
                ..one
            });
        }
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            sites.check()?;
            progress(begin, &callers.tally(), &under_way);
        }
        thread::sleep(POLL);
    }
    // Callers end under the faults that there are: no answer is nicer than it was.
    let (history, unsent) = callers.stop();
    let until_ms = millis(begin);
    log.0
        .extend(under_way.into_iter().map(|one| Planned { until_ms, ..one }));
    let tally = tally(&history, unsent);
    Ok(Disturbed { history, tally, log })
}

fn millis(begin: Instant) -> u64 {
    begin.elapsed().as_millis() as u64
}

fn progress(begin: Instant, tally: &Tally, under_way: &[Planned]) {
    let faults: Vec<_> = under_way.iter().map(|one| one.fault.to_string()).collect();
    println!(
        "{:>4} s  {} resources, {} writes: {} acknowledged, {} refused, {} in doubt; {}",
        begin.elapsed().as_secs(),
        tally.resources,
        tally.writes,
        tally.acknowledged,
        tally.refused,
        tally.doubt,
        if faults.is_empty() {
            "no fault".to_owned()
        } else {
            faults.join(", ")
        }
    );
}

fn start(sites: &mut Sites, fault: Fault) -> Result<()> {
    sites.close(&fault.closes(), true);
    match fault {
        Fault::Kill(site) => sites.kill(site),
        Fault::Pause(site) => sites.signal(site, Signal::STOP)?,
        Fault::Clock { site, offset_s } => sites.set_clock(site, offset_s)?,
        Fault::OneWay { .. } | Fault::Both(..) | Fault::Isolate(_) => {}
    }
    Ok(())
}

fn end(sites: &mut Sites, fault: Fault) -> Result<()> {
    sites.close(&fault.closes(), false);
    match fault {
        Fault::Kill(site) => sites.start_again(site)?,
        Fault::Pause(site) => sites.signal(site, Signal::CONT)?,
        Fault::Clock { site, .. } => sites.set_clock(site, 0)?,
        Fault::OneWay { .. } | Fault::Both(..) | Fault::Isolate(_) => {}
    }
    Ok(())
}

/// Ends every fault, whatever is under way, and waits until all agents see each other.
pub(super) fn heal(sites: &mut Sites) -> Result<()> {
    sites.open_all();
    for site in 0..SITES {
        sites.set_clock(site, 0)?;
        sites.run_again(site)?;
    }
    sites.ready()
}

/// Waits until all sites have the same and nothing is left to do, but no longer than `at_most`.
pub(super) fn agree(
    interrupt: &Interrupt,
    sites: &mut Sites,
    run: &Disturbed,
    at_most: Duration,
) -> Result<Healed> {
    let start = Instant::now();
    let mut shown = Instant::now();
    println!("healed: all agents are up and see each other");
    loop {
        interrupt.check()?;
        sites.check()?;
        // Asked first: what executes in between is seen at the application.
        let open = Agents::open(sites)?;
        let applications = Applications::read(sites)?;
        let none = Default::default();
        let different = |born: &&WriteId| {
            let resource = &run.history.resources[*born];
            !is_same(resource, applications.finals.get(*born).unwrap_or(&none))
        };
        let unequal: Vec<_> = run.history.resources.keys().filter(different).copied().collect();
        let is_over = start.elapsed() >= at_most;
        let looks_settled = unequal.is_empty() && open.is_empty();
        if looks_settled || is_over || (unequal.len() + open.len() < FEW) {
            let agents = Agents::read(sites)?;
            let born = agents.born(&run.history, &applications);
            let excused = verdict::unsettled(&agents.open, &agents.sets, &born, &run.history, &run.log);
            let agreed = unequal.iter().all(|born| excused.excused.contains(born))
                && agents.open.iter().all(|(_, operation)| {
                    born.get(&operation.set)
                        .is_some_and(|born| excused.excused.contains(born))
                });
            if agreed || is_over {
                return Ok(Healed {
                    applications,
                    agents,
                    born,
                    agreed_after: agreed.then(|| start.elapsed()),
                });
            }
        }
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            println!(
                "{:>4} s after healing: {} resources differ, {} operations are open",
                start.elapsed().as_secs(),
                unequal.len(),
                open.len()
            );
        }
        thread::sleep(LOOK);
    }
}

/// So few resources and operations that all of them may be excused, which takes longer to find out.
const FEW: usize = 400;
