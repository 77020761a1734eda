//! Values as MessagePack with field names: as compact as a format can be that still says what it
//! contains, so that a field can be added (with `#[serde(default)]`) without a migration.

use serde::{Serialize, de::DeserializeOwned};

/// Why a value could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadValue(String);

pub(crate) fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, BadValue> {
    rmp_serde::to_vec_named(value).map_err(|error| BadValue(error.to_string()))
}

pub(crate) fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, BadValue> {
    rmp_serde::from_slice(bytes).map_err(|error| BadValue(error.to_string()))
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
        Wide { id: u128, maybe: Option<String> },
    }

    #[test]
    fn a_field_may_be_added_and_taken_away() {
        let old = encode(&Before { name: "a".into() }).unwrap();
        assert_eq!(decode::<After>(&old).unwrap(), After { count: 0, name: "a".into() });
        let new = encode(&After { count: 7, name: "a".into() }).unwrap();
        assert_eq!(decode::<Before>(&new).unwrap(), Before { name: "a".into() });
    }

    #[test]
    fn every_shape_of_serde_comes_back() {
        let json = serde_json::json!({"n": 12, "f": 1.5, "big": u64::MAX, "list": [null, true, "x"]});
        for value in [
            Tagged::Bytes { bytes: vec![0, 200, 255] },
            Tagged::Json { json },
            Tagged::Wide { id: u128::MAX, maybe: None },
        ] {
            assert_eq!(decode::<Tagged>(&encode(&value).unwrap()).unwrap(), value);
        }
    }
}
