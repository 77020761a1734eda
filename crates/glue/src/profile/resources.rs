//! The resources of a service: their paths, and the kinds that they are of.

use std::sync::Arc;

use cheops_types::{ServiceName, is_name};
use toml::de::{DeTable, DeValue};

use super::{
    Route,
    compile::bad_name,
    entry::Paths,
    list,
    paths::{self, DeeperDraft, PathDraft, PathRole},
    replication,
    section::{At, Mistakes, Section, Source},
};
use crate::{
    GlueError, Items, Kind, ListShape, Pointer,
    kind::{Referred, Rules},
    pattern::{InvalidPattern, Overlap, Pattern},
    routes::Routes,
};

/// The keys of an entry that are its own; all others it may have from the entry that it is like.
const OWN: [&str; 8] = [
    "kind",
    "like",
    "collection",
    "item",
    "singleton",
    "below",
    "deeper",
    "inside",
];

/// A kind that is named at a place of the file, to be looked for when all are known.
pub(super) type Mention = At<Referred>;

/// What the entries of a service add up to.
pub(super) struct Draft {
    /// Under which all paths stand; at least one.
    prefixes: Vec<Pattern>,
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

impl Draft {
    pub(super) fn read(
        service: &ServiceName,
        section: &Section<'_>,
        mentions: &mut Vec<Mention>,
        mistakes: &mut Mistakes,
    ) -> Result<Self, GlueError> {
        let mut draft = Self {
            prefixes: read_prefixes(section)?,
            kinds: Vec::new(),
            paths: Vec::new(),
        };
        let known: Vec<_> = OWN.into_iter().chain(["list"]).chain(replication::KEYS).collect();
        let title = format!("{}.resources", section.name);
        let entries = section.named_sections(&title, "resources");
        let entries: Vec<Section<'_>> = entries?
            .into_iter()
            .filter_map(|entry| mistakes.note(entry.check(&known).map(|()| entry)))
            .collect();
        for entry in &entries {
            let added = with_bases(entry, &entries).and_then(|entry| draft.add(service, &entry, mentions));
            mistakes.note(added);
        }
        Ok(draft)
    }

    /// The described paths with the kinds that they belong to.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, &Pattern)> {
        let kind = |path: &PathDraft| &*self.kinds[path.kind].name;
        self.paths.iter().map(move |path| (kind(path), &path.path.value))
    }

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
        let paths = Paths::read(resource, kind.value)?;
        let list = match &paths.collection {
            Some(_) => Some(Arc::new(list::read(resource)?)),
            None => None,
        };
        let deeper = read_deeper(resource)?;
        let inside = read_path(resource, "inside")?.map(|at| At {
            value: at.value.under(&self.prefixes[0]),
            span: at.span,
        });
        let at = self.kind(kind.value);
        let draft = &mut self.kinds[at];
        if let (None, Some(item)) = (&draft.item, paths.item.as_ref().or(paths.singleton.as_ref())) {
            let first = |path: &At<Pattern>| path.value.under(&self.prefixes[0]);
            draft.item = Some(first(item));
            draft.collection = paths.collection.as_ref().map(first);
            draft.list.clone_from(&list);
        }
        draft.add_rules(service, resource, paths.singleton.is_some(), mentions)?;
        for prefix in self.prefixes.clone() {
            self.add_paths(
                at,
                &paths,
                &prefix,
                list.as_ref(),
                deeper.as_ref(),
                inside.as_ref(),
            );
        }
        Ok(())
    }

    fn add_paths(
        &mut self,
        kind: usize,
        paths: &Paths,
        prefix: &Pattern,
        list: Option<&Arc<ListShape>>,
        deeper: Option<&At<DeeperDraft>>,
        inside: Option<&At<Pattern>>,
    ) {
        let single = [
            (&paths.collection, PathRole::Collection),
            (&paths.item, PathRole::Item),
            (&paths.singleton, PathRole::Singleton),
        ];
        let single = single
            .into_iter()
            .filter_map(|(path, place)| Some((path.as_ref()?.clone(), place)));
        let item = paths.item.as_ref().map(|item| &item.value);
        let below = paths.below.iter().filter_map(|below| {
            let path = At {
                value: item?.with(&below.value),
                span: below.span.clone(),
            };
            Some((path, PathRole::Below(item?.under(prefix))))
        });
        for (path, place) in single.chain(below) {
            let pattern = path.value.under(prefix);
            // Several collections may show the same items.
            let is_known = |known: &PathDraft| {
                known.kind == kind
                    && known.place == PathRole::Item
                    && known.path.value.overlap(&pattern) == Overlap::Same
            };
            if place == PathRole::Item && self.paths.iter().any(is_known) {
                continue;
            }
            let is_collection = place == PathRole::Collection;
            self.paths.push(PathDraft {
                kind,
                path: At {
                    value: pattern,
                    span: path.span,
                },
                place,
                list: list.filter(|_| is_collection).cloned(),
                deeper: deeper.filter(|_| is_collection).cloned(),
                inside: inside.cloned(),
            });
        }
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

    pub(super) fn finish(self, source: Source<'_>) -> Result<(Routes<Route>, Vec<Kind>), GlueError> {
        let names: Vec<String> = self.kinds.iter().map(|kind| kind.name.clone()).collect();
        let routes = paths::routes(source, &self.paths, &names)?;
        paths::check_overlaps(source, &self.paths, &names)?;
        Ok((routes, self.kinds.into_iter().map(KindDraft::finish).collect()))
    }
}

/// The entry with the keys of what it is like.
fn with_bases<'t>(entry: &Section<'t>, entries: &[Section<'t>]) -> Result<Section<'t>, GlueError> {
    let entry = entry.clone();
    match entry.text("like")? {
        Some(like) => {
            let bases = bases(&entry, &like, entries)?;
            Ok(entry.like(bases, &OWN))
        }
        None => Ok(entry),
    }
}

/// The entries whose keys an entry has too, unless it has its own.
fn bases<'t>(
    entry: &Section<'t>,
    like: &At<&str>,
    entries: &[Section<'t>],
) -> Result<Vec<&'t DeTable<'t>>, GlueError> {
    let source = entry.source;
    let kind_of = |entry: &Section<'t>| entry.text("kind").ok().flatten().map(|kind| kind.value);
    let is_meant = |other: &&Section<'t>| kind_of(other) == Some(like.value);
    let bases: Vec<&Section<'t>> = entries.iter().filter(is_meant).collect();
    if bases.is_empty() {
        let known: Vec<&str> = entries.iter().filter_map(kind_of).collect();
        let message = format!("no kind `{}` is described here", like.value);
        return Err(source.unknown(&like.span, message, like.value, &known));
    }
    if kind_of(entry) == Some(like.value) {
        return Err(source
            .error(&like.span, "a kind is always like itself")
            .fix("remove `like`: entries of one kind share their keys"));
    }
    if let Some(base) = bases.iter().find(|base| base.get("like").is_some()) {
        let other = base.text("like")?.map_or("", |like| like.value);
        return Err(source
            .error(&like.span, format!("`{}` is itself like `{other}`", like.value))
            .fix(format!("write `like = \"{other}\"`")));
    }
    Ok(bases.into_iter().map(Section::table).collect())
}

fn read_prefixes(service: &Section<'_>) -> Result<Vec<Pattern>, GlueError> {
    let mut prefixes = Vec::new();
    for text in service.texts("prefixes")? {
        let prefix = parse_path(service, &text)?;
        if prefixes.is_empty() && prefix.has_placeholders() {
            return Err(service
                .source
                .error(
                    &text.span,
                    "the first prefix is the one that the agent uses itself",
                )
                .fix("put one without placeholders first"));
        }
        prefixes.push(prefix);
    }
    if prefixes.is_empty() {
        prefixes.push(Pattern::root());
    }
    Ok(prefixes)
}

fn read_deeper(resource: &Section<'_>) -> Result<Option<At<DeeperDraft>>, GlueError> {
    let Some(value) = resource.get("deeper") else {
        return Ok(None);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(resource
            .wrong_type("deeper", value, "a table", value.get_ref())
            .fix("write `{ kind = \"…\", placeholder = \"…\", pointer = \"/…\" }`"));
    };
    let known = ["kind", "placeholder", "pointer"];
    let deeper = Section::open(resource.source, "`deeper`", table, value.span(), &known)?;
    let pointer = read_pointer(&deeper, "pointer")?.ok_or_else(|| deeper.missing("pointer"))?;
    Ok(Some(At {
        value: DeeperDraft {
            kind: deeper.required_text("kind")?.value.to_owned(),
            placeholder: deeper.required_text("placeholder")?.value.to_owned(),
            pointer: pointer.value,
        },
        span: value.span(),
    }))
}

impl KindDraft {
    fn add_rules(
        &mut self,
        service: &ServiceName,
        resource: &Section<'_>,
        is_singleton: bool,
        mentions: &mut Vec<Mention>,
    ) -> Result<(), GlueError> {
        let keys: Vec<&str> = replication::KEYS.into_iter().chain(["like"]).collect();
        let Some((key, span)) = resource.first_own(&keys) else {
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

pub(super) fn read_path(section: &Section<'_>, key: &str) -> Result<Option<At<Pattern>>, GlueError> {
    let Some(text) = section.text(key)? else {
        return Ok(None);
    };
    let value = parse_path(section, &text)?;
    let span = text.span;
    Ok(Some(At { value, span }))
}

fn parse_path(section: &Section<'_>, text: &At<&str>) -> Result<Pattern, GlueError> {
    Pattern::parse(text.value).map_err(|error| not_a_path(section, text, &error))
}

pub(super) fn not_a_path(section: &Section<'_>, text: &At<&str>, error: &InvalidPattern) -> GlueError {
    let message = format!("`{}` is not a path: {error}", text.value);
    section.source.error(&text.span, message)
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
