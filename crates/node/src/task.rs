//! What the engine wants done outside, once it is durable.

use std::sync::Arc;

use cheops_replica::{Execution, LocalId, Message, MetaId, Record, Token};
use cheops_store::PayloadRef;
use cheops_types::SiteName;

use crate::caller::OnBehalf;

/// One effect on its way to the control runtime.
#[derive(Debug)]
pub(crate) enum Task {
    Send {
        to: SiteName,
        message: Box<Message>,
    },
    Call(Box<Call>),
    /// Get a payload that an operation of the set needs, from whoever has it.
    Fetch {
        set: MetaId,
        payload: PayloadRef,
    },
}

impl Task {
    /// The set that it is for.
    pub(crate) fn set(&self) -> &str {
        match self {
            Self::Send { message, .. } => message.set.as_str(),
            Self::Call(call) => call.set.meta.as_str(),
            Self::Fetch { set, .. } => set.as_str(),
        }
    }
}

/// Something to ask of this site's application.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) set: Arc<Record>,
    /// The other members of the set: who else may have a payload.
    pub(crate) others: Vec<SiteName>,
    /// Who stands in where the work has no caller of its own.
    pub(crate) stand_in: OnBehalf,
    pub(crate) what: What,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // it is always in a box
pub(crate) enum What {
    Execute(Execution),
    /// Search for the replica that carries a marker.
    Look {
        ticket: u64,
        token: Token,
    },
    Read {
        ticket: u64,
        local: LocalId,
    },
}
