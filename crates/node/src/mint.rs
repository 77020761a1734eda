//! Ids that nobody has used.

use std::fmt::Write as _;

use cheops_glue::{IdRule, MetaFormat};
use cheops_replica::{MetaId, Token};
use cheops_types::{Code, Problem, SiteName, Slot};

use crate::surroundings::Surroundings;

/// The meta-id of a set that is about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NewId {
    Given(MetaId),
    /// Derived from the create, whose client chose the name.
    Named,
    /// Drawn by the engine, which alone knows what is in use.
    Integer(Part),
}

/// The integers of a range that one site draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    first: u64,
    last: u64,
}

impl Part {
    /// The part of a site with this slot. What the division leaves over at the end of the range nobody has.
    fn of(first: u64, last: u64, slot: Slot) -> Self {
        let size = (last.saturating_sub(first).saturating_add(1) / Slot::COUNT).max(1);
        // No overflow: the glue takes no range that is shorter than the number of slots.
        let start = first.saturating_add(size.saturating_mul(slot.number()));
        Self {
            first: start.min(last),
            last: start.saturating_add(size - 1).min(last),
        }
    }

    #[cfg(test)]
    pub(crate) fn between(first: u64, last: u64) -> Self {
        Self { first, last }
    }

    /// One of its integers. Counting them would need a memory that a site can lose: then it would count from the
    /// beginning again, through ids that other sites still know.
    pub(crate) fn draw(self, surroundings: &dyn Surroundings) -> MetaId {
        let mut bytes = [0; 8];
        surroundings.fill(&mut bytes);
        let count = u128::from(self.last - self.first) + 1;
        // The upper half of the product: as good as even, whatever the count.
        let offset = (u128::from(u64::from_be_bytes(bytes)) * count) >> 64;
        let number = u128::from(self.first) + offset;
        MetaId::new(&number.to_string())
    }
}

/// The meta-id for a new set of a kind, in the form that the glue wants.
pub(crate) fn new_id(
    surroundings: &dyn Surroundings,
    site: &SiteName,
    service: &str,
    kind: &str,
) -> Result<NewId, Problem> {
    let profile = surroundings.profile();
    let rules = profile.kind(service, kind);
    // Nobody but operators sees the meta-id of what the client names.
    if rules.id_rule() == IdRule::Client {
        return Ok(NewId::Given(uuid(surroundings)));
    }
    match rules.meta_format() {
        MetaFormat::Uuid => Ok(NewId::Given(uuid(surroundings))),
        MetaFormat::Hex => {
            let digits = uuid(surroundings).as_str().replace('-', "");
            Ok(NewId::Given(MetaId::new(&digits)))
        }
        // Kinds may share a range: a meta-id names one set, whatever its kind.
        MetaFormat::Integer { first, last } => {
            let slot = surroundings.slot(site);
            Ok(NewId::Integer(Part::of(first, last, slot)))
        }
        MetaFormat::None => Err(Problem::new(
            Code::GlueIncomplete,
            format!(
                "ids of `{kind}` are integers, and the glue gives no range for meta-ids: \
                 add `meta-id = {{ integer = [first, last] }}` with integers that the application never reaches"
            ),
        )),
    }
}

/// Random, as RFC 9562 has it in version 4.
pub(crate) fn uuid(surroundings: &dyn Surroundings) -> MetaId {
    let mut bytes = [0; 16];
    surroundings.fill(&mut bytes);
    uuid_of(bytes, RANDOM)
}

/// The versions of RFC 9562 that are used: of random bytes, and of bytes that were made in a way of our own.
const RANDOM: u8 = 4;
pub(crate) const MADE: u8 = 8;

pub(crate) fn uuid_of(mut bytes: [u8; 16], version: u8) -> MetaId {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    MetaId::new(&text)
}

/// Letters and digits that make no words.
const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const NAME_END_CHARS: usize = 5;
/// So that a name of it is a label of the domain name system, which many applications want.
const NAME_BEGINNING_MAX_BYTES: usize = 63 - NAME_END_CHARS;

/// A name that begins like this and that probably nothing has.
pub(crate) fn name(surroundings: &dyn Surroundings, beginning: &str) -> String {
    let mut end = beginning.len().min(NAME_BEGINNING_MAX_BYTES);
    while !beginning.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = beginning[..end].to_owned();
    let mut bytes = [0; 32];
    while name.len() < end + NAME_END_CHARS {
        surroundings.fill(&mut bytes);
        // Of 256 values the last 13 would make some letters likelier than others.
        let fair = bytes
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < 243);
        let letters = fair.map(|byte| char::from(NAME_ALPHABET[byte % 27]));
        let missing = end + NAME_END_CHARS - name.len();
        name.extend(letters.take(missing));
    }
    name
}

pub(crate) fn token(surroundings: &dyn Surroundings) -> Token {
    let mut bytes = [0; 16];
    surroundings.fill(&mut bytes);
    Token(u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Lab;

    #[test]
    fn sites_draw_from_parts_of_their_own() {
        for (first, last) in [(1_000_000, 9_999_999), (0, u64::MAX), (7, 7 + Slot::COUNT * 16)] {
            let slots = [0, 1, 4711, Slot::COUNT - 1].map(|number| Slot::new(number).unwrap());
            let parts = slots.map(|slot| Part::of(first, last, slot));
            for pair in parts.windows(2) {
                assert!(pair[0].last < pair[1].first, "{pair:?}");
            }
            for part in parts {
                assert!(first <= part.first && part.last <= last && part.last - part.first >= 15);
            }
        }
    }

    #[test]
    fn what_is_drawn_is_in_the_part_and_all_of_it_can_be() {
        let lab = Lab::new("a");
        let part = Part { first: 7, last: 9 };
        let drawn = (0..100).map(|_| part.draw(&*lab.core.surroundings));
        let drawn: std::collections::BTreeSet<_> = drawn.collect();
        assert_eq!(drawn, ["7", "8", "9"].map(MetaId::new).into());
    }
}
