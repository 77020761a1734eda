//! Whether the data directory can be trusted: it holds this site's keys, and what it has promised.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

/// Who may write a directory beside its owner.
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// Directories in it with files that the agent opens.
const WITHIN: [&str; 3] = ["spool", "spool/partial", "spool/whole"];

/// Why an agent does not start with a data directory. Nothing in it was opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataDirError {
    #[error(
        "the data directory {dir} is a symbolic link, and whoever can change that decides what this site remembers: set `data_dir` to {target}"
    )]
    Link { dir: PathBuf, target: PathBuf },
    #[error(
        "{0} in the data directory is a symbolic link, and the agent would write where it leads: put the file or directory itself there"
    )]
    LinkWithin(PathBuf),
    #[error(
        "others can write the data directory {dir} (mode {mode:04o}), and so replace this site's keys and store: look whether somebody did, then `chmod go-w {dir}`"
    )]
    Open { dir: PathBuf, mode: u32 },
    #[error(
        "the data directory {dir} belongs to user {owner}, and the agent runs as user {own}: run it as user {owner}, or `chown -R {own} {dir}`"
    )]
    Foreign { dir: PathBuf, owner: u32, own: u32 },
    #[error("cannot look at {path}: {error}; correct `data_dir` or its permissions")]
    Unreadable { path: PathBuf, error: io::Error },
}

/// Judges the data directory before anything in it is opened. One that is not there yet will be made, for this user
/// alone.
pub(super) fn check(dir: &Path) -> Result<(), DataDirError> {
    let found = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| unreadable(dir, error))?,
    };
    if found.is_symlink() {
        return Err(DataDirError::Link {
            dir: dir.to_owned(),
            target: fs::canonicalize(dir).unwrap_or_else(|_| "the directory itself".into()),
        });
    }
    // Root can write everything anyhow.
    let (owner, own) = (found.uid(), geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(DataDirError::Foreign {
            dir: dir.to_owned(),
            owner,
            own,
        });
    }
    if found.mode() & WRITTEN_BY_OTHERS != 0 {
        return Err(DataDirError::Open {
            dir: dir.to_owned(),
            mode: found.mode() & 0o7777,
        });
    }
    // From here on nobody else changes what is found.
    check_entries(dir)?;
    WITHIN.iter().try_for_each(|name| check_entries(&dir.join(name)))
}

fn check_entries(dir: &Path) -> Result<(), DataDirError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| unreadable(dir, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(dir, error))?;
        let kind = entry
            .file_type()
            .map_err(|error| unreadable(&entry.path(), error))?;
        if kind.is_symlink() {
            return Err(DataDirError::LinkWithin(entry.path()));
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: io::Error) -> DataDirError {
    DataDirError::Unreadable {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn chmod(dir: &Path, mode: u32) {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn others_may_read_it_and_not_write_it() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o700, 0o750, 0o755] {
            chmod(dir.path(), mode);
            check(dir.path()).unwrap();
        }
        for mode in [0o770, 0o757, 0o777, 0o1777] {
            chmod(dir.path(), mode);
            let refused = check(dir.path()).unwrap_err().to_string();
            assert!(refused.contains("chmod go-w"), "{refused}");
            assert!(refused.contains(&format!("{mode:04o}")), "{refused}");
        }
    }

    #[test]
    fn one_that_is_not_there_is_made() {
        let dir = tempfile::tempdir().unwrap();
        check(&dir.path().join("new/deep")).unwrap();
    }

    #[test]
    fn no_link_is_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = dir.path().join("data");
        symlink(other.path(), &link).unwrap();
        let refused = check(&link).unwrap_err().to_string();
        assert!(refused.contains(other.path().to_str().unwrap()), "{refused}");
        fs::remove_file(&link).unwrap();

        fs::create_dir_all(link.join("spool/whole")).unwrap();
        chmod(&link, 0o700);
        check(&link).unwrap();
        // Also one that leads nowhere yet: a file would be made there.
        for name in [
            "store.redb",
            "site.key",
            "correlation.key",
            "spool/whole/a",
            "spool/partial",
        ] {
            let path = link.join(name);
            symlink(other.path().join("not-there"), &path).unwrap();
            let refused = check(&link).unwrap_err().to_string();
            assert!(refused.contains(path.to_str().unwrap()), "{refused}");
            fs::remove_file(path).unwrap();
        }
        check(&link).unwrap();
    }
}
