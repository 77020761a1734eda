//! What of bodies is in memory: of answers that are merged or rewritten, and of messages of other agents.

mod messages;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use cheops_net::{Body, BoxError};
use cheops_types::{Code, Limit, Limits};
use http_body::{Frame, SizeHint};

pub(crate) use messages::{MessageLease, Messages};

/// What is passed on at once of an answer that is here as a whole, so that what was sent is not kept for the rest.
const PIECE_BYTES: usize = 64 * 1024;

/// What all merges of the agent hold in memory, and all answers in which ids are rewritten.
#[derive(Debug, Default)]
pub(crate) struct Memory(AtomicUsize);

/// A part of that memory, given back when dropped. It goes wherever the bytes go, also to another thread: what is
/// still worked on counts, even if nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Lease {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Lease {
    pub(crate) fn none(memory: &Arc<Memory>) -> Self {
        Self {
            memory: memory.clone(),
            bytes: 0,
        }
    }

    /// Takes room for what is read behind `before` bytes of a body, or says which bound that breaks.
    pub(crate) fn take(&mut self, bytes: usize, before: usize, limits: &Limits) -> Result<(), Code> {
        if before + bytes > limits.gather_body_max_bytes {
            Limit::GatherBody.hit();
            return Err(Code::BodyTooLarge);
        }
        self.grow(bytes, limits)
    }

    /// Takes room for what is made of a body.
    pub(crate) fn grow(&mut self, bytes: usize, limits: &Limits) -> Result<(), Code> {
        let max = limits.gather_memory_max_bytes;
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= max);
        let used = &self.memory.0;
        if used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_err()
        {
            Limit::GatherMemory.hit();
            return Err(Code::GatherBusy);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes room for `bytes` in all, or gives back what is more than that.
    pub(crate) fn resize(&mut self, bytes: usize, limits: &Limits) -> Result<(), Code> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes, limits);
        }
        self.memory.0.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }

    /// Takes over what another one has.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A body that counts for as long as it has not been sent.
pub(crate) fn kept(bytes: Bytes, held: Lease) -> Body {
    if bytes.len() <= PIECE_BYTES {
        return Body::full(bytes);
    }
    Body::other(Kept { bytes, _held: held })
}

struct Kept {
    bytes: Bytes,
    _held: Lease,
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = self.bytes.len().min(PIECE_BYTES);
        let piece = self.bytes.split_to(piece);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn check(bytes: usize, limits: &Limits, memory: &Arc<Memory>) -> Result<(), Code> {
        Lease::none(memory).take(bytes, 0, limits)
    }

    fn used(memory: &Memory) -> usize {
        memory.0.load(Ordering::Relaxed)
    }

    #[test]
    fn each_bound_has_its_own_answer_and_memory_is_given_back() {
        let limits = Limits {
            gather_body_max_bytes: 5,
            gather_memory_max_bytes: 8,
            ..Limits::default()
        };
        let memory = Arc::new(Memory::default());
        assert_eq!(check(5, &limits, &memory), Ok(()));
        assert_eq!(used(&memory), 0);
        assert_eq!(check(6, &limits, &memory), Err(Code::BodyTooLarge));
        let mut held = Lease::none(&memory);
        assert_eq!(held.grow(4, &limits), Ok(()));
        assert_eq!(check(5, &limits, &memory), Err(Code::GatherBusy));
        drop(held);
        assert_eq!(check(5, &limits, &memory), Ok(()));
    }

    #[test]
    fn what_is_held_can_change_and_change_hands() {
        let limits = Limits {
            gather_memory_max_bytes: 8,
            ..Limits::default()
        };
        let memory = Arc::new(Memory::default());
        let (mut first, mut second) = (Lease::none(&memory), Lease::none(&memory));
        assert_eq!(first.resize(6, &limits), Ok(()));
        assert_eq!(second.grow(3, &limits), Err(Code::GatherBusy));
        assert_eq!(first.resize(5, &limits), Ok(()));
        assert_eq!(second.grow(3, &limits), Ok(()));
        first.join(second);
        assert_eq!(used(&memory), 8);
        drop(first);
        assert_eq!(used(&memory), 0);
    }

    #[tokio::test]
    async fn a_long_answer_counts_until_it_is_sent() {
        let (limits, memory) = (Limits::default(), Arc::new(Memory::default()));
        let bytes = Bytes::from(vec![b'x'; 2 * PIECE_BYTES + 1]);
        let mut held = Lease::none(&memory);
        held.grow(bytes.len(), &limits).unwrap();
        let mut body = kept(bytes.clone(), held);
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            assert_eq!(used(&memory), bytes.len());
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.concat(), bytes);
        drop(body);
        assert_eq!(used(&memory), 0);
    }
}
