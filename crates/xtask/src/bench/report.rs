//! Ratios to the first contender, by medians and quartiles over the rounds.

use std::fmt;

use serde::Serialize;

use super::{contender::Contender, load::Load, proxy::Measure};

#[derive(Serialize)]
pub(super) struct Report {
    rounds: usize,
    seconds: u64,
    connections: usize,
    pause_ms: u64,
    proxies: Vec<Line>,
    aims: Vec<Reached>,
}

/// What one proxy may take in relation to another in the same round.
struct Aim {
    of: Contender,
    beside: Contender,
    quantity: (&'static str, fn(&Measure) -> f64),
    max: f64,
    /// It means something only where both are asked equally often.
    at_equal_rate: bool,
}

const CPU: (&str, fn(&Measure) -> f64) = ("CPU", |m| m.cpu_us);
const P99: (&str, fn(&Measure) -> f64) = ("p99", |m| m.seen.p99_us);

const AIMS: [Aim; 5] = [
    aim(Contender::Cheops, Contender::Nginx, CPU, 0.95),
    aim(Contender::Cheops, Contender::Haproxy, CPU, 0.9),
    aim(Contender::CheopsScope, Contender::Cheops, CPU, 1.1),
    aim(Contender::CheopsScope, Contender::HaproxyLua, CPU, 0.75),
    Aim {
        at_equal_rate: true,
        ..aim(Contender::Cheops, Contender::Haproxy, P99, 1.0)
    },
];

const fn aim(
    of: Contender,
    beside: Contender,
    quantity: (&'static str, fn(&Measure) -> f64),
    max: f64,
) -> Aim {
    Aim {
        of,
        beside,
        quantity,
        max,
        at_equal_rate: false,
    }
}

/// An aim, and the median of the rounds' ratios.
#[derive(Serialize)]
struct Reached {
    what: String,
    ratio: Quartiles,
    max: f64,
    holds: bool,
}

#[derive(Serialize)]
struct Line {
    name: String,
    #[serde(skip)]
    contender: Contender,
    cpu_us: Figure,
    p50_us: Figure,
    p90_us: Figure,
    p99_us: Figure,
    requests_per_s: Figure,
}

/// One quantity: as it was, and in relation to the first contender in the same round.
#[derive(Serialize)]
struct Figure {
    value: Quartiles,
    ratio: Quartiles,
}

type Quantity = fn(&Line) -> &Figure;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Quartiles {
    pub(super) q1: f64,
    pub(super) median: f64,
    pub(super) q3: f64,
}

impl Report {
    /// Each round holds the contenders' measures in the order of `contenders`.
    pub(super) fn new(
        contenders: &[Contender],
        rounds: &[Vec<Measure>],
        load: Load<'_>,
        pause_ms: u64,
    ) -> Self {
        let figure = |at: usize, quantity: fn(&Measure) -> f64| Figure {
            value: Quartiles::of(rounds.iter().map(|round| quantity(&round[at])).collect()),
            ratio: Quartiles::of(
                rounds
                    .iter()
                    .map(|round| quantity(&round[at]) / quantity(&round[0]))
                    .collect(),
            ),
        };
        let line = |(at, contender): (usize, &Contender)| Line {
            name: contender.to_string(),
            contender: *contender,
            cpu_us: figure(at, |m| m.cpu_us),
            p50_us: figure(at, |m| m.seen.p50_us),
            p90_us: figure(at, |m| m.seen.p90_us),
            p99_us: figure(at, |m| m.seen.p99_us),
            requests_per_s: figure(at, |m| m.seen.requests_per_s),
        };
        Self {
            rounds: rounds.len(),
            seconds: load.seconds,
            connections: load.connections,
            pause_ms,
            proxies: contenders.iter().enumerate().map(line).collect(),
            aims: AIMS
                .iter()
                .filter(|aim| !aim.at_equal_rate || pause_ms > 0)
                .filter_map(|aim| aim.look(contenders, rounds))
                .collect(),
        }
    }

    /// The median of a contender's CPU time per request in relation to the first one's.
    pub(super) fn cpu_ratio(&self, contender: Contender) -> f64 {
        let line = self.proxies.iter().find(|line| line.contender == contender);
        line.map_or(f64::NAN, |line| line.cpu_us.ratio.median)
    }
}

impl Aim {
    /// None where one of the two was not measured.
    fn look(&self, contenders: &[Contender], rounds: &[Vec<Measure>]) -> Option<Reached> {
        let at = |wanted| contenders.iter().position(|contender| *contender == wanted);
        let (of, beside) = (at(self.of)?, at(self.beside)?);
        let (name, quantity) = self.quantity;
        let ratios = rounds
            .iter()
            .map(|round| quantity(&round[of]) / quantity(&round[beside]));
        let ratio = Quartiles::of(ratios.collect());
        Some(Reached {
            what: format!("{name} of {}, times {}'s", self.of, self.beside),
            ratio,
            max: self.max,
            holds: ratio.median <= self.max,
        })
    }
}

impl Quartiles {
    /// Of at least one value.
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let position = share * (values.len() - 1) as f64;
            let (low, high) = (
                values[position.floor() as usize],
                values[position.ceil() as usize],
            );
            low + (high - low) * position.fract()
        };
        Self {
            q1: at(0.25),
            median: at(0.5),
            q3: at(0.75),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.proxies.first().map_or("", |line| &line.name);
        writeln!(
            f,
            "{} paired rounds of {} s, {} connections that wait {} ms between requests\nratio to {first}: median (quartiles); \
             behind it the absolute median, for information",
            self.rounds, self.seconds, self.connections, self.pause_ms
        )?;
        let names: Vec<_> = self.proxies.iter().map(|line| line.name.clone()).collect();
        write_row(f, "", &names)?;
        let rows: [(&str, &str, Quantity); 5] = [
            ("CPU/request", " µs", |line| &line.cpu_us),
            ("p50", " µs", |line| &line.p50_us),
            ("p90", " µs", |line| &line.p90_us),
            ("p99", " µs", |line| &line.p99_us),
            ("requests/s", "", |line| &line.requests_per_s),
        ];
        for (name, unit, figure) in rows {
            let cells: Vec<_> = self.proxies.iter().map(|line| figure(line).show(unit)).collect();
            write_row(f, name, &cells)?;
        }
        for aim in &self.aims {
            let Quartiles { q1, median, q3 } = aim.ratio;
            let verdict = if aim.holds { "reached" } else { "NOT reached" };
            let what = &aim.what;
            writeln!(
                f,
                "{what}: {median:.2} ({q1:.2}–{q3:.2}); aim {}: {verdict}",
                aim.max
            )?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, cells: &[String]) -> fmt::Result {
    let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:<28}")).collect();
    writeln!(f, "{name:12} {}", cells.join(" ").trim_end())
}

impl Figure {
    fn show(&self, unit: &str) -> String {
        let Quartiles { q1, median, q3 } = self.ratio;
        let value = self.value.median;
        let digits = usize::from(value < 100.0);
        format!("{median:.2} ({q1:.2}–{q3:.2}) {value:.digits$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::Seen;

    fn measure(cpu_us: f64) -> Measure {
        Measure {
            cpu_us,
            seen: Seen {
                requests: 1,
                requests_per_s: 1.0,
                p50_us: 1.0,
                p90_us: 1.0,
                p99_us: 1.0,
            },
        }
    }

    #[test]
    fn quartiles_interpolate() {
        let quartiles = Quartiles::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            quartiles,
            Quartiles {
                q1: 1.75,
                median: 2.5,
                q3: 3.25
            }
        );
        assert_eq!(
            Quartiles::of(vec![7.0]),
            Quartiles {
                q1: 7.0,
                median: 7.0,
                q3: 7.0
            }
        );
    }

    #[test]
    fn the_ratio_is_taken_within_rounds() {
        // The machine was twice as slow in the second round, for both.
        let rounds = [[10.0, 11.0], [20.0, 22.0], [10.0, 11.0]].map(|round| round.map(measure).into());
        let load = Load {
            core: 0,
            connections: 1,
            seconds: 1,
            script: None,
            header: None,
        };
        let report = Report::new(&[Contender::Nginx, Contender::Cheops], &rounds, load, 0);
        let aims: Vec<_> = report.aims.iter().map(|aim| aim.holds).collect();
        assert_eq!(aims, [false], "1.1 times nginx's CPU is more than the aim");
        assert!((report.cpu_ratio(Contender::Cheops) - 1.1).abs() < 1e-9);
    }
}
