//! A disk that is soon full.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// A file system of a few MiB in memory, in a directory of its own. Only root may mount one.
pub(crate) struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    pub(crate) fn mount(bytes: u64) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("cheops-disk-").tempdir()?;
        let options = CString::new(format!("size={bytes},mode=0700"))?;
        mount(
            "tmpfs",
            dir.path(),
            "tmpfs",
            MountFlags::empty(),
            options.as_c_str(),
        )?;
        Ok(Self { dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        let page = [0; 4096];
        let error = loop {
            if let Err(error) = file.write_all(&page) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.dir.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}
