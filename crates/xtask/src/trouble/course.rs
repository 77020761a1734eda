//! Faults as they begin and end, by a plan.

use std::{fmt, iter::Peekable, time::Instant, vec};

use anyhow::Result;
use rustix::process::Signal;

use super::{
    faults::{Fault, Log, Planned},
    sites::Sites,
};

/// What of a plan has happened, is under way and is to come.
pub(crate) struct Course {
    begin: Instant,
    waiting: Peekable<vec::IntoIter<Planned>>,
    under_way: Vec<Planned>,
    log: Log,
}

impl Course {
    /// Times of the plan count from `begin`.
    pub(crate) fn new(planned: Vec<Planned>, begin: Instant) -> Self {
        Self {
            begin,
            waiting: planned.into_iter().peekable(),
            under_way: Vec::new(),
            log: Log::default(),
        }
    }

    /// Ends and begins what is due.
    pub(crate) fn go_on(&mut self, sites: &mut Sites) -> Result<()> {
        let now_ms = self.now_ms();
        for ended in self.under_way.extract_if(.., |one| one.until_ms <= now_ms) {
            end(sites, ended.fault)?;
            self.log.0.push(Planned {
                // Until now, and not longer: the log must not claim a cut that was over.
                until_ms: now_ms,
                ..ended
            });
        }
        while let Some(one) = self.waiting.next_if(|one| one.at_ms <= now_ms) {
            start(sites, one.fault)?;
            let at_ms = self.now_ms();
            self.under_way.push(Planned {
                at_ms,
                until_ms: at_ms + (one.until_ms - one.at_ms),
                ..one
            });
        }
        Ok(())
    }

    /// What happened so far; what is under way stays as it is.
    pub(crate) fn stop(mut self) -> Log {
        let until_ms = self.now_ms();
        let under_way = self.under_way.into_iter();
        self.log
            .0
            .extend(under_way.map(|one| Planned { until_ms, ..one }));
        self.log
    }

    fn now_ms(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }
}

/// What is under way.
impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.under_way.iter().map(|one| one.fault.to_string()).collect();
        if faults.is_empty() {
            return f.write_str("no fault");
        }
        f.write_str(&faults.join(", "))
    }
}

fn start(sites: &mut Sites, fault: Fault) -> Result<()> {
    sites.close(&fault.closes(sites.count()), true);
    match fault {
        Fault::Kill(site) => sites.kill(site),
        Fault::Pause(site) => sites.signal(site, Signal::STOP)?,
        Fault::Clock { site, offset_s } => sites.set_clock(site, offset_s)?,
        Fault::OneWay { .. } | Fault::Both(..) | Fault::Isolate(_) => {}
    }
    Ok(())
}

fn end(sites: &mut Sites, fault: Fault) -> Result<()> {
    sites.close(&fault.closes(sites.count()), false);
    match fault {
        Fault::Kill(site) => sites.start_again(site)?,
        Fault::Pause(site) => sites.signal(site, Signal::CONT)?,
        Fault::Clock { site, .. } => sites.set_clock(site, 0)?,
        Fault::OneWay { .. } | Fault::Both(..) | Fault::Isolate(_) => {}
    }
    Ok(())
}
