//! Typed access to the tables: reading from one state, and changing it as a whole.

use std::ops::ControlFlow;

use crate::{
    engine::{KeyRange, Visit},
    error::Error,
    key::{Key, KeyReader},
    span::Span,
    table::{Index, Table},
    value,
};

mod read;
mod write;

pub use read::ReadSession;
pub use write::WriteSession;

/// A row of a table.
pub type Row<T> = (<T as Table>::Key, <T as Table>::Value);

/// What both kinds of session can do. Everything is seen as of one moment.
pub trait Read {
    #[doc(hidden)]
    fn raw_get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    #[doc(hidden)]
    fn raw_scan(&self, table: &'static str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), Error>;

    fn get<T: Table>(&self, key: &T::Key) -> Result<Option<T::Value>, Error> {
        let bytes = self.raw_get(T::NAME, &key.to_bytes())?;
        bytes.map(|bytes| decode::<T>(&bytes)).transpose()
    }

    fn contains<T: Table>(&self, key: &T::Key) -> Result<bool, Error> {
        Ok(self.raw_get(T::NAME, &key.to_bytes())?.is_some())
    }

    /// Visits rows until it is told to stop or one cannot be read.
    fn for_each<T: Table>(
        &self,
        span: &Span,
        mut visit: impl FnMut(T::Key, T::Value) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut outcome = Ok(());
        self.raw_scan(
            T::NAME,
            span.range(),
            &mut |key, value| match row::<T>(key, value) {
                Ok((key, value)) => visit(key, value),
                Err(error) => {
                    outcome = Err(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        outcome
    }

    /// The first `rows_max` rows of a span.
    fn scan<T: Table>(&self, span: &Span, rows_max: usize) -> Result<Vec<Row<T>>, Error> {
        let mut rows = Vec::new();
        if rows_max > 0 {
            self.for_each::<T>(span, |key, value| {
                rows.push((key, value));
                go_on(rows.len() < rows_max)
            })?;
        }
        Ok(rows)
    }

    /// The first `rows_max` entries of an index: its key and the key of the record.
    #[allow(clippy::type_complexity)] // the pair says it best
    fn keys_by<I: Index>(
        &self,
        span: &Span,
        rows_max: usize,
    ) -> Result<Vec<(I::Key, <I::Table as Table>::Key)>, Error> {
        let mut rows = Vec::new();
        let mut outcome = Ok(());
        if rows_max > 0 {
            self.raw_scan(I::NAME, span.range(), &mut |row, _| {
                match <(I::Key, <I::Table as Table>::Key)>::from_bytes(row) {
                    Ok(keys) => rows.push(keys),
                    Err(error) => outcome = Err(Error::bad_key(I::NAME, error)),
                }
                go_on(outcome.is_ok() && rows.len() < rows_max)
            })?;
        }
        outcome.map(|()| rows)
    }

    /// The first `rows_max` records that an index finds.
    fn by<I: Index>(&self, span: &Span, rows_max: usize) -> Result<Vec<Row<I::Table>>, Error> {
        let keys = self.keys_by::<I>(span, rows_max)?;
        keys.into_iter()
            .map(|(_, key)| {
                let value = self.indexed::<I>(&key)?;
                Ok((key, value))
            })
            .collect()
    }

    #[doc(hidden)]
    fn indexed<I: Index>(&self, key: &<I::Table as Table>::Key) -> Result<<I::Table as Table>::Value, Error> {
        self.get::<I::Table>(key)?.ok_or_else(|| Error::BadRow {
            table: I::NAME,
            reason: format!("it leads to no row of `{}`", I::Table::NAME),
        })
    }

    /// The first record with exactly this index key.
    fn get_by<I: Index>(&self, key: &I::Key) -> Result<Option<Row<I::Table>>, Error> {
        let Some(key) = self.key_by::<I>(key)? else {
            return Ok(None);
        };
        let value = self.indexed::<I>(&key)?;
        Ok(Some((key, value)))
    }

    /// The key of the first record with exactly this index key.
    fn key_by<I: Index>(&self, key: &I::Key) -> Result<Option<<I::Table as Table>::Key>, Error> {
        let mut found = None;
        let prefix = key.to_bytes();
        self.raw_scan(I::NAME, Span::under(key).range(), &mut |row, _| {
            found = Some(<I::Table as Table>::Key::read(&mut KeyReader::new(
                &row[prefix.len()..],
            )));
            ControlFlow::Break(())
        })?;
        found.transpose().map_err(|error| Error::bad_key(I::NAME, error))
    }
}

fn go_on(more: bool) -> ControlFlow<()> {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

fn row<T: Table>(key: &[u8], value: &[u8]) -> Result<Row<T>, Error> {
    let key = T::Key::from_bytes(key).map_err(|error| Error::bad_key(T::NAME, error))?;
    Ok((key, decode::<T>(value)?))
}

fn decode<T: Table>(bytes: &[u8]) -> Result<T::Value, Error> {
    value::decode(bytes).map_err(|error| Error::bad_value(T::NAME, &error))
}
