//! Lists that an agent gives in pages.

use cheops_node::model::{ConflictList, CrossList, OperationList, SetList};
use serde::de::DeserializeOwned;

use super::ask::wait;
use crate::admin::client::{Client, path};

/// A page, and what was joined of several.
pub(super) trait Pages: DeserializeOwned {
    fn len(&self) -> usize;

    fn next(&self) -> Option<&str>;

    /// Adds the page that follows.
    fn join(&mut self, page: Self);
}

macro_rules! pages {
    ($($list:ident . $items:ident),*) => {$(
        impl Pages for $list {
            fn len(&self) -> usize {
                self.$items.len()
            }

            fn next(&self) -> Option<&str> {
                self.next.as_deref()
            }

            fn join(&mut self, page: Self) {
                self.$items.extend(page.$items);
                self.next = page.next;
            }
        }
    )*};
}

pages!(
    SetList.sets,
    CrossList.resources,
    OperationList.operations,
    ConflictList.conflicts
);

/// A list as a table, or the word for none.
pub(super) fn shown<L: Pages>(list: &L, none: &str, table: impl FnOnce() -> String) -> String {
    match (list.len(), list.next()) {
        (0, _) => none.to_owned(),
        (_, None) => table(),
        (_, Some(_)) => table() + "there are more: --limit shows them\n",
    }
}

/// Reads the list at `/v1/<name>` until `limit` entries or its end. A page may be short and not the last.
pub(super) fn read<L: Pages>(
    client: &Client,
    name: &str,
    filters: &[(&str, Option<&str>)],
    limit: usize,
) -> anyhow::Result<L> {
    let page = |after: Option<&str>, missing: usize| -> anyhow::Result<L> {
        let missing = missing.to_string();
        let place = [("after", after), ("limit", Some(missing.as_str()))];
        let parameters: Vec<_> = filters.iter().copied().chain(place).collect();
        Ok(wait(client.get(&path(&["v1", name], &parameters)))??)
    };
    let mut all = page(None, limit)?;
    while all.next().is_some() && all.len() < limit {
        let page = page(all.next(), limit - all.len())?;
        all.join(page);
    }
    Ok(all)
}
