//! The part of every range of integers that one site draws meta-ids from.

use serde::Serialize;

use crate::SiteName;

/// One of [`Slot::COUNT`] equal parts. No two sites of a mesh have the same: what one draws, no other draws, also
/// while they cannot talk to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Slot(u16);

impl Slot {
    pub const COUNT: u64 = 1 << u16::BITS;

    /// None where there is no such slot.
    pub fn new(number: u64) -> Option<Self> {
        u16::try_from(number).ok().map(Self)
    }

    /// The slot of a site for which nobody has chosen one: FNV-1a of its name, folded. Sites expect it of
    /// each other without asking, so it never changes.
    pub fn by_name(site: &SiteName) -> Self {
        let hash = site
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let [.., high, low] = (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48).to_be_bytes();
        Self(u16::from_be_bytes([high, low]))
    }

    pub fn number(self) -> u64 {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_a_name_never_changes() {
        for (name, number) in [("site1", 58_256), ("site2", 64_425), ("paris", 54_136)] {
            assert_eq!(
                Slot::by_name(&SiteName::new(name).unwrap()).number(),
                number,
                "{name}"
            );
        }
    }

    #[test]
    fn there_are_no_more_than_are_counted() {
        assert_eq!(Slot::new(Slot::COUNT - 1).unwrap().number(), Slot::COUNT - 1);
        assert_eq!(Slot::new(Slot::COUNT), None);
    }
}
