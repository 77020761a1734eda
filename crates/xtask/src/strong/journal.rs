//! What an application has executed, by its own journal: one line for each change, also for those that were replaced
//! since.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use super::history::{Born, Number, read};

/// The values that each resource was set to at a site, in the order of their executions.
#[derive(Debug, Default, Clone)]
pub(super) struct Journal(pub(super) BTreeMap<Born, Vec<Number>>);

#[derive(Deserialize)]
struct Line {
    /// None of a delete.
    row: Option<Value>,
}

impl Journal {
    /// Of the application whose data is in this directory.
    pub(super) fn of(data_dir: &Path) -> Result<Self> {
        let mut all = Self::default();
        for collection in ["items", "labels"] {
            let file = data_dir.join(format!("{collection}.jsonl"));
            let text =
                fs::read_to_string(&file).with_context(|| format!("no journal at {}", file.display()))?;
            all.add(&text)?;
        }
        Ok(all)
    }

    /// A line that is being written just now does not count yet.
    fn add(&mut self, text: &str) -> Result<()> {
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let Line { row } = serde_json::from_str(line)?;
            if let Some((born, number)) = row.as_ref().and_then(read) {
                self.0.entry(born).or_default().push(number);
            }
        }
        Ok(())
    }

    /// How often a value came again: repeated because nobody knew whether it had executed, or because a site was set
    /// back.
    pub(super) fn again(&self) -> usize {
        let again = |values: &Vec<Number>| {
            let mut different = values.clone();
            different.sort_unstable();
            different.dedup();
            values.len() - different.len()
        };
        self.0.values().map(again).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_tells_what_was_executed_and_how_often() {
        let mut journal = Journal::default();
        let line =
            |born, number| format!("{{\"id\":1,\"row\":{{\"born\":\"{born}\",\"value\":\"{number}\"}}}}\n");
        let text = [
            line(1, 1),
            line(1, 2),
            line(1, 1),
            line(3, 3),
            "{\"id\":1,\"row\":null}\n{\"id".to_owned(),
        ];
        journal.add(&text.concat()).unwrap();
        assert_eq!(journal.0, BTreeMap::from([(1, vec![1, 2, 1]), (3, vec![3])]));
        assert_eq!(journal.again(), 1);
        assert!(journal.add("no line\n").is_err());
    }
}
