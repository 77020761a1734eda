//! The operators that join locations.

use std::fmt;

/// From the loosest binding to the tightest. All are associative, so that one node holds all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `A ; B`: left to right, the next when one fails.
    Otherwise,
    /// `A | B`: the nearest one that is available.
    First,
    /// `A % B`: one resource that spans the sites.
    Cross,
    /// `A & B`: a replica at each site; reads are gathered.
    Both,
}

impl Operator {
    pub const ALL: [Self; 4] = [Self::Otherwise, Self::First, Self::Cross, Self::Both];

    pub fn symbol(self) -> char {
        match self {
            Self::Otherwise => ';',
            Self::First => '|',
            Self::Cross => '%',
            Self::Both => '&',
        }
    }

    /// The operator that binds next tighter.
    pub(crate) fn tighter(self) -> Option<Self> {
        match self {
            Self::Otherwise => Some(Self::First),
            Self::First => Some(Self::Cross),
            Self::Cross => Some(Self::Both),
            Self::Both => None,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.symbol())
    }
}
