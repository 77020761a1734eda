//! A TOML table whose keys are taken one by one; every mistake is noted with its place, and reading
//! goes on.

use std::{ops::Range, path::PathBuf};

use cheops_types::{listed, nearest};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::ConfigError;

/// The keys that a table may have, each with an example of its value.
pub(super) type Keys = &'static [(&'static str, &'static str)];

/// More keys than these are not listed in a message.
const LISTED_MAX: usize = 10;

/// A value with its dotted key and its place.
#[derive(Debug, Clone)]
pub(super) struct Field<T> {
    pub(super) value: T,
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

impl<T> Field<T> {
    pub(super) fn error(&self, message: impl Into<String>, fix: impl Into<String>) -> ConfigError {
        ConfigError {
            span: self.span.clone(),
            key: self.key.clone(),
            message: message.into(),
            fix: fix.into(),
        }
    }

    pub(super) fn with<U>(&self, value: U) -> Field<U> {
        Field {
            value,
            key: self.key.clone(),
            span: self.span.clone(),
        }
    }
}

/// One table of the document.
pub(super) struct Table<'d> {
    /// The table itself; its place is that of its name.
    pub(super) name: Field<()>,
    entries: &'d DeTable<'d>,
    keys: Keys,
}

impl<'d> Table<'d> {
    /// The whole document.
    pub(super) fn root(entries: &'d DeTable<'d>, keys: Keys, errors: &mut Vec<ConfigError>) -> Self {
        let name = Field {
            value: (),
            key: String::new(),
            span: 0..0,
        };
        Self::new(name, entries, keys, errors)
    }

    fn new(name: Field<()>, entries: &'d DeTable<'d>, keys: Keys, errors: &mut Vec<ConfigError>) -> Self {
        let table = Self { name, entries, keys };
        for (key, _) in entries {
            let known: Vec<_> = keys.iter().map(|(name, _)| *name).collect();
            if !known.contains(&key.get_ref().as_ref()) {
                let field = table.field(key, ());
                let fix = match nearest(key.get_ref(), known.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None if known.len() > LISTED_MAX => {
                        "remove it; `cheops config example` shows every key".to_owned()
                    }
                    None => format!("remove it; the keys here are {}", listed(known, "and")),
                };
                errors.push(field.error(format!("unknown key `{}`", field.key), fix));
            }
        }
        table
    }

    /// Whether `key` is written, with whatever value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether `key` is written with a string.
    pub(super) fn is_string(&self, key: &str) -> bool {
        self.entries
            .get(key)
            .is_some_and(|value| matches!(value.get_ref(), DeValue::String(_)))
    }

    /// Whether `key` is written with anything but an empty table.
    pub(super) fn has_members(&self, key: &str) -> bool {
        self.entries
            .get(key)
            .is_some_and(|value| value.get_ref().as_table().is_none_or(|table| !table.is_empty()))
    }

    /// The table of `key`, if it is there and a table.
    pub(super) fn table(&self, key: &str, keys: Keys, errors: &mut Vec<ConfigError>) -> Option<Table<'d>> {
        let (name, entries) = self.entries_of(key, errors)?;
        Some(Self::new(name, entries, keys, errors))
    }

    /// The tables in the table of `key`, whose keys are names that the user chose.
    pub(super) fn tables(
        &self,
        key: &str,
        keys: Keys,
        errors: &mut Vec<ConfigError>,
    ) -> Vec<(Field<&'d str>, Table<'d>)> {
        let Some((name, entries)) = self.entries_of(key, errors) else {
            return Vec::new();
        };
        let parent = Table {
            name,
            entries,
            keys: &[],
        };
        let mut tables = Vec::new();
        for (key, value) in entries {
            let name = parent.field(key, key.get_ref().as_ref());
            if let DeValue::Table(entries) = value.get_ref() {
                let table = Self::new(name.with(()), entries, keys, errors);
                tables.push((name, table));
            } else {
                errors.push(name.error(
                    format!("`{}` must be a table", name.key),
                    format!("write `[{}]` and its keys below", name.key),
                ));
            }
        }
        tables
    }

    pub(super) fn string(&self, key: &'static str, errors: &mut Vec<ConfigError>) -> Option<Field<&'d str>> {
        let (name, value) = self.get(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some(Field {
                value: text.as_ref(),
                key: name.key,
                span: value.span(),
            });
        }
        errors.push(self.wrong_type(key, value, "a string"));
        None
    }

    pub(super) fn path(&self, key: &'static str, errors: &mut Vec<ConfigError>) -> Option<Field<PathBuf>> {
        let field = self.string(key, errors)?;
        if field.value.is_empty() {
            errors.push(field.error(format!("`{}` is empty", field.key), self.example(key)));
            return None;
        }
        Some(field.with(PathBuf::from(field.value)))
    }

    /// The strings of an array; a value that is no array of strings counts as none.
    pub(super) fn strings(&self, key: &'static str, errors: &mut Vec<ConfigError>) -> Vec<Field<&'d str>> {
        let Some((name, value)) = self.get(key) else {
            return Vec::new();
        };
        let DeValue::Array(elements) = value.get_ref() else {
            errors.push(self.wrong_type(key, value, "an array of strings"));
            return Vec::new();
        };
        let mut strings = Vec::new();
        for element in elements {
            match element.get_ref() {
                DeValue::String(text) => strings.push(Field {
                    value: text.as_ref(),
                    key: name.key.clone(),
                    span: element.span(),
                }),
                _ => errors.push(self.wrong_type(key, element, "an array of strings")),
            }
        }
        strings
    }

    pub(super) fn integer(&self, key: &'static str, errors: &mut Vec<ConfigError>) -> Option<Field<u64>> {
        let (name, value) = self.get(key)?;
        let DeValue::Integer(integer) = value.get_ref() else {
            errors.push(self.wrong_type(key, value, "a whole number"));
            return None;
        };
        let field = Field {
            value: (),
            key: name.key,
            span: value.span(),
        };
        // TOML's integers are signed 64-bit.
        let number = i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .and_then(|number| u64::try_from(number).ok());
        if number.is_none() {
            errors.push(field.error(
                format!("`{}` must be between 0 and {}", field.key, i64::MAX),
                self.example(key),
            ));
        }
        Some(field.with(number?))
    }

    pub(super) fn boolean(&self, key: &'static str, errors: &mut Vec<ConfigError>) -> Option<bool> {
        let (_, value) = self.get(key)?;
        if let DeValue::Boolean(boolean) = value.get_ref() {
            return Some(*boolean);
        }
        errors.push(self.wrong_type(key, value, "`true` or `false`"));
        None
    }

    /// The error for a key that must be there.
    pub(super) fn missing(&self, key: &'static str) -> ConfigError {
        let message = if self.name.key.is_empty() {
            format!("`{key}` is missing")
        } else {
            format!("`{key}` is missing in [{}]", self.name.key)
        };
        ConfigError {
            key: self.dotted(key),
            ..self.name.error(message, self.example(key))
        }
    }

    /// "write `key = value`".
    pub(super) fn example(&self, key: &str) -> String {
        let value = self
            .keys
            .iter()
            .find_map(|(name, value)| (*name == key).then_some(*value));
        format!("write `{key} = {}`", value.unwrap_or("…"))
    }

    fn entries_of(&self, key: &str, errors: &mut Vec<ConfigError>) -> Option<(Field<()>, &'d DeTable<'d>)> {
        let (name, value) = self.get(key)?;
        if let DeValue::Table(entries) = value.get_ref() {
            return Some((name, entries));
        }
        errors.push(name.error(
            format!("`{}` must be a table, not {}", name.key, article(value.get_ref())),
            format!("write `[{}]` and its keys below", name.key),
        ));
        None
    }

    fn get(&self, key: &str) -> Option<(Field<()>, &'d Spanned<DeValue<'d>>)> {
        let (name, value) = self.entries.get_key_value(key)?;
        Some((self.field(name, ()), value))
    }

    fn field<T>(&self, key: &Spanned<impl AsRef<str>>, value: T) -> Field<T> {
        Field {
            value,
            key: self.dotted(key.get_ref().as_ref()),
            span: key.span(),
        }
    }

    fn dotted(&self, key: &str) -> String {
        if self.name.key.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name.key)
        }
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> ConfigError {
        ConfigError {
            span: value.span(),
            key: self.dotted(key),
            message: format!(
                "`{}` must be {wanted}, not {}",
                self.dotted(key),
                article(value.get_ref())
            ),
            fix: self.example(key),
        }
    }
}

fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
