//! One site's answer as a list.

use std::ops::Range;

use bytes::Bytes;
use cheops_types::SiteName;
use serde_json::value::RawValue;

use crate::{
    Items, Kind, ListShape, Pointer,
    json::{self, Found},
};

/// The names under which lists usually stand.
const USUAL_NAMES: [&str; 6] = ["items", "data", "results", "values", "records", "content"];

/// A page as its site wrote it, with the places of its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    body: Bytes,
    /// The array, or the `null` that stands for an empty one.
    array: Range<usize>,
    items: Vec<Range<usize>>,
    next: Option<String>,
    replicas: Vec<Replica>,
}

/// An item that other sites may list too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replica {
    /// Among the page's items.
    pub(crate) place: usize,
    /// The same at all sites.
    pub(crate) id: String,
    /// Other sites that are known to have one.
    pub(crate) sites: Vec<SiteName>,
}

/// Why an answer cannot take part in a merge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAList {
    #[error("the answer is not JSON: {0}")]
    NotJson(String),
    #[error("the answer has no array at `{0}`")]
    NoArray(Pointer),
    #[error("the answer is one resource, or has several arrays, or none: describe its list in the glue")]
    NoSingleArray,
    #[error("the answer's next page, at `{0}`, is neither text nor a number")]
    Next(Pointer),
}

impl ListPage {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The text of each item.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &str> {
        let text = self.text();
        self.items.iter().map(|range| &text[range.clone()])
    }

    /// The site's own token of its next page, if there is one.
    pub fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Says that an item is a replica, of a kind whose ids in this page are the same at all sites, so that a
    /// merged list shows it once. `sites` are the other sites that are known to have one, so that this holds
    /// across pages too; none need be known. Without an id the item is left as it is.
    pub fn mark(&mut self, kind: &Kind, place: usize, sites: &[SiteName]) {
        self.mark_all(kind, [(place, sites)]);
    }

    /// Like [`ListPage::mark`], for many items at once.
    pub fn mark_all<'s>(&mut self, kind: &Kind, marks: impl IntoIterator<Item = (usize, &'s [SiteName])>) {
        let items: Vec<&str> = self.items().collect();
        let replicas = marks.into_iter().filter_map(|(place, sites)| {
            let id = kind.id_of_item(items.get(place)?)?;
            let sites = sites.to_vec();
            Some(Replica { place, id, sites })
        });
        let replicas: Vec<_> = replicas.collect();
        self.replicas.extend(replicas);
    }

    pub(crate) fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body was read as text")
    }

    pub(crate) fn array(&self) -> Range<usize> {
        self.array.clone()
    }
}

pub(crate) fn read(shape: &ListShape, body: Bytes) -> Result<ListPage, NotAList> {
    let text = std::str::from_utf8(&body).map_err(|error| NotAList::NotJson(error.to_string()))?;
    let root = json::read(text)?;
    let array = match &shape.items {
        Items::At(pointer) => array_at(root, pointer)?,
        Items::Presumed => presumed_array(root, true)?,
        Items::Unlikely => presumed_array(root, false)?,
    };
    let items = if json::is_array(array) {
        json::elements(array)?
    } else {
        Vec::new()
    };
    let items = items.into_iter().map(|item| json::range_in(text, item)).collect();
    let next = match &shape.paging {
        Some(paging) => next(root, &paging.next)?,
        None => None,
    };
    let array = json::range_in(text, array);
    Ok(ListPage {
        body,
        array,
        items,
        next,
        replicas: Vec::new(),
    })
}

/// Some applications write `null` for an empty list.
fn array_at<'a>(root: &'a RawValue, pointer: &Pointer) -> Result<&'a RawValue, NotAList> {
    match json::find(root, pointer)? {
        Found::Value(value) if json::is_array(value) || value.get() == "null" => Ok(value),
        _ => Err(NotAList::NoArray(pointer.clone())),
    }
}

fn presumed_array(root: &RawValue, any_name: bool) -> Result<&RawValue, NotAList> {
    if json::is_array(root) {
        return Ok(root);
    }
    if !json::is_object(root) {
        return Err(NotAList::NoSingleArray);
    }
    let mut arrays = Vec::new();
    let mut usual = Vec::new();
    let mut has_id = false;
    json::visit_members(root, |name, value| {
        has_id |= name == "id";
        if json::is_array(value) {
            arrays.push(value);
            if USUAL_NAMES.contains(&name) {
                usual.push(value);
            }
        }
    })?;
    match (&*usual, &*arrays) {
        _ if has_id => Err(NotAList::NoSingleArray),
        ([array], _) => Ok(array),
        ([], [array]) if any_name => Ok(array),
        _ => Err(NotAList::NoSingleArray),
    }
}

/// No next page is written as nothing, `null` or an empty text.
fn next(root: &RawValue, pointer: &Pointer) -> Result<Option<String>, NotAList> {
    let value = match json::find(root, pointer)? {
        Found::Value(value) => value.get(),
        Found::Missing { .. } => return Ok(None),
        Found::Blocked => return Err(NotAList::Next(pointer.clone())),
    };
    match value.as_bytes()[0] {
        b'"' => {
            let token: String = serde_json::from_str(value)?;
            Ok(Some(token).filter(|token| !token.is_empty()))
        }
        b'-' | b'0'..=b'9' => Ok(Some(value.to_owned())),
        b'n' => Ok(None),
        _ => Err(NotAList::Next(pointer.clone())),
    }
}

impl From<serde_json::Error> for NotAList {
    fn from(error: serde_json::Error) -> Self {
        Self::NotJson(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paging;

    fn pointer(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    fn described() -> ListShape {
        ListShape {
            paging: Some(Paging {
                limit: None,
                token: "continue".to_owned(),
                next: pointer("/metadata/continue"),
            }),
            ..ListShape::plain(Items::At(pointer("/items")))
        }
    }

    type Seen<'a> = Result<(&'a [&'a str], Option<&'a str>), NotAList>;

    #[allow(clippy::needless_pass_by_value)]
    fn check(shape: &ListShape, body: &str, expect: Seen<'_>) {
        let page = shape.read(Bytes::copy_from_slice(body.as_bytes()));
        let seen = page
            .as_ref()
            .map(|page| (page.items().collect::<Vec<_>>(), page.next()));
        let seen = seen
            .as_ref()
            .map(|(items, next)| (&**items, *next))
            .map_err(|error| (*error).clone());
        assert_eq!(seen, expect, "{body}");
    }

    #[test]
    fn described_lists() {
        let shape = described();
        check(
            &shape,
            r#"{"items":[ 1.0, {"a" : 2}]}"#,
            Ok((&["1.0", r#"{"a" : 2}"#], None)),
        );
        check(&shape, r#"{"items":null,"metadata":null}"#, Ok((&[], None)));
        check(
            &shape,
            r#"{"metadata":{"continue":"a\"b"},"items":[]}"#,
            Ok((&[], Some("a\"b"))),
        );
        check(
            &shape,
            r#"{"metadata":{"continue":""},"items":[]}"#,
            Ok((&[], None)),
        );
        check(
            &shape,
            r#"{"metadata":{"continue":17},"items":[]}"#,
            Ok((&[], Some("17"))),
        );
        check(&shape, r#"{"id":1,"items":[1],"data":[]}"#, Ok((&["1"], None)));
        let no_array = || Err(NotAList::NoArray(pointer("/items")));
        check(&shape, r#"{"items":{}}"#, no_array());
        check(&shape, "[1]", no_array());
        check(&shape, r#""text""#, no_array());
        let bad_next = || Err(NotAList::Next(pointer("/metadata/continue")));
        check(&shape, r#"{"items":[],"metadata":{"continue":true}}"#, bad_next());
        check(&shape, r#"{"items":[],"metadata":3}"#, bad_next());
    }

    #[test]
    fn presumed_lists() {
        let none = || Err(NotAList::NoSingleArray);
        let (likely, unlikely) = (
            ListShape::plain(Items::Presumed),
            ListShape::plain(Items::Unlikely),
        );
        for shape in [&likely, &unlikely] {
            check(shape, " [1, [2]] ", Ok((&["1", "[2]"], None)));
            check(shape, r#"{"data":[1],"links":[2]}"#, Ok((&["1"], None)));
            check(shape, r#"{"data":[1],"items":[2]}"#, none());
            check(shape, r#"{"id":7,"values":[1]}"#, none());
            check(shape, r#"{"a":1}"#, none());
            check(shape, "3", none());
        }
        check(&likely, r#"{"orders":[1],"count":1}"#, Ok((&["1"], None)));
        check(&likely, r#"{"orders":[1],"links":[1]}"#, none());
        check(&unlikely, r#"{"name":"x","tags":[1]}"#, none());
    }

    #[test]
    fn broken_answers_are_not_lists() {
        let shape = described();
        for body in [&b"{"[..], b"", b"\xff", b"<html>", b"{\"items\":[1,]}", b"[1] 2"] {
            let page = shape.read(Bytes::copy_from_slice(body));
            assert!(matches!(page, Err(NotAList::NotJson(_))), "{page:?}");
        }
    }
}
