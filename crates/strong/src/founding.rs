//! What a group is: the sites that founded it.

use std::{collections::BTreeSet, fmt, str::FromStr};

use cheops_types::SiteName;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most sites that found a group, or are members of one: every member acknowledges every write
/// or is caught up later, and a majority of more sites than this is slower than it is safer.
pub const MEMBERS_MAX: usize = 15;

/// The sites that founded a group, and how often these sites founded one.
///
/// It never changes. The members of the group may: sites join, leave and come back with a new store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Founding {
    pub founders: BTreeSet<SiteName>,
    /// Raised when the same sites begin anew, after a majority of the old members was lost for good.
    pub generation: u32,
}

impl Founding {
    /// The first group of these sites.
    pub fn of(founders: impl IntoIterator<Item = SiteName>) -> Self {
        Self {
            founders: founders.into_iter().collect(),
            generation: 0,
        }
    }

    /// Whether a group can be founded so: not without sites and not by too many.
    pub fn is_sane(&self) -> bool {
        (1..=MEMBERS_MAX).contains(&self.founders.len())
    }

    /// How many of the founders are a majority.
    pub fn majority(&self) -> usize {
        self.founders.len() / 2 + 1
    }
}

/// The name of a group: 128 bits of the hash of who founded it, never of who its members are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId([u8; 16]);

/// Why a text is no [`GroupId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a group is named by 32 hexadecimal digits")]
pub struct InvalidGroupId;

impl GroupId {
    pub fn of(founding: &Founding) -> Self {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        context.update(b"cheops strong group\0");
        context.update(&founding.generation.to_be_bytes());
        for site in &founding.founders {
            // A name has no NUL, so that two lists never read alike.
            context.update(site.as_bytes());
            context.update(b"\0");
        }
        let mut id = [0; 16];
        id.copy_from_slice(&context.finish().as_ref()[..16]);
        Self(id)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for GroupId {
    type Err = InvalidGroupId;

    fn from_str(text: &str) -> Result<Self, InvalidGroupId> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(InvalidGroupId);
        }
        let mut id = [0; 16];
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| InvalidGroupId)?;
        }
        Ok(Self(id))
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founding(sites: &[&str], generation: u32) -> Founding {
        Founding {
            founders: sites.iter().map(|name| SiteName::new(name).unwrap()).collect(),
            generation,
        }
    }

    #[test]
    fn an_id_follows_from_founders_and_generation_only() {
        let id = GroupId::of(&founding(&["a", "b", "c"], 0));
        assert_eq!(id, GroupId::of(&founding(&["c", "a", "b"], 0)));
        assert_ne!(id, GroupId::of(&founding(&["a", "b", "c"], 1)));
        assert_ne!(id, GroupId::of(&founding(&["a", "bc"], 0)));
        assert_ne!(
            GroupId::of(&founding(&["ab", "c"], 0)),
            GroupId::of(&founding(&["a", "bc"], 0))
        );
    }

    #[test]
    fn an_id_survives_its_text() {
        let id = GroupId::of(&founding(&["a", "b"], 7));
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "12", &"g".repeat(32), &"é".repeat(16), &"a".repeat(33)] {
            assert_eq!(bad.parse::<GroupId>(), Err(InvalidGroupId), "{bad}");
        }
    }
}
