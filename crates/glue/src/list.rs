//! How an application writes a collection.

use crate::Pointer;

/// How the answer to a read of a collection looks, and how the agent marks and pages a merged one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListShape {
    pub items: Items,
    /// Where each item has the resource's document; empty where it is the document.
    pub document: Pointer,
    /// What the answer may look like instead, where there is no array at `items`.
    pub forms: Vec<Form>,
    /// None where a site's answer is always its whole list.
    pub paging: Option<Paging>,
    /// Where in each item's document the key stands by which every site sorts its list.
    pub sort: Option<Pointer>,
    /// Where in each item's document its site is told.
    pub provenance: Option<Pointer>,
    /// How it is watched; none where it cannot be.
    pub watch: Option<Watch>,
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

/// A list that is written in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub items: Pointer,
    /// Where each item has the resource's document; empty where it is the document.
    pub document: Pointer,
    /// What makes it a table for people.
    pub column: Option<Column>,
}

/// The column of a table that tells the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Where the answer defines its columns, in an array.
    pub definitions: Pointer,
    /// Where each item has its cells, in an array.
    pub cells: Pointer,
    /// What is added to the definitions: a text of JSON.
    pub definition: String,
}

/// Paging by tokens: each page tells the token of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paging {
    pub style: NextStyle,
    /// The query parameter with the number of items that the caller wants at most.
    pub limit: Option<String>,
    /// The query parameter with the token.
    pub token: String,
    /// Where a page tells the next one.
    pub next: Pointer,
}

/// How a page tells the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStyle {
    /// By its token.
    Token,
    /// By its URL, in whose query the token is.
    Link,
    /// By a list of links, `{ "rel": "next", "href": URL }` among them.
    Links,
}

/// How an application lets a list be watched: a line of JSON for each change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// The query parameter with the version from which on changes are wanted.
    pub parameter: String,
    /// Where a list, and what an event is about, tell their version.
    pub version: Pointer,
    /// Where an event has what it is about.
    pub object: Pointer,
}

impl ListShape {
    /// The member that names an item's site unless the glue says otherwise.
    pub const PROVENANCE: &str = "@site";

    /// A list of which only this much is known; nothing is assumed about paging.
    pub(crate) fn plain(items: Items) -> Self {
        Self {
            items,
            document: Pointer::root(),
            forms: Vec::new(),
            paging: None,
            sort: None,
            provenance: Some(Pointer::to_member(Self::PROVENANCE)),
            watch: None,
        }
    }

    /// Where items in one of the forms, or in the usual one, have their documents.
    pub(crate) fn document_of(&self, form: Option<usize>) -> &Pointer {
        form.map_or(&self.document, |form| &self.forms[form].document)
    }

    /// Whether the glue says that the answer is a list, so that JSON can be asked for.
    pub fn is_certain(&self) -> bool {
        matches!(self.items, Items::At(_))
    }
}
