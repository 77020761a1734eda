//! Payloads by name.

use std::{fmt, str::FromStr};

use ring::digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::key::{BadKey, Key, KeyReader};

const HASH_BYTES: usize = 32;

/// SHA-256 of a payload. Sixty-four hexadecimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadHash([u8; HASH_BYTES]);

/// A text that is no hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hash: use 64 hexadecimal digits in lower case")]
pub struct InvalidHash(String);

/// A payload by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PayloadRef {
    pub hash: PayloadHash,
    pub bytes: u64,
}

/// The number of a partial file, unique as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartialId(pub(crate) u64);

impl PayloadHash {
    pub(crate) fn finish(context: digest::Context) -> Self {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
    }
}

impl From<[u8; HASH_BYTES]> for PayloadHash {
    fn from(hash: [u8; HASH_BYTES]) -> Self {
        Self(hash)
    }
}

impl From<PayloadHash> for [u8; HASH_BYTES] {
    fn from(hash: PayloadHash) -> Self {
        hash.0
    }
}

impl fmt::Display for PayloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PayloadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PayloadHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; HASH_BYTES];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != HASH_BYTES || !rest.is_empty() {
            return Err(InvalidHash(text.to_owned()));
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            let value = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low);
            *byte = value.ok_or_else(|| InvalidHash(text.to_owned()))?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for PayloadHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PayloadHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Key for PayloadHash {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        input.array().map(Self)
    }
}

impl fmt::Display for PayloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.hash, self.bytes)
    }
}

impl fmt::Display for PartialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Key for PartialId {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        u64::read(input).map(Self)
    }
}
