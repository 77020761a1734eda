//! What can happen to a set at a site.

use cheops_types::SiteName;

use crate::{Decision, Digest, Draft, LocalId, Message, OpId, Recast, Secret, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A write that this site is to accept.
    Request(Draft),
    /// From another site, whose certificate says that it is `message.from`.
    Message(Message),
    /// What became of [`crate::Effect::Execute`].
    Executed { ticket: u64, attempt: Attempt },
    /// The connection of [`crate::Effect::Execute`] has ended without an answer, or it ended with an earlier start of
    /// the agent: what the application does with it, it does soon. Told instead of [`Event::Executed`], or after
    /// [`Event::Resume`].
    Broken { ticket: u64, settle_ms: u64 },
    /// [`crate::Effect::Execute`] of a write that is accepted here has succeeded, and is recorded in other words
    /// than those of its caller. [`Event::Executed`] follows.
    Recast { ticket: u64, recast: Box<Recast> },
    /// The group of a strong set has decided a write. Comes at every site, in the same order, and again after a start.
    Decided(Decision),
    /// What became of [`crate::Effect::Look`].
    Looked { ticket: u64, found: Found },
    /// What became of [`crate::Effect::Read`]; none when the replica could not be read.
    Read {
        ticket: u64,
        state: Option<(Vec<u8>, Digest)>,
    },
    /// What became of [`crate::Effect::Read`] where the application says that it has no such resource.
    Missing { ticket: u64 },
    /// The time of [`crate::Set::wake_at_ms`] has come, or another set that this one waits for moved.
    Wake,
    /// The agent has started. Comes before every other event.
    Resume,
    /// A site can be reached again.
    PeerUp(SiteName),
    /// A site can be reached again, and something that this one sent to it, perhaps in answer to what it asked, did not
    /// get there.
    PeerMissed(SiteName),
    /// A site holds something else than is known of it here: it is asked again, and told what it lacks.
    PeerUnsure(SiteName),
    /// A site's store has begun a new life, and it knows nothing of its sets.
    PeerReset { site: SiteName, incarnation: u64 },
    /// The payload of operations is here and synced, or is found to be missing.
    Payload { hash: [u8; 32], is_here: bool },
    /// What was deleted before this time is to be forgotten, if all sites have executed that and nothing is left of it.
    Expire { before_ms: u64 },
    /// An operator, or the clock of the agent, wants the replicas compared, and those that differ repaired.
    Check,
    /// An operator has found out what became of the execution in doubt.
    Settle { executed: bool, local: Option<LocalId> },
    /// An operator, or a repeated request, has brought a credential.
    Credential { operation: OpId, credential: Secret },
    /// Do not wait any longer before the next try. What was refused here and is still kept is tried once
    /// more; a replica that is still degraded then is repaired.
    Retry,
    /// An operator gives up an operation that waits here. The replica is degraded.
    Abandon { operation: OpId },
    /// An operator makes a resource of this site's application the replica that this site lacks. It is
    /// compared with the others and takes their state.
    Claim { local: LocalId },
    /// An operator re-applies what lost, as a new operation.
    Reapply {
        loser: OpId,
        token: Token,
        credential: Option<Secret>,
    },
    /// An operator lets a set go on that was fenced off.
    Unfence,
    /// An operator drops what this site knows of a set that was fenced off. The application's resource stays.
    Drop,
    /// An operator gives up this side of a set whose sides removed each other.
    Yield,
}

/// How an attempt to execute ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    Answered {
        status: u16,
        /// For a create that succeeded.
        local: Option<LocalId>,
        /// What the application said about a refusal.
        said: Option<String>,
    },
    /// The application certainly did not see it.
    NotSent,
    /// No answer: it may have executed, and may still.
    Unknown,
}

/// What a search for a marker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Here(LocalId),
    Nowhere,
    /// The search failed.
    Unknown,
}
