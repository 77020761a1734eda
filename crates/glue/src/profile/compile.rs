//! From TOML to a [`Profile`].

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use cheops_types::{ServiceName, headers, is_name};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Profile, Service,
    section::{At, Section, Source},
};
use crate::{
    Carrier, GlueError, Items, KeyFormat, ListShape, Paging, Pointer,
    identity::Role,
    routes::{Pattern, Routes, Target},
};

const CARRIERS: [&str; 4] = ["scope-header", "traceparent", "tracestate", "baggage"];

pub(super) fn compile(file: &str, text: &str) -> Result<Profile, GlueError> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        source.error(&at, error.message().trim_end())
    })?;
    let known = ["application", "correlation", "services"];
    let root = Section::open(source, "the glue file", table.get_ref(), 0..0, &known)?;

    let application = root.required_text("application")?;
    if !is_name(application.value) {
        return Err(bad_name(source, &application));
    }
    let correlation = match root.array("correlation")? {
        Some(carriers) => read_carriers(source, carriers)?,
        None => Carrier::plain(),
    };
    let mut services = BTreeMap::new();
    for (name, table) in root.tables("services")? {
        let service = ServiceName::new(name.value).map_err(|_| bad_name(source, &name))?;
        services.insert(service, read_service(source, &name, table)?);
    }
    Ok(Profile::new(application.value.to_owned(), correlation, services))
}

fn bad_name(source: Source<'_>, name: &At<&str>) -> GlueError {
    source
        .error(&name.span, format!("`{}` is not a name", name.value))
        .fix("use letters, digits, `_`, `.` or `-`, starting with a letter or digit")
}

fn read_carriers(source: Source<'_>, values: &[Spanned<DeValue<'_>>]) -> Result<Vec<Carrier>, GlueError> {
    let mut carriers = Vec::new();
    for value in values {
        let carrier = match value.get_ref() {
            DeValue::String(name) => match name.as_ref() {
                "scope-header" => Carrier::ScopeHeader,
                "traceparent" => Carrier::Traceparent,
                "tracestate" => Carrier::Tracestate,
                "baggage" => Carrier::Baggage,
                other => {
                    let message = format!("unknown carrier `{other}` in correlation");
                    return Err(source.unknown(&value.span(), message, other, &CARRIERS));
                }
            },
            DeValue::Table(table) => read_header_carrier(source, value.span(), table)?,
            _ => {
                return Err(source
                    .error(&value.span(), "a carrier in correlation is a word or a header")
                    .fix(
                        "write `\"traceparent\"` or `{ header = \"X-Request-Id\", format = \"req-{uuid}\" }`",
                    ));
            }
        };
        if carriers.iter().any(|other| same_place(other, &carrier)) {
            return Err(source
                .error(&value.span(), "correlation names the same carrier twice")
                .fix("keep the first one"));
        }
        carriers.push(carrier);
    }
    Ok(carriers)
}

fn same_place(left: &Carrier, right: &Carrier) -> bool {
    match (left, right) {
        (Carrier::Header { name: left, .. }, Carrier::Header { name: right, .. }) => left == right,
        _ => left == right,
    }
}

fn read_header_carrier(
    source: Source<'_>,
    span: Range<usize>,
    table: &DeTable<'_>,
) -> Result<Carrier, GlueError> {
    let section = Section::open(
        source,
        "a carrier of correlation",
        table,
        span,
        &["header", "format"],
    )?;
    let header = section.required_text("header")?;
    let name = header.value.to_ascii_lowercase();
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(source.error(
            &header.span,
            format!("`{}` is not the name of a header", header.value),
        ));
    }
    if let Some(word) = CARRIERS.iter().find(|word| **word == name) {
        return Err(source
            .error(&header.span, format!("`{word}` has a form of its own"))
            .fix(format!("write `\"{word}\"` instead of the table")));
    }
    if name == headers::SCOPE || name.starts_with(headers::INTERNAL_PREFIX) || name == headers::RECEIPT {
        return Err(source
            .error(
                &header.span,
                format!("`{}` is written by agents only", header.value),
            )
            .fix("name a header that the application passes on"));
    }
    let format = match section.text("format")? {
        Some(format) => KeyFormat::parse(format.value).ok_or_else(|| {
            source
                .error(
                    &format.span,
                    format!("`{}` is not the format of a key", format.value),
                )
                .fix("write fixed text around one `{uuid}` or `{hex}`, as in `req-{uuid}`")
        })?,
        None => KeyFormat::default(),
    };
    Ok(Carrier::Header { name, format })
}

fn read_service<'t>(
    source: Source<'t>,
    name: &At<&'t str>,
    table: &'t DeTable<'t>,
) -> Result<Service, GlueError> {
    let title = format!("services.{}", name.value);
    let section = Section::open(source, &*title, table, name.span.clone(), &["resources"])?;
    let mut routes = Routes::new();
    for value in section.array("resources")?.unwrap_or_default() {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(section.wrong_type("resources", value, "a list of tables", value.get_ref()));
        };
        let known = ["kind", "collection", "item", "singleton", "list"];
        let resource = Section::open(source, format!("{title}.resources"), table, value.span(), &known)?;
        add_resource(&mut routes, &resource)?;
    }
    Ok(routes)
}

fn add_resource(routes: &mut Service, resource: &Section<'_>) -> Result<(), GlueError> {
    let source = resource.source;
    let kind = resource.required_text("kind")?;
    if !is_name(kind.value) {
        return Err(bad_name(source, &kind));
    }
    let collection = read_path(resource, "collection")?;
    let item = read_path(resource, "item")?;
    let singleton = read_path(resource, "singleton")?;

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
    if let (Some(singleton), true) = (&singleton, collection.is_some() || item.is_some()) {
        return Err(source
            .error(
                &singleton.span,
                "a resource is either a singleton or has a collection and items",
            )
            .fix("make them two entries of `resources`"));
    }
    if let Some(item) = item.as_ref().filter(|item| !item.value.ends_with_placeholder()) {
        return Err(source
            .error(&item.span, "an item's path ends with the place of its id")
            .fix("end it with `/{id}`, or write `singleton = …` if there is only one"));
    }
    if let Some(collection) = collection.as_ref().filter(|it| it.value.ends_with_placeholder()) {
        return Err(source
            .error(
                &collection.span,
                "a collection's path ends with its name, not with an id",
            )
            .fix("remove the placeholder at its end"));
    }
    if collection.is_none() && item.is_none() && singleton.is_none() {
        return Err(source
            .error(
                &resource.span,
                format!("the resource `{}` has no path", kind.value),
            )
            .fix("add `collection = \"/…\"`, `item = \"/…/{id}\"` or `singleton = \"/…\"`"));
    }

    if let Some(collection) = &collection {
        let list = Arc::new(read_list(resource)?);
        add_path(routes, source, &kind, collection, Role::Collection, Some(list))?;
    }
    // By convention an item stands below its collection.
    let item = item.or_else(|| {
        collection.map(|at| At {
            value: at.value.with_placeholder(),
            span: at.span,
        })
    });
    for path in item.iter().chain(&singleton) {
        add_path(routes, source, &kind, path, Role::One, None)?;
    }
    Ok(())
}

fn add_path(
    routes: &mut Service,
    source: Source<'_>,
    kind: &At<&str>,
    path: &At<Pattern>,
    role: Role,
    extra: Option<Arc<ListShape>>,
) -> Result<(), GlueError> {
    let kind = kind.value.into();
    routes
        .insert(&path.value, Target { kind, role, extra })
        .map_err(|other| {
            let message = format!("this path already belongs to the resource `{}`", other.kind);
            source
                .error(&path.span, message)
                .fix("give every path one meaning")
        })
}

fn read_path(section: &Section<'_>, key: &str) -> Result<Option<At<Pattern>>, GlueError> {
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

fn read_pointer(section: &Section<'_>, key: &str) -> Result<Option<At<Pointer>>, GlueError> {
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

fn read_list(resource: &Section<'_>) -> Result<ListShape, GlueError> {
    let plain = ListShape::plain(Items::Presumed);
    let Some(value) = resource.get("list") else {
        return Ok(plain);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(resource.wrong_type("list", value, "a table", value.get_ref()));
    };
    let known = ["items", "paging", "sort", "provenance"];
    let list = Section::open(resource.source, "list", table, value.span(), &known)?;
    let items = match read_pointer(&list, "items")? {
        Some(pointer) => Items::At(pointer.value),
        None => plain.items,
    };
    let sort = read_pointer(&list, "sort")?;
    if let Some(sort) = sort.as_ref().filter(|sort| sort.value.is_root()) {
        return Err(list
            .source
            .error(&sort.span, "`sort` must name a member of each item")
            .fix("write `sort = \"/created\"`, or remove it"));
    }
    let provenance = match list.text("provenance")? {
        Some(member) => Some(member.value.to_owned()).filter(|member| !member.is_empty()),
        None => plain.provenance,
    };
    Ok(ListShape {
        paging: read_paging(&list, &items)?,
        items,
        sort: sort.map(|sort| sort.value),
        provenance,
    })
}

fn read_paging(list: &Section<'_>, items: &Items) -> Result<Option<Paging>, GlueError> {
    let Some(value) = list.get("paging") else {
        return Ok(None);
    };
    let table = match value.get_ref() {
        DeValue::String(word) if word == "none" => return Ok(None),
        DeValue::Table(table) => table,
        other => {
            return Err(list
                .wrong_type("paging", value, "a table or `\"none\"`", other)
                .fix("write `{ style = \"token\", limit = \"limit\", token = \"page_token\", next = \"/next\" }`"));
        }
    };
    let known = ["style", "limit", "token", "next"];
    let paging = Section::open(list.source, "paging", table, value.span(), &known)?;
    let style = paging.required_text("style")?;
    if style.value != "token" {
        let message = format!("unknown style `{}` in paging", style.value);
        return Err(list.source.unknown(&style.span, message, style.value, &["token"]));
    }
    let limit = read_parameter(&paging, "limit")?;
    let token = read_parameter(&paging, "token")?.ok_or_else(|| paging.missing("token"))?;
    if limit.as_ref().is_some_and(|limit| limit.value == token.value) {
        return Err(list
            .source
            .error(&token.span, "`limit` and `token` name the same parameter"));
    }
    let next = read_pointer(&paging, "next")?.ok_or_else(|| paging.missing("next"))?;
    let Items::At(items) = items else {
        return Err(list
            .source
            .error(&list.span, "a list that is paged must say where its items are")
            .fix("add `items = \"/items\"`"));
    };
    if items.contains(&next.value) || next.value.contains(items) {
        return Err(list
            .source
            .error(
                &next.span,
                "the next page cannot be told inside the items, nor around them",
            )
            .fix("point `next` at a member beside the items, or write `paging = \"none\"`"));
    }
    Ok(Some(Paging {
        limit: limit.map(|limit| limit.value.to_owned()),
        token: token.value.to_owned(),
        next: next.value,
    }))
}

/// The name of a query parameter.
fn read_parameter<'t>(paging: &Section<'t>, key: &str) -> Result<Option<At<&'t str>>, GlueError> {
    let Some(name) = paging.text(key)? else {
        return Ok(None);
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'$');
    if name.value.is_empty() || !name.value.bytes().all(plain) {
        let message = format!("`{}` is not the name of a query parameter", name.value);
        return Err(paging
            .source
            .error(&name.span, message)
            .fix("use letters, digits, `-`, `.`, `_`, `~` or `$`"));
    }
    Ok(Some(name))
}
