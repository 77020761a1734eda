//! The paths of a service's resources, on the way to its routes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    Deeper, IdPlace, Inside, Route, Taken,
    section::{At, Source},
};
use crate::{
    GlueError, ListShape, Pointer,
    identity::Role,
    pattern::{Overlap, Pattern},
    routes::{Routes, Target},
};

/// One described path.
pub(super) struct PathDraft {
    /// Among the service's kinds.
    pub(super) kind: usize,
    pub(super) path: At<Pattern>,
    pub(super) place: PathRole,
    pub(super) list: Option<Arc<ListShape>>,
    pub(super) deeper: Option<At<DeeperDraft>>,
    pub(super) inside: Option<At<Pattern>>,
}

/// What a path is to its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathRole {
    Collection,
    Item,
    Singleton,
    /// Below the item of this path, and a part of it.
    Below(Pattern),
}

/// A list that shows items of a kind whose paths have one more placeholder.
#[derive(Debug, Clone)]
pub(super) struct DeeperDraft {
    pub(super) kind: String,
    pub(super) placeholder: String,
    pub(super) pointer: Pointer,
}

/// Complains about two paths where some request fits both and neither says more about it.
pub(super) fn check_overlaps(
    source: Source<'_>,
    paths: &[PathDraft],
    names: &[String],
) -> Result<(), GlueError> {
    for (at, path) in paths.iter().enumerate() {
        let pattern = &path.path.value;
        let unclear = paths[..at].iter().find(|other| {
            let other = &other.path.value;
            // A description of exactly what both match settles it.
            let is_settled = || {
                let meeting = pattern.meeting(other);
                let mut paths = paths.iter();
                paths.any(|third| third.path.value.overlap(&meeting) == Overlap::Same)
            };
            pattern.overlap(other) == Overlap::Unclear && !is_settled()
        });
        if let Some(other) = unclear {
            let message = format!(
                "`{pattern}` and `{}` of the resource `{}` match the same paths, and neither is more specific",
                other.path.value, names[other.kind]
            );
            return Err(source.error(&path.path.span, message).fix(format!(
                "describe `{}` as well, or narrow a placeholder, as in `{{project:hex}}`",
                pattern.meeting(&other.path.value)
            )));
        }
    }
    Ok(())
}

pub(super) fn routes(
    source: Source<'_>,
    paths: &[PathDraft],
    names: &[String],
) -> Result<Routes<Route>, GlueError> {
    let items: Vec<_> = paths.iter().filter(|path| path.place == PathRole::Item).collect();
    let places = |pattern: &Pattern| {
        let place = |segment| {
            let ends_here = |item: &&&PathDraft| item.path.value.is_prefix_to(pattern, segment);
            let kind = items.iter().find(ends_here).map(|item| item.kind);
            IdPlace { segment, kind }
        };
        pattern.placeholders().map(place).collect()
    };
    let mut routes = Routes::new();
    for path in paths {
        let pattern = &path.path.value;
        let (role, below) = match &path.place {
            PathRole::Collection => (Role::Collection, None),
            PathRole::Item | PathRole::Singleton => (Role::One, None),
            PathRole::Below(item) => (Role::One, Some(item)),
        };
        let target = Target {
            kind: names[path.kind].as_str().into(),
            role,
            below: below.map(|item| item.segments().len()),
            extra: Route {
                list: path.list.clone(),
                kind: path.kind,
                is_item: matches!(path.place, PathRole::Item | PathRole::Below(_)),
                places: places(below.unwrap_or(pattern)),
                deeper: match &path.deeper {
                    Some(deeper) => Some(find_deeper(source, pattern, deeper, &items, names)?),
                    None => None,
                },
                inside: match &path.inside {
                    Some(inside) => Some(find_inside(source, below.unwrap_or(pattern), inside)?),
                    None => None,
                },
            },
        };
        routes.insert(pattern, target).map_err(|other| {
            let message = format!("this path already belongs to the resource `{}`", other.kind);
            source
                .error(&path.path.span, message)
                .fix("give every path one meaning")
        })?;
    }
    Ok(routes)
}

/// Finds out where a container's ids stand in the path of what it contains.
fn find_inside(source: Source<'_>, child: &Pattern, container: &At<Pattern>) -> Result<Inside, GlueError> {
    Inside::new(&container.value, child).map_err(|name| {
        let message = format!("nothing tells `{{{name}}}` of `{}` in `{child}`", container.value);
        source
            .error(&container.span, message)
            .fix("use the same names for placeholders that mean the same")
    })
}

/// Finds out what the key of a deeper item is made of.
fn find_deeper(
    source: Source<'_>,
    list: &Pattern,
    At { value: draft, span }: &At<DeeperDraft>,
    items: &[&PathDraft],
    names: &[String],
) -> Result<Deeper, GlueError> {
    let is_named = |item: &&&PathDraft| names[item.kind] == draft.kind;
    let Some(item) = items.iter().find(is_named) else {
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = format!("no kind `{}` is described", draft.kind);
        return Err(source.unknown(span, message, &draft.kind, &known));
    };
    let mut parents: Vec<&str> = item
        .path
        .value
        .named_placeholders()
        .map(|(_, name)| name)
        .collect();
    parents.pop();
    let here: Vec<&str> = list.named_placeholders().map(|(_, name)| name).collect();
    let taken = parents.iter().map(|parent| {
        if *parent == draft.placeholder {
            return Ok(Taken::Item);
        }
        let place = here.iter().position(|name| name == parent);
        place.map(Taken::Path).ok_or_else(|| {
            let message = format!(
                "nothing tells `{{{parent}}}` of `{}` for the items of `{list}`",
                item.path.value
            );
            source
                .error(span, message)
                .fix("use the same names for placeholders that mean the same")
        })
    });
    let parents: Vec<Taken> = taken.collect::<Result<_, _>>()?;
    if !parents.contains(&Taken::Item) {
        let message = format!("`{}` has no `{{{}}}`", item.path.value, draft.placeholder);
        return Err(source
            .error(span, message)
            .fix("name one of its placeholders, but the last"));
    }
    Ok(Deeper {
        kind: item.kind,
        pointer: draft.pointer.clone(),
        parents,
    })
}
