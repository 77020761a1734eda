//! Ids that nobody has used.

use std::{collections::BTreeMap, fmt::Write as _};

use cheops_glue::{IdRule, MetaFormat};
use cheops_replica::{MetaId, Token};
use cheops_types::{Code, Problem, SiteName};
use serde::{Deserialize, Serialize};

use crate::ports::Surroundings;

/// How many parts a range of integers has. Each site draws from one of them.
const SLOTS: u64 = 65_536;

/// The meta-id of a set that is about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NewId {
    Given(MetaId),
    /// Drawn by the engine: the last one drawn is durable with what was made of it.
    Integer {
        counter: String,
        slot: Slot,
    },
}

/// The integers that one site draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    first: u64,
    last: u64,
}

/// How many integers were drawn, by range.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// The next integer; none when all are drawn.
    pub(crate) fn draw(&mut self, counter: &str, slot: Slot) -> Option<MetaId> {
        let drawn = self.0.entry(counter.to_owned()).or_default();
        let number = slot
            .first
            .checked_add(*drawn)
            .filter(|number| *number <= slot.last)?;
        *drawn += 1;
        Some(MetaId::new(&number.to_string()))
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
        MetaFormat::Integer { first, last } => Ok(NewId::Integer {
            // Kinds that share a range share its numbers: a meta-id names one set, whatever its kind.
            counter: format!("{first}-{last}"),
            slot: slot(first, last, site, &surroundings.sites()).map_err(|problem| problem.at(site))?,
        }),
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
    bytes[6] = bytes[6] & 0x0f | 0x40;
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

/// The site's part of a range. Sites cannot agree on parts while they are cut off from each other, so the
/// name alone decides; two names that decide the same are found here, before an id is drawn twice.
fn slot(first: u64, last: u64, site: &SiteName, sites: &[SiteName]) -> Result<Slot, Problem> {
    let number = slot_number(site);
    if let Some(other) = sites
        .iter()
        .find(|other| *other != site && slot_number(other) == number)
    {
        return Err(Problem::new(
            Code::GlueIncomplete,
            format!(
                "`{site}` and `{other}` would draw the same integers as meta-ids: give one of them another name"
            ),
        ));
    }
    let size = (last.saturating_sub(first) / SLOTS).saturating_add(1);
    let start = size
        .checked_mul(number)
        .and_then(|offset| first.checked_add(offset))
        .filter(|start| *start <= last)
        .ok_or_else(|| {
            Problem::new(
                Code::GlueIncomplete,
                format!(
                    "the range {first} to {last} is too short for meta-ids: give it {SLOTS} integers at least"
                ),
            )
        })?;
    Ok(Slot {
        first: start,
        last: start.saturating_add(size - 1).min(last),
    })
}

/// FNV-1a, folded: part of what ids mean at all sites, so it never changes.
fn slot_number(site: &SiteName) -> u64 {
    let hash = site
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SiteName {
        SiteName::new(text).unwrap()
    }

    #[test]
    fn sites_draw_from_parts_of_their_own() {
        let sites = [name("site1"), name("site2")];
        let slots = [0, 1].map(|at: usize| slot(1_000_000, 9_999_999, &sites[at], &sites).unwrap());
        assert!(slots[0].last < slots[1].first || slots[1].last < slots[0].first);
        for slot in slots {
            assert!(slot.first >= 1_000_000 && slot.last <= 9_999_999 && slot.first <= slot.last);
        }
    }

    #[test]
    fn a_part_that_is_used_up_gives_nothing() {
        let slot = Slot { first: 7, last: 8 };
        let mut counters = Counters::default();
        assert_eq!(counters.draw("A orders", slot), Some(MetaId::new("7")));
        assert_eq!(counters.draw("A orders", slot), Some(MetaId::new("8")));
        assert_eq!(counters.draw("A orders", slot), None);
        assert_eq!(counters.draw("A others", slot), Some(MetaId::new("7")));
    }

    #[test]
    fn sites_that_would_draw_the_same_are_told() {
        let first = name("site1");
        let twin = (0..10_000_000_u32)
            .map(|number| name(&format!("x{number}")))
            .find(|other| slot_number(other) == slot_number(&first))
            .unwrap();
        let problem = slot(0, u64::MAX, &first, &[first.clone(), twin.clone()]).unwrap_err();
        assert_eq!(problem.code, Code::GlueIncomplete);
        assert!(problem.detail.contains(twin.as_str()), "{}", problem.detail);
    }

    #[test]
    fn a_short_range_is_refused_or_used_within_its_bounds() {
        for number in 0..200_u32 {
            let site = name(&format!("s{number}"));
            if let Ok(slot) = slot(10, 1_000, &site, &[]) {
                assert!((10..=1_000).contains(&slot.first) && slot.last <= 1_000);
            }
        }
    }
}
