//! What became of the attacks, as lines and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{MEMORY_MAX_BYTES, attacks::Verdict, measure::Measured, plain::Seen};

const MIB: u64 = 1024 * 1024;

#[derive(Serialize)]
pub(super) struct Report {
    attacks: Vec<Line>,
    pub(super) measured: Option<Measured>,
    #[serde(skip)]
    is_silent: bool,
}

/// One attack.
#[derive(Serialize)]
pub(super) struct Line {
    by: &'static str,
    attack: &'static str,
    holds: bool,
    said: String,
    /// Beyond what the attack itself looked at.
    faults: Vec<String>,
    /// The most that each agent had resident meanwhile.
    peak_mib: BTreeMap<&'static str, u64>,
    plain: PlainFigures,
}

/// Ordinary requests meanwhile.
#[derive(Default, Serialize)]
struct PlainFigures {
    answered: usize,
    failed: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Line {
    pub(super) fn new(by: &'static str, attack: &'static str, verdict: Verdict) -> Self {
        Self {
            by,
            attack,
            holds: verdict.holds,
            said: verdict.said,
            faults: Vec::new(),
            peak_mib: BTreeMap::new(),
            plain: PlainFigures::default(),
        }
    }

    pub(super) fn fault(&mut self, what: String) {
        self.holds = false;
        self.faults.push(what);
    }

    pub(super) fn say(&mut self, more: &str) {
        self.said = format!("{}; {more}", self.said);
    }

    pub(super) fn see(&mut self, seen: &Seen) {
        self.plain = PlainFigures {
            answered: seen.took.len(),
            failed: seen.failed.len(),
            p50_ms: rounded(seen.quantile_ms(0.5)),
            p99_ms: rounded(seen.quantile_ms(0.99)),
            max_ms: rounded(seen.quantile_ms(1.0)),
        };
        if let Some(first) = seen.failed.first() {
            self.fault(format!(
                "{} ordinary requests without an answer, e.g. {first}",
                seen.failed.len()
            ));
        }
    }

    pub(super) fn weigh(&mut self, site: &'static str, peak_bytes: u64) {
        self.peak_mib.insert(site, peak_bytes / MIB);
        if peak_bytes >= MEMORY_MAX_BYTES {
            self.fault(format!("the agent of {site} took {} MiB", peak_bytes / MIB));
        }
    }

    fn show(&self) {
        let verdict = if self.holds { "holds" } else { "FAILS" };
        println!("{verdict}  {}: {}", self.by, self.attack);
        println!("         {}", self.said);
        for fault in &self.faults {
            println!("         FAULT: {fault}");
        }
        let peak = self.peak_mib.values().max().copied().unwrap_or(0);
        let PlainFigures {
            answered,
            failed,
            p50_ms,
            p99_ms,
            max_ms,
        } = self.plain;
        println!(
            "         memory {peak} MiB; ordinary requests: {answered} answered, {failed} not, median {p50_ms} ms, p99 {p99_ms} ms, most {max_ms} ms"
        );
    }
}

pub(super) fn rounded(ms: f64) -> f64 {
    (ms * 10.0).round() / 10.0
}

impl Report {
    pub(super) fn new(is_silent: bool) -> Self {
        Self {
            attacks: Vec::new(),
            measured: None,
            is_silent,
        }
    }

    pub(super) fn add(&mut self, line: Line) {
        if !self.is_silent {
            line.show();
        }
        self.attacks.push(line);
    }

    /// Whether nothing failed, and something was tried.
    pub(super) fn holds(&self) -> bool {
        let is_measured_well = self.measured.as_ref().is_none_or(|measured| measured.holds);
        !self.attacks.is_empty() && is_measured_well && self.attacks.iter().all(|line| line.holds)
    }

    pub(super) fn conclude(&self) {
        let failed: Vec<_> = self.attacks.iter().filter(|line| !line.holds).collect();
        let peak = self.attacks.iter().flat_map(|line| line.peak_mib.values()).max();
        println!(
            "\n{} attacks, {} hold, {} fail; the most that an agent had in memory: {} MiB of {} MiB",
            self.attacks.len(),
            self.attacks.len() - failed.len(),
            failed.len(),
            peak.copied().unwrap_or(0),
            MEMORY_MAX_BYTES / MIB
        );
        for line in failed {
            println!("  fails: {}: {}", line.by, line.attack);
        }
        if let Some(measured) = &self.measured {
            measured.show();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(holds: bool) -> Line {
        let verdict = Verdict {
            holds,
            said: String::new(),
        };
        Line::new("peer", "some", verdict)
    }

    fn report(lines: impl IntoIterator<Item = Line>) -> Report {
        let mut report = Report::new(true);
        lines.into_iter().for_each(|line| report.add(line));
        report
    }

    #[test]
    fn one_failure_is_enough_and_nothing_tried_is_none() {
        assert!(report([line(true)]).holds());
        assert!(!report([line(true), line(false)]).holds());
        assert!(!report([]).holds());
    }

    #[test]
    fn memory_and_missing_answers_are_faults_of_any_attack() {
        let mut heavy = line(true);
        heavy.weigh("site1", MEMORY_MAX_BYTES - 1);
        assert!(heavy.holds);
        heavy.weigh("site1", MEMORY_MAX_BYTES);
        assert!(!heavy.holds);
        let mut starved = line(true);
        starved.see(&Seen::default());
        assert!(starved.holds);
        starved.see(&Seen {
            took: Vec::new(),
            failed: vec!["timed out".to_owned()],
        });
        assert!(!starved.holds);
    }
}
