//! Runs futures on the core's own thread.

use std::future::Future;

/// A [`hyper::rt::Executor`] whose tasks never leave the thread that spawned them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
