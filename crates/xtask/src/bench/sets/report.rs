//! What was measured, beside what is allowed.

use std::fmt;

use serde::Serialize;

use crate::bench::report::Quartiles;

const START_MAX_S: f64 = 5.0;
const MEMORY_MAX_MIB: f64 = 300.0;
const MIB: f64 = 1024.0 * 1024.0;

/// An agent as it was when it took its first connection.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) seconds: f64,
    pub(super) resident_bytes: u64,
}

/// CPU time per request of one kind.
#[derive(Serialize)]
pub(super) struct Outcome {
    pub(super) what: &'static str,
    pub(super) empty_us: Quartiles,
    pub(super) full_us: Quartiles,
    pub(super) ratio: Quartiles,
    pub(super) limit: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Report {
    sets: u32,
    start_s: f64,
    resident_after_start_mib: f64,
    resident_peak_mib: f64,
    requests: Vec<Outcome>,
}

impl Report {
    /// `peak_bytes` is what the full agent had at most during all of it.
    pub(super) fn new(sets: u32, start: Start, (requests, peak_bytes): (Vec<Outcome>, u64)) -> Self {
        Self {
            sets,
            start_s: start.seconds,
            resident_after_start_mib: start.resident_bytes as f64 / MIB,
            resident_peak_mib: peak_bytes as f64 / MIB,
            requests,
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.start_s <= START_MAX_S
            && self.resident_peak_mib <= MEMORY_MAX_MIB
            && self.requests.iter().all(Outcome::holds)
    }
}

impl Outcome {
    fn holds(&self) -> bool {
        self.limit.is_none_or(|limit| self.ratio.median <= limit)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = |holds| if holds { "" } else { "  MORE THAN ALLOWED" };
        writeln!(f, "{} settled replica sets", self.sets)?;
        writeln!(
            f,
            "ready after {:.2} s (limit {START_MAX_S} s){}",
            self.start_s,
            verdict(self.start_s <= START_MAX_S)
        )?;
        writeln!(
            f,
            "resident: {:.0} MiB when ready, {:.0} MiB at most (limit {MEMORY_MAX_MIB} MiB){}",
            self.resident_after_start_mib,
            self.resident_peak_mib,
            verdict(self.resident_peak_mib <= MEMORY_MAX_MIB)
        )?;
        writeln!(
            f,
            "CPU per request, with the sets in relation to without: median (quartiles); behind it both medians"
        )?;
        for outcome in &self.requests {
            let Quartiles { q1, median, q3 } = outcome.ratio;
            let limit = outcome
                .limit
                .map_or(String::new(), |limit| format!(" (limit {limit})"));
            writeln!(
                f,
                "  {:30} {median:.2} ({q1:.2}–{q3:.2})  {:.1} µs, {:.1} µs{limit}{}",
                outcome.what,
                outcome.full_us.median,
                outcome.empty_us.median,
                verdict(outcome.holds())
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(start_s: f64, peak_mib: u64, ratio: f64, limit: Option<f64>) -> Report {
        let all = |value| Quartiles::of(vec![value]);
        let outcome = Outcome {
            what: "x",
            empty_us: all(1.0),
            full_us: all(ratio),
            ratio: all(ratio),
            limit,
        };
        let start = Start {
            seconds: start_s,
            resident_bytes: 0,
        };
        Report::new(10, start, (vec![outcome], peak_mib * 1024 * 1024))
    }

    #[test]
    fn each_limit_counts() {
        assert!(report(5.0, 300, 1.15, Some(1.15)).holds());
        assert!(!report(5.1, 300, 1.15, Some(1.15)).holds());
        assert!(!report(5.0, 301, 1.15, Some(1.15)).holds());
        assert!(!report(5.0, 300, 1.16, Some(1.15)).holds());
        assert!(report(5.0, 300, 9.0, None).holds());
    }

    #[test]
    fn what_is_above_is_told() {
        let text = report(6.0, 10, 1.0, Some(1.15)).to_string();
        assert_eq!(text.matches("MORE THAN ALLOWED").count(), 1, "{text}");
    }
}
