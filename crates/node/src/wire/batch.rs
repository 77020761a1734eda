//! Many messages as one body: a version, then each message with its length in front.

use bytes::Bytes;
use cheops_replica::Message;

use crate::pack::{pack, unpack};

const VERSION: u8 = 4;
const LENGTH_BYTES: usize = 4;

/// A body that cannot be read. Nothing of it was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("the messages are of version {0}, this agent reads version {VERSION}: upgrade the older agent")]
    Version(u8),
    #[error("the messages are cut or damaged")]
    Damaged,
}

/// One message with its length; none where it is too long for any body.
pub(super) fn encode(message: &Message) -> Option<Vec<u8>> {
    let body = pack(message)?;
    let length = u32::try_from(body.len()).ok()?;
    let mut out = Vec::with_capacity(LENGTH_BYTES + body.len());
    out.extend(length.to_be_bytes());
    out.extend(body);
    Some(out)
}

/// Encoded messages as one body.
pub(super) fn join(messages: &[Bytes]) -> Bytes {
    let length = 1 + messages.iter().map(Bytes::len).sum::<usize>();
    let mut out = Vec::with_capacity(length);
    out.push(VERSION);
    for message in messages {
        out.extend_from_slice(message);
    }
    out.into()
}

pub(super) fn decode(body: &[u8]) -> Result<Vec<Message>, Unreadable> {
    let (version, mut rest) = body.split_first().ok_or(Unreadable::Damaged)?;
    if *version != VERSION {
        return Err(Unreadable::Version(*version));
    }
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk().ok_or(Unreadable::Damaged)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (message, tail) = tail.split_at_checked(length).ok_or(Unreadable::Damaged)?;
        messages.push(unpack(message).map_err(|_| Unreadable::Damaged)?);
        rest = tail;
    }
    Ok(messages)
}
