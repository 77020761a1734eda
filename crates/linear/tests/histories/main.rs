//! The checker against histories whose answer is known, against all permutations, and against the clock.

mod dice;
mod known;
mod permutations;
mod random;
mod register;
mod speed;
mod text;
