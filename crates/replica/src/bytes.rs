//! Bytes as bytes: formats that have them would otherwise write them number by number. Formats that have
//! none still do.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serializer,
    de::{Error, SeqAccess, Visitor},
};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

/// The same where there may be none.
pub(crate) mod maybe {
    use serde::Serialize;

    use super::{Deserialize, Deserializer, Serializer};

    #[derive(Serialize)]
    struct Written<'b>(#[serde(with = "super")] &'b [u8]);

    #[derive(Deserialize)]
    struct Read(#[serde(with = "super")] Vec<u8>);

    #[expect(clippy::ref_option, reason = "serde hands it in like that")]
    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Written).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<Read>::deserialize(deserializer).map(|read| read.map(|Read(bytes)| bytes))
    }
}
