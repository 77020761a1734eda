//! One dial at a time.

use std::{
    cell::{Cell, RefCell},
    future::Future,
};

use tokio::sync::Mutex;

use crate::{SendError, SendErrorKind};

/// Of several callers that need a connection one dials; the others wait for it and share its result, so
/// that a dead other side costs each of them one time-out, not one per caller.
#[derive(Default)]
pub(crate) struct Gate {
    dialling: Mutex<()>,
    /// Counts dials, so that those who waited for one know its failure from an older one.
    dials: Cell<u64>,
    failure: RefCell<Option<(SendErrorKind, String)>>,
}

impl Gate {
    /// What is `ready`, or else what `dial` gives.
    pub(crate) async fn pass<T, F>(
        &self,
        ready: impl Fn() -> Option<T>,
        dial: impl FnOnce() -> F,
    ) -> Result<T, SendError>
    where
        F: Future<Output = Result<T, SendError>>,
    {
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        let dials_before = self.dials.get();
        let _dialling = self.dialling.lock().await;
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        if let Some((kind, detail)) = &*self.failure.borrow()
            && self.dials.get() != dials_before
        {
            return Err(SendError::not_executed(*kind, detail.clone()));
        }
        let result = dial().await;
        self.dials.set(self.dials.get() + 1);
        let failure = result.as_ref().err();
        *self.failure.borrow_mut() = failure.map(|error| (error.kind, error.detail.clone()));
        result
    }
}
