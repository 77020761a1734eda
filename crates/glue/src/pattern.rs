//! Paths as the glue writes them.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::percent;

/// The parts of a path between slashes; empty ones do not count.
#[derive(Debug, Clone)]
pub(crate) struct Segments<'p>(&'p str);

impl<'p> Segments<'p> {
    pub(crate) fn of(path: &'p str) -> Self {
        Self(path)
    }
}

impl<'p> Iterator for Segments<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let rest = &self.0[self.0.bytes().position(|byte| byte != b'/')?..];
        let end = rest.bytes().position(|byte| byte == b'/');
        let (segment, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        Some(segment)
    }
}

/// Literal segments, placeholders for one segment each, and perhaps `*` for one or more at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    segments: Vec<Segment>,
    has_rest: bool,
    /// How many segments stand before the part that tells resources apart.
    prefix: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(Box<str>),
    Any { name: Box<str>, class: Class },
}

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// One segment of any text.
    Text,
    /// Hexadecimal digits and dashes.
    Hex,
}

/// Which of two patterns that match a common path says more about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// Nothing matches both.
    None,
    Same,
    /// The first one does.
    First,
    Second,
    /// Neither: one says more here, the other there.
    Unclear,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidPattern {
    #[error("a path starts with `/`")]
    NoSlash,
    #[error("a path has no empty segments and no `/` at its end")]
    Empty,
    #[error("`{0}` is not a segment: a placeholder is a whole segment, as in `/orders/{{id}}`")]
    Placeholder(String),
    #[error("`{0}` is not a segment: the only class of a placeholder is `hex`, as in `{{project:hex}}`")]
    Class(String),
    #[error("`{0}` is not a segment: write the path as applications see it, without query and escapes")]
    Character(String),
    #[error("`*` stands for everything below, and cannot stand here")]
    Rest,
}

impl Class {
    pub(crate) fn fits(self, segment: &[u8]) -> bool {
        match self {
            Self::Text => true,
            Self::Hex => segment.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-'),
        }
    }
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let pattern = Self::parse_open(text)?;
        if pattern.has_rest {
            return Err(InvalidPattern::Rest);
        }
        Ok(pattern)
    }

    /// Like [`Pattern::parse`]; the last segment may be `*`.
    pub(crate) fn parse_open(text: &str) -> Result<Self, InvalidPattern> {
        let text = text.strip_prefix('/').ok_or(InvalidPattern::NoSlash)?;
        let (text, has_rest) = match text.strip_suffix('*') {
            Some("") => ("", true),
            Some(before) if before.ends_with('/') => (&before[..before.len() - 1], true),
            _ => (text, false),
        };
        let mut segments = Vec::new();
        if !text.is_empty() {
            for segment in text.split('/') {
                segments.push(Segment::parse(segment)?);
            }
        }
        Ok(Self {
            segments,
            has_rest,
            prefix: 0,
        })
    }

    /// `/`.
    pub(crate) fn root() -> Self {
        Self {
            segments: Vec::new(),
            has_rest: false,
            prefix: 0,
        }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn has_rest(&self) -> bool {
        self.has_rest
    }

    /// Whether the last segment is a placeholder.
    pub(crate) fn ends_with_placeholder(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Any { .. })) && !self.has_rest
    }

    /// The same path and one more segment of any text.
    pub(crate) fn with_placeholder(&self) -> Self {
        let mut pattern = self.clone();
        pattern.segments.push(Segment::Any {
            name: "id".into(),
            class: Class::Text,
        });
        pattern
    }

    /// The same path without its last segment.
    pub(crate) fn without_last(&self) -> Self {
        let mut pattern = self.clone();
        pattern.segments.pop();
        pattern
    }

    /// The path of what stands at `below` under this one.
    pub(crate) fn with(&self, below: &Self) -> Self {
        let mut pattern = self.clone();
        pattern.segments.extend_from_slice(&below.segments);
        pattern.has_rest = below.has_rest;
        pattern
    }

    /// The same path under a prefix, whose placeholders tell nothing about the resource.
    pub(crate) fn under(&self, prefix: &Self) -> Self {
        Self {
            prefix: prefix.segments.len(),
            ..prefix.with(self)
        }
    }

    pub(crate) fn has_placeholders(&self) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|segment| matches!(segment, Segment::Any { .. }))
    }

    /// The placeholders that tell resources apart: their places among the segments.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = usize> {
        self.named_placeholders().map(|(place, _)| place)
    }

    /// Like [`Pattern::placeholders`], with their names.
    pub(crate) fn named_placeholders(&self) -> impl Iterator<Item = (usize, &str)> {
        let segments = self.segments.iter().enumerate().skip(self.prefix);
        segments.filter_map(|(place, segment)| match segment {
            Segment::Any { name, .. } => Some((place, &**name)),
            Segment::Literal(_) => None,
        })
    }

    /// Whether this is the beginning of `other` up to and with the segment at `place`. Names of placeholders
    /// do not count.
    pub(crate) fn is_prefix_to(&self, other: &Self, place: usize) -> bool {
        let pairs = self.segments.iter().zip(&other.segments);
        self.segments.len() == place + 1 && place < other.segments.len() && { pairs }
            .all(|(a, b)| a.overlap(b) == Overlap::Same)
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let mut segments = Segments::of(path);
        let all = self
            .segments
            .iter()
            .all(|segment| match (segment, segments.next()) {
                (Segment::Any { class, .. }, Some(text)) => class.fits(&percent::decode(text)),
                (Segment::Literal(literal), Some(text)) => percent::decode_text(text) == **literal,
                (_, None) => false,
            });
        all && segments.next().is_some() == self.has_rest
    }

    /// How the paths that this pattern matches lie to those of another one.
    pub(crate) fn overlap(&self, other: &Self) -> Overlap {
        let (a, b) = (&self.segments, &other.segments);
        // What ends with `*` needs one more segment than it lists.
        let fits = |open: &Self, of: &[Segment]| open.has_rest && open.segments.len() < of.len();
        let by_length = match a.len().cmp(&b.len()) {
            std::cmp::Ordering::Equal if self.has_rest == other.has_rest => Overlap::Same,
            _ if fits(self, b) => Overlap::Second,
            _ if fits(other, a) => Overlap::First,
            _ => return Overlap::None,
        };
        let pairs = a.iter().zip(b);
        pairs.fold(by_length, |so_far, (a, b)| so_far.and(a.overlap(b)))
    }

    /// The pattern of what this one and another one match both, if they overlap.
    pub(crate) fn meeting(&self, other: &Self) -> Self {
        let (short, long) = if self.segments.len() < other.segments.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut meeting = long.clone();
        meeting.has_rest = self.has_rest && other.has_rest;
        for (segment, other) in meeting.segments.iter_mut().zip(&short.segments) {
            if segment.overlap(other) == Overlap::Second {
                *segment = other.clone();
            }
        }
        meeting
    }

    /// The path with its placeholders filled in order; a missing value is empty.
    pub(crate) fn fill(&self, values: &[impl AsRef<str>]) -> String {
        let mut values = values.iter();
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            let text = match segment {
                Segment::Literal(literal) => literal,
                Segment::Any { .. } => values.next().map_or("", AsRef::as_ref),
            };
            percent::encode_segment_into(&mut path, text);
        }
        path
    }

    /// A path in which every other segment, from the second on, is an id. Segments are percent-encoded.
    pub(crate) fn by_convention<'s>(segments: impl Iterator<Item = &'s str>) -> Self {
        let segment = |(place, text): (usize, &str)| match place % 2 {
            0 => Segment::Literal(percent::decode_text(text).into()),
            _ => Segment::Any {
                name: "id".into(),
                class: Class::Text,
            },
        };
        Self {
            segments: segments.enumerate().map(segment).collect(),
            has_rest: false,
            prefix: 0,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Any { name, class } => match class {
                    Class::Text => write!(f, "/{{{name}}}")?,
                    Class::Hex => write!(f, "/{{{name}:hex}}")?,
                },
            }
        }
        match (self.has_rest, self.segments.is_empty()) {
            (true, _) => f.write_str("/*"),
            (false, true) => f.write_str("/"),
            (false, false) => Ok(()),
        }
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, InvalidPattern> {
        match text {
            "" => return Err(InvalidPattern::Empty),
            "*" => return Err(InvalidPattern::Rest),
            _ => {}
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let (name, class) = match inner.split_once(':') {
                None => (inner, Class::Text),
                Some((name, "hex")) => (name, Class::Hex),
                Some(_) => return Err(InvalidPattern::Class(text.to_owned())),
            };
            if cheops_types::is_name(name) {
                let name = name.into();
                return Ok(Self::Any { name, class });
            }
        }
        if text.contains(['{', '}']) {
            return Err(InvalidPattern::Placeholder(text.to_owned()));
        }
        if text.contains(['?', '#', '%']) || text.contains(char::is_whitespace) {
            return Err(InvalidPattern::Character(text.to_owned()));
        }
        Ok(Self::Literal(text.into()))
    }

    fn overlap(&self, other: &Self) -> Overlap {
        match (self, other) {
            (Self::Literal(a), Self::Literal(b)) if a == b => Overlap::Same,
            (Self::Any { class: a, .. }, Self::Any { class: b, .. }) if a == b => Overlap::Same,
            (Self::Any { class, .. }, Self::Any { .. }) => match class {
                Class::Hex => Overlap::First,
                Class::Text => Overlap::Second,
            },
            (Self::Literal(text), Self::Any { class, .. }) if class.fits(text.as_bytes()) => Overlap::First,
            (Self::Any { class, .. }, Self::Literal(text)) if class.fits(text.as_bytes()) => Overlap::Second,
            _ => Overlap::None,
        }
    }
}

impl Overlap {
    /// What two parts of a path add up to.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::Same, other) => other,
            (this, Self::Same) => this,
            (this, other) if this == other => this,
            _ => Self::Unclear,
        }
    }
}
