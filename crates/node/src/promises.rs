//! Writes that were answered with 202: what their first execution needs of their callers, and what they came to.
//!
//! A write is promised in the commit that records it, and has its end in the commit that concludes it. So a restart
//! in between finds either of the two, and whoever asks later hears of a refusal too, which no set records.

use std::collections::{HashSet, VecDeque};

use cheops_ports::Told;
use cheops_replica::{Answer, MetaId, OpId, Secret, Set, Token};
use cheops_store::{Error, Read, ReadSession, Span, Table, WriteSession};
use cheops_types::{Outcome, SiteName};
use serde::{Deserialize, Serialize};

use crate::{core::Core, rows, secret, told, waiting::CallerHeaders};

/// Ends that are kept; beyond that the oldest go.
const ENDS_MAX: usize = 4096;

/// By the token of the write.
#[derive(Debug)]
pub(crate) struct Promises;

impl Table for Promises {
    const NAME: &'static str = "promises";
    type Key = u128;
    type Value = Promise;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promise {
    pub(crate) set: MetaId,
    /// When it was made or ended.
    pub(crate) at_ms: u64,
    /// All that its caller sent, sealed like a credential, until it has its end.
    pub(crate) headers: Option<Secret>,
    pub(crate) end: Option<End>,
}

/// What a promised write came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    how: How,
    /// The other sites of the set, as they were then.
    others: Vec<SiteName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum How {
    Accepted { operation: OpId, status: Option<u16> },
    Refused { status: u16 },
    NotExecuted,
    Unknown { status: Option<u16> },
}

impl Promise {
    /// A write that waits or executes.
    pub(crate) fn open(core: &Core, set: &MetaId, token: Token, at_ms: u64) -> Self {
        let headers = core.waiting.headers(token);
        let sealed = headers.map(|headers| secret::seal(&core.key, &*core.surroundings, &headers));
        Self {
            set: set.clone(),
            at_ms,
            // Without them it is sent as it would be at another site.
            headers: sealed.and_then(Result::ok),
            end: None,
        }
    }

    pub(crate) fn ended(set: &Set, here: &SiteName, answer: &Answer, at_ms: u64) -> Self {
        let how = match answer {
            Answer::Accepted { operation, status } => How::Accepted {
                operation: operation.clone(),
                status: Some(*status),
            },
            Answer::Noted { operation } => How::Accepted {
                operation: operation.clone(),
                status: None,
            },
            Answer::Refused { status } => How::Refused { status: *status },
            Answer::NotHere(_) | Answer::Gone => How::NotExecuted,
            Answer::Unknown { status } => How::Unknown { status: *status },
        };
        let others = set.members().keys().filter(|site| *site != here);
        Self {
            set: set.record().meta.clone(),
            at_ms,
            headers: None,
            end: Some(End {
                how,
                others: others.cloned().collect(),
            }),
        }
    }
}

impl End {
    /// In a word, where the sites do not say it all, and as receipts tell it.
    fn told(&self, meta: &MetaId, set: Option<&Set>, here: &SiteName) -> (&'static str, Told) {
        let dropped = |outcome, status| told::dropped_at(meta, here, &self.others, outcome, status);
        match (&self.how, set) {
            (How::Accepted { operation, status }, Some(set)) => {
                ("", told::accepted(set, here, operation, *status))
            }
            (How::Accepted { status, .. }, None) => ("", dropped(Outcome::Executed, *status)),
            (How::Refused { status }, _) => ("refused", dropped(Outcome::Executed, Some(*status))),
            (How::NotExecuted, _) => ("not-executed", dropped(Outcome::NotExecuted, None)),
            (How::Unknown { status }, _) => ("unknown", dropped(Outcome::Unknown, *status)),
        }
    }
}

/// What a promised write came to, if it has an end and that is still kept.
pub(crate) fn told(
    read: &impl Read,
    here: &SiteName,
    set: Option<&Set>,
    token: Token,
) -> Result<Option<(&'static str, Told)>, Error> {
    let promise = read.get::<Promises>(&token.0)?;
    Ok(promise.and_then(|Promise { set: meta, end, .. }| end.map(|end| end.told(&meta, set, here))))
}

/// Which promises the store holds, for the engine.
#[derive(Debug, Default)]
pub(crate) struct Index {
    open: HashSet<Token>,
    /// Oldest first.
    ended: VecDeque<Token>,
}

impl Index {
    /// Reads what is stored, and gives those that have not begun their callers back.
    pub(crate) fn load(core: &Core) -> Result<Self, Error> {
        let read = core.store.read()?;
        let mut index = Self::default();
        let mut ended = Vec::new();
        for (token, promise) in read.scan::<Promises>(&Span::all(), usize::MAX)? {
            let token = Token(token);
            if promise.end.is_some() {
                ended.push((promise.at_ms, token));
                continue;
            }
            index.open.insert(token);
            restore(core, &read, token, &promise)?;
        }
        ended.sort_unstable();
        index.ended = ended.into_iter().map(|(_, token)| token).collect();
        Ok(index)
    }

    pub(crate) fn is_open(&self, token: Token) -> bool {
        self.open.contains(&token)
    }

    /// Ends that are dropped when so many come.
    pub(crate) fn surplus(&self, coming: usize) -> Vec<Token> {
        let surplus = (self.ended.len() + coming).saturating_sub(ENDS_MAX);
        self.ended.iter().copied().take(surplus).collect()
    }

    /// Takes note of what was stored, after the surplus was dropped.
    pub(crate) fn note(&mut self, stored: &[(Token, Promise)], dropped: usize) {
        self.ended.drain(..dropped);
        for (token, promise) in stored {
            if promise.end.is_some() {
                self.open.remove(token);
                self.ended.push_back(*token);
            } else {
                self.open.insert(*token);
            }
        }
    }
}

/// What the caller of a write sent, for an execution that has not begun. One that has begun is repeated from the
/// record, like any other: what its first attempt did is not known.
fn restore(core: &Core, read: &ReadSession, token: Token, promise: &Promise) -> Result<(), Error> {
    let Some(set) = rows::set(read, &promise.set)? else {
        return Ok(());
    };
    let opened = promise.headers.as_ref();
    let opened = opened.and_then(|sealed| secret::open(&core.key, sealed).ok());
    if let Some(opened) = opened
        && set.queue().any(|draft| draft.token == token)
    {
        let headers = opened.headers;
        core.waiting.give_back(token, CallerHeaders { headers }.into());
    }
    Ok(())
}

/// Writes what changed.
pub(crate) fn apply(
    session: &mut WriteSession<'_>,
    put: &[(Token, Promise)],
    dropped: &[Token],
) -> Result<(), Error> {
    for token in dropped {
        session.delete::<Promises>(&token.0)?;
    }
    for (token, promise) in put {
        session.put::<Promises>(&token.0, promise)?;
    }
    Ok(())
}
