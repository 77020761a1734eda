//! Where something stands in the text of a scope.

use std::ops::Range;

/// A range of bytes of the original text, on character boundaries. Empty for something that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the start of this span to the end of `other`.
    pub fn to(self, other: Self) -> Self {
        Self::new(self.start, other.end)
    }
}

impl From<Span> for Range<usize> {
    fn from(span: Span) -> Self {
        span.start..span.end
    }
}
