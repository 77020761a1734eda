//! A run: writes under faults, then, once all is healed, waiting for agreement.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    callers::{Callers, Tally, tally},
    history::{History, WriteId, is_same},
    look::{Agents, Applications},
    verdict,
};
use crate::{
    real::Interrupt,
    trouble::{Course, Log, Planned, Sites},
};

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
    let mut course = Course::new(planned, begin);
    let mut shown = Instant::now();
    while begin.elapsed() < length {
        interrupt.check()?;
        course.go_on(sites)?;
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            sites.check()?;
            progress(begin, &callers.tally(), &course);
        }
        thread::sleep(POLL);
    }
    // Callers end under the faults that there are: no answer is nicer than it was.
    let (history, unsent) = callers.stop();
    let log = course.stop();
    let tally = tally(&history, unsent);
    Ok(Disturbed { history, tally, log })
}

fn progress(begin: Instant, tally: &Tally, course: &Course) {
    println!(
        "{:>4} s  {} resources, {} writes: {} acknowledged, {} refused, {} in doubt; {course}",
        begin.elapsed().as_secs(),
        tally.resources,
        tally.writes,
        tally.acknowledged,
        tally.refused,
        tally.doubt,
    );
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
