//! The ids in a path.

use std::{borrow::Cow, ops::Range};

use crate::{
    Kind, Profile,
    identity::Role,
    pattern::Segments,
    percent,
    profile::{Deeper, Inside},
};

/// By convention, what lies deeper is no resource of its own: the name of its kind is as long as its path, and a path of
/// 64 KiB would have 16,000 of them.
const SEGMENTS_MAX: usize = 64;

/// A path with the places of its ids, by glue or by convention.
#[derive(Debug)]
pub(crate) struct Trail<'a> {
    path: &'a str,
    /// What stands at placeholders, from left to right.
    pub(crate) places: Vec<PlaceOfId<'a>>,
    pub(crate) end: End<'a>,
    /// The other kind that a list may show, and what tells it.
    pub(crate) deeper: Option<(&'a Deeper, &'a Kind)>,
    /// Where else a container is that the path lies in.
    pub(crate) inside: Option<&'a Inside>,
}

#[derive(Debug)]
pub(crate) struct PlaceOfId<'a> {
    /// Where in the path.
    pub(crate) range: Range<usize>,
    /// The kind that it is an id of; none where the glue gives no item this path.
    pub(crate) kind: Option<Named<'a>>,
}

/// What the path as a whole is.
#[derive(Debug)]
pub(crate) enum End<'a> {
    /// The item at the last place.
    Item,
    Collection(Named<'a>),
    /// Something that exists once, or nothing.
    Other,
}

/// A kind, by its name or by its collection.
#[derive(Debug, Clone)]
pub(crate) struct Named<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) described: Option<&'a Kind>,
}

impl<'a> Trail<'a> {
    pub(crate) fn of(profile: &'a Profile, service: &str, path: &'a str) -> Self {
        let Some((service, found)) = profile.find(service, path) else {
            return Self::by_convention(path);
        };
        let target = found.target();
        let named = |kind: usize| {
            let kind: &Kind = &service.kinds[kind];
            Named {
                name: Cow::Borrowed(kind.name()),
                described: Some(kind),
            }
        };
        let mut segments = Segments::of(path);
        let mut passed = 0;
        let mut places = Vec::new();
        for place in &target.extra.places {
            let segment = segments.nth(place.segment - passed);
            passed = place.segment + 1;
            let segment = segment.expect("the path matched the pattern");
            places.push(PlaceOfId {
                range: range_in(path, segment),
                kind: place.kind.map(named),
            });
        }
        let end = match target.role {
            Role::Collection => End::Collection(named(target.extra.kind)),
            Role::One if target.extra.is_item => End::Item,
            Role::One => End::Other,
        };
        let deeper = target.extra.deeper.as_ref();
        let deeper = deeper.map(|deeper| (deeper, &service.kinds[deeper.kind]));
        Self {
            path,
            places,
            end,
            deeper,
            inside: target.extra.inside.as_ref(),
        }
    }

    fn by_convention(path: &'a str) -> Self {
        let mut places = Vec::new();
        let mut count = 0;
        for (at, segment) in Segments::of(path).enumerate() {
            count += 1;
            if at % 2 == 1 && at < SEGMENTS_MAX {
                places.push(PlaceOfId {
                    range: range_in(path, segment),
                    kind: Some(collection(path, at)),
                });
            }
        }
        let end = match count {
            0 | SEGMENTS_MAX.. => End::Other,
            _ if count % 2 == 0 => End::Item,
            _ => End::Collection(collection(path, count)),
        };
        Self {
            path,
            places,
            end,
            deeper: None,
            inside: None,
        }
    }

    /// What stands at a place, decoded.
    pub(crate) fn value(&self, place: usize) -> Cow<'a, str> {
        percent::decode_text(&self.path[self.places[place].range.clone()])
    }

    /// What stands at the places before this one.
    pub(crate) fn parents(&self, place: usize) -> Vec<Cow<'a, str>> {
        (0..place).map(|place| self.value(place)).collect()
    }

    /// The path behind a place, beginning with `/`; empty at the end of the path.
    pub(crate) fn below(&self, place: usize) -> &'a str {
        let rest = &self.path[self.places[place].range.end..];
        let extra = rest.len() - rest.trim_start_matches('/').len();
        rest[extra.saturating_sub(1)..].trim_end_matches('/')
    }
}

/// The kind whose collection is the first `count` segments of a path. Ids in it are written `{id}`.
fn collection(path: &str, count: usize) -> Named<'_> {
    let described = None;
    // Mostly it is a part of the path as it stands.
    if count == 1
        && let Some(first) = Segments::of(path).next().filter(|first| !first.contains('%'))
        && let Range { start, end } = range_in(path, first)
        // Not every path begins with a slash: `OPTIONS *`.
        && let Some(slash) = start.checked_sub(1)
    {
        let name = &path[slash..end];
        return Named {
            name: Cow::Borrowed(name),
            described,
        };
    }
    let mut name = String::new();
    for (at, segment) in Segments::of(path).take(count).enumerate() {
        name.push('/');
        match at % 2 {
            0 => percent::encode_segment_into(&mut name, &percent::decode_text(segment)),
            _ => name.push_str("{id}"),
        }
    }
    Named {
        name: Cow::Owned(name),
        described,
    }
}

fn range_in(path: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - path.as_ptr().addr();
    start..start + part.len()
}
