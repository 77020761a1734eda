//! Patterns of paths as a tree of segments. A lookup allocates nothing unless a segment is percent-encoded,
//! and visits each node at most once.

use crate::{
    pattern::{Class, Pattern, Segment, Segments},
    percent,
};

/// Something for each pattern.
#[derive(Debug, Clone)]
pub(crate) struct Tree<T> {
    root: Node<T>,
}

#[derive(Debug, Clone)]
struct Node<T> {
    /// For the path that ends here.
    here: Option<T>,
    /// For everything below.
    rest: Option<T>,
    /// Sorted by text.
    literals: Vec<(Box<str>, Node<T>)>,
    hex: Option<Box<Node<T>>>,
    any: Option<Box<Node<T>>>,
}

impl<T> Node<T> {
    fn new() -> Self {
        Self {
            here: None,
            rest: None,
            literals: Vec::new(),
            hex: None,
            any: None,
        }
    }

    /// Whether no pattern goes on from here with a segment of its own.
    fn is_leaf(&self) -> bool {
        self.literals.is_empty() && self.hex.is_none() && self.any.is_none()
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self { root: Node::new() }
    }
}

impl<T> Tree<T> {
    /// The place of a pattern. Names of placeholders do not count.
    pub(crate) fn entry(&mut self, pattern: &Pattern) -> &mut Option<T> {
        let mut node = &mut self.root;
        for segment in pattern.segments() {
            node = match segment {
                Segment::Any { class, .. } => {
                    let child = match class {
                        Class::Text => &mut node.any,
                        Class::Hex => &mut node.hex,
                    };
                    child.get_or_insert_with(|| Box::new(Node::new()))
                }
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
        if pattern.has_rest() {
            &mut node.rest
        } else {
            &mut node.here
        }
    }

    /// The first answer of `accept` to what the matching patterns stand for, the most specific one first: from
    /// left to right a literal segment comes before a placeholder with a class, that one before any other, and
    /// `*` comes last. `pass` is called with what stands for the beginnings of the path on the way, and with
    /// the number of their segments.
    pub(crate) fn find<'t, R>(
        &'t self,
        path: &str,
        accept: &mut impl FnMut(&'t T) -> Option<R>,
        pass: &mut impl FnMut(&'t T, usize),
    ) -> Option<R> {
        search(&self.root, Segments::of(path), 0, accept, pass)
    }

    /// Everything that stands in the tree.
    pub(crate) fn values(&self) -> Vec<&T> {
        let mut values = Vec::new();
        let mut nodes = vec![&self.root];
        while let Some(node) = nodes.pop() {
            values.extend(node.here.iter().chain(&node.rest));
            nodes.extend(node.literals.iter().map(|(_, node)| node));
            nodes.extend(node.hex.iter().chain(&node.any).map(|node| &**node));
        }
        values
    }
}

/// Walks down by backtracking. Each node is reached by one way only, so the work is bounded by the size of the
/// tree.
fn search<'t, T, R>(
    node: &'t Node<T>,
    mut rest: Segments<'_>,
    depth: usize,
    accept: &mut impl FnMut(&'t T) -> Option<R>,
    pass: &mut impl FnMut(&'t T, usize),
) -> Option<R> {
    let Some(segment) = rest.next() else {
        return node.here.as_ref().and_then(accept);
    };
    if let Some(here) = &node.here {
        pass(here, depth);
    }
    if node.is_leaf() {
        return node.rest.as_ref().and_then(accept);
    }
    let text = percent::decode(segment);
    let literal = node
        .literals
        .binary_search_by(|(literal, _)| literal.as_bytes().cmp(&text));
    if let Ok(place) = literal {
        let found = search(&node.literals[place].1, rest.clone(), depth + 1, accept, pass);
        if found.is_some() {
            return found;
        }
    }
    if let Some(hex) = node.hex.as_deref().filter(|_| Class::Hex.fits(&text)) {
        let found = search(hex, rest.clone(), depth + 1, accept, pass);
        if found.is_some() {
            return found;
        }
    }
    if let Some(any) = node.any.as_deref() {
        let found = search(any, rest, depth + 1, accept, pass);
        if found.is_some() {
            return found;
        }
    }
    node.rest.as_ref().and_then(accept)
}
