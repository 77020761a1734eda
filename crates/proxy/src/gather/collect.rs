//! Reading an answer into memory, within three bounds: its own, the core's and time.

use std::{cell::Cell, pin::pin, rc::Rc};

use bytes::{Bytes, BytesMut};
use cheops_net::{Body, Clock};
use cheops_types::{Code, Limit, Limits};
use http_body_util::BodyExt as _;

/// What all merges of one core hold in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory(Cell<usize>);

/// A part of the core's memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Rc<Memory>,
    bytes: usize,
}

impl Held {
    pub(crate) fn none(memory: &Rc<Memory>) -> Self {
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
        if !self.grow(bytes, limits.gather_memory_max_bytes) {
            Limit::GatherMemory.hit();
            return Err(Code::GatherBusy);
        }
        Ok(())
    }

    /// Takes more; false when the core has no more.
    fn grow(&mut self, bytes: usize, max: usize) -> bool {
        let used = self.memory.0.get() + bytes;
        if used > max {
            return false;
        }
        self.memory.0.set(used);
        self.bytes += bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.0.set(self.memory.0.get() - self.bytes);
    }
}

/// Reads all of a body, or says which bound it broke.
pub(crate) async fn collect(
    body: Body,
    memory: &Rc<Memory>,
    limits: &Limits,
    clock: &Rc<Clock>,
) -> Result<(Bytes, Held), Code> {
    let (body, progress) = body.watch();
    let reading = pin!(read(body, memory, limits));
    let collected = clock
        .timeout_idle(limits.peer_timeout_ms, progress, reading)
        .await;
    collected.unwrap_or_else(|_| {
        Limit::PeerTimeout.hit();
        Err(Code::PeerTimeout)
    })
}

async fn read(mut body: Body, memory: &Rc<Memory>, limits: &Limits) -> Result<(Bytes, Held), Code> {
    let mut held = Held::none(memory);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Code::PeerFailed)?.into_data() else {
            continue;
        };
        held.take(data.len(), whole.len(), limits)?;
        whole.extend_from_slice(&data);
    }
    Ok((whole.freeze(), held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &'static str, limits: &Limits, memory: &Rc<Memory>) -> Result<Bytes, Code> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = runtime.block_on(read(Body::full(body), memory, limits));
        read.map(|(bytes, _)| bytes)
    }

    #[test]
    fn each_bound_has_its_own_answer_and_memory_is_given_back() {
        let limits = Limits {
            gather_body_max_bytes: 5,
            gather_memory_max_bytes: 8,
            ..Limits::default()
        };
        let memory = Rc::new(Memory::default());
        assert_eq!(check("hello", &limits, &memory).unwrap(), "hello");
        assert_eq!(memory.0.get(), 0);
        assert_eq!(check("hello!", &limits, &memory), Err(Code::BodyTooLarge));
        let mut held = Held::none(&memory);
        assert!(held.grow(4, 8));
        assert_eq!(check("hello", &limits, &memory), Err(Code::GatherBusy));
        drop(held);
        assert_eq!(check("hello", &limits, &memory).unwrap(), "hello");
    }
}
