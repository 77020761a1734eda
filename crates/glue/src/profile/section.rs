//! Reading TOML so that every mistake is told with its place and its fix.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{GlueError, suggest};

/// The text of a glue file, to turn places into lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

impl Source<'_> {
    pub(super) fn error(&self, at: &Range<usize>, message: impl Into<String>) -> GlueError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        GlueError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
            fix: None,
        }
    }

    /// The complaint about a word that is none of `known`.
    pub(super) fn unknown(
        &self,
        at: &Range<usize>,
        message: String,
        word: &str,
        known: &[&str],
    ) -> GlueError {
        self.error(at, message).fix(match suggest::nearest(word, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use {}", alternatives(known)),
        })
    }
}

impl GlueError {
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

fn alternatives(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    match &*quoted {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

/// A value with its place.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// A table of which every key is known.
#[derive(Debug, Clone)]
pub(super) struct Section<'t> {
    pub(super) source: Source<'t>,
    /// How the table is called in errors.
    name: String,
    table: &'t DeTable<'t>,
    pub(super) span: Range<usize>,
}

impl<'t> Section<'t> {
    /// Refuses keys that are not in `known` before anything else is looked at, so that a misspelt key
    /// is reported as such and not as a missing one.
    pub(super) fn open(
        source: Source<'t>,
        name: impl Into<String>,
        table: &'t DeTable<'t>,
        span: Range<usize>,
        known: &[&str],
    ) -> Result<Self, GlueError> {
        let name = name.into();
        for (key, _) in table {
            let word = key.get_ref().as_ref();
            if !known.contains(&word) {
                let message = format!("unknown key `{word}` in {name}");
                return Err(source.unknown(&key.span(), message, word, known));
            }
        }
        Ok(Self {
            source,
            name,
            table,
            span,
        })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<At<&'t str>>, GlueError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(At {
                value: text.as_ref(),
                span: value.span(),
            })),
            other => Err(self.wrong_type(key, value, "text in quotes", other)),
        }
    }

    pub(super) fn required_text(&self, key: &str) -> Result<At<&'t str>, GlueError> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn array(&self, key: &str) -> Result<Option<&'t [Spanned<DeValue<'t>>]>, GlueError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref() {
            DeValue::Array(array) => Ok(Some(array)),
            other => Err(self.wrong_type(key, value, "a list", other)),
        }
    }

    /// The tables under `key` by name, with the places of their names.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<(At<&'t str>, &'t DeTable<'t>)>, GlueError> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong_type(key, value, "a table", value.get_ref()));
        };
        let named = table.iter().map(|(name, inner)| match inner.get_ref() {
            DeValue::Table(inner) => Ok((
                At {
                    value: name.get_ref().as_ref(),
                    span: name.span(),
                },
                inner,
            )),
            other => Err(self.wrong_type(key, inner, "a table", other)),
        });
        named.collect()
    }

    pub(super) fn missing(&self, key: &str) -> GlueError {
        let message = format!("{} has no `{key}`", self.name);
        self.source
            .error(&self.span, message)
            .fix(format!("add `{key} = …`"))
    }

    pub(super) fn wrong_type(
        &self,
        key: &str,
        at: &Spanned<DeValue<'_>>,
        wanted: &str,
        found: &DeValue<'_>,
    ) -> GlueError {
        let message = format!(
            "`{key}` in {} must be {wanted}, not {}",
            self.name,
            type_name(found)
        );
        self.source.error(&at.span(), message)
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
