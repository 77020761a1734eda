//! Payloads come and, with a damaged disk, go.

use super::Step;
use crate::Operation;

impl Step<'_> {
    /// Whether the payload of an operation that came from elsewhere is still to come.
    pub(super) fn comes_bare(&self, op: &Operation) -> bool {
        op.payload().is_some() && op.id.author != self.set.author(self.site)
    }

    /// A payload is here, or is not here any more. The others hear of it: it may be what a caller waits for.
    pub(super) fn payload(&mut self, hash: &[u8; 32], is_here: bool) {
        let mut has_changed = false;
        self.set.log.change(|entry| {
            let changes = entry.op.payload() == Some(hash) && entry.bare == is_here;
            if changes {
                entry.bare = !is_here;
                has_changed = true;
            }
            changes
        });
        if has_changed {
            self.tell_all();
        }
    }
}
