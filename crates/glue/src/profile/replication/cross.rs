//! What the glue says about resources that span sites.

use toml::de::DeValue;

use super::{
    super::section::{At, Section},
    read_member,
};
use crate::{
    GlueError, Pointer,
    kind::{Count, Rules, Taken},
    pattern::Pattern,
    selector::is_every,
};

const TAKEN: u16 = 409;

pub(super) fn read(resource: &Section<'_>, rules: &mut Rules) -> Result<(), GlueError> {
    rules.spans = resource.flag("spans")?;
    for value in resource.array("divide")?.unwrap_or_default() {
        rules.counts.push(match value.get_ref() {
            DeValue::String(text) => {
                let text = At {
                    value: text.as_ref(),
                    span: value.span(),
                };
                Count {
                    pointer: member(resource, &text)?,
                    default: 0,
                    below: Vec::new(),
                }
            }
            DeValue::Table(table) => {
                let known = ["pointer", "default", "below"];
                let count = Section::open(resource.source, "`divide`", table, value.span(), &known)?;
                read_count(&count)?
            }
            other => {
                return Err(resource
                    .wrong_type("divide", value, "a list of pointers", other)
                    .fix("write `\"/spec/replicas\"`"));
            }
        });
    }
    for text in resource.texts("sum")? {
        rules.sums.push(member(resource, &text)?);
    }
    if let (false, Some(sum)) = (!rules.counts.is_empty(), resource.get("sum")) {
        return Err(resource
            .source
            .error(&sum.span(), "`sum` is about what is divided, and nothing is")
            .fix("add `divide = [\"/…\"]`, or remove `sum`"));
    }
    rules.rehearsal = resource.text("rehearsal")?.map(|text| text.value.to_owned());
    if let Some(value) = resource.get("taken") {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(resource
                .wrong_type("taken", value, "a table", value.get_ref())
                .fix("write `{ status = 409, body = '{…}' }`"));
        };
        let taken = Section::open(
            resource.source,
            "`taken`",
            table,
            value.span(),
            &["status", "body"],
        )?;
        rules.taken = Some(read_taken(&taken)?);
    }
    Ok(())
}

fn read_count(count: &Section<'_>) -> Result<Count, GlueError> {
    let pointer = read_member(count, "pointer")?.ok_or_else(|| count.missing("pointer"))?;
    let mut below = Vec::new();
    for text in count.texts("below")? {
        let path =
            Pattern::parse(text.value).map_err(|error| count.source.error(&text.span, error.to_string()))?;
        below.push(path);
    }
    Ok(Count {
        pointer: pointer.value,
        default: number(count, "default")?.unwrap_or(0),
        below,
    })
}

fn read_taken(taken: &Section<'_>) -> Result<Taken, GlueError> {
    let body = taken.required_text("body")?;
    if serde_json::from_str::<serde_json::Value>(body.value).is_err() {
        return Err(taken
            .source
            .error(
                &body.span,
                "`body` is what the application answers, and must be JSON",
            )
            .fix("write it as `'{\"error\":\"{name} exists\"}'`"));
    }
    let status = number(taken, "status")?;
    let status = match status.map(u16::try_from) {
        None => TAKEN,
        Some(Ok(status @ 400..=499)) => status,
        Some(_) => {
            return Err(taken
                .source
                .error(&taken.span, "the status of a refusal is between 400 and 499")
                .fix("write `status = 409`"));
        }
    };
    Ok(Taken {
        status,
        body: body.value.to_owned(),
    })
}

fn number(section: &Section<'_>, key: &str) -> Result<Option<u64>, GlueError> {
    let Some(value) = section.get(key) else {
        return Ok(None);
    };
    let number = match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    number
        .map(Some)
        .ok_or_else(|| section.wrong_type(key, value, "a whole number", value.get_ref()))
}

fn member(section: &Section<'_>, text: &At<&str>) -> Result<Pointer, GlueError> {
    let source = section.source;
    let pointer = Pointer::parse(text.value).map_err(|error| source.error(&text.span, error.to_string()))?;
    if pointer.is_root() || pointer.steps().iter().any(|step| is_every(step)) {
        return Err(source
            .error(&text.span, "a count is one member")
            .fix("write a pointer such as `/spec/replicas`, without `*`"));
    }
    Ok(pointer)
}
