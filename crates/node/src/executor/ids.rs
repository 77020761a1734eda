//! Translations of ids that only the runner needs.

use cheops_glue::Ids;

use crate::ids::Finder;

/// What a hole looks like in a recorded request.
const HOLE: &str = "{id}";

/// A translation that also knows what belongs into the hole.
pub(super) struct Filled<'i> {
    pub(super) ids: &'i dyn Ids,
    pub(super) kind: &'i str,
    pub(super) local: &'i str,
}

impl Ids for Filled<'_> {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        if id == HOLE && kind == self.kind {
            Some(self.local.to_owned())
        } else {
            self.ids.map(service, kind, id, key)
        }
    }
}

/// From the ids of this site's application to those that callers see at every site. A name stays a name, also
/// for the sites that have nothing to do with its set.
pub(super) struct ToShown<'r>(pub(super) Finder<'r>);

impl Ids for ToShown<'_> {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        let (_, row) = self.0.find(service, kind, id, key).ok()??;
        Some(row.head.shown)
    }
}
