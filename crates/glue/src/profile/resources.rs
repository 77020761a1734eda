//! The resources of a service: their paths, and the kinds that they are of.

use std::{collections::BTreeMap, sync::Arc};

use cheops_types::{ServiceName, is_name};
use toml::de::{DeTable, DeValue};

use super::{
    IdPlace, Route, Service,
    compile::bad_name,
    list, replication,
    section::{At, Section, Source},
};
use crate::{
    GlueError, Items, Kind, ListShape, Pointer,
    identity::Role,
    kind::{Referred, Rules},
    routes::{Pattern, Routes, Target},
};

/// The keys that describe paths; all others are about replication.
const PATHS: [&str; 5] = ["kind", "collection", "item", "singleton", "list"];

/// A kind that is named at a place of the file, to be looked for when all are known.
pub(super) type Mention = At<Referred>;

/// What the entries of a service add up to.
#[derive(Default)]
struct Draft {
    kinds: Vec<KindDraft>,
    paths: Vec<PathDraft>,
}

struct KindDraft {
    name: String,
    /// Of the first entry that has one.
    item: Option<Pattern>,
    collection: Option<Pattern>,
    list: Option<Arc<ListShape>>,
    rules: Option<Rules>,
}

struct PathDraft {
    kind: usize,
    path: At<Pattern>,
    role: Role,
    is_item: bool,
    list: Option<Arc<ListShape>>,
}

pub(super) fn read<'t>(
    source: Source<'t>,
    service: &ServiceName,
    name: &At<&'t str>,
    table: &'t DeTable<'t>,
    mentions: &mut Vec<Mention>,
) -> Result<Service, GlueError> {
    let title = format!("services.{}", name.value);
    let section = Section::open(source, &*title, table, name.span.clone(), &["resources"])?;
    let mut draft = Draft::default();
    for value in section.array("resources")?.unwrap_or_default() {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(section.wrong_type("resources", value, "a list of tables", value.get_ref()));
        };
        let known: Vec<_> = PATHS.into_iter().chain(replication::KEYS).collect();
        let resource = Section::open(source, format!("{title}.resources"), table, value.span(), &known)?;
        draft.add(service, &resource, mentions)?;
    }
    draft.finish(source)
}

/// Complains about the first reference to a kind that is not there.
pub(super) fn check_mentions(
    source: Source<'_>,
    services: &BTreeMap<ServiceName, Service>,
    mentions: &[Mention],
) -> Result<(), GlueError> {
    for At { value, span } in mentions {
        let kinds = services.get(&value.service).map(|service| &*service.kinds);
        let Some(kinds) = kinds else {
            let names: Vec<&str> = services.keys().map(|name| &**name).collect();
            let message = format!("no service `{}` is described", value.service);
            return Err(source.unknown(span, message, &value.service, &names));
        };
        // Kinds that are not described go by their collection's path.
        let is_known = kinds.iter().any(|kind| *kind.name() == *value.kind);
        if !is_known && !value.kind.starts_with('/') {
            let names: Vec<&str> = kinds.iter().map(Kind::name).collect();
            let message = format!("services.{} has no kind `{}`", value.service, value.kind);
            return Err(source.unknown(span, message, &value.kind, &names));
        }
    }
    Ok(())
}

/// Complains about ranges of integers that share a part: two kinds would draw the same meta-ids. The same range
/// for several kinds is one range, drawn from once.
pub(super) fn check_ranges(source: Source<'_>, root: &Section<'_>) -> Result<(), GlueError> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (_, service) in root.tables("services")? {
        let resources = service
            .get("resources")
            .and_then(|resources| resources.get_ref().as_array());
        let tables = resources.into_iter().flatten();
        for value in tables.filter_map(|resource| resource.get_ref().as_table()?.get("meta-id")) {
            let Some(range) = replication::range(value) else {
                continue;
            };
            let overlaps = |other: &&(u64, u64)| **other != range && other.0 <= range.1 && range.0 <= other.1;
            if let Some((first, last)) = ranges.iter().find(overlaps) {
                return Err(source
                    .error(
                        &value.span(),
                        format!("the range overlaps with [{first}, {last}] of another kind"),
                    )
                    .fix("use the very same range, or ranges that share nothing"));
            }
            ranges.push(range);
        }
    }
    Ok(())
}

impl Draft {
    fn add(
        &mut self,
        service: &ServiceName,
        resource: &Section<'_>,
        mentions: &mut Vec<Mention>,
    ) -> Result<(), GlueError> {
        let source = resource.source;
        let kind = resource.required_text("kind")?;
        if !is_name(kind.value) {
            return Err(bad_name(source, &kind));
        }
        let collection = read_path(resource, "collection")?;
        let item = read_path(resource, "item")?;
        let singleton = read_path(resource, "singleton")?;
        check_paths(
            resource,
            kind.value,
            collection.as_ref(),
            item.as_ref(),
            singleton.as_ref(),
        )?;
        // By convention an item stands below its collection.
        let item = item.or_else(|| {
            collection.as_ref().map(|at| At {
                value: at.value.with_placeholder(),
                span: at.span.clone(),
            })
        });
        let list = match &collection {
            Some(_) => Some(Arc::new(list::read(resource)?)),
            None => None,
        };
        let at = self.kind(kind.value);
        let draft = &mut self.kinds[at];
        if let (None, Some(item)) = (&draft.item, item.as_ref().or(singleton.as_ref())) {
            draft.item = Some(item.value.clone());
            draft.collection = collection.as_ref().map(|collection| collection.value.clone());
            draft.list.clone_from(&list);
        }
        draft.add_rules(service, resource, singleton.is_some(), mentions)?;
        let paths = [
            (collection, Role::Collection, false),
            (item, Role::One, true),
            (singleton, Role::One, false),
        ];
        for (path, role, is_item) in paths {
            let Some(path) = path else { continue };
            let list = list.clone().filter(|_| role == Role::Collection);
            self.paths.push(PathDraft {
                kind: at,
                path,
                role,
                is_item,
                list,
            });
        }
        Ok(())
    }

    /// The place of the kind of this name.
    fn kind(&mut self, name: &str) -> usize {
        let known = self.kinds.iter().position(|kind| kind.name == name);
        known.unwrap_or_else(|| {
            self.kinds.push(KindDraft {
                name: name.to_owned(),
                item: None,
                collection: None,
                list: None,
                rules: None,
            });
            self.kinds.len() - 1
        })
    }

    fn finish(self, source: Source<'_>) -> Result<Service, GlueError> {
        let items: Vec<_> = self.paths.iter().filter(|path| path.is_item).collect();
        let places = |pattern: &Pattern| {
            let place = |segment| {
                let ends_here = |item: &&&PathDraft| item.path.value.is_prefix_to(pattern, segment);
                let kind = items.iter().find(ends_here).map(|item| item.kind);
                IdPlace { segment, kind }
            };
            pattern.placeholders().map(place).collect()
        };
        let mut routes = Routes::new();
        for path in &self.paths {
            let target = Target {
                kind: self.kinds[path.kind].name.as_str().into(),
                role: path.role,
                extra: Route {
                    list: path.list.clone(),
                    kind: path.kind,
                    is_item: path.is_item,
                    places: places(&path.path.value),
                },
            };
            routes.insert(&path.path.value, target).map_err(|other| {
                let message = format!("this path already belongs to the resource `{}`", other.kind);
                source
                    .error(&path.path.span, message)
                    .fix("give every path one meaning")
            })?;
        }
        let kinds = self.kinds.into_iter().map(KindDraft::finish).collect();
        Ok(Service { routes, kinds })
    }
}

impl KindDraft {
    fn add_rules(
        &mut self,
        service: &ServiceName,
        resource: &Section<'_>,
        is_singleton: bool,
        mentions: &mut Vec<Mention>,
    ) -> Result<(), GlueError> {
        let Some((key, span)) = resource.first_of(&replication::KEYS) else {
            return Ok(());
        };
        if is_singleton {
            return Err(resource
                .source
                .error(
                    &span,
                    format!("`{key}` is about replicas, and what exists once has none"),
                )
                .fix(format!("remove `{key}`")));
        }
        if self.rules.is_some() {
            return Err(resource
                .source
                .error(
                    &span,
                    format!("another entry already describes replicas of `{}`", self.name),
                )
                .fix("keep these keys in one entry"));
        }
        self.rules = Some(replication::read(service, resource, mentions)?);
        Ok(())
    }

    fn finish(self) -> Kind {
        let item = self.item.expect("every entry has a path");
        let collection = self.collection.unwrap_or_else(|| item.without_last());
        let list = self
            .list
            .unwrap_or_else(|| Arc::new(ListShape::plain(Items::Presumed)));
        let rules = self.rules.unwrap_or_default();
        Kind::new(&self.name, item, collection, list, rules)
    }
}

fn check_paths(
    resource: &Section<'_>,
    kind: &str,
    collection: Option<&At<Pattern>>,
    item: Option<&At<Pattern>>,
    singleton: Option<&At<Pattern>>,
) -> Result<(), GlueError> {
    let source = resource.source;
    if let Some(list) = resource.get("list")
        && collection.is_none()
    {
        return Err(source
            .error(
                &list.span(),
                "`list` describes a collection, and there is none here",
            )
            .fix("add `collection = \"/…\"` or remove `list`"));
    }
    if let (Some(singleton), true) = (singleton, collection.is_some() || item.is_some()) {
        return Err(source
            .error(
                &singleton.span,
                "a resource is either a singleton or has a collection and items",
            )
            .fix("make them two entries of `resources`"));
    }
    if let Some(item) = item.filter(|item| !item.value.ends_with_placeholder()) {
        return Err(source
            .error(&item.span, "an item's path ends with the place of its id")
            .fix("end it with `/{id}`, or write `singleton = …` if there is only one"));
    }
    if let Some(collection) = collection.filter(|it| it.value.ends_with_placeholder()) {
        return Err(source
            .error(
                &collection.span,
                "a collection's path ends with its name, not with an id",
            )
            .fix("remove the placeholder at its end"));
    }
    if collection.is_none() && item.is_none() && singleton.is_none() {
        return Err(source
            .error(&resource.span, format!("the resource `{kind}` has no path"))
            .fix("add `collection = \"/…\"`, `item = \"/…/{id}\"` or `singleton = \"/…\"`"));
    }
    Ok(())
}

pub(super) fn read_path(section: &Section<'_>, key: &str) -> Result<Option<At<Pattern>>, GlueError> {
    let Some(text) = section.text(key)? else {
        return Ok(None);
    };
    let value = Pattern::parse(text.value).map_err(|error| {
        section
            .source
            .error(&text.span, format!("`{}` is not a path: {error}", text.value))
    })?;
    Ok(Some(At {
        value,
        span: text.span,
    }))
}

pub(super) fn read_pointer(section: &Section<'_>, key: &str) -> Result<Option<At<Pointer>>, GlueError> {
    let Some(text) = section.text(key)? else {
        return Ok(None);
    };
    let value =
        Pointer::parse(text.value).map_err(|error| section.source.error(&text.span, error.to_string()))?;
    Ok(Some(At {
        value,
        span: text.span,
    }))
}
