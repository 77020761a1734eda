use std::{ops::Deref, sync::Arc};

use super::Shared;
use crate::PayloadRef;

/// A payload that stays in the spool at least as long as this value. It is dropped after the commit
/// of the session that retains it.
#[derive(Debug)]
pub struct Payload {
    payload: PayloadRef,
    shared: Arc<Shared>,
}

impl Payload {
    /// The caller has counted the pin.
    pub(super) fn pinned(shared: Arc<Shared>, payload: PayloadRef) -> Self {
        Self { payload, shared }
    }
}

impl Deref for Payload {
    type Target = PayloadRef;

    fn deref(&self) -> &PayloadRef {
        &self.payload
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.shared.unpin(&self.payload.hash);
    }
}
