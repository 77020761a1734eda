use std::ops::Bound;

use crate::{engine::KeyRange, key::Key};

/// Which part of a table or index is scanned, in the order of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl Span {
    pub fn all() -> Self {
        Self {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        }
    }

    /// Every key whose first fields are `fields`: a key itself, or a tuple of its first fields.
    pub fn under(fields: &impl Key) -> Self {
        let from = fields.to_bytes();
        let to = after_prefix(&from);
        Self {
            from: Bound::Included(from),
            to,
        }
    }

    /// Only what comes behind `key`, which is left out: a scan in pages goes on with its last key.
    pub fn after(self, key: &impl Key) -> Self {
        Self {
            from: Bound::Excluded(key.to_bytes()),
            ..self
        }
    }

    /// Only what begins at `key`, included.
    pub fn from(self, key: &impl Key) -> Self {
        Self {
            from: Bound::Included(key.to_bytes()),
            ..self
        }
    }

    /// Only what comes before `key`, which is left out.
    pub fn before(self, key: &impl Key) -> Self {
        Self {
            to: Bound::Excluded(key.to_bytes()),
            ..self
        }
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        (
            self.from.as_ref().map(Vec::as_slice),
            self.to.as_ref().map(Vec::as_slice),
        )
    }
}

/// The first bytes that are greater than everything that begins with `prefix`.
fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_it_should() {
        assert_eq!(after_prefix(&[1, 2]), Bound::Excluded(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 0xff]), Bound::Excluded(vec![2]));
        assert_eq!(after_prefix(&[0xff, 0xff]), Bound::Unbounded);
        assert_eq!(after_prefix(&[]), Bound::Unbounded);
    }
}
