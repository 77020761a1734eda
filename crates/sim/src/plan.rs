//! What a schedule is made of, all of it decided by its seed.

use cheops_replica::{Recognise, Tuning};

use crate::Rng;

/// The dice of one schedule; probabilities are per mille.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the schedule
pub struct Plan {
    pub sites: usize,
    pub sets: usize,
    pub writes: usize,
    /// Virtual time during which things go wrong.
    pub fault_ms: u64,
    pub loss: u32,
    pub duplicate: u32,
    pub delay_max_ms: u64,
    pub cuts: usize,
    /// At each of the moments of a step: before the commit, after it, between two effects.
    pub crash: u32,
    pub app_fails: u32,
    pub app_silent: u32,
    /// The application of a replica refuses for good.
    pub refuses: u32,
    pub locks: u32,
    pub skew_max_ms: u64,
    pub recognise: Recognise,
    pub actions: Actions,
    pub merges: u32,
    pub deletes: u32,
    /// The first set is the parent of the others.
    pub family: bool,
    /// Sets begin with a resource that is there already.
    pub adopts: u32,
    /// Operators dismiss and re-apply conflicts, and give operations up.
    pub errands: usize,
    /// Sites join, leave and are removed.
    pub membership: bool,
    /// Stores are lost.
    pub losses: bool,
    /// A store is copied and put back later.
    pub set_back: bool,
    /// Wall clocks are set, forth and back.
    pub clock_jumps: usize,
    /// Sets have a count that is divided among their sites.
    pub divided: bool,
    pub twists: Twists,
    pub tuning: Tuning,
}

/// What a schedule has besides; probabilities are per mille.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the schedule
pub struct Twists {
    /// Clients choose the names: one is made at several sites at once, deleted, and made again.
    pub named: bool,
    /// How often somebody changes or deletes a replica without telling the agents.
    pub meddles: usize,
    /// Writes whose callers were told that they will execute, and wait no longer.
    pub promised: u32,
    /// Writes that demand something of the resource.
    pub conditional: u32,
    /// Writes that are recorded as the difference that they made.
    pub recast: u32,
    /// Applications answer in odd ways: they point elsewhere, refuse a create with 409 for another reason, answer a
    /// repeated create with 500, and do not tell the ids that they were given.
    pub odd: bool,
    /// A site whose application is always slow.
    pub slow: Option<usize>,
    /// A store is set back by a moment only: what it said was synced was not.
    pub lying_disk: bool,
    /// Operators retry and settle while things go wrong.
    pub meddlesome_operators: usize,
    /// Bodies that are spooled and travel by themselves.
    pub spooled: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actions {
    None,
    Commuting,
    Any,
}

impl Plan {
    pub fn of(rng: &mut Rng) -> Self {
        let sites = rng.between(2, 6) as usize;
        let calm = rng.chance(150);
        let dice = |rng: &mut Rng, max: u32| {
            if calm {
                0
            } else {
                (rng.roll() % u64::from(max + 1)) as u32
            }
        };
        let clock_jumps = if rng.chance(800) { 0 } else { rng.index(4) };
        // A clock that is right again is no further ahead than is accepted.
        let skews: &[u64] = if clock_jumps > 0 {
            &[0, 20, 500]
        } else {
            &[0, 20, 500, 4000]
        };
        let small_log = rng.chance(100);
        let fate = rng.roll() % 1000;
        let is_lossy = (280..360).contains(&fate);
        Self {
            sites,
            sets: rng.between(1, 4) as usize,
            writes: rng.between(4, 28) as usize,
            fault_ms: rng.between(500, 6000),
            loss: dice(rng, 300),
            duplicate: dice(rng, 200),
            delay_max_ms: *rng.pick(&[5, 40, 300, 1200]),
            cuts: if calm { 0 } else { rng.index(8) },
            crash: if rng.chance(400) { 0 } else { dice(rng, 30) },
            app_fails: dice(rng, 200),
            app_silent: if rng.chance(500) { 0 } else { dice(rng, 120) },
            refuses: if rng.chance(700) { 0 } else { dice(rng, 150) },
            locks: if rng.chance(700) { 0 } else { dice(rng, 200) },
            skew_max_ms: *rng.pick(skews),
            recognise: *rng.pick(&[
                Recognise::Marker,
                Recognise::Key,
                Recognise::ChosenId,
                Recognise::Nothing,
            ]),
            actions: *rng.pick(&[Actions::None, Actions::Commuting, Actions::Any]),
            merges: if rng.chance(700) { 600 } else { 0 },
            deletes: if rng.chance(500) { 0 } else { 80 },
            family: rng.chance(250),
            adopts: if rng.chance(850) { 0 } else { 500 },
            errands: if rng.chance(600) { 0 } else { rng.index(6) },
            membership: fate < 300,
            losses: is_lossy,
            set_back: (360..440).contains(&fate),
            clock_jumps,
            // No dice of its own: schedules of before stay what they were.
            divided: fate.is_multiple_of(3),
            twists: Twists::default(),
            tuning: Tuning {
                ahead_max_ms: 1500,
                retry_min_ms: 20,
                retry_max_ms: 500,
                blocked_retry_ms: 300,
                settle_ms: 700,
                resend_min_ms: 60,
                resend_max_ms: 1000,
                batch_max_ops: rng.between(1, 6) as usize,
                batch_max_bytes: 4096,
                log_max_bytes: if small_log { 1200 } else { 1 << 30 },
                // A bound that is reached has a test of its own.
                conflicts_max: usize::MAX,
                // So few that it happens.
                execution_tries_max: 3,
            },
        }
    }

    /// Whether some operations may be dropped before all sites have them.
    pub fn has_small_log(&self) -> bool {
        self.tuning.log_max_bytes < 1 << 20
    }

    /// Whether only operations make state: then the result can be computed from them alone.
    pub fn is_pure(&self) -> bool {
        !self.has_small_log()
            && !self.membership
            && !self.losses
            && self.refuses == 0
            && self.actions != Actions::Any
    }
}
