//! Values as MessagePack with field names: as compact as a format can be that still says what it
//! contains, so that a field can be added (with `#[serde(default)]`) without a migration.

use serde::{Serialize, de::DeserializeOwned};

/// How deep a value may be nested: far more than any is, and far less than a thread's stack holds.
const DEPTH_MAX: usize = 256;

/// Why a value could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(String);

pub(crate) fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, BadValue> {
    rmp_serde::to_vec_named(value).map_err(|error| BadValue(error.to_string()))
}

pub(crate) fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, BadValue> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(DEPTH_MAX);
    V::deserialize(&mut reader).map_err(|error| BadValue(error.to_string()))
}

/// For fields of bytes, which would otherwise be written number by number: `#[serde(with = "…")]`.
pub(crate) mod bytes {
    use std::fmt;

    use serde::{
        Deserializer, Serializer,
        de::{Error, Visitor},
    };

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
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
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Before {
        name: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct After {
        #[serde(default)]
        count: u64,
        name: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Tagged {
        Bytes { bytes: Vec<u8> },
        Json { json: serde_json::Value },
        Maybe { maybe: Option<String> },
    }

    /// Not inside `Tagged`: serde itself has no wide integers there, in any format.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Untagged {
        Unit,
        Wide(u128),
    }

    #[test]
    fn a_field_may_be_added_and_taken_away() {
        let old = encode(&Before { name: "a".into() }).unwrap();
        assert_eq!(
            decode::<After>(&old).unwrap(),
            After {
                count: 0,
                name: "a".into()
            }
        );
        let new = encode(&After {
            count: 7,
            name: "a".into(),
        })
        .unwrap();
        assert_eq!(decode::<Before>(&new).unwrap(), Before { name: "a".into() });
    }

    /// A field that nobody knows is skipped, however deep: a damaged one must not exhaust the stack.
    #[test]
    fn a_value_is_not_nested_without_end() {
        let nested = |depth: usize| {
            let mut bytes = b"\x82\xa4name\xa1a\xa1x".to_vec();
            bytes.extend(vec![0x91; depth]);
            bytes.push(0xc0);
            decode::<Before>(&bytes)
        };
        assert!(nested(100).is_ok());
        assert!(nested(1000).is_err());
    }

    #[test]
    fn every_shape_of_serde_comes_back() {
        let json = serde_json::json!({"n": 12, "f": 1.5, "big": u64::MAX, "list": [null, true, "x"]});
        for value in [
            Tagged::Bytes {
                bytes: vec![0, 200, 255],
            },
            Tagged::Json { json },
            Tagged::Maybe { maybe: None },
        ] {
            assert_eq!(decode::<Tagged>(&encode(&value).unwrap()).unwrap(), value);
        }
        for value in [Untagged::Unit, Untagged::Wide(u128::MAX)] {
            assert_eq!(decode::<Untagged>(&encode(&value).unwrap()).unwrap(), value);
        }
    }
}
