//! New inputs out of old ones.

use crate::Dice;

/// What an input is at most.
const LENGTH_MAX: usize = 4 * 1024;
/// What a rare one is: what takes time that grows with the square of the length shows only there.
const LONG_MAX: usize = 64 * 1024;
/// One in so many is long.
const LONG_ONCE_IN: usize = 512;
const STEPS_MAX: usize = 6;

/// Numbers at which things break, as text.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "00",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e999",
];

/// Changes inputs by the dice alone: the same seed and the same inputs give the same.
pub struct Mutator<'t> {
    pub dice: Dice,
    /// Words of the language that the target reads.
    tokens: &'t [&'t [u8]],
}

impl<'t> Mutator<'t> {
    pub fn new(seed: u64, tokens: &'t [&'t [u8]]) -> Self {
        let dice = Dice::of(seed);
        Self { dice, tokens }
    }

    /// One of `pool`, changed in one to six places.
    pub fn input(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.dice.pick(pool).cloned().unwrap_or_default();
        let is_long = self.dice.once_in(LONG_ONCE_IN);
        let max = if is_long { LONG_MAX } else { LENGTH_MAX };
        for _ in 0..=self.dice.below(STEPS_MAX) {
            self.step(&mut input, pool);
        }
        if is_long {
            self.repeat(&mut input, max);
        }
        input.truncate(max);
        input
    }

    fn step(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        match self.dice.below(14) {
            0 => self.flip(input),
            1 => self.put_byte(input),
            2 | 3 => self.put_token(input, false),
            4 => self.put_token(input, true),
            5 => {
                let range = self.dice.range(input.len());
                input.drain(range);
            }
            6 => self.copy(input),
            7 | 8 => self.splice(input, pool),
            9 => {
                let end = self.dice.below(input.len() + 1);
                input.truncate(end);
            }
            10 => self.put_number(input),
            11 => self.put_length(input),
            12 => self.repeat(input, LENGTH_MAX),
            _ => self.swap(input),
        }
    }

    fn flip(&mut self, input: &mut [u8]) {
        let bit = 1 << self.dice.below(8);
        let at = self.dice.below(input.len());
        if let Some(byte) = input.get_mut(at) {
            *byte ^= bit;
        }
    }

    fn put_byte(&mut self, input: &mut Vec<u8>) {
        let odd = b"\0\x01\t\n\r \"%'*,-./:;=?[\\]{}\x7f\x80\xc0\xff";
        let byte = if self.dice.once_in(2) {
            self.dice.number() as u8
        } else {
            self.dice.pick(odd).copied().unwrap_or_default()
        };
        let at = self.dice.below(input.len() + 1);
        match input.get_mut(at).filter(|_| self.dice.once_in(2)) {
            Some(old) => *old = byte,
            None => input.insert(at, byte),
        }
    }

    /// Instead of something, or between.
    fn put_token(&mut self, input: &mut Vec<u8>, is_instead: bool) {
        let Some(token) = self.dice.pick(self.tokens) else {
            return self.put_byte(input);
        };
        let mut range = self.dice.range(input.len());
        if !is_instead {
            range.end = range.start;
        }
        input.splice(range, token.iter().copied());
    }

    fn copy(&mut self, input: &mut Vec<u8>) {
        let range = self.dice.range(input.len());
        let copied = input[range].to_vec();
        let at = self.dice.below(input.len() + 1);
        input.splice(at..at, copied);
    }

    fn splice(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let Some(other) = self.dice.pick(pool) else {
            return;
        };
        let taken = other[self.dice.range(other.len())].to_vec();
        let range = self.dice.range(input.len());
        input.splice(range, taken);
    }

    /// A number as text, in the place of one where there is one.
    fn put_number(&mut self, input: &mut Vec<u8>) {
        let number = self.dice.pick(&NUMBERS).copied().unwrap_or_default();
        let from = self.dice.below(input.len() + 1);
        let begin = input[from..].iter().position(u8::is_ascii_digit);
        let start = from + begin.unwrap_or(0);
        let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit());
        let end = start + digits.count();
        input.splice(start..end, number.bytes());
    }

    /// A number as bytes, as it stands in front of what it counts.
    fn put_length(&mut self, input: &mut Vec<u8>) {
        let rest = input.len() as u64;
        let numbers = [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            0xffff,
            0x7fff_ffff,
            0xffff_ffff,
            u64::MAX,
            rest,
            rest + 1,
        ];
        let number = self.dice.pick(&numbers).copied().unwrap_or_default();
        let width = 1 << self.dice.below(4);
        let at = self.dice.below(input.len() + 1);
        let end = (at + width).min(input.len());
        input.splice(at..end, number.to_be_bytes()[8 - width..].iter().copied());
    }

    /// Something many times over, up to `max` in all: depth and length.
    fn repeat(&mut self, input: &mut Vec<u8>, max: usize) {
        let repeated = match self.dice.pick(self.tokens).filter(|_| self.dice.once_in(2)) {
            Some(token) => token.to_vec(),
            None => input[self.dice.range(input.len())].to_vec(),
        };
        let room = max.saturating_sub(input.len()) / repeated.len().max(1);
        let most = if self.dice.once_in(8) { room } else { room.min(200) };
        let times = self.dice.below(most + 1);
        let at = self.dice.below(input.len() + 1);
        input.splice(at..at, repeated.repeat(times));
    }

    fn swap(&mut self, input: &mut [u8]) {
        let (one, other) = (self.dice.below(input.len()), self.dice.below(input.len()));
        if one < input.len() {
            input.swap(one, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_inputs_and_none_is_too_long() {
        let pool = [b"one 1 two".to_vec(), Vec::new(), vec![b'x'; 3000]];
        let tokens: &[&[u8]] = &[b"(", b"word"];
        let hunt = |seed| {
            let mut mutator = Mutator::new(seed, tokens);
            (0..3000).map(|_| mutator.input(&pool)).collect::<Vec<_>>()
        };
        let inputs = hunt(7);
        assert_eq!(inputs, hunt(7));
        assert_ne!(inputs, hunt(8));
        assert!(inputs.iter().all(|input| input.len() <= LONG_MAX));
        assert!(inputs.iter().any(|input| input.len() > LENGTH_MAX));
        assert!(
            inputs
                .iter()
                .any(|input| input.windows(4).any(|part| part == b"word"))
        );
    }
}
