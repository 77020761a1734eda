//! Reading TOML so that every mistake is told with its place and its fix.

use std::ops::Range;

use cheops_types::{listed, nearest};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use crate::GlueError;

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
            span: at.clone(),
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
        self.error(at, message)
            .fix(match nearest(word, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use {}", listed(known.iter().copied(), "or")),
            })
    }
}

impl GlueError {
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// All mistakes of a file that can be told at once.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Vec<GlueError>);

impl Mistakes {
    /// Keeps what is wrong.
    pub(super) fn note<T>(&mut self, result: Result<T, GlueError>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the file.
    pub(super) fn into_errors(mut self) -> Vec<GlueError> {
        self.0.sort_by_key(|error| (error.line, error.column));
        self.0
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
    pub(super) name: String,
    table: &'t DeTable<'t>,
    /// Tables whose keys count where this one has none.
    bases: Vec<&'t DeTable<'t>>,
    /// The keys that are never taken from there.
    own: &'static [&'static str],
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
        let section = Self::unchecked(source, name, table, span);
        section.check(known)?;
        Ok(section)
    }

    fn unchecked(
        source: Source<'t>,
        name: impl Into<String>,
        table: &'t DeTable<'t>,
        span: Range<usize>,
    ) -> Self {
        Self {
            source,
            name: name.into(),
            table,
            bases: Vec::new(),
            own: &[],
            span,
        }
    }

    /// Complains about the first key that is not in `known`.
    pub(super) fn check(&self, known: &[&str]) -> Result<(), GlueError> {
        for (key, _) in self.table {
            let word = key.get_ref().as_ref();
            if !known.contains(&word) {
                let message = format!("unknown key `{word}` in {}", self.name);
                return Err(self.source.unknown(&key.span(), message, word, known));
            }
        }
        Ok(())
    }

    /// The same section, with the keys of `bases` where it has none, but for those in `own`.
    pub(super) fn like(mut self, bases: Vec<&'t DeTable<'t>>, own: &'static [&'static str]) -> Self {
        (self.bases, self.own) = (bases, own);
        self
    }

    pub(super) fn table(&self) -> &'t DeTable<'t> {
        self.table
    }

    pub(super) fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        let inherited = || {
            let mut bases = self.bases.iter().filter(|_| !self.own.contains(&key));
            bases.find_map(|base| base.get(key))
        };
        self.table.get(key).or_else(inherited)
    }

    /// The first key of the table itself that is one of these, in the order of the file.
    pub(super) fn first_own(&self, keys: &[&str]) -> Option<(&'t str, Range<usize>)> {
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
        let sections = self.named_sections(&format!("`{key}`"), key)?;
        for section in &sections {
            section.check(known)?;
        }
        Ok(sections)
    }

    /// Like [`Section::sections`], called `name` in errors, and with keys that are not checked yet.
    pub(super) fn named_sections(&self, name: &str, key: &str) -> Result<Vec<Self>, GlueError> {
        let elements = self.array(key)?.unwrap_or_default().iter();
        let sections = elements.map(|element| match element.get_ref() {
            DeValue::Table(table) => Ok(Self::unchecked(self.source, name, table, element.span())),
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
