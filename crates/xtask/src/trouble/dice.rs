//! Random choices that a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// Small and repeatable.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Each `use_number` of a seed has a sequence of its own.
    pub(crate) fn of(seed: u64, use_number: u64) -> Self {
        let mut dice = Self(seed ^ use_number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Neighbouring seeds begin alike.
        for _ in 0..8 {
            dice.throw(2);
        }
        dice
    }

    pub(crate) fn throw(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }

    /// Both ends included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.throw(most - least + 1)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.throw(from.len() as u64) as usize)
    }
}

/// For a run that is to repeat none.
pub(crate) fn some_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64 % 1_000_000_000)
}
