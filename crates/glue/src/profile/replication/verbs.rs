//! What requests do, and what answers to them mean.

use toml::{Spanned, de::DeValue};

use super::super::{
    resources::read_path,
    section::{At, Member, Section, members_of},
};
use crate::{
    Effect, GlueError, Meaning, Pointer,
    kind::{Action, AnswerRule, Patch, PatchType, Rules, VerbWord},
    pattern::Pattern,
};

pub(super) const PATCHES: [(&str, Patch); 4] = [
    ("merge", Patch::Merge),
    ("replace", Patch::Replace),
    ("difference", Patch::Difference),
    ("action", Patch::Action),
];

/// What a request below an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActionWord {
    Action,
    /// It changes the document.
    Difference,
    /// It is for one site's replica alone.
    Local,
}

const ACTIONS: [(&str, ActionWord); 3] = [
    ("action", ActionWord::Action),
    ("difference", ActionWord::Difference),
    ("local", ActionWord::Local),
];

const MEANINGS: [(&str, Meaning); 6] = [
    ("done", Meaning::Done),
    ("refused", Meaning::Refused),
    ("needs-credentials", Meaning::NeedsCredentials),
    ("blocked", Meaning::Blocked),
    ("retry", Meaning::Retry),
    ("unknown", Meaning::Unknown),
];

const VERBS: [(&str, VerbWord); 5] = [
    ("create", VerbWord::Create),
    ("replace", VerbWord::Replace),
    ("merge", VerbWord::Merge),
    ("action", VerbWord::Action),
    ("delete", VerbWord::Delete),
];

pub(super) fn read(resource: &Section<'_>, rules: &mut Rules) -> Result<(), GlueError> {
    for (content_type, value) in resource.members("patch")? {
        rules.patch.push(PatchType {
            patch: word(resource, "patch", value, &PATCHES)?,
            content_type: read_content_type(resource, &content_type)?,
        });
    }
    for part in resource.texts("parts")? {
        let pattern = Pattern::parse(part.value).map_err(|error| {
            let message = format!("`{}` is not a path: {error}", part.value);
            resource.source.error(&part.span, message)
        })?;
        rules.parts.push(pattern);
    }
    let known = [
        "path",
        "method",
        "as",
        "commutes",
        "idempotent",
        "effect-free",
        "touches",
    ];
    for action in resource.sections("actions", &known)? {
        rules.actions.push(read_action(&action)?);
    }
    for parameter in resource.texts("effect-free")? {
        if parameter.value.starts_with('/') {
            let pointer = Pointer::parse(parameter.value);
            let pointer =
                pointer.map_err(|error| resource.source.error(&parameter.span, error.to_string()))?;
            rules.effect_free_bodies.push(pointer);
            continue;
        }
        let (name, value) = match parameter.value.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (parameter.value, None),
        };
        if name.is_empty() || name.contains(['?', '&', '/']) {
            return Err(resource
                .source
                .error(
                    &parameter.span,
                    format!("`{}` is not a query parameter", parameter.value),
                )
                .fix("write `\"dryRun\"` or `\"dryRun=All\"`, or a pointer into the body; a path without effect belongs to `actions`"));
        }
        rules.effect_free.push((name.to_owned(), value));
    }
    for member in resource.members("answers")? {
        read_answers(resource, &member, &mut rules.answers)?;
    }
    Ok(())
}

pub(super) fn read_content_type(resource: &Section<'_>, text: &At<&str>) -> Result<String, GlueError> {
    let is_plain = |c: char| c.is_ascii_graphic() && c != ';';
    if text.value.split('/').count() != 2 || !text.value.chars().all(is_plain) {
        return Err(resource
            .source
            .error(&text.span, format!("`{}` is not a content type", text.value))
            .fix("write it without parameters, as in `\"application/merge-patch+json\"`"));
    }
    Ok(text.value.to_ascii_lowercase())
}

pub(super) fn read_method<'t>(section: &Section<'t>, key: &str) -> Result<Option<&'t str>, GlueError> {
    let Some(method) = section.text(key)? else {
        return Ok(None);
    };
    if method.value.is_empty() || !method.value.bytes().all(|b| b.is_ascii_uppercase()) {
        return Err(section
            .source
            .error(&method.span, format!("`{}` is not a method", method.value))
            .fix("write it in capitals, as in `\"POST\"`"));
    }
    Ok(Some(method.value))
}

fn read_action(action: &Section<'_>) -> Result<Action, GlueError> {
    let path = read_path(action, "path")?.ok_or_else(|| action.missing("path"))?;
    let method = read_method(action, "method")?.unwrap_or("POST");
    let (commutes, idempotent) = (action.flag("commutes")?, action.flag("idempotent")?);
    let word = action.word("as", &ACTIONS)?;
    let mut meant = word.as_ref().map_or(ActionWord::Action, |word| word.value);
    if action.flag("effect-free")? {
        meant = ActionWord::Local;
    }
    let can_be_repeated = idempotent || matches!(method, "PUT" | "DELETE");
    let effect = match meant {
        ActionWord::Local if commutes || idempotent => {
            return Err(action
                .source
                .error(
                    &action.span,
                    "what has no effect always commutes and can be repeated",
                )
                .fix("keep `effect-free` alone"));
        }
        ActionWord::Difference if commutes => {
            return Err(action
                .source
                .error(
                    &action.span,
                    "a difference is merged: `commutes` says nothing about it",
                )
                .fix("remove `commutes`"));
        }
        ActionWord::Local => Effect::Free,
        ActionWord::Difference => Effect::Difference {
            idempotent: can_be_repeated,
        },
        ActionWord::Action => Effect::Action { commutes, idempotent },
    };
    let mut touches = Vec::new();
    for text in action.texts("touches")? {
        let pointer = Pointer::parse(text.value);
        touches.push(pointer.map_err(|error| action.source.error(&text.span, error.to_string()))?);
    }
    Ok(Action {
        method: method.to_owned(),
        path: path.value,
        effect,
        touches,
    })
}

/// `"409" = "retry"`, `"5xx" = …`, or a verb with such a table.
fn read_answers(
    resource: &Section<'_>,
    (name, value): &Member<'_>,
    answers: &mut Vec<AnswerRule>,
) -> Result<(), GlueError> {
    let DeValue::Table(table) = value.get_ref() else {
        answers.push(read_answer(resource, None, name, value)?);
        return Ok(());
    };
    let verb = resource.source.word("answers", name, &VERBS)?;
    for (status, value) in members_of(table) {
        answers.push(read_answer(resource, Some(verb), &status, value)?);
    }
    Ok(())
}

fn read_answer(
    resource: &Section<'_>,
    verb: Option<VerbWord>,
    status: &At<&str>,
    value: &Spanned<DeValue<'_>>,
) -> Result<AnswerRule, GlueError> {
    let range = match status.value.as_bytes() {
        [hundreds @ b'1'..=b'5', b'x', b'x'] => {
            let first = u16::from(hundreds - b'0') * 100;
            Some((first, first + 99))
        }
        [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'] => status.value.parse().ok().map(|status| (status, status)),
        _ => None,
    };
    let Some((first, last)) = range else {
        return Err(resource
            .source
            .error(&status.span, format!("`{}` is not a status", status.value))
            .fix("write `\"409\"`, `\"5xx\"`, or a verb with a table of those"));
    };
    Ok(AnswerRule {
        verb,
        first,
        last,
        meaning: word(resource, "answers", value, &MEANINGS)?,
    })
}

fn word<T: Copy>(
    resource: &Section<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    words: &[(&str, T)],
) -> Result<T, GlueError> {
    let DeValue::String(word) = value.get_ref() else {
        return Err(resource.wrong_type(key, value, "a table of words", value.get_ref()));
    };
    let text = At {
        value: word.as_ref(),
        span: value.span(),
    };
    resource.source.word(key, &text, words)
}
