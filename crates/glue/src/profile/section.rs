//! Reading TOML so that every mistake is told with its place and its fix.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
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

    /// What one of `words` stands for.
    pub(super) fn word<T: Copy>(
        &self,
        key: &str,
        text: &At<&str>,
        words: &[(&str, T)],
    ) -> Result<T, GlueError> {
        let found = words.iter().find(|(word, _)| *word == text.value);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("unknown word `{}` in `{key}`", text.value);
            self.unknown(&text.span, message, text.value, &known)
        })
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

    /// The first key of the table that is one of these, in the order of the file.
    pub(super) fn first_of(&self, keys: &[&str]) -> Option<(&'t str, Range<usize>)> {
        let here = self
            .table
            .keys()
            .filter(|key| keys.contains(&key.get_ref().as_ref()));
        here.map(|key| (key.get_ref().as_ref(), key.span()))
            .min_by_key(|(_, span)| span.start)
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

    pub(super) fn flag(&self, key: &str) -> Result<bool, GlueError> {
        let Some(value) = self.get(key) else {
            return Ok(false);
        };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(self.wrong_type(key, value, "true or false", other)),
        }
    }

    /// A list of texts; empty when there is none.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<At<&'t str>>, GlueError> {
        let elements = self.array(key)?.unwrap_or_default().iter();
        let texts = elements.map(|element| match element.get_ref() {
            DeValue::String(text) => Ok(At {
                value: text.as_ref(),
                span: element.span(),
            }),
            other => Err(self.wrong_type(key, element, "a list of texts", other)),
        });
        texts.collect()
    }

    /// A list of tables of which every key is known; empty when there is none.
    pub(super) fn sections(&self, key: &str, known: &[&str]) -> Result<Vec<Self>, GlueError> {
        let elements = self.array(key)?.unwrap_or_default().iter();
        let sections = elements.map(|element| match element.get_ref() {
            DeValue::Table(table) => {
                Self::open(self.source, format!("`{key}`"), table, element.span(), known)
            }
            other => Err(self.wrong_type(key, element, "a list of tables", other)),
        });
        sections.collect()
    }

    /// The members of a table, with the places of their names.
    pub(super) fn members(&self, key: &str) -> Result<Vec<Member<'t>>, GlueError> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        match value.get_ref() {
            DeValue::Table(table) => Ok(members_of(table)),
            other => Err(self.wrong_type(key, value, "a table", other)),
        }
    }

    /// One of `words`.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<At<T>>, GlueError> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let value = self.source.word(key, &text, words)?;
        let span = text.span;
        Ok(Some(At { value, span }))
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

/// A name in a table, and what it stands for.
pub(super) type Member<'t> = (At<&'t str>, &'t Spanned<DeValue<'t>>);

/// In the order of the file.
pub(super) fn members_of<'t>(table: &'t DeTable<'t>) -> Vec<Member<'t>> {
    let member = |(name, value): (&'t Spanned<DeString<'t>>, _)| {
        let name = At {
            value: name.get_ref().as_ref(),
            span: name.span(),
        };
        (name, value)
    };
    let mut members: Vec<_> = table.iter().map(member).collect();
    members.sort_by_key(|(name, _)| name.span.start);
    members
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
