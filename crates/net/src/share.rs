//! A peer's share of a core's time, for as long as clients want that core too.
//!
//! What a peer sends is decrypted and taken apart by the core that accepted its connection, whatever becomes of it later. So one that
//! sends without end would have every client of that core wait for it:
//!
//! ```text
//! core   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ peer ▓▓▓▓▓▓▓▓▓▓▓│client
//!             client is here ▲
//! core   ▓▓▓│client│      ▓▓▓│    │client│ ▓▓▓│       with a share: the rest waits in the peer's own windows
//! ```
//!
//! On a core that no client uses, a peer is read as fast as it can be.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::Future,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use cheops_types::{Limit, SiteName};
use tokio::time::{Sleep, sleep};

use crate::Clock;

/// A core counts as used by clients for so long after one of them was seen.
const CLIENTS_MS: u64 = 1_000;
/// What a peer may take at once after a while of quiet. Ordinary requests stay far below it.
const AT_ONCE: Duration = Duration::from_millis(1);
/// What it can owe. A machine that was suspended in the middle of a turn, or hours of sending to a core without clients, must not
/// keep a peer from it once clients come.
const OWED_MAX: Duration = Duration::from_millis(20);

/// Who uses one core.
pub(crate) struct Shares {
    clock: Rc<Clock>,
    clients_seen_ms: Cell<Option<u64>>,
    peers: RefCell<HashMap<SiteName, Weak<Account>>>,
}

/// What one peer has left on one core, over all of its connections.
struct Account {
    /// Below zero: what it has taken beyond its share.
    left_us: Cell<i64>,
    counted_at: Cell<Instant>,
}

/// One connection of a peer.
pub(crate) struct Share {
    shares: Rc<Shares>,
    account: Rc<Account>,
    percent: u32,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Shares {
    pub(crate) fn new(clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            clock,
            clients_seen_ms: Cell::default(),
            peers: RefCell::default(),
        })
    }

    /// A client wants something of this core.
    pub(crate) fn see_client(&self) {
        self.clients_seen_ms.set(Some(self.clock.now_ms()));
    }

    fn are_clients_here(&self) -> bool {
        let now_ms = self.clock.now_ms();
        let seen = self.clients_seen_ms.get();
        seen.is_some_and(|seen_ms| now_ms.saturating_sub(seen_ms) <= CLIENTS_MS)
    }

    pub(crate) fn of(self: &Rc<Self>, peer: &SiteName, percent: u32) -> Share {
        let mut peers = self.peers.borrow_mut();
        let account = peers.get(peer).and_then(Weak::upgrade).unwrap_or_else(|| {
            peers.retain(|_, account| account.strong_count() > 0);
            let account = Rc::new(Account::new(Instant::now()));
            peers.insert(peer.clone(), Rc::downgrade(&account));
            account
        });
        Share {
            shares: self.clone(),
            account,
            percent: percent.clamp(1, 100),
            wait: None,
        }
    }
}

impl Account {
    fn new(now: Instant) -> Self {
        Self {
            left_us: Cell::new(micros(AT_ONCE)),
            counted_at: Cell::new(now),
        }
    }

    /// How long the peer has to wait, after what it has earned until now.
    fn wait(&self, now: Instant, percent: u32) -> Duration {
        let percent = i64::from(percent);
        let passed = micros(now.saturating_duration_since(self.counted_at.get()));
        let left = self.left_us.get().saturating_add(passed * percent / 100);
        self.left_us.set(left.min(micros(AT_ONCE)));
        self.counted_at.set(now);
        let owed = u64::try_from(-self.left_us.get()).unwrap_or(0);
        Duration::from_micros(owed * 100 / percent.unsigned_abs())
    }

    fn spend(&self, took: Duration) {
        let left_us = self.left_us.get().saturating_sub(micros(took));
        self.left_us.set(left_us.max(-micros(OWED_MAX)));
    }
}

impl Share {
    /// Ready when it is this connection's turn.
    pub(crate) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(wait) = &mut self.wait {
                std::task::ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            let wait = self.account.wait(Instant::now(), self.percent);
            if wait.is_zero() || !self.shares.are_clients_here() {
                return Poll::Ready(());
            }
            Limit::PeerCoreShare.hit();
            self.wait = Some(Box::pin(sleep(wait)));
        }
    }

    /// Runs the connection for a turn, and counts what that takes.
    pub(crate) fn run<T>(&self, turn: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = turn();
        self.account.spend(start.elapsed());
        result
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_takes_more_than_a_share_waits_until_it_is_one() {
        let start = Instant::now();
        let account = Account::new(start);
        account.spend(AT_ONCE);
        assert_eq!(account.wait(start, 25), Duration::ZERO, "so much is free at once");
        account.spend(MS);
        assert_eq!(account.wait(start, 25), 4 * MS);
        assert_eq!(account.wait(start + 3 * MS, 25), MS);
        assert_eq!(account.wait(start + 4 * MS, 25), Duration::ZERO);
        // What is not used does not add up.
        let later = start + Duration::from_secs(60);
        assert_eq!(account.wait(later, 25), Duration::ZERO);
        account.spend(AT_ONCE + MS);
        assert_eq!(account.wait(later, 25), 4 * MS);
    }

    #[test]
    fn what_a_peer_took_while_nobody_wanted_the_core_cuts_it_off_for_a_moment_only() {
        let start = Instant::now();
        let account = Account::new(start);
        for _ in 0..10_000 {
            account.spend(MS);
        }
        assert_eq!(account.wait(start, 50), 2 * OWED_MAX);
        assert_eq!(account.wait(start + 2 * OWED_MAX, 50), Duration::ZERO);
    }

    #[test]
    fn connections_of_one_peer_share_and_those_of_others_do_not() {
        let shares = Shares::new(Clock::new());
        let (greedy, other) = (SiteName::new("greedy").unwrap(), SiteName::new("other").unwrap());
        let first = shares.of(&greedy, 25);
        let second = shares.of(&greedy, 25);
        first.account.spend(AT_ONCE + 10 * MS);
        assert!(second.account.wait(Instant::now(), 25) > 20 * MS);
        assert!(shares.of(&other, 25).account.wait(Instant::now(), 25).is_zero());
        drop((first, second));
        let _third = shares.of(&SiteName::new("third").unwrap(), 25);
        assert_eq!(shares.peers.borrow().len(), 1, "who is gone is forgotten");
    }

    #[test]
    fn nobody_waits_where_no_client_is() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let shares = Shares::new(Clock::new());
            let mut share = shares.of(&SiteName::new("peer").unwrap(), 25);
            share.account.spend(Duration::from_secs(1));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(share.poll_turn(&mut cx).is_ready());
            shares.see_client();
            assert!(share.poll_turn(&mut cx).is_pending());
        });
    }
}
