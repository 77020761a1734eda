use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of a recorded request, in the form that is easiest to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", content = "value", rename_all = "snake_case")]
pub enum Body {
    Empty,
    Json(Value),
    Text(String),
    Base64(String),
    /// In the payload spool.
    Spooled {
        sha256: String,
        bytes: u64,
    },
}

impl Body {
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        if let Ok(value) = serde_json::from_slice(bytes) {
            return Self::Json(value);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// For what can be compared member by member.
    pub fn json(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_shown_in_its_most_readable_form() {
        assert_eq!(Body::of(b""), Body::Empty);
        assert_eq!(Body::of(br#"{"a":1}"#), Body::Json(json!({ "a": 1 })));
        assert_eq!(Body::of(b"a=1"), Body::Text("a=1".to_owned()));
        assert_eq!(Body::of(&[0xff, 0]), Body::Base64("/wA=".to_owned()));
    }

    #[test]
    fn every_form_is_read_back() {
        let spooled = Body::Spooled {
            sha256: "ab".to_owned(),
            bytes: 7,
        };
        for body in [
            Body::Empty,
            Body::of(b"[1]"),
            Body::of(b"x"),
            Body::of(&[0xff]),
            spooled,
        ] {
            let text = serde_json::to_string(&body).unwrap();
            assert_eq!(serde_json::from_str::<Body>(&text).unwrap(), body, "{text}");
        }
    }
}
