//! From TOML to a [`Profile`].

use std::{collections::BTreeMap, ops::Range};

use cheops_types::{ServiceName, headers, is_name};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Profile, resources,
    section::{At, Section, Source},
};
use crate::{Carrier, GlueError, KeyFormat};

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
    let mut mentions = Vec::new();
    for (name, table) in root.tables("services")? {
        let service = ServiceName::new(name.value).map_err(|_| bad_name(source, &name))?;
        let described = resources::read(source, &service, &name, table, &mut mentions)?;
        services.insert(service, described);
    }
    resources::check_mentions(source, &services, &mentions)?;
    resources::check_ranges(source, &root)?;
    Ok(Profile::new(application.value.to_owned(), correlation, services))
}

pub(super) fn bad_name(source: Source<'_>, name: &At<&str>) -> GlueError {
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
    let name = read_header(source, &header)?;
    if let Some(word) = CARRIERS.iter().find(|word| **word == name) {
        return Err(source
            .error(&header.span, format!("`{word}` has a form of its own"))
            .fix(format!("write `\"{word}\"` instead of the table")));
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

/// The name of a header that the application knows, in lower case.
pub(super) fn read_header(source: Source<'_>, header: &At<&str>) -> Result<String, GlueError> {
    let name = header.value.to_ascii_lowercase();
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(source.error(
            &header.span,
            format!("`{}` is not the name of a header", header.value),
        ));
    }
    if name == headers::SCOPE || name.starts_with(headers::INTERNAL_PREFIX) || name == headers::RECEIPT {
        return Err(source
            .error(
                &header.span,
                format!("`{}` is written by agents only", header.value),
            )
            .fix("name a header that the application passes on"));
    }
    Ok(name)
}
