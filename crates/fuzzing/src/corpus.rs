//! The kept inputs of a target: small files in the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The inputs that a hunt begins with, in the order of their files.
pub struct Corpus {
    pub inputs: Vec<Vec<u8>>,
}

impl Corpus {
    /// Where the corpora are.
    pub fn dir() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
    }

    pub fn of(target: &str) -> Result<Self> {
        let dir = Self::dir().join(target);
        let listed = fs::read_dir(&dir).with_context(|| format!("{} cannot be listed", dir.display()))?;
        let mut files: Vec<_> = listed.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        let read =
            |file: &PathBuf| fs::read(file).with_context(|| format!("{} cannot be read", file.display()));
        let inputs = files.iter().map(read).collect::<Result<_>>()?;
        Ok(Self { inputs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Judge, Target};

    /// A seed that nobody can read leads nowhere; one that breaks something has been fixed before it was kept.
    #[test]
    fn every_target_has_seeds_that_can_be_read() {
        for target in Target::ALL {
            let corpus = Corpus::of(target.name).unwrap();
            let judge = Judge::new(target.run);
            let mut read = 0;
            for input in &corpus.inputs {
                match judge.look(input) {
                    Ok(is_read) => read += usize::from(is_read),
                    Err(finding) => panic!("{}: {finding:?}", target.name),
                }
            }
            assert!(
                read > 0,
                "{}: none of {} seeds can be read",
                target.name,
                corpus.inputs.len()
            );
        }
    }
}
