//! Writing a merged page into the first site's answer, which stays as it is around the items, the definitions
//! of columns and the token.

use std::borrow::Cow;

use cheops_types::SiteName;
use serde_json::value::RawValue;

use super::MergeError;
use crate::{
    GatherQuery, ListPage, ListShape, NextStyle, NotJson, Pointer,
    edit::{self, Edit},
    json::{self, Found},
    link,
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
    let marks = Marks::new(shape, envelope);
    let mut edits = vec![(envelope.array(), array(&marks, items))];
    if let Some((definitions, definition)) = &marks.column {
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

/// Where an item tells its site.
struct Marks {
    /// Where it has the resource's document.
    document: Pointer,
    /// Where it tells the site in it.
    provenance: Option<Pointer>,
    cells: Option<Pointer>,
    /// Where the answer defines columns, and what is added there.
    column: Option<(Pointer, String)>,
}

impl Marks {
    fn new(shape: &ListShape, envelope: &ListPage) -> Self {
        let form = envelope.form().map(|form| &shape.forms[form]);
        let document = shape.document_of(envelope.form()).clone();
        let provenance = shape.provenance.as_ref().map(|pointer| document.with(pointer));
        // Cells without a definition would stand under the wrong one.
        let column = form
            .and_then(|form| form.column.as_ref())
            .filter(|_| envelope.columns() > 0);
        Self {
            document,
            provenance,
            cells: column.map(|column| column.cells.clone()),
            column: column.map(|column| (column.definitions.clone(), column.definition.clone())),
        }
    }

    /// The item with its site; as it is where it cannot tell it.
    fn put<'i>(&self, site: &SiteName, item: &'i str) -> Cow<'i, str> {
        let value = json::quote(site);
        let Ok(root) = json::read(item) else {
            return Cow::Borrowed(item);
        };
        let provenance = self.provenance.as_ref();
        let mut edits: Vec<Edit> = provenance
            .and_then(|pointer| self.provenance_edit(item, root, pointer, &value))
            .into_iter()
            .collect();
        if let Some(cells) = &self.cells
            && let Ok(found) = json::find(root, cells)
        {
            edits.extend(appended(item, found, &value));
        }
        edit::apply(item, edits)
    }

    /// None for items whose document is no object, and for those that already have something there, which is not
    /// the agent's to change.
    fn provenance_edit(&self, item: &str, root: &RawValue, pointer: &Pointer, value: &str) -> Option<Edit> {
        let found = json::find(root, pointer).ok()?;
        let Found::Missing { holder, step } = found else {
            return None;
        };
        let depth = self.document.steps().len();
        let is_inside = step > depth || (step == depth && json::is_object(holder));
        is_inside
            .then(|| edit::put_where(item, pointer, found, value).ok())
            .flatten()
    }
}

/// The edit that adds an element to an array; none where there is no array.
fn appended(text: &str, found: Found<'_>, value: &str) -> Option<Edit> {
    let Found::Value(array) = found else { return None };
    if !json::is_array(array) {
        return None;
    }
    let end = json::range_in(text, array).end - 1;
    let is_empty = array.get()[1..].trim_start().starts_with(']');
    let comma = if is_empty { "" } else { "," };
    Some((end..end, format!("{comma}{value}")))
}

fn array<'i>(marks: &Marks, items: impl Iterator<Item = (&'i SiteName, &'i str)>) -> String {
    let mut array = "[".to_owned();
    for (place, (site, item)) in items.enumerate() {
        if place > 0 {
            array.push(',');
        }
        array.push_str(&marks.put(site, item));
    }
    array.push(']');
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(document: &str, provenance: Option<&str>, cells: Option<&str>) -> Marks {
        let pointer = |text| Pointer::parse(text).unwrap();
        let document = pointer(document);
        Marks {
            provenance: provenance.map(|provenance| document.with(&pointer(provenance))),
            document,
            cells: cells.map(pointer),
            column: None,
        }
    }

    fn check(marks: &Marks, item: &str, expect: &str) {
        let site = SiteName::new("paris").unwrap();
        assert_eq!(array(marks, [(&site, item)].into_iter()), format!("[{expect}]"));
    }

    #[test]
    fn objects_tell_their_site_and_nothing_else_changes() {
        let member = marks("", Some("/@site"), None);
        for (item, expect) in [
            (r#"{"a": 1.50}"#, r#"{"a": 1.50,"@site":"paris"}"#),
            ("{}", r#"{"@site":"paris"}"#),
            (r#"{"@site":"rome"}"#, r#"{"@site":"rome"}"#),
            (r#"{"in":{"@site":1}}"#, r#"{"in":{"@site":1},"@site":"paris"}"#),
            ("12345678901234567890.10", "12345678901234567890.10"),
            (r#""{}""#, r#""{}""#),
            ("null", "null"),
        ] {
            check(&member, item, expect);
        }
        check(&marks("", None, None), "{}", "{}");
    }

    #[test]
    fn a_site_may_be_told_further_inside() {
        let annotation = marks("", Some("/metadata/annotations/cheops~1site"), None);
        for (item, expect) in [
            (
                r#"{"metadata":{"name":"a"}}"#,
                r#"{"metadata":{"name":"a","annotations":{"cheops/site":"paris"}}}"#,
            ),
            (
                r#"{"metadata":{"annotations":{"a":"b"}}}"#,
                r#"{"metadata":{"annotations":{"a":"b","cheops/site":"paris"}}}"#,
            ),
            (
                r#"{"metadata":{"annotations":null}}"#,
                r#"{"metadata":{"annotations":{"cheops/site":"paris"}}}"#,
            ),
            (r#"{"metadata":"x"}"#, r#"{"metadata":"x"}"#),
        ] {
            check(&annotation, item, expect);
        }
    }

    #[test]
    fn rows_of_a_table_tell_it_in_their_last_cell() {
        let row = marks("/object", Some("/metadata/site"), Some("/cells"));
        for (item, expect) in [
            (
                r#"{"cells":["a", 1 ],"object":{"metadata":{}}}"#,
                r#"{"cells":["a", 1 ,"paris"],"object":{"metadata":{"site":"paris"}}}"#,
            ),
            (
                r#"{"cells":[],"object":null}"#,
                r#"{"cells":["paris"],"object":null}"#,
            ),
            (r#"{"object":{}}"#, r#"{"object":{"metadata":{"site":"paris"}}}"#),
        ] {
            check(&row, item, expect);
        }
    }
}
