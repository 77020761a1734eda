//! A location: one or several sites, and how they are chosen.

use cheops_types::{Consistency, SiteName};

use crate::{Operator, Radius, Span};

/// A location with its place in the text. Two locations are equal when they mean the same text: spans
/// do not count.
#[derive(Debug, Clone)]
pub struct Loc {
    kind: LocKind,
    span: Span,
}

/// What a location is. [`LocKind::Joined`] has at least two members, none of them joined by the same
/// operator: [`Loc::join`] is the only way to make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocKind {
    Site(SiteName),
    /// `all()`: every known site.
    All,
    /// `!L`: every reachable site but those of L.
    Not(Box<Loc>),
    Joined(Operator, Vec<Loc>),
    /// `around(L, radius)`: L, then the others by their round trip from L.
    Around(Box<Loc>, Radius),
    /// `strong(L)` or `eventual(L)`.
    Wrapped(Consistency, Box<Loc>),
}

// === impl Loc ===

impl Loc {
    pub fn site(name: SiteName) -> Self {
        Self::unplaced(LocKind::Site(name))
    }

    pub fn all() -> Self {
        Self::unplaced(LocKind::All)
    }

    /// Every reachable site but those of `excluded`.
    pub fn except(excluded: Self) -> Self {
        Self::unplaced(LocKind::Not(Box::new(excluded)))
    }

    pub fn around(center: Self, radius: Radius) -> Self {
        Self::unplaced(LocKind::Around(Box::new(center), radius))
    }

    pub fn wrapped(consistency: Consistency, inner: Self) -> Self {
        Self::unplaced(LocKind::Wrapped(consistency, Box::new(inner)))
    }

    /// `self operator right`, one flat list where a side is such a list already.
    pub fn join(self, operator: Operator, right: Self) -> Self {
        let span = self.span.to(right.span);
        let mut members = match self.kind {
            LocKind::Joined(same, members) if same == operator => members,
            kind => vec![Self {
                kind,
                span: self.span,
            }],
        };
        match right.kind {
            LocKind::Joined(same, more) if same == operator => members.extend(more),
            kind => members.push(Self {
                kind,
                span: right.span,
            }),
        }
        Self {
            kind: LocKind::Joined(operator, members),
            span,
        }
    }

    pub fn kind(&self) -> &LocKind {
        &self.kind
    }

    pub fn span(&self) -> Span {
        self.span
    }

    fn unplaced(kind: LocKind) -> Self {
        Self {
            kind,
            span: Span::default(),
        }
    }

    pub(crate) fn at(mut self, span: Span) -> Self {
        self.span = span;
        self
    }

    /// Whether whoever wrote the location wrote down that site to be used. What `!`, `around` and `all()` find is
    /// not written down, and what `!` leaves out is not to be used.
    pub fn names(&self, site: &str) -> bool {
        match &self.kind {
            LocKind::Site(name) => name.as_str() == site,
            LocKind::All | LocKind::Not(_) => false,
            LocKind::Around(inner, _) | LocKind::Wrapped(_, inner) => inner.names(site),
            LocKind::Joined(_, members) => members.iter().any(|member| member.names(site)),
        }
    }

    /// Calls `visit` for each site that is written in the location, from left to right.
    pub(crate) fn for_each_site<'a>(&'a self, visit: &mut impl FnMut(&'a SiteName, Span)) {
        match &self.kind {
            LocKind::Site(name) => visit(name, self.span),
            LocKind::All => {}
            LocKind::Not(inner) | LocKind::Around(inner, _) | LocKind::Wrapped(_, inner) => {
                inner.for_each_site(visit);
            }
            LocKind::Joined(_, members) => {
                for member in members {
                    member.for_each_site(visit);
                }
            }
        }
    }
}

impl PartialEq for Loc {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for Loc {}

#[cfg(test)]
mod tests {
    use crate::{ParseLimits, parse};

    #[test]
    fn what_is_found_is_not_named() {
        let limits = ParseLimits {
            max_bytes: 4096,
            max_depth: 32,
        };
        let named = |scope: &str| -> Vec<&str> {
            let scope = parse(scope, &limits).unwrap();
            let loc = scope.loc_of("A").unwrap();
            ["a", "b", "c"]
                .into_iter()
                .filter(|site| loc.names(site))
                .collect()
        };
        assert_eq!(named("a | b"), ["a", "b"]);
        assert_eq!(named("!a"), [""; 0]);
        assert_eq!(named("b | !a"), ["b"]);
        assert_eq!(named("around(a, 5ms) ; c"), ["a", "c"]);
        assert_eq!(named("all()"), [""; 0]);
        assert_eq!(named("eventual(a & b)"), ["a", "b"]);
        assert_eq!(named("B: a, A: c"), ["c"]);
    }
}
