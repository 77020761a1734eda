//! What sites tell each other about one set. Authenticated by the transport; operations also carry
//! their origin's signature, so any holder may relay them.

use std::collections::{BTreeMap, BTreeSet};

use cheops_types::{SiteName, Stamp};
use serde::{Deserialize, Serialize};

use crate::{
    Carried, Conflict, Degraded, Digest, Division, Entry, LocalId, Member, MetaId, OpId, Passage, Rank,
    Recognise, Record, Report, Secret, Site, Token, Vector,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub set: MetaId,
    pub from: SiteName,
    /// The life of the receiver's store that the sender knows of; 0 when it knows of none. A receiver
    /// that has lost its store since must not take the message for what it needs.
    pub incarnation: u64,
    pub epoch: u64,
    /// The sender's wall clock.
    #[serde(default)]
    pub now_ms: u64,
    pub report: Report,
    pub content: Content,
}

impl Message {
    /// Says how old the store is that knows what this message tells. Whoever releases a message calls it with the site
    /// as it was persisted: told before, the age would be that of a store which knows less.
    pub fn stamp(&mut self, site: &Site) {
        self.report.age = site.age();
    }

    /// Every credential that travels with it: each is sealed for its site alone, so whoever sends opens them
    /// and whoever receives seals them again.
    pub fn credentials_mut(&mut self) -> impl Iterator<Item = &mut Option<Secret>> {
        let (carried, snapshot) = match &mut self.content {
            Content::Operations(carried) => (Some(carried), None),
            Content::Snapshot(snapshot) => (None, Some(snapshot)),
            _ => (None, None),
        };
        let carried = carried
            .into_iter()
            .flatten()
            .map(|carried| &mut carried.credential);
        let snapshot = snapshot.into_iter().flat_map(|snapshot| {
            let log = snapshot.log.iter_mut().map(|entry| &mut entry.credential);
            log.chain([&mut snapshot.credential])
        });
        carried.chain(snapshot)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Nothing but the report.
    Report,
    Operations(Vec<Carried>),
    Snapshot(Box<Snapshot>),
    /// A digest of the sender's replica, and what had executed then.
    Digest {
        at: Vector,
        digest: Digest,
        /// The sender has been set to the reference's state since, or has refused that.
        #[serde(default)]
        mended: bool,
    },
    /// The sender's state: the receiver's replica differs from it.
    State {
        at: Vector,
        #[serde(with = "crate::bytes")]
        state: Vec<u8>,
        digest: Digest,
    },
    /// The receiver is no longer part of the set.
    Expelled,
}

/// All that a site needs to begin with a set that already has a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub record: Record,
    pub members: BTreeMap<SiteName, Member>,
    pub expelled: BTreeMap<SiteName, u64>,
    pub passages: BTreeMap<SiteName, Passage>,
    /// For the create of the receiver's replica.
    pub token: Token,
    /// Of the first create.
    pub birth: Token,
    #[serde(default)]
    pub born: Option<OpId>,
    pub recognise: Recognise,
    /// What had executed where the state was read; everything below is as of then.
    pub at: Vector,
    /// None: the resource is gone if it is deleted; otherwise no site has a replica to read.
    #[serde(with = "crate::bytes::maybe")]
    pub state: Option<Vec<u8>>,
    pub deleted: Option<OpId>,
    /// The creates in `at` that no delete in `at` covers.
    #[serde(default, with = "crate::pairs")]
    pub creates: BTreeMap<OpId, Token>,
    /// The requests of the last creates in `at` that deletes in `at` cover.
    #[serde(default)]
    pub buried: Vec<Token>,
    /// Why the sender's replica is not what it should be: what begins from it is not either.
    #[serde(default)]
    pub degraded: Option<Degraded>,
    pub pruned: Vector,
    #[serde(default)]
    pub pruned_writes: Vector,
    pub last: Option<Rank>,
    #[serde(default)]
    pub division: Option<Division>,
    /// The latest time in `at`. What the receiver writes must be later still.
    pub time: Stamp,
    pub log: Vec<Entry>,
    pub conflicts: Vec<Conflict>,
    pub dismissed: BTreeSet<OpId>,
    #[serde(default)]
    pub forgone: BTreeSet<OpId>,
    /// Of whoever let the receiver in, for the create of its replica.
    pub credential: Option<Secret>,
    /// What the receiver last called its own replica, in case it has forgotten.
    pub yours: Option<LocalId>,
}
