//! What the glue says about the replicas of a kind.

mod body;
mod cross;
#[cfg(test)]
mod tests;
mod verbs;
mod writes;

use cheops_types::{ServiceName, Slot};
use toml::{Spanned, de::DeValue};

use super::{
    compile::read_header,
    list::read_parameter,
    resources::{Mention, read_pointer},
    section::{At, Section},
};
use crate::{
    GlueError, IdRule, MetaFormat, Pointer,
    kind::{Marker, Rules},
    selector::is_every,
};

/// The keys that are read here.
pub(super) const KEYS: [&str; 30] = [
    "document",
    "id",
    "chosen-by",
    "name",
    "generate",
    "meta-id",
    "marker",
    "idempotency-key",
    "record-headers",
    "credentials",
    "preconditions",
    "ignore",
    "site-owned",
    "references",
    "links",
    "patch",
    "put",
    "upsert",
    "update",
    "state",
    "leaving",
    "parts",
    "actions",
    "effect-free",
    "answers",
    "spans",
    "divide",
    "sum",
    "taken",
    "rehearsal",
];

/// The least size of a range of integers, of which each site has one slot.
const RANGE_MIN: u64 = Slot::COUNT * 16;

pub(super) fn read(
    service: &ServiceName,
    resource: &Section<'_>,
    mentions: &mut Vec<Mention>,
) -> Result<Rules, GlueError> {
    let mut rules = Rules::default();
    read_ids(resource, &mut rules)?;
    read_marker(resource, &mut rules)?;
    read_headers(resource, &mut rules)?;
    body::read(service, resource, &mut rules, mentions)?;
    verbs::read(resource, &mut rules)?;
    writes::read(resource, &mut rules)?;
    cross::read(resource, &mut rules)?;
    Ok(rules.finish())
}

fn read_ids(resource: &Section<'_>, rules: &mut Rules) -> Result<(), GlueError> {
    let choosers = [
        ("server", IdRule::Server),
        ("client", IdRule::Client),
        ("settable", IdRule::Settable),
    ];
    let chosen_by = resource.word("chosen-by", &choosers)?;
    rules.chosen_by = chosen_by.as_ref().map_or(IdRule::Server, |chosen| chosen.value);
    if let Some(document) = read_member(resource, "document")? {
        rules.document = document.value;
    }
    rules.id = read_member(resource, "id")?.map(|id| id.value);
    let name = read_member(resource, "name")?;
    match (name, rules.chosen_by, chosen_by) {
        (Some(name), IdRule::Server, _) => {
            return Err(resource
                .source
                .error(
                    &name.span,
                    "`name` is where a caller tells the id, and the server chooses it",
                )
                .fix("add `chosen-by = \"client\"` or `chosen-by = \"settable\"`, or remove `name`"));
        }
        (Some(name), ..) => rules.name = name.value,
        (None, IdRule::Client, Some(chosen)) => {
            return Err(resource
                .source
                .error(&chosen.span, "nothing says where a caller tells the id")
                .fix("add `name = \"/name\"`"));
        }
        (None, ..) => {}
    }
    if let Some(generate) = read_member(resource, "generate")? {
        if rules.chosen_by != IdRule::Client {
            return Err(resource
                .source
                .error(
                    &generate.span,
                    "`generate` completes names, and no caller chooses one",
                )
                .fix("add `chosen-by = \"client\"`, or remove `generate`"));
        }
        rules.generate = Some(generate.value);
    }
    if let Some(value) = resource.get("meta-id") {
        rules.meta_format = read_meta_format(resource, value)?;
        if rules.chosen_by == IdRule::Client && rules.meta_format != MetaFormat::Uuid {
            return Err(resource
                .source
                .error(
                    &value.span(),
                    "callers see the names that they chose, not meta-ids",
                )
                .fix("remove `meta-id`"));
        }
    }
    Ok(())
}

fn read_meta_format(resource: &Section<'_>, value: &Spanned<DeValue<'_>>) -> Result<MetaFormat, GlueError> {
    let source = resource.source;
    let fix = "write `\"uuid\"`, `\"hex\"`, or `{ integer = [first, last] }` with numbers that the application never reaches";
    let table = match value.get_ref() {
        DeValue::String(word) => {
            let text = At {
                value: word.as_ref(),
                span: value.span(),
            };
            let words = [
                ("uuid", MetaFormat::Uuid),
                ("hex", MetaFormat::Hex),
                ("integer", MetaFormat::None),
            ];
            return source.word("meta-id", &text, &words);
        }
        DeValue::Table(table) => table,
        other => {
            return Err(resource
                .wrong_type("meta-id", value, "a word or a range", other)
                .fix(fix));
        }
    };
    let format = Section::open(source, "`meta-id`", table, value.span(), &["integer"])?;
    format
        .array("integer")?
        .ok_or_else(|| format.missing("integer"))?;
    let Some((first, last)) = range(value) else {
        return Err(source
            .error(&value.span(), "a range of integers has a first and a last number")
            .fix(fix));
    };
    if last.saturating_sub(first) < RANGE_MIN - 1 {
        return Err(source
            .error(
                &value.span(),
                format!("a range of integers has at least {RANGE_MIN} numbers"),
            )
            .fix("every site gets a part of it: choose a wider one"));
    }
    Ok(MetaFormat::Integer { first, last })
}

/// The range that a `meta-id` gives, where it gives one.
pub(super) fn range(meta_id: &Spanned<DeValue<'_>>) -> Option<(u64, u64)> {
    let number = |bound: &Spanned<DeValue<'_>>| match bound.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let bounds = meta_id.get_ref().as_table()?.get("integer")?;
    match &**bounds.get_ref().as_array()? {
        [first, last] => number(first).zip(number(last)),
        _ => None,
    }
}

fn read_marker(resource: &Section<'_>, rules: &mut Rules) -> Result<(), GlueError> {
    let Some(value) = resource.get("marker") else {
        return Ok(());
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(resource
            .wrong_type("marker", value, "a table", value.get_ref())
            .fix("write `{ pointer = \"/…\", query = \"…\" }`"));
    };
    let known = ["pointer", "query"];
    let marker = Section::open(resource.source, "`marker`", table, value.span(), &known)?;
    let pointer = read_member(&marker, "pointer")?.ok_or_else(|| marker.missing("pointer"))?;
    if pointer.value == *rules.own_id() || pointer.value == rules.name {
        return Err(resource
            .source
            .error(&pointer.span, "the id cannot be the marker too")
            .fix("name a member that the application keeps and does not read"));
    }
    let query = read_parameter(&marker, "query")?;
    rules.marker = Some(Marker {
        pointer: pointer.value,
        query: query.map(|query| query.value.to_owned()),
    });
    Ok(())
}

fn read_headers(resource: &Section<'_>, rules: &mut Rules) -> Result<(), GlueError> {
    let source = resource.source;
    if let Some(header) = resource.text("idempotency-key")? {
        rules.idempotency_key = Some(read_header(source, &header)?);
    }
    for header in resource.texts("record-headers")? {
        add(&mut rules.recorded_headers, read_header(source, &header)?);
    }
    if resource.get("credentials").is_some() {
        rules.credential_headers.clear();
        for header in resource.texts("credentials")? {
            add(&mut rules.credential_headers, read_header(source, &header)?);
        }
    }
    for header in resource.texts("record-headers")? {
        let name = header.value.to_ascii_lowercase();
        if rules.credential_headers.contains(&name) {
            return Err(source
                .error(&header.span, format!("`{}` carries a credential", header.value))
                .fix("remove it here: credentials are kept sealed, beside the operation"));
        }
    }
    Ok(())
}

fn add(headers: &mut Vec<String>, name: String) {
    if !headers.contains(&name) {
        headers.push(name);
    }
}

/// A pointer to one member of a document.
fn read_member(section: &Section<'_>, key: &str) -> Result<Option<At<Pointer>>, GlueError> {
    let Some(pointer) = read_pointer(section, key)? else {
        return Ok(None);
    };
    let is_one = !pointer.value.is_root() && !pointer.value.steps().iter().any(|step| is_every(step));
    if !is_one {
        return Err(section
            .source
            .error(&pointer.span, format!("`{key}` must name one member"))
            .fix("write a pointer such as `/id`, without `*`"));
    }
    Ok(Some(pointer))
}
