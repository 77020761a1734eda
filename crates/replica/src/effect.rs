//! What a step wants done, once its state is durable.
//!
//! An effect may be lost in a crash or happen twice: after [`crate::Event::Resume`] the engine asks
//! again for what is still needed, and recognises what it hears twice.

use cheops_types::SiteName;

use crate::{Carried, Conditions, LocalId, Message, MetaId, OpId, Recognise, Request, Secret, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Send {
        to: SiteName,
        message: Message,
    },
    /// Hand a request to this site's application and tell [`crate::Event::Executed`].
    Execute(Execution),
    /// Let the group of a strong set note what this site's application made of a write; [`crate::Event::Decided`] follows. The
    /// operation is not signed yet.
    Propose {
        token: Token,
        proposal: Proposal,
    },
    /// Search for the replica that carries a marker and tell [`crate::Event::Looked`].
    Look {
        ticket: u64,
        token: Token,
    },
    /// Read this site's replica and tell [`crate::Event::Read`].
    Read {
        ticket: u64,
        local: LocalId,
    },
    /// Answer the request of this token.
    Answer {
        token: Token,
        answer: Answer,
    },
    /// More sites hold or have executed an operation of this site, or one says something else about what it
    /// waits for.
    Progress {
        operation: OpId,
        token: Token,
    },
    /// This site's replica came or went, or the set has ended here: sets that wait for that can go on.
    Moved(MetaId),
    /// The set came to nothing: its create was refused, or an operator dropped it. Delete its row.
    Forget,
}

/// What a site's application made of a write that the sites of its set decide together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    Executed { carried: Box<Carried>, status: u16 },
    Refused { status: u16 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    pub ticket: u64,
    /// For the marker or the `Idempotency-Key`.
    pub token: Token,
    pub recognise: Recognise,
    /// Makes another `Idempotency-Key` of the token, or of the caller's own key. What the application remembers of the key
    /// itself may be gone from the replica, since that was set to another one's state.
    pub renewal: Option<Token>,
    pub form: Form,
    /// Of a write that this site accepts, at every attempt: a caller that could say them again may be gone.
    pub conditions: Option<Conditions>,
    pub credential: Option<Secret>,
    /// The site that accepted the operation; none where there is no operation.
    pub origin: Option<SiteName>,
    /// The site whose replica's state this is, where it is one. Nobody has signed it.
    pub source: Option<SiteName>,
}

/// What to ask of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Create {
        request: Request,
    },
    /// Set this replica to what a create would have made: one of the same name came first here.
    Remake {
        request: Request,
        local: LocalId,
    },
    /// The recorded request, with the local id in its hole.
    Repeat {
        request: Request,
        local: LocalId,
    },
    /// Make this replica by a create rendered from another replica's state.
    CreateFrom {
        state: Vec<u8>,
    },
    /// Set this replica to another one's state; site-owned fields keep their values.
    Overwrite {
        state: Vec<u8>,
        local: LocalId,
    },
    Delete {
        /// The recorded request; none where the replica goes without one.
        request: Option<Request>,
        local: LocalId,
    },
}

/// What the client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The application's answer; the operation is recorded and on its way.
    Accepted { operation: OpId, status: u16 },
    /// The application's answer; nothing is recorded.
    Refused { status: u16 },
    /// Nothing executed here: another site of the set may take over.
    NotHere(Reason),
    /// It may have executed; it is resolved in the background.
    Unknown { status: Option<u16> },
    /// The set's record has changed.
    Noted { operation: OpId },
    /// The resource is deleted.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The application could not be reached.
    Unreachable,
    /// This site has no replica yet, or could not make one.
    NoReplica,
    /// An earlier execution is in doubt; an operator must settle it.
    InDoubt,
    /// This site is not, or no longer, part of the set.
    NotMember,
    /// The set broke a rule of the engine and is left alone here until an operator has looked at it.
    Fenced,
    /// The request means nothing for this set: no such site, no such conflict.
    Meaningless,
}
