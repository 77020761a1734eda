//! The paths of one service as a tree of segments. A lookup allocates nothing unless a segment is
//! percent-encoded, and visits each node at most once.

use crate::{identity::Role, percent};

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
        let rest = self.0.trim_start_matches('/');
        let (segment, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        self.0 = rest;
        (!segment.is_empty()).then_some(segment)
    }
}

/// A path as the glue writes it: literal segments and `{name}` for one segment of any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(Box<str>),
    Any,
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
    #[error("`{0}` is not a segment: write the path as applications see it, without query and escapes")]
    Character(String),
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let segments = text.strip_prefix('/').ok_or(InvalidPattern::NoSlash)?;
        if segments.is_empty() {
            return Ok(Self(Vec::new()));
        }
        segments
            .split('/')
            .map(Segment::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether the last segment is a placeholder.
    pub(crate) fn ends_with_placeholder(&self) -> bool {
        self.0.last() == Some(&Segment::Any)
    }

    /// The same path and one more segment of any text.
    pub(crate) fn with_placeholder(&self) -> Self {
        let mut segments = self.0.clone();
        segments.push(Segment::Any);
        Self(segments)
    }

    /// The same path without its last segment.
    pub(crate) fn without_last(&self) -> Self {
        let kept = self.0.len().saturating_sub(1);
        Self(self.0[..kept].to_vec())
    }

    /// The places of the placeholders among the segments.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = usize> {
        let is_any = |(_, segment): &(usize, &Segment)| **segment == Segment::Any;
        self.0.iter().enumerate().filter(is_any).map(|(place, _)| place)
    }

    /// Whether this is the beginning of `other` up to and with the segment at `place`.
    pub(crate) fn is_prefix_to(&self, other: &Self, place: usize) -> bool {
        self.0.len() == place + 1 && other.0.starts_with(&self.0)
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let mut segments = Segments::of(path);
        let all = self.0.iter().all(|segment| match (segment, segments.next()) {
            (Segment::Any, Some(_)) => true,
            (Segment::Literal(literal), Some(text)) => percent::decode_text(text) == **literal,
            (_, None) => false,
        });
        all && segments.next().is_none()
    }

    /// The path with its placeholders filled in order; a missing value is empty.
    pub(crate) fn fill(&self, values: &[impl AsRef<str>]) -> String {
        let mut values = values.iter();
        let mut path = String::new();
        for segment in &self.0 {
            path.push('/');
            let text = match segment {
                Segment::Literal(literal) => literal,
                Segment::Any => values.next().map_or("", AsRef::as_ref),
            };
            percent::encode_segment_into(&mut path, text);
        }
        path
    }

    /// A path in which every other segment, from the second on, is an id. Segments are percent-encoded.
    pub(crate) fn by_convention<'s>(segments: impl Iterator<Item = &'s str>) -> Self {
        let segment = |(place, text): (usize, &str)| match place % 2 {
            0 => Segment::Literal(percent::decode_text(text).into()),
            _ => Segment::Any,
        };
        Self(segments.enumerate().map(segment).collect())
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if text.is_empty() {
            return Err(InvalidPattern::Empty);
        }
        // A placeholder's name is for the reader of the file; only its place counts.
        let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if name.is_some_and(cheops_types::is_name) {
            return Ok(Self::Any);
        }
        if text.contains(['{', '}']) {
            return Err(InvalidPattern::Placeholder(text.to_owned()));
        }
        if text.contains(['?', '#', '%']) || text.contains(char::is_whitespace) {
            return Err(InvalidPattern::Character(text.to_owned()));
        }
        Ok(Self::Literal(text.into()))
    }
}

/// What a described path addresses.
#[derive(Debug, Clone)]
pub(crate) struct Target<T> {
    pub(crate) kind: Box<str>,
    pub(crate) role: Role,
    pub(crate) extra: T,
}

/// How a path matched.
#[derive(Debug)]
pub(crate) enum Match<'r, T> {
    Exact(&'r Target<T>),
    /// The path is `depth` segments below this one resource, and not described itself.
    Below(&'r Target<T>, usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Routes<T> {
    root: Node<T>,
}

#[derive(Debug, Clone)]
struct Node<T> {
    target: Option<Target<T>>,
    /// Sorted by text.
    literals: Vec<(Box<str>, Node<T>)>,
    any: Option<Box<Node<T>>>,
}

impl<T> Node<T> {
    fn new() -> Self {
        Self {
            target: None,
            literals: Vec::new(),
            any: None,
        }
    }
}

impl<T> Routes<T> {
    pub(crate) fn new() -> Self {
        Self { root: Node::new() }
    }

    /// Adds a path, or gives back the target that already has it.
    pub(crate) fn insert(&mut self, pattern: &Pattern, target: Target<T>) -> Result<(), &Target<T>> {
        let mut node = &mut self.root;
        for segment in &pattern.0 {
            node = match segment {
                Segment::Any => node.any.get_or_insert_with(|| Box::new(Node::new())),
                Segment::Literal(text) => {
                    let place = node.literals.binary_search_by(|(literal, _)| literal.cmp(text));
                    let place = place.unwrap_or_else(|place| {
                        node.literals.insert(place, (text.clone(), Node::new()));
                        place
                    });
                    &mut node.literals[place].1
                }
            };
        }
        match &mut node.target {
            Some(other) => Err(other),
            free => {
                *free = Some(target);
                Ok(())
            }
        }
    }

    /// The most specific description of a path: a literal segment beats a placeholder, from left to
    /// right; a path that is not described belongs to the nearest resource above it.
    pub(crate) fn find(&self, path: &str) -> Option<Match<'_, T>> {
        let mut above = None;
        if let Some(target) = search(&self.root, Segments::of(path), 0, &mut above) {
            return Some(Match::Exact(target));
        }
        let (target, at) = above?;
        Some(Match::Below(target, Segments::of(path).count() - at))
    }
}

/// Walks down by backtracking. Each node is reached by one way only, so the work is bounded by the
/// size of the tree. `above` becomes the deepest resource on the way to a path that is not there.
fn search<'r, T>(
    node: &'r Node<T>,
    mut rest: Segments<'_>,
    depth: usize,
    above: &mut Option<(&'r Target<T>, usize)>,
) -> Option<&'r Target<T>> {
    let Some(segment) = rest.next() else {
        return node.target.as_ref();
    };
    if let Some(target) = node.target.as_ref().filter(|target| target.role == Role::One)
        && above.is_none_or(|(_, at)| at < depth)
    {
        *above = Some((target, depth));
    }
    let text = percent::decode(segment);
    let literal = node
        .literals
        .binary_search_by(|(literal, _)| literal.as_bytes().cmp(&text))
        .ok()
        .and_then(|place| search(&node.literals[place].1, rest.clone(), depth + 1, above));
    literal.or_else(|| search(node.any.as_deref()?, rest, depth + 1, above))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(paths: &[(&str, Role)]) -> Routes<()> {
        let mut routes = Routes::new();
        for (path, role) in paths {
            let target = Target {
                kind: (*path).into(),
                role: *role,
                extra: (),
            };
            routes.insert(&Pattern::parse(path).unwrap(), target).unwrap();
        }
        routes
    }

    fn check(routes: &Routes<()>, path: &str, expect: &str) {
        let found = match routes.find(path) {
            Some(Match::Exact(target)) => target.kind.to_string(),
            Some(Match::Below(target, depth)) => format!("{depth} below {}", target.kind),
            None => "-".to_owned(),
        };
        assert_eq!(found, expect, "{path}");
    }

    #[test]
    fn the_most_specific_path_wins() {
        let routes = routes(&[
            ("/servers", Role::Collection),
            ("/servers/{id}", Role::One),
            ("/servers/detail", Role::Collection),
            ("/servers/{id}/volumes", Role::Collection),
            ("/servers/{id}/volumes/{volume}", Role::One),
            ("/{tenant}/special", Role::One),
        ]);
        check(&routes, "/servers", "/servers");
        check(&routes, "//servers/", "/servers");
        check(&routes, "/s%65rvers", "/servers");
        check(&routes, "/servers/7", "/servers/{id}");
        check(&routes, "/servers/detail", "/servers/detail");
        check(&routes, "/servers/special", "/servers/{id}");
        check(&routes, "/other/special", "/{tenant}/special");
        check(&routes, "/servers/7/volumes/3", "/servers/{id}/volumes/{volume}");
        check(&routes, "/servers/detail/volumes", "/servers/{id}/volumes");
        check(&routes, "/servers/7/action", "1 below /servers/{id}");
        check(
            &routes,
            "/servers/7/volumes/3/a/b",
            "2 below /servers/{id}/volumes/{volume}",
        );
        check(&routes, "/", "-");
        check(&routes, "/health", "-");
    }

    #[test]
    fn one_path_has_one_meaning() {
        let mut routes = routes(&[("/orders/{id}", Role::One)]);
        let again = Target {
            kind: "x".into(),
            role: Role::One,
            extra: (),
        };
        let other = routes
            .insert(&Pattern::parse("/orders/{name}").unwrap(), again)
            .unwrap_err();
        assert_eq!(&*other.kind, "/orders/{id}");
    }

    #[test]
    fn patterns_are_plain_paths() {
        for bad in [
            "", "orders", "/orders/", "//", "/a{id}", "/{}", "/{a b}", "/a?b", "/a%20b", "/a b",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
