//! What the log holds.

use std::fmt;

use bytes::Bytes;
use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

/// What names an intent: 128 bits that its maker drew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

/// A write that a caller asks for. A majority of the members holds it before any site executes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub token: Token,
    /// The set that it changes. Writes of one set are decided one after another.
    pub set: String,
    /// The site whose caller it is.
    pub from: SiteName,
    /// What to execute, for [`Sets`](crate::Sets) only.
    pub content: Bytes,
}

/// What the application of the leader's site made of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It executed; what all other sites execute.
    Executed { content: Bytes },
    /// It did not and will not; the status of the answer.
    Refused { status: u16 },
}

/// One entry of the log. The first outcome of an intent counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Intent(Intent),
    Outcome { token: Token, verdict: Verdict },
}

impl Command {
    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Intent(intent) => intent.content.len() + intent.set.len(),
            Self::Outcome {
                verdict: Verdict::Executed { content },
                ..
            } => content.len(),
            Self::Outcome { .. } => 0,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ((self.0 >> 64) as u64, self.0 as u64).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (high, low) = <(u64, u64)>::deserialize(deserializer)?;
        Ok(Self(u128::from(high) << 64 | u128::from(low)))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intent(intent) => write!(f, "intent {} of `{}`", intent.token, intent.set),
            Self::Outcome { token, verdict } => match verdict {
                Verdict::Executed { .. } => write!(f, "{token} executed"),
                Verdict::Refused { status } => write!(f, "{token} refused with {status}"),
            },
        }
    }
}
