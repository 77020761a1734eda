//! A scope in a header that services pass on, with the seal of the agent that wrote it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::Carried;

/// A longer one would not leave room for others in `tracestate`, whose members have 256 bytes at most.
const TEXT_MAX_BYTES: usize = 128;
const SEAL_BYTES: usize = 8;

/// The seal, one byte that tells whether a replica executes, and the text.
pub(crate) struct Sealed {
    bytes: [u8; SEAL_BYTES + 1 + TEXT_MAX_BYTES],
    len: usize,
}

impl Sealed {
    pub(super) fn of(carried: &Carried, seal: impl FnOnce() -> u64) -> Option<Self> {
        let text = carried.text.as_bytes();
        if text.len() > TEXT_MAX_BYTES {
            return None;
        }
        let mut bytes = [0; SEAL_BYTES + 1 + TEXT_MAX_BYTES];
        let len = SEAL_BYTES + 1 + text.len();
        bytes[..SEAL_BYTES].copy_from_slice(&seal().to_be_bytes());
        bytes[SEAL_BYTES] = u8::from(carried.inside_replica);
        bytes[SEAL_BYTES + 1..len].copy_from_slice(text);
        Some(Self { bytes, len })
    }

    /// How long it is where it is written.
    pub(crate) fn text_bytes(&self) -> usize {
        base64::encoded_len(self.len, false).unwrap_or_default()
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + self.text_bytes(), 0);
        // There is room for all of it.
        let _ = URL_SAFE_NO_PAD.encode_slice(&self.bytes[..self.len], &mut out[begin..]);
    }
}

pub(super) fn read(sealed: &str) -> Option<(u64, bool, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (seal, rest) = bytes.split_first_chunk::<SEAL_BYTES>()?;
    let (kind, text) = rest.split_first()?;
    let inside_replica = match kind {
        0 => false,
        1 => true,
        _ => return None,
    };
    let text = std::str::from_utf8(text).ok()?.to_owned();
    Some((u64::from_be_bytes(*seal), inside_replica, text))
}
