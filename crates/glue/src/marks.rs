//! How items of several sites tell which one they come from.

use std::borrow::Cow;

use cheops_types::SiteName;
use serde_json::value::RawValue;

use crate::{
    ListShape, Pointer,
    edit::{self, Edit},
    json::{self, Found},
};

/// How much longer an item becomes at most when it tells its site.
pub(crate) fn mark_bytes(shape: &ListShape, site: &SiteName) -> usize {
    // Quotes, braces, a colon and a comma for each step of a pointer, and for the cell of a table.
    let steps = |pointer: &Pointer| pointer.steps().iter().map(|step| step.len() + 6).sum::<usize>();
    let provenance = shape.provenance.as_ref().map_or(0, steps);
    provenance + 2 * (site.len() + 6)
}

/// Where an item tells its site.
pub(crate) struct Marks {
    /// Where it has the resource's document.
    document: Pointer,
    /// Where it tells the site in it.
    provenance: Option<Pointer>,
    cells: Option<Pointer>,
    /// Where the answer defines columns, and what is added there.
    column: Option<(Pointer, String)>,
}

impl Marks {
    /// For the items of a list in one of the shape's forms, or in the usual one.
    pub(crate) fn new(shape: &ListShape, form: Option<usize>, is_table: bool) -> Self {
        let document = shape.document_of(form).clone();
        let column = form.and_then(|form| shape.forms[form].column.as_ref());
        let column = column.filter(|_| is_table);
        Self {
            cells: column.map(|column| column.cells.clone()),
            column: column.map(|column| (column.definitions.clone(), column.definition.clone())),
            ..Self::of_document(shape, document)
        }
    }

    /// For something that has the resource's document at this place.
    pub(crate) fn of_document(shape: &ListShape, document: Pointer) -> Self {
        Self {
            provenance: shape.provenance.as_ref().map(|pointer| document.with(pointer)),
            document,
            cells: None,
            column: None,
        }
    }

    /// Where the answer defines columns, and what is added there.
    pub(crate) fn column(&self) -> Option<&(Pointer, String)> {
        self.column.as_ref()
    }

    /// The item with its site; as it is where it cannot tell it.
    fn put<'i>(&self, site: &SiteName, item: &'i str) -> Cow<'i, str> {
        match json::read(item) {
            Ok(root) => edit::apply(item, self.edits(item, root, site)),
            Err(_) => Cow::Borrowed(item),
        }
    }

    /// The edits by which `root`, a part of `text`, tells its site.
    pub(crate) fn edits(&self, text: &str, root: &RawValue, site: &SiteName) -> Vec<Edit> {
        let value = json::quote(site);
        let provenance = self.provenance.as_ref();
        let provenance = provenance.and_then(|pointer| self.provenance_edit(text, root, pointer, &value));
        let cells = self.cells.as_ref().and_then(|cells| {
            let found = json::find(root, cells).ok()?;
            appended(text, found, &value)
        });
        provenance.into_iter().chain(cells).collect()
    }

    /// None for items whose document is no object, and for those that already have something there, which is not
    /// the agent's to change.
    fn provenance_edit(&self, text: &str, root: &RawValue, pointer: &Pointer, value: &str) -> Option<Edit> {
        let found = json::find(root, pointer).ok()?;
        let Found::Missing { holder, step } = found else {
            return None;
        };
        let depth = self.document.steps().len();
        let is_inside = step > depth || (step == depth && json::is_object(holder));
        is_inside
            .then(|| edit::put_where(text, pointer, found, value).ok())
            .flatten()
    }
}

/// The edit that adds an element to an array; none where there is no array.
pub(crate) fn appended(text: &str, found: Found<'_>, value: &str) -> Option<Edit> {
    let Found::Value(array) = found else { return None };
    if !json::is_array(array) {
        return None;
    }
    let end = json::range_in(text, array).end - 1;
    let comma = if json::is_empty(array) { "" } else { "," };
    Some((end..end, format!("{comma}{value}")))
}

/// An array of items that tell their sites. One text: many short items would take more as texts of their own.
#[derive(Default)]
pub(crate) struct Marked(String);

impl Marked {
    pub(crate) fn push(&mut self, marks: &Marks, site: &SiteName, item: &str) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        self.0.push_str(&marks.put(site, item));
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "[]" } else { "]" });
        self.0
    }
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
        let mut marked = Marked::default();
        marked.push(marks, &site, item);
        marked.push(marks, &site, item);
        assert_eq!(marked.finish(), format!("[{expect},{expect}]"));
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
