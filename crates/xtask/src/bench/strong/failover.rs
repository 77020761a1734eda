//! How long writes wait when the site that decides is gone, and when it comes back.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::cheops::{Cheops, Writers};
use crate::{bench::client::Client, trouble::Site};

/// Writers write undisturbed for so long.
const CALM: Duration = Duration::from_secs(1);
/// The site is gone for so long, and then watched for so long.
const GONE: Duration = Duration::from_secs(5);
const BACK: Duration = Duration::from_secs(5);
/// Before a writer that was refused asks again.
const PAUSE: Duration = Duration::from_millis(10);

/// One of them.
pub(super) struct Failover {
    /// From the kill to the first answer to a write that was sent after it, where that was soonest.
    pub(super) first: Duration,
    /// The same where it took longest.
    pub(super) everywhere: Duration,
    /// The longest time between two accepted writes of a writer once the site runs again.
    pub(super) back: Duration,
}

/// An accepted write of a writer at one site.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    through: Site,
    sent: Instant,
    answered: Instant,
}

/// Kills the agent of the site that decides, starts it again, and has one writer write at each other site meanwhile.
pub(super) fn play(cheops: &mut Cheops) -> Result<Failover> {
    let mut client = Client::connect(cheops.writers.public[0])?;
    let (_, decides) = cheops.writers.put(&mut client, 0)?;
    let gone = decides.context("no receipt says which site decides")?;
    let (stop, writers) = (AtomicBool::new(false), cheops.writers.clone());
    let others = (0..writers.public.len()).filter(|site| *site != gone);
    let others: Vec<_> = others.collect();
    thread::scope(|threads| {
        let (stop, writers) = (&stop, &writers);
        let running: Vec<_> = others
            .iter()
            .map(|through| threads.spawn(move || write(writers, *through, stop)))
            .collect();
        thread::sleep(CALM);
        let killed = Instant::now();
        cheops.sites.kill(gone);
        thread::sleep(GONE);
        let back = Instant::now();
        let started = cheops.sites.start_again(gone);
        thread::sleep(BACK);
        let end = Instant::now();
        stop.store(true, Relaxed);
        let accepted = running.into_iter().flat_map(|one| one.join().unwrap_or_default());
        let accepted: Vec<_> = accepted.collect();
        started?;
        Ok(judge(&accepted, &others, (killed, back, end)))
    })
}

fn write(writers: &Writers, through: Site, stop: &AtomicBool) -> Vec<Accepted> {
    let mut accepted = Vec::new();
    let mut client = None;
    while !stop.load(Relaxed) {
        let sent = Instant::now();
        let mut own = match client.take() {
            Some(client) => client,
            None => match Client::connect(writers.public[through]) {
                Ok(client) => client,
                Err(_) => continue,
            },
        };
        if writers.put(&mut own, through as u64).is_ok() {
            accepted.push(Accepted {
                through,
                sent,
                answered: Instant::now(),
            });
            client = Some(own);
        } else {
            thread::sleep(PAUSE);
        }
    }
    accepted
}

/// A writer that was never answered again waited until the end.
fn judge(
    accepted: &[Accepted],
    others: &[Site],
    (killed, back, end): (Instant, Instant, Instant),
) -> Failover {
    let own = |site: Site| accepted.iter().filter(move |one| one.through == site);
    let again = others.iter().map(|site| {
        let first = own(*site).find(|one| one.sent >= killed);
        first.map_or(end, |first| first.answered.min(end)) - killed
    });
    let again: Vec<_> = again.collect();
    let longest = others.iter().map(|site| {
        let mut moments = vec![back];
        moments.extend(
            own(*site)
                .map(|one| one.answered)
                .filter(|at| (back..end).contains(at)),
        );
        moments.push(end);
        let gaps = moments.windows(2).map(|ends| ends[1] - ends[0]);
        gaps.max().unwrap_or_default()
    });
    Failover {
        first: again.iter().min().copied().unwrap_or_default(),
        everywhere: again.iter().max().copied().unwrap_or_default(),
        back: longest.max().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_kill_and_from_the_return() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let accepted = |through, sent, answered| Accepted {
            through,
            sent: at(sent),
            answered: at(answered),
        };
        let all = [
            accepted(1, 50, 110),
            accepted(1, 120, 300),
            accepted(2, 90, 250),
            accepted(2, 260, 400),
            accepted(1, 500, 650),
            accepted(2, 500, 700),
        ];
        let found = judge(&all, &[1, 2], (at(100), at(600), at(900)));
        let ms = Duration::from_millis;
        assert_eq!(
            [found.first, found.everywhere, found.back],
            [ms(200), ms(300), ms(250)]
        );
        let never = judge(&all[..1], &[1, 2], (at(100), at(600), at(900)));
        assert_eq!([never.first, never.back], [ms(800), ms(300)]);
    }
}
