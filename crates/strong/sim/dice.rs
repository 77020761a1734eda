//! Random numbers from a seed, shared by all that happens in a world.

use std::{cell::Cell, ops::Range};

/// SplitMix64.
#[derive(Debug)]
pub struct Dice(Cell<u64>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5bd1_e995))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub fn index(&self, len: usize) -> usize {
        self.within(0..len as u64) as usize
    }

    /// One time in so many.
    pub fn one_in(&self, times: u64) -> bool {
        self.within(0..times) == 0
    }
}
