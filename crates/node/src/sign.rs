//! Operations carry their origin's signature, so that whoever passes them on needs no trust.

#[cfg(test)]
mod tests;

use cheops_mesh::{Identity, IdentityError, SignatureError};
use cheops_replica::{MetaId, Operation, Verb};
use cheops_types::SiteName;
use serde::Serialize;

use crate::pack::pack;

/// Begins everything that is signed here: a signature of an operation is never one of something else.
const CONTEXT: &str = "cheops operation 1";

/// Why an operation is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untrusted {
    #[error("the signature of operation {operation} is not accepted: {error}")]
    Signature {
        operation: String,
        error: SignatureError,
    },
    #[error("operation {operation} was signed by site `{signer}`, not by its origin")]
    OtherSite { operation: String, signer: SiteName },
    #[error("operation {0} cannot be written down")]
    Unwritable(String),
}

/// Signs an operation of this site that has no signature yet. All others stay as they are.
pub(crate) fn sign(identity: &Identity, set: &MetaId, op: &mut Operation) -> Result<(), IdentityError> {
    if op.signature.is_empty() && op.id.author.site == *identity.site() {
        // What it carries is kept by others as it stands here, and passed on by them.
        for lost in carried_mut(op) {
            sign(identity, set, lost)?;
        }
        let text = canonical(set, op).ok_or_else(|| {
            IdentityError::Generation(format!("operation {} cannot be written down", op.id))
        })?;
        op.signature = identity.sign(&text)?;
    }
    Ok(())
}

/// Signs the operations of this site among these that have no signature yet, all at once. What cannot be signed so is left
/// to [`sign`].
pub(crate) fn sign_all<'o>(identity: &Identity, ops: impl Iterator<Item = (MetaId, &'o mut Operation)>) {
    let is_ours = |op: &Operation| op.signature.is_empty() && op.id.author.site == *identity.site();
    let mut texts = Vec::new();
    let mut ours = Vec::new();
    for (set, op) in ops {
        // What carries others is signed after them.
        if is_ours(op)
            && carried_mut(op).is_empty()
            && let Some(text) = canonical(&set, op)
        {
            texts.push(text);
            ours.push(op);
        }
    }
    if let Ok(signatures) = identity.sign_all(&texts) {
        for (op, signature) in ours.into_iter().zip(signatures) {
            op.signature = signature;
        }
    }
}

/// When a signature is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now_ms: u64,
    /// How long a signature counts after its certificate has ended.
    pub(crate) grace_s: u64,
}

/// Checks that an operation is its origin's, and of this set. The certificate must be valid now, or have been a short while
/// ago: an operation may be under way when its origin's certificate ends, and then only its origin signs it anew. The
/// operation's own time does not count, because whoever signs chooses it: with a key that was lost years ago, too.
pub(crate) fn check(
    identity: &Identity,
    set: &MetaId,
    op: &Operation,
    moment: Moment,
) -> Result<(), Untrusted> {
    let operation = || op.id.to_string();
    let text = canonical(set, op).ok_or_else(|| Untrusted::Unwritable(operation()))?;
    let signer = identity
        .signer(&text, &op.signature, moment.now_ms / 1000, moment.grace_s)
        .map_err(|error| Untrusted::Signature {
            operation: operation(),
            error,
        })?;
    if signer != op.id.author.site {
        return Err(Untrusted::OtherSite {
            operation: operation(),
            signer,
        });
    }
    // They are of other origins: whoever gives them up cannot say what they were.
    let carried = match &op.verb {
        Verb::Forgo { lost } => &lost[..],
        _ => &[],
    };
    carried
        .iter()
        .try_for_each(|lost| check(identity, set, lost, moment))
}

/// The operations inside one that gives them up.
fn carried_mut(op: &mut Operation) -> &mut [Operation] {
    match &mut op.verb {
        Verb::Forgo { lost } => lost,
        _ => &mut [],
    }
}

/// What is signed: all of an operation but its signature, and the set that it belongs to, whose name it does
/// not carry itself.
fn canonical(set: &MetaId, op: &Operation) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Signed<'o, T: Serialize>(&'static str, &'o MetaId, T);

    let Operation {
        id,
        token,
        time,
        age,
        after,
        births,
        epoch,
        verb,
        touches,
        recognise,
        needs,
        request,
        signature: _,
    } = op;
    let what = (
        id, token, time, age, after, births, epoch, verb, touches, recognise, needs, request,
    );
    pack(&Signed(CONTEXT, set, what))
}
