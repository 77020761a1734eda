//! Random choices that a seed repeats.

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
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
        (self.0 >> 33) % sides
    }
}
