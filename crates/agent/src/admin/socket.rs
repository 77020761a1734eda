//! The socket of the admin API: one agent per data directory, and nobody else may connect.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

const LOCK_FILE: &str = "agent.lock";
/// Where the socket is made before it gets its name; shorter than that name, so that every path that
/// is good for the socket is good for this.
const NEW_DIR: &str = ".new";

/// Why there is no admin socket. Nothing of another agent was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error(
        "an agent already runs with the data directory {0}; stop it, or set another `data_dir` for this one"
    )]
    Taken(PathBuf),
    #[error("cannot use the data directory {dir}: {error}; correct `data_dir` or its permissions")]
    Directory { dir: PathBuf, error: io::Error },
}

/// A listening socket. While it lives the data directory belongs to this process; when it is dropped
/// the socket is removed.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// The kernel releases it with the process, however that ends: a socket without a lock is stale.
    _lock: File,
}

impl AdminSocket {
    /// Makes the data directory if there is none, takes it and listens at `path` in it.
    pub(crate) fn bind(path: &Path) -> Result<Self, SocketError> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let failed = |error| SocketError::Directory {
            dir: dir.to_owned(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(failed)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(dir.join(LOCK_FILE))
            .map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SocketError::Taken(dir.to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        let listener = listen_privately(dir, path).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            listener: Some(listener),
            _lock: lock,
        })
    }

    /// The listener, once.
    pub(super) fn take_listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // A socket that stays is replaced at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket has its creator's default permissions between `bind` and `chmod`. It is made in a
/// directory that nobody else may enter, and gets its name, replacing a stale socket, when it is
/// safe.
fn listen_privately(dir: &Path, path: &Path) -> io::Result<UnixListener> {
    let private = dir.join(NEW_DIR);
    if let Err(error) = fs::remove_dir_all(&private)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    DirBuilder::new().mode(0o700).create(&private)?;
    let unnamed = private.join("s");
    let listener = UnixListener::bind(&unnamed)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&unnamed, Permissions::from_mode(0o600))?;
    fs::rename(&unnamed, path)?;
    fs::remove_dir(&private)?;
    Ok(listener)
}
