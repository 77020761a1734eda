//! How long a process, its threads and its children ran on a processor.

use std::{collections::BTreeMap, fs};

use anyhow::{Result, bail};

/// Nanoseconds on a processor, by thread.
pub(super) struct CpuTime(BTreeMap<u32, u64>);

impl CpuTime {
    /// Reads the threads of a process and of its children, grandchildren and so on. The scheduler's
    /// own accounting counts nanoseconds, where `/proc/<pid>/stat` counts ticks of 10 ms.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let mut threads = BTreeMap::new();
        for process in family(pid) {
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                let thread = task.file_name().to_string_lossy().parse();
                let schedstat = fs::read_to_string(task.path().join("schedstat"));
                if let (Ok(thread), Ok(text)) = (thread, schedstat) {
                    let running_ns = text
                        .split_whitespace()
                        .next()
                        .and_then(|field| field.parse().ok());
                    threads.insert(thread, running_ns.unwrap_or(0));
                }
            }
        }
        if threads.values().all(|ns| *ns == 0) {
            bail!(
                "/proc/{pid}/task/*/schedstat says nothing: the process is gone, or the kernel lacks CONFIG_SCHED_INFO"
            );
        }
        Ok(Self(threads))
    }

    /// Nanoseconds since an earlier reading. What a thread did between its last reading and its end is lost.
    pub(super) fn since(&self, earlier: &Self) -> u64 {
        let ran = |(thread, ns): (&u32, &u64)| ns.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0));
        self.0.iter().map(ran).sum()
    }
}

fn family(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
            parents.push((child, parent));
        }
    }
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(member) = family.get(at).copied() {
        family.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == member)
                .map(|(child, _)| *child),
        );
        at += 1;
    }
    family
}

/// The parent in a line of `/proc/<pid>/stat`; the program's name before it may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_parent() {
        assert_eq!(parent_in("12 (a) b (c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn counts_work_of_this_process() {
        let before = CpuTime::of(std::process::id()).unwrap();
        let mut x = 1_u64;
        for i in 0..3_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
        }
        assert!(CpuTime::of(std::process::id()).unwrap().since(&before) > 0, "{x}");
    }

    #[test]
    fn threads_that_are_new_count_whole() {
        let before = CpuTime(BTreeMap::from([(1, 5), (2, 9)]));
        let after = CpuTime(BTreeMap::from([(1, 8), (3, 4)]));
        assert_eq!(after.since(&before), 7);
    }
}
