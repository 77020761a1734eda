//! From TOML to a [`Profile`].

use std::{collections::BTreeMap, ops::Range};

use cheops_types::{ServiceName, headers, is_name};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Profile,
    section::{At, Mistakes, Section, Source},
    service,
};
use crate::{Carrier, GlueError, KeyFormat};

const CARRIERS: [&str; 4] = ["scope-header", "traceparent", "tracestate", "baggage"];

/// Compiles a file, or says all that is wrong with it: at least one thing.
pub(super) fn compile(file: &str, text: &str) -> Result<Profile, Vec<GlueError>> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        vec![source.error(&at, error.message().trim_end())]
    })?;
    let mut mistakes = Mistakes::default();
    let profile = read(source, table.get_ref(), &mut mistakes);
    let profile = mistakes.note(profile).flatten();
    profile.ok_or_else(|| mistakes.into_errors())
}

/// Reads a file. None: something is wrong, and noted.
fn read<'t>(
    source: Source<'t>,
    table: &'t DeTable<'t>,
    mistakes: &mut Mistakes,
) -> Result<Option<Profile>, GlueError> {
    let known = ["application", "correlation", "services"];
    let root = Section::open(source, "the glue file", table, 0..0, &known)?;
    let application = mistakes.note(read_application(&root));
    let correlation = mistakes.note(match root.array("correlation")? {
        Some(carriers) => read_carriers(source, carriers),
        None => Ok(Carrier::plain()),
    });
    let mut services = BTreeMap::new();
    let mut mentions = Vec::new();
    for (name, table) in root.tables("services")? {
        let service = ServiceName::new(name.value).map_err(|_| bad_name(source, &name));
        let Some(service) = mistakes.note(service) else {
            continue;
        };
        let described = service::read(source, &service, &name, table, &mut mentions, mistakes);
        if let Some(described) = mistakes.note(described).flatten() {
            services.insert(service, described);
        }
    }
    let (Some(application), Some(correlation), true) = (application, correlation, mistakes.is_empty()) else {
        return Ok(None);
    };
    service::check_mentions(source, &services, &mentions)?;
    service::check_ranges(source, &root)?;
    Ok(Some(Profile::new(application, correlation, services)))
}

fn read_application(root: &Section<'_>) -> Result<String, GlueError> {
    let application = root.required_text("application")?;
    if !is_name(application.value) {
        return Err(bad_name(root.source, &application));
    }
    Ok(application.value.to_owned())
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
