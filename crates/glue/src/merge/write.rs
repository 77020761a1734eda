//! Writing a merged page into the first site's answer, which stays as it is around the items, the definitions
//! of columns and the token.

use cheops_types::SiteName;

use super::MergeError;
use crate::{
    GatherQuery, ListPage, NextStyle, NotJson,
    edit::{self, Edit},
    json::{self, Found},
    link,
    marks::{Marked, Marks, appended},
};

/// `items` are texts of JSON with the sites that they come from.
pub(super) fn page<'i>(
    query: &GatherQuery,
    envelope: &ListPage,
    next: Option<&str>,
    items: impl Iterator<Item = (&'i SiteName, &'i str)>,
) -> Result<Vec<u8>, MergeError> {
    let text = envelope.text();
    let edits = edits(query, envelope, next, items);
    let edits = edits.map_err(|error| MergeError::Envelope(error.to_string()))?;
    Ok(edit::apply(text, edits).into_owned().into_bytes())
}

fn edits<'i>(
    query: &GatherQuery,
    envelope: &ListPage,
    next: Option<&str>,
    items: impl Iterator<Item = (&'i SiteName, &'i str)>,
) -> Result<Vec<Edit>, NotJson> {
    let (shape, text) = (&query.shape, envelope.text());
    let root = json::read(text)?;
    // Cells without a definition would stand under the wrong one.
    let is_table = envelope.columns() > 0;
    let marks = Marks::new(shape, envelope.form(), is_table);
    let mut array = Marked::default();
    for (site, item) in items {
        array.push(&marks, site, item);
    }
    let mut edits = vec![(envelope.array(), array.finish())];
    if let Some((definitions, definition)) = marks.column() {
        let found = json::find(root, definitions)?;
        edits.extend(appended(text, found, definition));
    }
    // Without a further page the first site had none either, and shows it in its own way.
    if let (Some(next), Some(paging)) = (next, &shape.paging) {
        let found = json::find(root, &paging.next)?;
        let old = match found {
            Found::Value(old) => Some(old),
            Found::Missing { .. } | Found::Blocked => None,
        };
        let value = match paging.style {
            NextStyle::Token => json::quote(next),
            NextStyle::Link | NextStyle::Links => link::write(paging, &query.asked, query.kept(), next, old),
        };
        edits.push(edit::put_where(text, &paging.next, found, &value)?);
    }
    Ok(edits)
}
