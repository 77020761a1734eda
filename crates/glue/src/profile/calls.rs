//! The requests that the glue lists by method and path: `context-free`, `discovery`, `effect-free`, `stream`, `per-site`;
//! and how the service reads paths.

#[cfg(test)]
mod tests;

use toml::de::DeValue;

use super::{
    compile::read_header,
    list::check_parameter,
    per_site::PerSite,
    reads::Reads,
    resources::Draft,
    section::{At, Section},
};
use crate::{
    ByCredential, ContextFree, GlueError, Pointer,
    calls::Calls,
    pattern::{Overlap, Pattern},
    streams::Streams,
};

/// The keys of a service that are read here.
pub(super) const KEYS: [&str; 6] = [
    "context-free",
    "discovery",
    "effect-free",
    "stream",
    "per-site",
    "reads-paths",
];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// One listed request.
struct Call<'t> {
    /// `HEAD` is listed with `GET`.
    method: Option<&'t str>,
    path: At<Pattern>,
}

pub(super) fn read_context_free(
    service: &Section<'_>,
    draft: &Draft,
) -> Result<Calls<ContextFree>, GlueError> {
    let mut calls = Calls::default();
    for (key, is_remembered) in [("context-free", false), ("discovery", true)] {
        for value in service.array(key)?.unwrap_or_default() {
            let (call, workflow, site_owned) = match value.get_ref() {
                DeValue::String(text) => {
                    let text = At {
                        value: text.as_ref(),
                        span: value.span(),
                    };
                    (read_call(service, key, &text)?, None, Vec::new())
                }
                DeValue::Table(table) if !is_remembered => {
                    let known = ["request", "workflow", "site-owned"];
                    let entry =
                        Section::open(service.source, format!("`{key}`"), table, value.span(), &known)?;
                    let call = read_call(service, key, &entry.required_text("request")?)?;
                    (call, read_workflow(&entry)?, read_site_owned(&entry)?)
                }
                other => {
                    return Err(service
                        .wrong_type(key, value, "a list of requests", other)
                        .fix("write `\"GET /version\"`"));
                }
            };
            check_resources(service, draft, &call.path)?;
            let free = ContextFree {
                is_remembered,
                workflow,
                site_owned,
            };
            add(
                service,
                key,
                &mut calls,
                &call,
                call.method.unwrap_or("GET"),
                free,
            )?;
        }
    }
    Ok(calls)
}

pub(super) fn read_effect_free(service: &Section<'_>) -> Result<Calls<()>, GlueError> {
    let key = "effect-free";
    let mut calls = Calls::default();
    for text in service.texts(key)? {
        let call = read_call(service, key, &text)?;
        let Some(method) = call.method.filter(|method| *method != "GET") else {
            return Err(service
                .source
                .error(&text.span, "a `GET` never has an effect")
                .fix("name the method too, as in `\"POST /search\"`"));
        };
        add(service, key, &mut calls, &call, method, ())?;
    }
    Ok(calls)
}

/// What the service does with a path beyond splitting it; without a word it may be anything.
pub(super) fn read_reads(service: &Section<'_>) -> Result<Reads, GlueError> {
    let key = "reads-paths";
    if service.array(key)?.is_none() {
        return Ok(Reads::default());
    }
    let words = [("decoded", 0), ("dots", 1), ("parameters", 2)];
    let mut does = [false; 3];
    for text in service.texts(key)? {
        does[service.source.word(key, &text, &words)?] = true;
    }
    let [decoded, dots, parameters] = does;
    Ok(Reads {
        decoded,
        dots,
        parameters,
    })
}

pub(super) fn read_per_site(service: &Section<'_>) -> Result<Vec<PerSite>, GlueError> {
    let texts = service.texts("per-site")?.into_iter();
    let paths = texts.map(|text| {
        if text.value.starts_with('/') {
            return Ok(PerSite::new(text.value));
        }
        let message = format!("`{}` is not a path: a path starts with `/`", text.value);
        Err(service.source.error(&text.span, message))
    });
    paths.collect()
}

pub(super) fn read_streams(service: &Section<'_>) -> Result<Streams, GlueError> {
    let mut streams = Streams::default();
    for text in service.texts("stream")? {
        if let Some(name) = text.value.strip_prefix('?') {
            let name = At {
                value: name,
                span: text.span.clone(),
            };
            check_parameter(service, &name)?;
            streams.add_parameter(name.value);
        } else if text.value.starts_with('/') {
            streams.add_path(&read_pattern(service, &text)?);
        } else {
            return Err(service
                .source
                .error(
                    &text.span,
                    format!("`{}` is neither a parameter nor a path", text.value),
                )
                .fix("write a query parameter as `\"?watch\"`, a path as `\"/events/*\"`"));
        }
    }
    Ok(streams)
}

fn add<T>(
    service: &Section<'_>,
    key: &str,
    calls: &mut Calls<T>,
    call: &Call<'_>,
    method: &str,
    value: T,
) -> Result<(), GlueError> {
    if calls.insert(method, &call.path.value, value) {
        return Ok(());
    }
    Err(service
        .source
        .error(&call.path.span, format!("`{key}` names the same request twice"))
        .fix("keep the first one"))
}

/// `[METHOD ]/path`.
fn read_call<'t>(service: &Section<'t>, key: &str, text: &At<&'t str>) -> Result<Call<'t>, GlueError> {
    let (method, path) = match text.value.split_once(' ') {
        Some((method, path)) => (Some(method), path),
        None => (None, text.value),
    };
    if let Some(method) = method.filter(|method| !METHODS.contains(method)) {
        let message = format!("unknown method `{method}` in `{key}`");
        return Err(service.source.unknown(&text.span, message, method, &METHODS));
    }
    let path = At {
        value: path,
        span: text.span.clone(),
    };
    Ok(Call {
        method: method.map(|method| if method == "HEAD" { "GET" } else { method }),
        path: At {
            value: read_pattern(service, &path)?,
            span: path.span,
        },
    })
}

fn read_pattern(service: &Section<'_>, path: &At<&str>) -> Result<Pattern, GlueError> {
    Pattern::parse_open(path.value).map_err(|error| {
        service
            .source
            .error(&path.span, format!("`{}` is not a path: {error}", path.value))
    })
}

fn read_workflow(entry: &Section<'_>) -> Result<Option<ByCredential>, GlueError> {
    let Some(value) = entry.get("workflow") else {
        return Ok(None);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(entry
            .wrong_type("workflow", value, "a table", value.get_ref())
            .fix("write `{ header = \"X-Subject-Token\", credential = \"X-Auth-Token\" }`"));
    };
    let known = ["header", "credential"];
    let workflow = Section::open(entry.source, "`workflow`", table, value.span(), &known)?;
    let header = |key| read_header(entry.source, &workflow.required_text(key)?);
    Ok(Some(ByCredential {
        header: header("header")?,
        credential: header("credential")?,
    }))
}

fn read_site_owned(entry: &Section<'_>) -> Result<Vec<Pointer>, GlueError> {
    let read = |text: At<&str>| match Pointer::parse(text.value) {
        Ok(pointer) if !pointer.is_root() => Ok(pointer),
        Ok(_) => {
            let whole = entry
                .source
                .error(&text.span, "`site-owned` cannot be the whole answer");
            Err(whole.fix("name members: `\"/token/catalog\"`"))
        }
        Err(error) => Err(entry.source.error(&text.span, error.to_string())),
    };
    entry.texts("site-owned")?.into_iter().map(read).collect()
}

/// What belongs to no workflow is no resource: a scope decides where those are.
fn check_resources(service: &Section<'_>, draft: &Draft, path: &At<Pattern>) -> Result<(), GlueError> {
    let shadowed = draft
        .paths()
        .find(|(_, resource)| !matches!(path.value.overlap(resource), Overlap::None | Overlap::First));
    let Some((kind, _)) = shadowed else {
        return Ok(());
    };
    Err(service
        .source
        .error(
            &path.span,
            format!("paths of the resource `{kind}` would belong to no workflow"),
        )
        .fix("name a narrower path here, or do not describe it as a resource"))
}
