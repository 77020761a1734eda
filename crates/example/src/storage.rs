//! A table in a file: one JSON line per change, replayed at start.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{Debug, Display},
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    ops::Bound,
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// What rows are told apart by.
pub(crate) trait Id: Clone + Ord + Debug + Display + Serialize + DeserializeOwned {}

impl Id for u64 {}
impl Id for String {}

/// One line of the file: what the row is from now on, or nothing when it was deleted.
#[derive(Serialize, Deserialize)]
struct Change<K> {
    id: K,
    row: Option<Object>,
    /// The caller's own key for the request that made the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// A row as it was left by a change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// The number of that change in the table, so no two states of the table's rows share one.
    pub(crate) version: u64,
    pub(crate) object: Object,
}

/// Rows by id. A change that was confirmed survives the end of the process, though not that of
/// the machine: the file is not synchronised.
#[derive(Debug)]
pub(crate) struct Storage<K> {
    rows: BTreeMap<K, Row>,
    /// What was made under a caller's key, as it was then.
    keys: HashMap<String, (K, Row)>,
    /// The highest id that a row ever had.
    last_id: Option<K>,
    changes: u64,
    file: File,
    file_bytes: u64,
}

impl<K: Id> Storage<K> {
    /// Opens the table or makes it. A change that was being written when the process was killed
    /// was never confirmed and is dropped.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
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
            keys: HashMap::new(),
            last_id: None,
            changes: 0,
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

    pub(crate) fn get(&self, id: &K) -> Option<&Row> {
        self.rows.get(id)
    }

    /// What the request with this key of its caller made.
    pub(crate) fn made_under(&self, key: &str) -> Option<&(K, Row)> {
        self.keys.get(key)
    }

    /// Rows with an id greater than `id`, in order.
    pub(crate) fn after(&self, id: Option<K>) -> impl Iterator<Item = (&K, &Row)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows.range((from, Bound::Unbounded))
    }

    pub(crate) fn last_id(&self) -> Option<&K> {
        self.last_id.as_ref()
    }

    /// Stores a row, new or in the place of the one that is there.
    pub(crate) fn put(&mut self, id: K, object: Object, key: Option<String>) -> io::Result<Row> {
        let version = self.changes + 1;
        let row = Some(object.clone());
        self.write(Change { id, row, key })?;
        Ok(Row { version, object })
    }

    pub(crate) fn remove(&mut self, id: K) -> io::Result<()> {
        self.write(Change {
            id,
            row: None,
            key: None,
        })
    }

    fn write(&mut self, change: Change<K>) -> io::Result<()> {
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

    fn apply(&mut self, change: Change<K>) {
        let Change { id, row, key } = change;
        self.changes += 1;
        if self.last_id.as_ref().is_none_or(|last| *last < id) {
            self.last_id = Some(id.clone());
        }
        let Some(object) = row else {
            self.rows.remove(&id);
            return;
        };
        let version = self.changes;
        let row = Row { version, object };
        if let Some(key) = key {
            self.keys.insert(key, (id.clone(), row.clone()));
        }
        self.rows.insert(id, row);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn object(name: &str) -> Object {
        Object::from_iter([("name".to_owned(), json!(name))])
    }

    fn put(storage: &mut Storage<u64>, id: u64, name: &str) -> u64 {
        storage.put(id, object(name), None).unwrap().version
    }

    fn rows(storage: &Storage<u64>) -> Vec<(u64, String, u64)> {
        storage
            .after(None)
            .map(|(id, row)| {
                let name = row.object["name"].as_str().unwrap();
                (*id, name.to_owned(), row.version)
            })
            .collect()
    }

    #[test]
    fn is_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut storage = Storage::open(&path).unwrap();
        for (id, name) in [(100, "a"), (101, "b"), (102, "c")] {
            put(&mut storage, id, name);
        }
        assert_eq!(put(&mut storage, 101, "B"), 4);
        storage.remove(102).unwrap();
        let before = rows(&storage);
        assert_eq!(before, [(100, "a".into(), 1), (101, "B".into(), 4)]);
        drop(storage);

        let mut storage = Storage::open(&path).unwrap();
        assert_eq!(rows(&storage), before);
        assert_eq!(storage.get(&102), None);
        assert_eq!(storage.last_id(), Some(&102), "an id could be used twice");
        assert_eq!(put(&mut storage, 103, "d"), 6, "a version was used twice");
    }

    #[test]
    fn knows_what_was_made_under_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut storage = Storage::open(&path).unwrap();
        let made = storage.put(1, object("a"), Some("key".to_owned())).unwrap();
        put(&mut storage, 1, "changed");
        storage.remove(1).unwrap();
        assert_eq!(storage.made_under("key"), Some(&(1, made.clone())));
        assert_eq!(storage.made_under("other"), None);
        drop(storage);
        let storage = Storage::<u64>::open(&path).unwrap();
        assert_eq!(storage.made_under("key"), Some(&(1, made)));
    }

    #[test]
    fn drops_a_change_that_was_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut storage = Storage::open(&path).unwrap();
        put(&mut storage, 1, "whole");
        drop(storage);
        let whole = fs::read(&path).unwrap();
        let second = br#"{"id":2,"row":{"name":"torn"}}"#;
        for length in 1..=second.len() {
            fs::write(&path, [&whole, &second[..length]].concat()).unwrap();
            let mut storage = Storage::open(&path).unwrap();
            assert_eq!(rows(&storage), [(1, "whole".into(), 1)]);
            put(&mut storage, 2, "next");
            drop(storage);
            let storage = Storage::open(&path).unwrap();
            assert_eq!(rows(&storage), [(1, "whole".into(), 1), (2, "next".into(), 2)]);
        }
    }

    #[test]
    fn says_which_line_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        fs::write(&path, "{\"id\":1,\"row\":null}\nnonsense\n").unwrap();
        let error = Storage::<u64>::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn lists_from_an_id_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut storage = Storage::open(&dir.path().join("rows")).unwrap();
        for name in ["b", "a", "c"] {
            storage.put(name.to_owned(), object(name), None).unwrap();
        }
        let ids = |after: Option<&str>| {
            let rows = storage.after(after.map(str::to_owned));
            rows.map(|(id, _)| id.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(ids(None), ["a", "b", "c"]);
        assert_eq!(ids(Some("a")), ["b", "c"]);
        assert_eq!(ids(Some("aa")), ["b", "c"]);
        assert!(ids(Some("c")).is_empty());
    }
}
