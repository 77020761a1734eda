//! The resources of one service by their paths.

use crate::{
    identity::Role,
    pattern::{Pattern, Segments},
    tree::Tree,
};

/// What a described path addresses.
#[derive(Debug, Clone)]
pub(crate) struct Target<T> {
    pub(crate) kind: Box<str>,
    pub(crate) role: Role,
    /// The path belongs to the resource whose path ends this many segments after its beginning; none: it is
    /// that path itself.
    pub(crate) below: Option<usize>,
    pub(crate) extra: T,
}

/// How a path matched.
#[derive(Debug)]
pub(crate) enum Match<'r, T> {
    Exact(&'r Target<T>),
    /// The path is `depth` segments below this one resource.
    Below {
        target: &'r Target<T>,
        depth: usize,
        /// The glue says that it is a part of the resource, and no collection.
        is_described: bool,
    },
}

impl<'r, T> Match<'r, T> {
    pub(crate) fn target(&self) -> &'r Target<T> {
        match self {
            Self::Exact(target) | Self::Below { target, .. } => target,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Routes<T>(Tree<Target<T>>);

impl<T> Routes<T> {
    pub(crate) fn new() -> Self {
        Self(Tree::default())
    }

    /// Adds a path, or gives back the target that already has it.
    pub(crate) fn insert(&mut self, pattern: &Pattern, target: Target<T>) -> Result<(), &Target<T>> {
        match self.0.entry(pattern) {
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
        let mut above: Option<(&Target<T>, usize)> = None;
        let found = self.0.find(path, &mut |target| Some(target), &mut |target, at| {
            let is_resource = target.role == Role::One && target.below.is_none();
            if is_resource && above.is_none_or(|(_, deepest)| deepest < at) {
                above = Some((target, at));
            }
        });
        let count = || Segments::of(path).count();
        match (found, above) {
            (Some(target), _) => Some(match target.below {
                None => Match::Exact(target),
                Some(at) => Match::Below {
                    target,
                    depth: count() - at,
                    is_described: true,
                },
            }),
            (None, Some((target, at))) => Some(Match::Below {
                target,
                depth: count() - at,
                is_described: false,
            }),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests;
