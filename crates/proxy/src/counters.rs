//! What was done, counted per core so that counting never contends.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counted {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// One counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counted { $($(#[$doc])* $variant,)* }

        impl Counted {
            pub const ALL: &[Counted] = &[$(Counted::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(Counted::$variant => $name,)* }
            }
        }
    };
}

counted! {
    /// Requests without a scope that stayed here.
    Plain = "requests_plain_total",
    /// Requests with a scope.
    Scoped = "requests_scoped_total",
    /// Writes to replica sets that this site took.
    Replicated = "writes_replicated_total",
    /// Requests that another site sent here.
    FromPeers = "requests_from_peers_total",
    /// Requests sent to another site.
    ToPeers = "requests_to_peers_total",
    /// Answers that this agent made itself because something went wrong.
    Problems = "problems_total",
    /// Reads for which a second site was asked.
    Hedged = "reads_hedged_total",
    /// Answers of before that stood in for a service that is down.
    Recalled = "answers_recalled_total",
    /// Connections that switched protocols.
    Upgrades = "upgrades_total",
}

/// One core's counters.
#[derive(Debug, Default)]
pub struct Counters([AtomicU64; Counted::ALL.len()]);

impl Counters {
    pub(crate) fn add(&self, counted: Counted) {
        self.0[counted as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, counted: Counted) -> u64 {
        self.0[counted as usize].load(Ordering::Relaxed)
    }
}
