//! The paths of one entry of `resources`.

use super::{
    resources::{not_a_path, read_path},
    section::{At, Section},
};
use crate::{GlueError, pattern::Pattern};

/// The paths of one entry.
pub(super) struct Paths {
    pub(super) collection: Option<At<Pattern>>,
    pub(super) item: Option<At<Pattern>>,
    pub(super) singleton: Option<At<Pattern>>,
    pub(super) below: Vec<At<Pattern>>,
}

impl Paths {
    pub(super) fn read(resource: &Section<'_>, kind: &str) -> Result<Self, GlueError> {
        let mut below = Vec::new();
        for text in resource.texts("below")? {
            let value =
                Pattern::parse_open(text.value).map_err(|error| not_a_path(resource, &text, &error))?;
            if value.segments().is_empty() && !value.has_rest() {
                return Err(resource
                    .source
                    .error(&text.span, "`below` names paths below the item")
                    .fix("write `/status`, or `/*` for all of them"));
            }
            below.push(At {
                value,
                span: text.span,
            });
        }
        let paths = Self {
            collection: read_path(resource, "collection")?,
            item: read_path(resource, "item")?,
            singleton: read_path(resource, "singleton")?,
            below,
        };
        paths.check(resource, kind)?;
        // By convention an item stands below its collection.
        let by_convention = paths.collection.as_ref().map(|at| At {
            value: at.value.with_placeholder(),
            span: at.span.clone(),
        });
        Ok(Self {
            item: paths.item.or(by_convention),
            ..paths
        })
    }

    fn check(&self, resource: &Section<'_>, kind: &str) -> Result<(), GlueError> {
        let source = resource.source;
        let Self {
            collection,
            item,
            singleton,
            below,
        } = self;
        if let (Some((key, span)), None) = (resource.first_own(&["list", "deeper"]), collection) {
            return Err(source
                .error(
                    &span,
                    format!("`{key}` describes a collection, and there is none here"),
                )
                .fix(format!("add `collection = \"/…\"` or remove `{key}`")));
        }
        if let (Some(singleton), true) = (singleton, collection.is_some() || item.is_some()) {
            return Err(source
                .error(
                    &singleton.span,
                    "a resource is either a singleton or has a collection and items",
                )
                .fix("make them two entries of `resources`"));
        }
        if let (Some(_), Some(below)) = (singleton, below.first()) {
            return Err(source
                .error(
                    &below.span,
                    "`below` is about items, and what exists once is none",
                )
                .fix("describe the path as a singleton of its own"));
        }
        if let Some(item) = item.as_ref().filter(|item| !item.value.ends_with_placeholder()) {
            return Err(source
                .error(&item.span, "an item's path ends with the place of its id")
                .fix("end it with `/{id}`, or write `singleton = …` if there is only one"));
        }
        let ends_open = |it: &&At<Pattern>| it.value.ends_with_placeholder() && item.is_none();
        if let Some(collection) = collection.as_ref().filter(ends_open) {
            return Err(source
                .error(
                    &collection.span,
                    "a collection's path ends with its name, not with an id",
                )
                .fix("remove the placeholder at its end, or give `item` too if the name may be any"));
        }
        if collection.is_none() && item.is_none() && singleton.is_none() {
            return Err(source
                .error(&resource.span, format!("the resource `{kind}` has no path"))
                .fix("add `collection = \"/…\"`, `item = \"/…/{id}\"` or `singleton = \"/…\"`"));
        }
        Ok(())
    }
}
