//! One thing that reads what strangers send.

use crate::targets;

/// A function from bytes that must never break a promise.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// What it reads and what must hold.
    pub about: &'static str,
    /// Whether the input could be read. Panics where a promise is broken.
    pub run: fn(&[u8]) -> bool,
    /// Words of what it reads.
    pub tokens: &'static [&'static [u8]],
}

impl Target {
    pub const ALL: &'static [Self] = targets::ALL;

    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|target| target.name == name)
    }
}
