//! How an application writes a collection.

use bytes::Bytes;

use crate::{ListPage, NotAList, Pointer, page};

/// How the answer to a read of a collection looks, and how the agent marks and pages a merged one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListShape {
    pub items: Items,
    /// None where a site's answer is always its whole list.
    pub paging: Option<Paging>,
    /// Where in each item the key stands by which every site sorts its list.
    pub sort: Option<Pointer>,
    /// The member of each item that names its site.
    pub provenance: Option<String>,
}

/// Where the items are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Items {
    At(Pointer),
    /// Presumed to be a list: an array, or an object with one array under a usual name or one array
    /// in all. An object with an `id` is a resource, not a list.
    Presumed,
    /// Presumed not to be a list: only an array, or an object with one array under a usual name and
    /// no `id`, is taken for one.
    Unlikely,
}

/// Paging by tokens: each page tells the token of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paging {
    /// The query parameter with the number of items that the caller wants at most.
    pub limit: Option<String>,
    /// The query parameter with the token.
    pub token: String,
    /// Where a page tells the token of the next one.
    pub next: Pointer,
}

impl ListShape {
    /// The member that names an item's site unless the glue says otherwise.
    pub const PROVENANCE: &str = "@site";

    /// A list of which only this much is known; nothing is assumed about paging.
    pub(crate) fn plain(items: Items) -> Self {
        Self {
            items,
            paging: None,
            sort: None,
            provenance: Some(Self::PROVENANCE.to_owned()),
        }
    }

    /// Reads one site's answer.
    pub fn read(&self, body: Bytes) -> Result<ListPage, NotAList> {
        page::read(self, body)
    }
}
