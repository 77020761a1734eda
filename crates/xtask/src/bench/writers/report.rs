//! What was found: medians and quartiles over the rounds, ratios within a round, and the machine they are of.

use std::{
    fmt::{self, Write as _},
    fs,
    path::Path,
    process::Command,
};

use anyhow::Result;
use serde::Serialize;

use super::Run;
use crate::bench::report::Quartiles;

/// Of etcd's rate, with as many writers as this.
const RATIO_MIN: f64 = 0.6;
const CHECKED_WRITERS: u16 = 64;
const CPU_MAX_US: f64 = 160.0;

/// One number of writers, round by round.
pub(super) struct Figures {
    pub(super) writers: u16,
    pub(super) cheops: Vec<Run>,
    pub(super) etcd: Vec<Run>,
}

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    rounds: u32,
    seconds: u64,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Machine {
    processor: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
    cheops: String,
    etcd: Option<String>,
}

#[derive(Serialize)]
struct Line {
    writers: u16,
    creates_per_s: Quartiles,
    median_ms: Quartiles,
    cpu_us_accepting: Quartiles,
    cpu_us_other: Quartiles,
    etcd: Option<Beside>,
}

#[derive(Serialize)]
struct Beside {
    puts_per_s: Quartiles,
    median_ms: Quartiles,
    /// Rate of creates in relation to that of puts in the same round.
    ratio: Quartiles,
}

impl Figures {
    pub(super) fn of(writers: u16) -> Self {
        Self {
            writers,
            cheops: Vec::new(),
            etcd: Vec::new(),
        }
    }

    fn line(&self) -> Line {
        let of =
            |runs: &[Run], figure: &dyn Fn(&Run) -> f64| Quartiles::of(runs.iter().map(figure).collect());
        let cpu = |agent: usize| {
            of(&self.cheops, &|run| {
                run.cpu_us.get(agent).copied().unwrap_or(f64::NAN)
            })
        };
        let paired = self.cheops.iter().zip(&self.etcd);
        Line {
            writers: self.writers,
            creates_per_s: of(&self.cheops, &|run| run.per_second),
            median_ms: of(&self.cheops, &|run| run.median_ms),
            cpu_us_accepting: cpu(0),
            cpu_us_other: cpu(1),
            etcd: (!self.etcd.is_empty()).then(|| Beside {
                puts_per_s: of(&self.etcd, &|run| run.per_second),
                median_ms: of(&self.etcd, &|run| run.median_ms),
                ratio: Quartiles::of(
                    paired
                        .map(|(cheops, etcd)| cheops.per_second / etcd.per_second)
                        .collect(),
                ),
            }),
        }
    }
}

impl Report {
    pub(super) fn new(program: &Path, figures: &[Figures], rounds: u32, seconds: u64) -> Self {
        let lines: Vec<_> = figures.iter().map(Figures::line).collect();
        Self {
            machine: Machine::this(program, lines.iter().any(|line| line.etcd.is_some())),
            rounds,
            seconds,
            lines,
        }
    }

    /// Whether what must hold does, of what was measured.
    pub(super) fn holds(&self) -> bool {
        self.lines
            .iter()
            .filter(|line| line.writers == CHECKED_WRITERS)
            .all(|line| {
                let cpu_us = line.cpu_us_accepting.median.max(line.cpu_us_other.median);
                let ratio = line.etcd.as_ref().map(|etcd| etcd.ratio.median);
                cpu_us <= CPU_MAX_US && ratio.is_none_or(|ratio| ratio >= RATIO_MIN)
            })
    }

    /// As JSON, and as Markdown beside it.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(file, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(fs::write(file.with_extension("md"), self.markdown())?)
    }

    fn markdown(&self) -> String {
        let Machine {
            processor,
            cores,
            memory_mib,
            kernel,
            cheops,
            etcd,
        } = &self.machine;
        let etcd = etcd.as_ref().map_or(String::new(), |etcd| format!(", {etcd}"));
        let mut text = format!(
            "# Replicated creates by many writers\n\n\
             `cargo xtask bench writers`: {} rounds of {} s. Medians (quartiles).\n\n\
             {processor}, {cores} cores, {memory_mib} MiB, Linux {kernel}; {cheops}{etcd}. All sites, the applications, etcd and the \
             writers on this one machine.\n\n\
             | writers | creates/s | a create | CPU accepting | CPU other | etcd puts/s | a put | creates to puts |\n\
             |---|---|---|---|---|---|---|---|\n",
            self.rounds, self.seconds
        );
        for line in &self.lines {
            let etcd = line.etcd.as_ref().map_or("| | |".to_owned(), |etcd| {
                format!(
                    "{} | {} | {} |",
                    show(etcd.puts_per_s, 0, ""),
                    show(etcd.median_ms, 2, " ms"),
                    show(etcd.ratio, 2, "")
                )
            });
            // Text takes everything.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {etcd}",
                line.writers,
                show(line.creates_per_s, 0, ""),
                show(line.median_ms, 2, " ms"),
                show(line.cpu_us_accepting, 0, " µs"),
                show(line.cpu_us_other, 0, " µs"),
            );
        }
        text
    }
}

impl Machine {
    fn this(program: &Path, has_etcd: bool) -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name).map(str::to_owned));
            line.map_or(String::new(), |line| {
                line.trim_matches([' ', '\t', ':']).to_owned()
            })
        };
        let first_line = |program: &Path| {
            let output = Command::new(program).arg("--version").output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            text.unwrap_or_default()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let memory_kib: u64 = field("/proc/meminfo", "MemTotal:")
            .trim_end_matches(" kB")
            .parse()
            .unwrap_or(0);
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib / 1024,
            kernel: field("/proc/sys/kernel/osrelease", ""),
            cheops: first_line(program),
            etcd: has_etcd.then(|| first_line(Path::new("etcd"))),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rounds of {} s; medians (quartiles)",
            self.rounds, self.seconds
        )?;
        for line in &self.lines {
            writeln!(
                f,
                "{:>4} writers: {} creates/s, {} each; CPU per create {} accepting, {} other",
                line.writers,
                show(line.creates_per_s, 0, ""),
                show(line.median_ms, 2, " ms"),
                show(line.cpu_us_accepting, 0, " µs"),
                show(line.cpu_us_other, 0, " µs"),
            )?;
            if let Some(etcd) = &line.etcd {
                writeln!(
                    f,
                    "         beside etcd: {} puts/s, {} each; creates to puts {}",
                    show(etcd.puts_per_s, 0, ""),
                    show(etcd.median_ms, 2, " ms"),
                    show(etcd.ratio, 2, ""),
                )?;
            }
        }
        Ok(())
    }
}

fn show(Quartiles { q1, median, q3 }: Quartiles, digits: usize, unit: &str) -> String {
    format!("{median:.digits$}{unit} ({q1:.digits$}–{q3:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(per_second: f64, cpu_us: f64) -> Run {
        Run {
            per_second,
            median_ms: 1.0,
            cpu_us: vec![cpu_us, 1.0],
        }
    }

    fn report(cpu_us: f64, etcd: &[f64]) -> Report {
        let figures = Figures {
            writers: CHECKED_WRITERS,
            cheops: vec![run(60.0, cpu_us), run(120.0, cpu_us), run(60.0, cpu_us)],
            etcd: etcd.iter().map(|rate| run(*rate, 0.0)).collect(),
        };
        Report::new(Path::new("true"), &[figures], 3, 1)
    }

    #[test]
    fn the_ratio_is_taken_within_rounds() {
        assert!(report(100.0, &[100.0, 200.0, 100.0]).holds());
        assert!(!report(100.0, &[200.0, 100.0, 200.0]).holds());
        assert!(!report(161.0, &[60.0, 60.0, 60.0]).holds());
        assert!(report(100.0, &[]).holds());
    }

    #[test]
    fn every_number_of_writers_has_a_row() {
        let text = report(100.0, &[]).markdown();
        assert_eq!(text.lines().filter(|line| line.starts_with("| 64 |")).count(), 1);
    }
}
