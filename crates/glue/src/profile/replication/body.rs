//! What stands where in a document.

use cheops_types::ServiceName;
use toml::de::DeValue;

use super::{
    super::{
        compile::{bad_name, read_header},
        list::read_parameter,
        resources::Mention,
        section::{At, Section, Source},
    },
    add,
};
use crate::{
    GlueError, Pointer,
    kind::{QueryReference, Referred, Rules},
    selector::{Selector, is_every},
    wildcard::Wildcard,
};

pub(super) fn read(
    service: &ServiceName,
    resource: &Section<'_>,
    rules: &mut Rules,
    mentions: &mut Vec<Mention>,
) -> Result<(), GlueError> {
    rules.ignore = read_choices(resource, "ignore")?;
    rules.site_owned = read_choices(resource, "site-owned")?;
    rules.links = read_selectors(resource, "links")?;
    for precondition in resource.texts("preconditions")? {
        // No header's name has a slash.
        if precondition.value.starts_with('/') {
            let selector = selector(resource.source, "preconditions", &precondition)?;
            rules.preconditions.push(selector);
        } else {
            let name = read_header(resource.source, &precondition)?;
            add(&mut rules.precondition_headers, name);
        }
    }
    for reference in resource.sections("references", &["pointer", "query", "kind", "service"])? {
        let referred = read_referred(service, &reference, mentions)?;
        match (reference.text("pointer")?, read_parameter(&reference, "query")?) {
            (Some(pointer), None) => {
                let selector = selector(resource.source, "pointer", &pointer)?;
                rules.references.push((selector, referred));
            }
            (None, Some(parameter)) => rules.query_references.push(QueryReference {
                parameter: parameter.value.to_owned(),
                referred,
            }),
            _ => {
                return Err(resource
                    .source
                    .error(
                        &reference.span,
                        "a reference stands at a pointer or in a query parameter",
                    )
                    .fix("write `pointer = \"/…\"` or `query = \"…\"`, and two entries for both"));
            }
        }
    }
    Ok(())
}

fn read_referred(
    service: &ServiceName,
    reference: &Section<'_>,
    mentions: &mut Vec<Mention>,
) -> Result<Referred, GlueError> {
    let kind = reference.required_text("kind")?;
    let service = match reference.text("service")? {
        Some(name) => ServiceName::new(name.value).map_err(|_| bad_name(reference.source, &name))?,
        None => service.clone(),
    };
    let value = Referred {
        service,
        kind: kind.value.to_owned(),
    };
    mentions.push(At {
        value: value.clone(),
        span: kind.span,
    });
    Ok(value)
}

fn read_selectors(section: &Section<'_>, key: &str) -> Result<Vec<Selector>, GlueError> {
    let texts = section.texts(key)?;
    texts
        .iter()
        .map(|text| selector(section.source, key, text))
        .collect()
}

/// Pointers, or tables such as `{ pointer = "/spec/address", unless = ["None"] }`.
fn read_choices(resource: &Section<'_>, key: &str) -> Result<Vec<Selector>, GlueError> {
    let elements = resource.array(key)?.unwrap_or_default().iter();
    let choices = elements.map(|element| match element.get_ref() {
        DeValue::String(text) => {
            let text = At {
                value: text.as_ref(),
                span: element.span(),
            };
            selector(resource.source, key, &text)
        }
        DeValue::Table(table) => {
            let known = ["pointer", "where", "unless"];
            let choice = Section::open(resource.source, format!("`{key}`"), table, element.span(), &known)?;
            let selector = selector(resource.source, key, &choice.required_text("pointer")?)?;
            let texts = choice.texts("unless")?;
            let unless = texts.iter().map(|text| text.value.to_owned()).collect();
            Ok(selector.having(read_where(&choice)?).unless(unless))
        }
        other => Err(resource.wrong_type(key, element, "a list of pointers", other)),
    });
    choices.collect()
}

/// What a value has to have: pointers into it, each with a text.
fn read_where(choice: &Section<'_>) -> Result<Vec<(Pointer, Wildcard)>, GlueError> {
    let source = choice.source;
    let wanted = choice.members("where")?.into_iter().map(|(place, value)| {
        let pointer =
            Pointer::parse(place.value).map_err(|error| source.error(&place.span, error.to_string()))?;
        if pointer.steps().iter().any(|step| is_every(step)) {
            return Err(source
                .error(&place.span, "`where` looks at one member, not at many")
                .fix("write a pointer such as `/name`, without `*`; the whole is `\"\"`"));
        }
        match value.get_ref() {
            DeValue::String(text) => Ok((pointer, Wildcard::new(text))),
            other => Err(choice
                .wrong_type("where", value, "a table of texts", other)
                .fix("write `{ \"/name\" = \"cache-*\" }`: `*` stands for any characters, `?` for one")),
        }
    });
    wanted.collect()
}

fn selector(source: Source<'_>, key: &str, text: &At<&str>) -> Result<Selector, GlueError> {
    let selector =
        Selector::parse(text.value).map_err(|error| source.error(&text.span, error.to_string()))?;
    if selector.steps().is_empty() {
        return Err(source
            .error(&text.span, format!("`{key}` must name members, not the whole"))
            .fix("write a pointer such as `/status` or `/ports/*/number`"));
    }
    Ok(selector)
}
