//! What may stand behind a request's body.
//!
//! Applications that read trailers read them like headers, so that what no client may say in a header must
//! not come in behind the body either. Nor may what was decided by the head be said again there.

use http::{HeaderMap, HeaderName};

/// Fields by which a message is framed, sent, authorised or understood; all of them are the head's (RFC 9110,
/// 6.5.1).
const OF_THE_HEAD: &[&str] = &[
    "authorization",
    "cache-control",
    "connection",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "pragma",
    "range",
    "set-cookie",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// How others of them begin.
const OF_THE_HEAD_BEGIN: &[&str] = &["content-", "if-", "proxy-", "x-forwarded-"];

/// The fields that are taken off the trailers of requests.
#[derive(Debug, Default)]
pub struct Trailers {
    /// How further ones begin, in lower case.
    begin: Vec<String>,
}

impl Trailers {
    /// Takes off what belongs to the head, and what begins like one of these.
    pub fn without<T: AsRef<str>>(begin: impl IntoIterator<Item = T>) -> Self {
        let begin = begin.into_iter().map(|begin| begin.as_ref().to_ascii_lowercase());
        Self {
            begin: begin.collect(),
        }
    }

    /// Some applications do not tell `_` from `-`, so neither is let in.
    pub fn lets_in(&self, name: &str) -> bool {
        let name: String = name
            .chars()
            .map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() })
            .collect();
        let begins = |prefix: &&str| name.starts_with(*prefix);
        !OF_THE_HEAD.contains(&name.as_str())
            && !OF_THE_HEAD_BEGIN.iter().any(begins)
            && !self
                .begin
                .iter()
                .any(|prefix| name.starts_with(&prefix.replace('_', "-")))
    }

    pub(crate) fn clean(&self, trailers: &mut HeaderMap) {
        let unwanted: Vec<HeaderName> = trailers
            .keys()
            .filter(|name| !self.lets_in(name.as_str()))
            .cloned()
            .collect();
        for name in unwanted {
            trailers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_head_decides_is_not_said_again() {
        let trailers = Trailers::without(["x-cheops-", "X-Remote-"]);
        for name in [
            "content-length",
            "Content_Length",
            "transfer-encoding",
            "host",
            "authorization",
            "x-cheops-scope",
            "x_cheops_scope",
            "X-Remote-User",
            "x-remote_user",
        ] {
            assert!(!trailers.lets_in(name), "{name}");
        }
        for name in [
            "x-sum",
            "grpc-status",
            "digest",
            "x-remote",
            "x-amz-checksum-crc32",
        ] {
            assert!(trailers.lets_in(name), "{name}");
        }
    }
}
