//! A table in a file: one JSON line per change, replayed at start.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    ops::Bound,
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// One line of the file: what the row is from now on, or nothing when it was deleted.
#[derive(Serialize, Deserialize)]
struct Change<T> {
    id: u64,
    row: Option<T>,
}

/// Rows by id. A change that was confirmed survives the end of the process, though not that of
/// the machine: the file is not synchronised.
#[derive(Debug)]
pub(crate) struct Storage {
    rows: BTreeMap<u64, Object>,
    next_id: u64,
    file: File,
    file_bytes: u64,
}

impl Storage {
    /// Opens the table or makes it. A change that was being written when the process was killed
    /// was never confirmed and is dropped.
    pub(crate) fn open(path: &Path, id_base: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole_bytes = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        file.set_len(whole_bytes as u64)?;
        let mut storage = Self {
            rows: BTreeMap::new(),
            next_id: id_base,
            file,
            file_bytes: whole_bytes as u64,
        };
        for (number, line) in text[..whole_bytes]
            .split_inclusive(|byte| *byte == b'\n')
            .enumerate()
        {
            let change = serde_json::from_slice(line).map_err(|error| {
                let error = format!("{} line {} is not a change: {error}", path.display(), number + 1);
                io::Error::new(ErrorKind::InvalidData, error)
            })?;
            storage.apply(change);
        }
        Ok(storage)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Object> {
        self.rows.get(&id)
    }

    /// Rows with an id greater than `id`, in order.
    pub(crate) fn after(&self, id: Option<u64>) -> impl Iterator<Item = (u64, &Object)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows
            .range((from, Bound::Unbounded))
            .map(|(id, row)| (*id, row))
    }

    /// Stores a new row under an id that was never used.
    pub(crate) fn insert(&mut self, row: Object) -> io::Result<u64> {
        let id = self.next_id;
        self.write(id, Some(row))?;
        Ok(id)
    }

    pub(crate) fn replace(&mut self, id: u64, row: Object) -> io::Result<()> {
        self.write(id, Some(row))
    }

    pub(crate) fn remove(&mut self, id: u64) -> io::Result<()> {
        self.write(id, None)
    }

    fn write(&mut self, id: u64, row: Option<Object>) -> io::Result<()> {
        let change = Change { id, row };
        let mut line = serde_json::to_vec(&change)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            // A part of a line in the file would spoil the next change.
            self.file.set_len(self.file_bytes)?;
            return Err(error);
        }
        self.file_bytes += line.len() as u64;
        self.apply(change);
        Ok(())
    }

    fn apply(&mut self, change: Change<Object>) {
        self.next_id = self.next_id.max(change.id.saturating_add(1));
        match change.row {
            Some(row) => self.rows.insert(change.id, row),
            None => self.rows.remove(&change.id),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn row(name: &str) -> Object {
        Object::from_iter([("name".to_owned(), json!(name))])
    }

    fn rows(storage: &Storage) -> Vec<(u64, String)> {
        storage
            .after(None)
            .map(|(id, row)| (id, row["name"].as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn is_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut storage = Storage::open(&path, 100).unwrap();
        let ids = ["a", "b", "c"].map(|name| storage.insert(row(name)).unwrap());
        assert_eq!(ids, [100, 101, 102]);
        storage.replace(101, row("B")).unwrap();
        storage.remove(102).unwrap();
        drop(storage);

        let mut storage = Storage::open(&path, 100).unwrap();
        assert_eq!(rows(&storage), [(100, "a".into()), (101, "B".into())]);
        assert_eq!(storage.get(102), None);
        assert_eq!(storage.insert(row("d")).unwrap(), 103, "an id was used twice");
    }

    #[test]
    fn drops_a_change_that_was_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut storage = Storage::open(&path, 1).unwrap();
        storage.insert(row("whole")).unwrap();
        drop(storage);
        let whole = fs::read(&path).unwrap();
        let second = br#"{"id":2,"row":{"name":"torn"}}"#;
        for length in 1..=second.len() {
            fs::write(&path, [&whole, &second[..length]].concat()).unwrap();
            let mut storage = Storage::open(&path, 1).unwrap();
            assert_eq!(rows(&storage), [(1, "whole".into())]);
            storage.insert(row("next")).unwrap();
            drop(storage);
            let storage = Storage::open(&path, 1).unwrap();
            assert_eq!(rows(&storage), [(1, "whole".into()), (2, "next".into())]);
        }
    }

    #[test]
    fn says_which_line_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        fs::write(&path, "{\"id\":1,\"row\":null}\nnonsense\n").unwrap();
        let error = Storage::open(&path, 1).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn lists_from_an_id_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut storage = Storage::open(&dir.path().join("rows"), 5).unwrap();
        for name in ["a", "b", "c"] {
            storage.insert(row(name)).unwrap();
        }
        let ids = |after| storage.after(after).map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(None), [5, 6, 7]);
        assert_eq!(ids(Some(5)), [6, 7]);
        assert!(ids(Some(7)).is_empty());
    }
}
