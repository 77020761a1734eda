//! Names of sets, replicas and operations.

use std::{fmt, sync::Arc};

use cheops_types::{SiteName, Stamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: &str) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|text| Self(text.into()))
            }
        }
    };
}

text_id! {
    /// The name of a replica set, the same at all its sites and used by nothing else ever again.
    MetaId
}

text_id! {
    /// What one site's application calls its replica. It counts at that site only.
    LocalId
}

/// Who numbers operations: a site, as long as its store lasts and it stays in the set.
///
/// `incarnation` is that of the site's store, which grows whenever that is made anew or restored; or, after a start
/// and until the other members have confirmed that the store was not set back, the number of that start. `stay`
/// grows when the site comes back to a set that it was removed from. So a number is never given twice, and what an
/// author wrote in an earlier life is never mistaken for what it writes now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Author {
    pub site: SiteName,
    pub incarnation: u64,
    pub stay: u32,
}

/// An operation of one set: the `seq`-th of its author there, counted from 1 without gaps.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId {
    pub author: Author,
    pub seq: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Author {
            site,
            incarnation,
            stay,
        } = &self.author;
        write!(f, "{site}.{incarnation}.{stay}.{}", self.seq)
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The place of an operation in the order of its set: by time, then by site name. An operation
/// comes after everything that its origin had executed, because the clock had witnessed it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    pub time: Stamp,
    pub id: OpId,
}

/// Identifies one request to an application, whoever makes it: what a marker or an
/// `Idempotency-Key` holds. Unlike an [`OpId`], it is not used again when the request is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub u128);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}
