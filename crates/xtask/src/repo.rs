//! The repository as the checks see it: its root, its crates and its files.

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The repository that this program was built from.
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
}

/// One thing that is not as it should be, with the place to look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) file: PathBuf,
    /// Counted from 1; 0 speaks of the whole file.
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(file: &Path, line: usize, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}", self.what)
    }
}

impl Repo {
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root
            .canonicalize()
            .with_context(|| format!("the repository is no longer at {}", root.display()))?;
        Ok(Self { root })
    }

    /// The names of the directories under `crates/`.
    pub(crate) fn crates(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(self.root.join("crates"))? {
            let entry = entry?;
            if entry.path().join("Cargo.toml").is_file() {
                names.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// Reads a file by its path from the root.
    pub(crate) fn read(&self, file: impl AsRef<Path>) -> Result<String> {
        let file = file.as_ref();
        fs::read_to_string(self.root.join(file)).with_context(|| format!("{} cannot be read", file.display()))
    }

    /// The files below `dir` with this extension, as sorted paths from the root. Hidden directories
    /// and build output are left out.
    pub(crate) fn files(&self, dir: &str, extension: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut open = vec![self.root.join(dir)];
        while let Some(dir) = open.pop() {
            let entries =
                fs::read_dir(&dir).with_context(|| format!("{} cannot be listed", dir.display()))?;
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if path.is_dir() {
                    if !name.starts_with('.') && name != "target" && name != "node_modules" {
                        open.push(path);
                    }
                } else if path.extension().is_some_and(|e| e == extension) {
                    found.push(path.strip_prefix(&self.root)?.to_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
