//! How long commits take, for whoever watches the disk.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The engine's commits since the start: from handing a batch to the store until it is durable.
#[derive(Debug, Default)]
pub(crate) struct CommitTimes {
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl CommitTimes {
    /// By the engine's thread only, so that the sum is never behind the count by more than one.
    pub(crate) fn add(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(took_us, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A summary in Prometheus' text form.
impl fmt::Display for CommitTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed));
        writeln!(
            f,
            "# TYPE cheops_store_commit_seconds summary\n\
             cheops_store_commit_seconds_sum {}\n\
             cheops_store_commit_seconds_count {}",
            sum.as_secs_f64(),
            self.count.load(Ordering::Relaxed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_seconds() {
        let times = CommitTimes::default();
        times.add(Duration::from_micros(1_500));
        times.add(Duration::from_millis(2));
        let expected = "# TYPE cheops_store_commit_seconds summary\n\
                        cheops_store_commit_seconds_sum 0.0035\n\
                        cheops_store_commit_seconds_count 2\n";
        assert_eq!(times.to_string(), expected);
    }
}
