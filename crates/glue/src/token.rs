//! The page token of a merged list: everything that is needed to go on, so that no agent keeps state.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;

/// Where a list goes on, and what it has missed so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageToken {
    pub(crate) position: Position,
    /// Sites that gave no page where their items belonged, sorted: what they would have shown is shown by
    /// others, if others have it.
    pub(crate) missed: Vec<SiteName>,
}

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// With this site, from its page of this token on (none is its first page); the sites after it in
    /// the scope have not been begun.
    InOrder { site: SiteName, token: Option<String> },
    /// With all of these sites; the others are done.
    Sorted(Vec<Cursor>),
}

/// How far one site's list was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) site: SiteName,
    /// The site's own token of its current page; none is the first one.
    pub(crate) token: Option<String>,
    /// Items of the current page that were already given out.
    pub(crate) skip: usize,
}

/// Why a text is not a page token. The caller is at fault, nothing was asked of any site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("it has {length} bytes, more than the {max} that a page token may have")]
    TooLong { length: usize, max: usize },
    #[error("it is not the token of a merged list")]
    Foreign,
    #[error("it is of version {0}, and this agent reads version {VERSION}")]
    Version(u64),
    #[error("it names the site `{0}` twice")]
    Repeated(SiteName),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<(SiteName, Option<String>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sorted: Option<Vec<(SiteName, Option<String>, usize)>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missed: Vec<SiteName>,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

impl PageToken {
    pub(crate) fn encode(&self) -> String {
        let Self { position, missed } = self.clone();
        let (at, sorted) = match position {
            Position::InOrder { site, token } => (Some((site, token)), None),
            Position::Sorted(cursors) => {
                let cursors = cursors.into_iter().map(|it| (it.site, it.token, it.skip));
                (None, Some(cursors.collect()))
            }
        };
        let wire = Wire {
            v: VERSION,
            at,
            sorted,
            missed,
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).expect("texts and numbers are always JSON"))
    }

    pub(crate) fn decode(text: &[u8], max: usize) -> Result<Self, BadToken> {
        if text.len() > max {
            let length = text.len();
            return Err(BadToken::TooLong { length, max });
        }
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadToken::Foreign)?;
        let Version { v } = serde_json::from_slice(&json).map_err(|_| BadToken::Foreign)?;
        if v != u64::from(VERSION) {
            return Err(BadToken::Version(v));
        }
        let wire: Wire = serde_json::from_slice(&json).map_err(|_| BadToken::Foreign)?;
        let missed = wire.missed;
        let position = match (wire.at, wire.sorted) {
            (Some((site, token)), None) => Position::InOrder { site, token },
            (None, Some(cursors)) if !cursors.is_empty() => {
                let cursors: Vec<_> = cursors
                    .into_iter()
                    .map(|(site, token, skip)| Cursor { site, token, skip })
                    .collect();
                let mut names: Vec<_> = cursors.iter().map(|cursor| &cursor.site).collect();
                names.sort_unstable();
                if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(BadToken::Repeated(pair[0].clone()));
                }
                Position::Sorted(cursors)
            }
            _ => return Err(BadToken::Foreign),
        };
        Ok(Self { position, missed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 4096;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn decode_json(json: &str) -> Result<PageToken, BadToken> {
        PageToken::decode(URL_SAFE_NO_PAD.encode(json).as_bytes(), MAX)
    }

    #[test]
    fn bad_tokens_say_why() {
        let long = "A".repeat(MAX + 1);
        let (length, max) = (MAX + 1, MAX);
        assert_eq!(
            PageToken::decode(long.as_bytes(), MAX),
            Err(BadToken::TooLong { length, max })
        );
        assert_eq!(PageToken::decode(b"not base64!", MAX), Err(BadToken::Foreign));
        for foreign in [
            "{}",
            "[]",
            r#"{"v":1}"#,
            r#"{"v":1,"at":["a",null],"x":1}"#,
            r#"{"v":1,"at":["-",null]}"#,
            r#"{"v":1,"at":["a",null],"sorted":[["a",null,0]]}"#,
            r#"{"v":1,"sorted":[]}"#,
            r#"{"v":1,"sorted":[["a",null,-1]]}"#,
        ] {
            assert_eq!(decode_json(foreign), Err(BadToken::Foreign), "{foreign}");
        }
        assert_eq!(decode_json(r#"{"v":2,"new":true}"#), Err(BadToken::Version(2)));
        let twice = r#"{"v":1,"sorted":[["a",null,0],["b",null,0],["a","t",1]]}"#;
        assert_eq!(decode_json(twice), Err(BadToken::Repeated(site("a"))));
    }

    fn tokens() -> impl Strategy<Value = PageToken> {
        let token = || proptest::option::of(any::<String>());
        let name = || "[a-z0-9][a-z_.-]{0,5}";
        let position = prop_oneof![
            (name(), token()).prop_map(|(name, token)| Position::InOrder {
                site: site(&name),
                token
            }),
            proptest::collection::btree_map(name(), (token(), any::<usize>()), 1..5).prop_map(|cursors| {
                let cursor = |(name, (token, skip)): (String, _)| Cursor {
                    site: site(&name),
                    token,
                    skip,
                };
                Position::Sorted(cursors.into_iter().map(cursor).collect())
            }),
        ];
        let missed = proptest::collection::vec(name(), 0..3);
        (position, missed).prop_map(|(position, missed)| PageToken {
            position,
            missed: missed.iter().map(|name| site(name)).collect(),
        })
    }

    proptest! {
        #[test]
        fn tokens_survive(token in tokens()) {
            prop_assert_eq!(PageToken::decode(token.encode().as_bytes(), usize::MAX), Ok(token));
        }

        #[test]
        fn garbage_never_panics(text: Vec<u8>, json in "\\PC*", cut in 0_usize..200, token in tokens()) {
            let _ = PageToken::decode(&text, MAX);
            let _ = decode_json(&json);
            let encoded = token.encode();
            let _ = PageToken::decode(&encoded.as_bytes()[..cut.min(encoded.len())], MAX);
        }
    }
}
