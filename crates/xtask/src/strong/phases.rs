//! A run: writes and reads under faults, then, once all is healed, waiting for agreement.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde_json::json;

use super::{
    AGREE_MAX,
    callers::{Callers, Tally},
    history::{Call, Form, History},
    look::{Applications, read_all, unsettled},
};
use crate::{
    processes::http::{self, Request},
    real::Interrupt,
    trouble::{Course, Log, Planned, Sites},
};

const POLL: Duration = Duration::from_millis(10);
/// How often sites are compared while they agree.
const LOOK: Duration = Duration::from_millis(300);
const PROGRESS: Duration = Duration::from_secs(10);

/// What happened while there were faults.
pub(super) struct Disturbed {
    pub(super) begin: Instant,
    pub(super) length_ms: u64,
    pub(super) history: History,
    pub(super) log: Log,
}

/// What sites have and say when they agree, or when time is up.
pub(super) struct Healed {
    pub(super) applications: Applications,
    /// When the applications were read, after everything else.
    pub(super) at_us: u64,
    /// What callers read after that.
    pub(super) last_reads: Vec<Call>,
    /// What agents say that must not be there.
    pub(super) unsettled: Vec<String>,
    /// None if they never agreed.
    pub(super) agreed_after: Option<Duration>,
}

/// Fails unless the agents carry out such a scope at all.
pub(super) fn is_available(sites: &Sites, form: Form) -> Result<()> {
    let scope = form.of_writes(sites.count());
    // A resource without a name is refused by the application: the answer tells, and nothing is made.
    let request = Request {
        method: "POST",
        path: "/labels",
        scope: Some(&scope),
        body: &json!({ "born": "none" }),
    };
    let answer = http::send(http::connect(sites.public()[0])?, &request)?;
    if answer.status == 501 {
        bail!("this agent does not carry out `{scope}`: {}", answer.body);
    }
    Ok(())
}

/// Disturbs sites, heals them and waits until they agree.
pub(super) fn all(
    interrupt: &Interrupt,
    sites: &mut Sites,
    (seed, seconds, form): (u64, u64, Form),
    planned: Vec<Planned>,
) -> Result<(Disturbed, Healed)> {
    let run = disturb(interrupt, sites, (seed, seconds, form), planned)?;
    sites.heal()?;
    let healed = agree(interrupt, sites, form, &run)?;
    Ok((run, healed))
}

/// Runs callers and faults for their time.
fn disturb(
    interrupt: &Interrupt,
    sites: &mut Sites,
    (seed, seconds, form): (u64, u64, Form),
    planned: Vec<Planned>,
) -> Result<Disturbed> {
    let begin = Instant::now();
    let length = Duration::from_secs(seconds);
    let callers = Callers::start(seed, begin, sites.public(), form);
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
    let length_ms = begin.elapsed().as_millis() as u64;
    // Callers end under the faults that there are: no answer is nicer than it was.
    let history = callers.stop();
    let log = course.stop();
    Ok(Disturbed {
        begin,
        length_ms,
        history,
        log,
    })
}

fn progress(begin: Instant, tally: &Tally, course: &Course) {
    println!(
        "{:>5} s  {} resources; {} writes acknowledged, {} refused, {} unknown; {} reads; {course}",
        begin.elapsed().as_secs(),
        tally.resources,
        tally.acknowledged,
        tally.refused + tally.unmet,
        tally.unknown,
        tally.read,
    );
}

/// Waits until all applications have the same and nothing is left to do, or until time is up; then reads everything
/// once more.
fn agree(interrupt: &Interrupt, sites: &mut Sites, form: Form, run: &Disturbed) -> Result<Healed> {
    let start = Instant::now();
    println!("healed: all agents are up and see each other");
    let agreed_after = loop {
        interrupt.check()?;
        sites.check()?;
        // Asked first: what executes in between is seen at the application.
        let unsettled = unsettled(sites, form)?;
        let different = Applications::read(sites)?.different();
        if unsettled.is_empty() && different.is_empty() {
            break Some(start.elapsed());
        }
        if start.elapsed() >= AGREE_MAX {
            println!("{} resources differ", different.len());
            break None;
        }
        thread::sleep(LOOK);
    };
    let last_reads = read_all(sites, form, run.begin, &run.history);
    // After the reads: what they made sites do is done.
    let at_us = run.begin.elapsed().as_micros() as u64;
    Ok(Healed {
        applications: Applications::read(sites)?,
        at_us,
        last_reads,
        unsettled: unsettled(sites, form)?,
        agreed_after,
    })
}
