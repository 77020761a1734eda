//! How resources are written, by callers and by the agent, and how long that takes.

use toml::de::DeValue;

use super::{
    super::section::{At, Section},
    read_member,
    verbs::{PATCHES, read_content_type, read_method},
};
use crate::{
    GlueError,
    kind::{Patch, Progress, Rules, Update, UpdateForm, Upsert},
};

const FORMS: [(&str, UpdateForm); 3] = [
    ("replace", UpdateForm::Replace),
    ("merge", UpdateForm::Merge),
    ("json-patch", UpdateForm::JsonPatch),
];

pub(super) fn read(resource: &Section<'_>, rules: &mut Rules) -> Result<(), GlueError> {
    if let Some(put) = resource.word("put", &PATCHES)? {
        rules.put = put.value;
    }
    for entry in resource.texts("upsert")? {
        rules.upsert.push(read_upsert(resource, &entry)?);
    }
    if let Some(update) = section(resource, "update", &["method", "form", "content-type"])? {
        rules.update = read_update(&update)?;
    } else if rules.put != Patch::Replace {
        return Err(resource
            .source
            .error(
                &resource.span,
                "`PUT` is no replace, and nothing says how a state is written",
            )
            .fix("add `update = { method = \"PUT\", form = \"merge\" }`, or what the application takes"));
    }
    if let Some(state) = section(resource, "state", &["pointer", "done", "failed"])? {
        rules.progress = Some(read_progress(&state)?);
    }
    rules.leaving = read_member(resource, "leaving")?.map(|leaving| leaving.value);
    Ok(())
}

fn section<'t>(resource: &Section<'t>, key: &str, known: &[&str]) -> Result<Option<Section<'t>>, GlueError> {
    let Some(value) = resource.get(key) else {
        return Ok(None);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(resource.wrong_type(key, value, "a table", value.get_ref()));
    };
    Section::open(resource.source, format!("`{key}`"), table, value.span(), known).map(Some)
}

/// `"PUT"`, or `"PATCH application/apply-patch+yaml"`.
fn read_upsert(resource: &Section<'_>, entry: &At<&str>) -> Result<Upsert, GlueError> {
    let (method, content_type) = match entry.value.split_once(' ') {
        Some((method, content_type)) => (method, Some(content_type.trim())),
        None => (entry.value, None),
    };
    if !matches!(method, "PUT" | "PATCH" | "POST") {
        return Err(resource
            .source
            .error(&entry.span, format!("`{method}` does not make a resource"))
            .fix("write `\"PUT\"`, or a method and a content type, as in `\"PATCH application/json\"`"));
    }
    let content_type = content_type.map(|value| {
        let span = entry.span.clone();
        read_content_type(resource, &At { value, span })
    });
    Ok(Upsert {
        method: method.to_owned(),
        content_type: content_type.transpose()?,
    })
}

fn read_update(update: &Section<'_>) -> Result<Update, GlueError> {
    let form = update.word("form", &FORMS)?;
    let form = form.map_or(UpdateForm::Replace, |form| form.value);
    let (method, content_type) = match form {
        UpdateForm::Replace => ("PUT", "application/json"),
        UpdateForm::Merge => ("PATCH", "application/merge-patch+json"),
        UpdateForm::JsonPatch => ("PATCH", "application/json-patch+json"),
    };
    let content_type = match update.text("content-type")? {
        Some(text) => read_content_type(update, &text)?,
        None => content_type.to_owned(),
    };
    let method = read_method(update, "method")?.unwrap_or(method);
    Ok(Update {
        method: method.to_owned(),
        form,
        content_type,
    })
}

fn read_progress(state: &Section<'_>) -> Result<Progress, GlueError> {
    let pointer = read_member(state, "pointer")?.ok_or_else(|| state.missing("pointer"))?;
    let words = |key| {
        let texts = state.texts(key)?;
        Ok(texts.iter().map(|text| text.value.to_owned()).collect::<Vec<_>>())
    };
    let (done, failed): (Vec<_>, Vec<_>) = (words("done")?, words("failed")?);
    if done.is_empty() {
        return Err(state
            .missing("done")
            .fix("add `done = [\"ACTIVE\"]`, with the words of the application"));
    }
    if let Some(both) = done.iter().find(|word| failed.contains(word)) {
        return Err(state
            .source
            .error(&state.span, format!("`{both}` cannot be both done and failed"))
            .fix("keep it in one list"));
    }
    Ok(Progress {
        pointer: pointer.value,
        done,
        failed,
    })
}
