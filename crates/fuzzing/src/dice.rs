//! Random choices that a seed repeats.

/// Small and repeatable (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `sides`; 0 where there are none.
    pub fn below(&mut self, sides: usize) -> usize {
        // The bias is below one in 2^32 for every length that occurs here.
        (self.number() % sides.max(1) as u64) as usize
    }

    /// Once in so many.
    pub fn once_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A range within `length`, more often short than long; empty where there is nothing.
    pub fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = length - start;
        let longest = if self.once_in(4) { most } else { most.min(16) };
        start..start + self.below(longest + 1)
    }
}
