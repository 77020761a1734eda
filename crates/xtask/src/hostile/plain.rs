//! Ordinary callers that use no other site, all the time: they must not notice anything.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{client, stage::Stage};

/// An answer that takes longer is none.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What one attack leaves behind is not to be held against the next.
const RECOVERY_MAX: Duration = Duration::from_secs(120);

pub(super) struct Plain {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    pub(super) took: Vec<Duration>,
    /// What was said about requests without a good answer.
    pub(super) failed: Vec<String>,
}

impl Plain {
    /// One caller at each of these addresses, with this pause between two requests.
    pub(super) fn start(to: &[SocketAddr], pause: Duration) -> Self {
        let (stop, seen) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Seen::default())),
        );
        let threads = to.iter().map(|to| {
            let (to, stop, seen) = (*to, stop.clone(), seen.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    let result = ask(to);
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    match result {
                        Ok(()) => seen.took.push(start.elapsed()),
                        Err(error) => seen.failed.push(format!("{to}: {error:#}")),
                    }
                    drop(seen);
                    thread::sleep(pause.saturating_sub(start.elapsed()));
                }
            })
        });
        Self {
            threads: threads.collect(),
            stop,
            seen,
        }
    }

    /// At every honest site.
    pub(super) fn everywhere(stage: &Stage) -> Self {
        let to: Vec<_> = stage.agents.iter().map(|agent| agent.b.addr).collect();
        Self::start(&to, Duration::from_millis(50))
    }

    /// What was seen since the last time.
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits until an agent answers ordinary requests as if nothing was: after how many seconds, if it does at all.
pub(super) fn calm(to: SocketAddr) -> Option<u64> {
    const PROMPT: Duration = Duration::from_millis(500);
    const IN_A_ROW: u32 = 3;
    let start = Instant::now();
    let mut prompt = 0;
    while start.elapsed() < RECOVERY_MAX {
        let asked = Instant::now();
        prompt = match ask(to) {
            Ok(()) if asked.elapsed() < PROMPT => prompt + 1,
            _ => 0,
        };
        if prompt == IN_A_ROW {
            return Some(start.elapsed().as_secs());
        }
    }
    None
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn ask(to: SocketAddr) -> anyhow::Result<()> {
    let mut stream = client::connect(client::ORDINARY, to)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let request = client::request(("GET", "/string"), &[], None);
    let answer = client::exchange(&mut stream, request.as_bytes())?;
    anyhow::ensure!(
        answer.status == 200,
        "answered with {}: {}",
        answer.status,
        answer.text()
    );
    Ok(())
}

impl Seen {
    /// The part of the requests, from 0 to 1, that took no longer.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = ((took.len() as f64 * part).ceil() as usize).clamp(1, took.len().max(1)) - 1;
        took.get(at).map_or(0.0, |took| took.as_secs_f64() * 1_000.0)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.failed.extend(other.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_was_seen() {
        let took = (1..=100).map(Duration::from_millis).collect();
        let seen = Seen {
            took,
            failed: Vec::new(),
        };
        assert!((seen.quantile_ms(0.99) - 99.0).abs() < 1e-9);
        assert!((seen.quantile_ms(1.0) - 100.0).abs() < 1e-9);
        assert!(Seen::default().quantile_ms(0.99).abs() < 1e-9);
    }
}
