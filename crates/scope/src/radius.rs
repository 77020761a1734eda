//! The second argument of `around`: a round trip.

use std::fmt;

const UNITS: [(&str, u32); 3] = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];

/// The longest round trip that still counts as near; positive and at most [`Radius::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Radius(u32);

/// Why a text is not a radius.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidRadius {
    NotANumber,
    Fraction,
    NoUnit,
    UnknownUnit,
    Zero,
    TooLong,
}

impl Radius {
    /// One minute: no two sites that can work together are further apart.
    pub const MAX: Self = Self(60_000_000);

    pub fn from_us(us: u32) -> Option<Self> {
        (1..=Self::MAX.0).contains(&us).then_some(Self(us))
    }

    pub fn us(self) -> u32 {
        self.0
    }

    pub(crate) fn parse(text: &str) -> Result<Self, InvalidRadius> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err(InvalidRadius::NotANumber);
        }
        if unit.is_empty() {
            return Err(InvalidRadius::NoUnit);
        }
        if unit.starts_with('.') {
            return Err(InvalidRadius::Fraction);
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(InvalidRadius::UnknownUnit);
        };
        let us = number
            .parse::<u32>()
            .ok()
            .and_then(|count| count.checked_mul(*scale));
        match us {
            None => Err(InvalidRadius::TooLong),
            Some(0) => Err(InvalidRadius::Zero),
            Some(us) => Self::from_us(us).ok_or(InvalidRadius::TooLong),
        }
    }
}

impl fmt::Display for Radius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = UNITS
            .iter()
            .rev()
            .find(|(_, scale)| self.0.is_multiple_of(*scale));
        let (unit, scale) = largest.unwrap_or(&UNITS[0]);
        write!(f, "{}{unit}", self.0 / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_exact_unit_is_printed() {
        for (text, printed) in [
            ("500us", "500us"),
            ("10ms", "10ms"),
            ("10000us", "10ms"),
            ("2s", "2s"),
            ("1500ms", "1500ms"),
            ("60s", "60s"),
        ] {
            assert_eq!(
                Radius::parse(text).map(|radius| radius.to_string()),
                Ok(printed.to_owned())
            );
        }
    }

    #[test]
    fn what_is_not_a_radius() {
        for (text, why) in [
            ("", InvalidRadius::NotANumber),
            ("paris", InvalidRadius::NotANumber),
            ("10", InvalidRadius::NoUnit),
            ("1.5ms", InvalidRadius::Fraction),
            ("10min", InvalidRadius::UnknownUnit),
            ("10MS", InvalidRadius::UnknownUnit),
            ("0ms", InvalidRadius::Zero),
            ("61s", InvalidRadius::TooLong),
            ("99999999999us", InvalidRadius::TooLong),
            ("4294968s", InvalidRadius::TooLong),
        ] {
            assert_eq!(Radius::parse(text), Err(why), "{text}");
        }
    }
}
