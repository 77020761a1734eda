//! A message while it arrives.

use bytes::{Bytes, BytesMut};

/// What one piece holds. A message that fits into one is never copied again.
const PIECE_BYTES: usize = 64 * 1024;

/// In pieces of one size. In a single buffer that grows, a message of 64 MiB would be moved to a place twice as large again and
/// again, and the core that does it stands still for tens of milliseconds. And one entry for each frame would let a peer
/// that sends single bytes take many times their length.
#[derive(Default)]
pub(crate) struct Pieces {
    full: Vec<Bytes>,
    last: BytesMut,
}

impl Pieces {
    pub(crate) fn bytes(&self) -> usize {
        self.full.len() * PIECE_BYTES + self.last.len()
    }

    pub(crate) fn push(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let (fits, rest) = data.split_at(data.len().min(PIECE_BYTES - self.last.len()));
            self.last.extend_from_slice(fits);
            if self.last.len() == PIECE_BYTES {
                self.full.push(std::mem::take(&mut self.last).freeze());
            }
            data = rest;
        }
    }

    pub(crate) fn join(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.freeze();
        }
        let mut whole = Vec::with_capacity(self.bytes());
        // Each piece goes when it is copied.
        for piece in self.full {
            whole.extend_from_slice(&piece);
        }
        whole.extend_from_slice(&self.last);
        whole.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_what_came() {
        let sent: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|at| (at % 251) as u8).collect();
        for frame in [1, 1000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, sent.len()] {
            for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, sent.len()] {
                let mut pieces = Pieces::default();
                for data in sent[..length].chunks(frame) {
                    pieces.push(data);
                }
                assert_eq!(pieces.bytes(), length);
                assert!(pieces.full.len() <= length / PIECE_BYTES);
                assert!(pieces.join() == sent[..length], "{frame} {length}");
            }
        }
    }
}
