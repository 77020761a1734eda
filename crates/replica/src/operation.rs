//! One recorded write.

use std::{collections::BTreeSet, fmt};

use cheops_types::{Caller, Consistency, KeptBody, ServiceName, Share, SiteName, Span, Stamp};
use serde::{Deserialize, Serialize};

use crate::{Age, MetaId, OpId, Rank, Token, Vector};

/// A write as its origin recorded it. It never changes; what each site made of it is kept beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub id: OpId,
    pub token: Token,
    pub time: Stamp,
    /// The age of its origin's store: one that is younger has been set back.
    #[serde(default)]
    pub age: Age,
    /// What its origin had executed of this set.
    pub after: Vector,
    /// The creates that its origin's resource was made of. Where deletes cover all of them, nothing is left of an
    /// operation that is no create itself.
    #[serde(default)]
    pub births: BTreeSet<OpId>,
    /// The set's epoch at its origin.
    pub epoch: u64,
    pub verb: Verb,
    pub touches: Footprint,
    pub recognise: Recognise,
    pub needs: Vec<Need>,
    pub request: Request,
    /// Its origin's signature over all of the above. Opaque here: whoever sends makes it for own
    /// operations, whoever receives has checked it before the engine sees the operation.
    #[serde(with = "crate::bytes")]
    pub signature: Vec<u8>,
}

impl Operation {
    pub fn rank(&self) -> Rank {
        Rank {
            time: self.time,
            id: self.id.clone(),
        }
    }

    /// Whether it is the same request, under one number or two. Every holder sees the token: what another site writes under
    /// it is something else.
    pub(crate) fn is_same_write(&self, other: &Self) -> bool {
        self.token == other.token && self.id.author.site == other.id.author.site
    }

    /// Whether neither origin had executed the other's operation.
    pub fn is_concurrent_with(&self, other: &Self) -> bool {
        self.id != other.id && !self.after.includes(&other.id) && !other.after.includes(&self.id)
    }

    /// Whether its origin had seen deletes that leave nothing of the other one.
    pub(crate) fn has_seen_the_end_of(&self, other: &Self) -> bool {
        let is_gone = |birth: &OpId| self.after.includes(birth) && !self.births.contains(birth);
        !matches!(other.verb, Verb::Create(_)) && !other.births.is_empty() && other.births.iter().all(is_gone)
    }

    pub(crate) fn recast(&mut self, recast: Recast) {
        match recast {
            Recast::Merge { touches, request } => {
                (self.verb, self.touches, self.request) = (Verb::Merge, touches, request);
            }
            Recast::Create { request } => self.request = request,
        }
    }

    /// What the operation counts for in a log that is bounded by bytes.
    pub fn bytes(&self) -> u64 {
        const RECORD_BYTES: u64 = 256;
        RECORD_BYTES + (self.request.path.len() + self.request.body.inline_len()) as u64
    }
}

/// What an operation does. Chosen by the glue where the request was accepted, and recorded, so that
/// all sites read it the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Makes the resource: the first operation of every set. Where the client chose the name, later ones may
    /// follow: concurrent ones from other sites, and one after each delete.
    Create(Box<Birth>),
    /// Sets the whole state.
    Replace,
    /// Sets a part of the state: merge patch, apply, or the difference that another patch made.
    Merge,
    /// Anything else.
    Action {
        commutes: bool,
        idempotent: bool,
    },
    Delete,
    /// A site joins; `stay` numbers its stays in the set.
    Join {
        site: SiteName,
        stay: u32,
    },
    /// A site leaves in good order: its operations are kept, its replica is deleted.
    Leave {
        site: SiteName,
    },
    /// A site is removed without being asked. Raises the epoch.
    Expel {
        site: SiteName,
    },
    /// An operator has dealt with a conflict.
    Dismiss {
        loser: OpId,
    },
    /// No good replica has these: the set goes on without them.
    Forgo {
        lost: Vec<Operation>,
    },
}

impl Verb {
    /// Whether the application sees the operation; the others only change the set's record.
    pub fn is_for_application(&self) -> bool {
        matches!(
            self,
            Self::Create(_) | Self::Replace | Self::Merge | Self::Action { .. } | Self::Delete
        )
    }

    /// Whether executing it again leaves the resource as it is.
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Replace | Self::Merge | Self::Delete => true,
            Self::Action { idempotent, .. } => *idempotent,
            _ => false,
        }
    }

    /// Whether it may be executed again to restore the order after a late operation.
    pub fn may_follow_again(&self) -> bool {
        matches!(self, Self::Replace | Self::Merge)
    }
}

/// What all sites must know to begin a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Birth {
    pub service: ServiceName,
    pub kind: String,
    /// The ids of the resource's parents in its path, as meta-ids where they are replicated; empty at the top.
    pub parents: Vec<String>,
    /// The id, where the client chose it: the same at all sites.
    pub name: Option<String>,
    pub sites: BTreeSet<SiteName>,
    /// None: a replica at each site.
    #[serde(default)]
    pub span: Option<Span>,
    /// Counts the sets of one name and one list of sites that have ended.
    #[serde(default)]
    pub generation: u32,
    /// What its caller asked for. Left out where it is the usual one, so that older agents read and verify the rest.
    #[serde(default, skip_serializing_if = "Consistency::is_eventual")]
    pub consistency: Consistency,
}

/// The parts of the resource that an operation reads or writes, as the glue tells them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Footprint {
    Whole,
    /// Pointers into the state. One is within another if it continues it at a `/`.
    Parts(BTreeSet<String>),
}

impl Footprint {
    pub fn parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Parts(parts.into_iter().map(str::to_owned).collect())
    }

    pub fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole, Self::Whole) => true,
            (Self::Whole, Self::Parts(parts)) | (Self::Parts(parts), Self::Whole) => !parts.is_empty(),
            (Self::Parts(a), Self::Parts(b)) => {
                a.iter().any(|a| is_within(a, b)) || b.iter().any(|b| is_within(b, a))
            }
        }
    }

    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole, _) => true,
            (Self::Parts(_), Self::Whole) => false,
            (Self::Parts(a), Self::Parts(b)) => b.iter().all(|b| is_within(b, a)),
        }
    }
}

/// Whether one of `outer` is `inner`, or what `inner` continues at a `/`. Looked up rather than compared one by one: a peer
/// may send tens of thousands of parts.
fn is_within(inner: &str, outer: &BTreeSet<String>) -> bool {
    let mut ends = inner.match_indices('/').map(|(at, _)| at).chain([inner.len()]);
    ends.any(|end| outer.contains(&inner[..end]))
}

/// How a site finds out after a crash whether a create has executed. A name alone proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recognise {
    Nothing,
    /// The application takes an `Idempotency-Key`: the request may be repeated with the token.
    Key,
    /// The token is left in a field that can be searched for.
    Marker,
    /// The id was chosen by an agent: a repeated create that meets it has met its own work.
    ChosenId,
}

/// Another set that an operation waits for at each site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    pub set: MetaId,
    /// False: its replica must exist here (a parent or a reference). True: it must be gone (a child of
    /// what is deleted).
    pub gone: bool,
}

/// The request to repeat, with the resource's id as a hole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: KeptBody,
    pub scope: String,
    /// The caller, as verified where the request was accepted.
    pub caller: Option<Caller>,
    /// Counts of which each site gets a part; in the body stands the whole.
    #[serde(default)]
    pub shares: Vec<Share>,
}

impl Request {
    pub(crate) fn nothing() -> Self {
        Self {
            method: String::new(),
            path: String::new(),
            headers: Vec::new(),
            body: KeptBody::EMPTY,
            scope: String::new(),
            caller: None,
            shares: Vec::new(),
        }
    }
}

/// A caller's credential, sealed by the agent. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(#[serde(with = "crate::bytes")] pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A write that is not yet an operation: what the agent made of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// Minted by the agent for this request alone.
    pub token: Token,
    pub verb: Verb,
    pub touches: Footprint,
    pub recognise: Recognise,
    pub needs: Vec<Need>,
    pub request: Request,
    /// None where the caller made none.
    #[serde(default)]
    pub conditions: Option<Conditions>,
    pub credential: Option<Secret>,
    /// Its caller was told that it is durable, and waits no longer: it survives a restart.
    #[serde(default)]
    pub promised: bool,
    /// A create that is to set the replica that is there, if there is one: an operator wants it again.
    #[serde(default)]
    pub remakes: bool,
}

impl Draft {
    /// Of an operation that no request brings and no application sees.
    pub(crate) fn of_the_set(token: Token, verb: Verb) -> Self {
        Self {
            token,
            verb,
            touches: Footprint::Parts(BTreeSet::new()),
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request: Request::nothing(),
            conditions: None,
            credential: None,
            promised: false,
            remakes: false,
        }
    }
}

/// What an accepted write has done, in words that mean the same at every site: the other sites and the log never
/// see how its caller put it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recast {
    /// The difference that a patch made.
    Merge { touches: Footprint, request: Request },
    /// The create of what a write to a free name made: where the name is taken, an application refuses it.
    Create { request: Request },
}

/// What the caller demands of the resource before the write may execute.
///
/// It is between the caller and the application of the accepting site: that checks it, and only there. So it
/// is no part of the operation; it is kept until the write has its end there, because a repetition after a
/// crash without it would overwrite what the caller had not seen.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    pub headers: Vec<(String, Vec<u8>)>,
    /// The recorded body with the conditions that were taken out of it; none where it had none.
    #[serde(with = "crate::bytes::maybe")]
    pub body: Option<Vec<u8>>,
}

impl fmt::Debug for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        write!(f, "Conditions({names:?}, ")?;
        match &self.body {
            Some(body) => write!(f, "{} bytes)", body.len()),
            None => f.write_str("no body)"),
        }
    }
}
