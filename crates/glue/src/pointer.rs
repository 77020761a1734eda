//! JSON pointers (RFC 6901) that lead through object members.

use std::fmt;

/// Where a value stands in a JSON text. A pointer never enters an array: every step names a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

/// Why a text is not a pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a JSON pointer: write `/member`, `/outer/inner`, or nothing for the whole (`~` is `~0`, `/` is `~1`)"
)]
pub struct InvalidPointer(pub String);

impl Pointer {
    pub fn parse(text: &str) -> Result<Self, InvalidPointer> {
        let invalid = || InvalidPointer(text.to_owned());
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let steps = text.strip_prefix('/').ok_or_else(invalid)?.split('/');
        steps
            .map(unescape)
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(invalid)
    }

    /// The whole text.
    pub(crate) fn root() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn to_member(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// Where `inner`, a place in the value at `self`, stands in the whole.
    pub(crate) fn with(&self, inner: &Self) -> Self {
        Self([&self.0[..], &inner.0[..]].concat())
    }

    /// Whether the pointer means the whole text.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn steps(&self) -> &[String] {
        &self.0
    }

    /// Whether the value at `other` is the value at `self` or within it.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

fn unescape(step: &str) -> Option<String> {
    let mut pieces = step.split('~');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let (escaped, rest) = match piece.as_bytes().first()? {
            b'0' => ('~', &piece[1..]),
            b'1' => ('/', &piece[1..]),
            _ => return None,
        };
        text.push(escaped);
        text.push_str(rest);
    }
    Some(text)
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            write!(f, "/{}", step.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_read_and_print() {
        for (text, steps) in [
            ("", &[][..]),
            ("/items", &["items"]),
            ("/metadata/continue", &["metadata", "continue"]),
            ("/a~1b/~0c~01", &["a/b", "~c~1"]),
            ("/", &[""]),
        ] {
            let pointer = Pointer::parse(text).unwrap();
            assert_eq!(pointer.steps(), steps);
            assert_eq!(pointer.to_string(), text);
        }
        for bad in ["items", "/a~", "/a~2"] {
            assert_eq!(Pointer::parse(bad), Err(InvalidPointer(bad.to_owned())));
        }
    }
}
