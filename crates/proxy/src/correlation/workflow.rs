//! One workflow, and the scope that it carries.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use cheops_scope::Scope;
use cheops_types::{Limits, Visit};

use super::lock;

/// Steps of one workflow that its receipt can tell.
const STEPS_MAX: usize = 32;

/// A scope on its way: parsed once, in full form, with its text.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) scope: Scope,
    pub(crate) text: String,
    /// Whether a replica executes an operation: the other sites do the same at theirs.
    pub(crate) inside_replica: bool,
}

impl Carried {
    pub(crate) fn new(scope: Scope) -> Arc<Self> {
        Arc::new(Self {
            text: scope.to_string(),
            scope,
            inside_replica: false,
        })
    }
}

/// How long a workflow is remembered after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// A read began it: when it is answered, little goes on.
    Read,
    /// A write began it: services may go on behind the answer.
    Write,
    /// The application said that it goes on behind the answer.
    Asynchronous,
}

impl Lasting {
    fn idle_ms(self, limits: &Limits) -> u64 {
        let idle_s = match self {
            Self::Read => limits.correlation_read_idle_s,
            Self::Write => limits.correlation_idle_s,
            Self::Asynchronous => limits.correlation_async_idle_s,
        };
        idle_s.saturating_mul(1000)
    }

    fn of(byte: u8) -> Self {
        match byte {
            byte if byte == Self::Read as u8 => Self::Read,
            byte if byte == Self::Write as u8 => Self::Write,
            _ => Self::Asynchronous,
        }
    }
}

/// One workflow under way.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) key: u128,
    pub(crate) carried: Arc<Carried>,
    last_used_ms: AtomicU64,
    lasting: AtomicU8,
    steps: Mutex<Vec<Visit>>,
}

impl Workflow {
    pub(super) fn new(key: u128, carried: Arc<Carried>, lasting: Lasting, now_ms: u64) -> Self {
        Self {
            key,
            carried,
            last_used_ms: AtomicU64::new(now_ms),
            lasting: AtomicU8::new(lasting as u8),
            steps: Mutex::default(),
        }
    }

    /// Notes sites that a call of the workflow reached.
    pub(crate) fn note(&self, visits: impl IntoIterator<Item = Visit>) {
        let mut steps = lock(&self.steps);
        for visit in visits {
            // Beyond that only services that were not called before.
            if steps.len() < STEPS_MAX || !steps.iter().any(|step| step.service == visit.service) {
                steps.push(visit);
            }
        }
    }

    pub(crate) fn take_steps(&self) -> Vec<Visit> {
        std::mem::take(&mut *lock(&self.steps))
    }

    pub(super) fn renew(&self, now_ms: u64) {
        self.last_used_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(super) fn is_idle(&self, now_ms: u64, limits: &Limits) -> bool {
        let idle_ms = now_ms.saturating_sub(self.last_used_ms.load(Ordering::Relaxed));
        idle_ms > self.lasting().idle_ms(limits)
    }

    pub(super) fn is_asynchronous(&self) -> bool {
        self.lasting() == Lasting::Asynchronous
    }

    /// Whether this call made it asynchronous.
    pub(super) fn becomes_asynchronous(&self) -> bool {
        let before = self.lasting.swap(Lasting::Asynchronous as u8, Ordering::Relaxed);
        Lasting::of(before) != Lasting::Asynchronous
    }

    fn lasting(&self) -> Lasting {
        Lasting::of(self.lasting.load(Ordering::Relaxed))
    }
}
