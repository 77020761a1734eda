//! The limit of open files, which decides how many connections there can be.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit to what the system allows this process, and keeps some of it for others than clients.
pub(super) fn raise(reserved: u64) {
    let before = getrlimit(Resource::Nofile);
    let mut wanted = before;
    wanted.current = wanted.maximum;
    let in_force = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, max = before.current, "the limit of open files cannot be raised");
            before
        }
    };
    // None stands for no limit.
    cheops_net::set_files(in_force.current.unwrap_or(u64::MAX), reserved);
}
