//! One site's answer as a list.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use bytes::Bytes;
use cheops_types::SiteName;
use serde_json::value::RawValue;

use crate::{
    Items, ListShape, NextStyle, Paging, Pointer,
    json::{self, Found},
    link,
};

/// The names under which lists usually stand.
const USUAL_NAMES: [&str; 6] = ["items", "data", "results", "values", "records", "content"];

/// A page as its site wrote it, with the places of its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    body: Bytes,
    /// The array, or the `null` that stands for an empty one.
    array: Range<usize>,
    items: Vec<TextRange>,
    /// The resource's document in each item, an empty text where an item has none; nothing where the items are
    /// documents.
    documents: Vec<TextRange>,
    /// Which of the shape's forms it has; none is the usual one.
    form: Option<usize>,
    /// How many columns it defines, as a table.
    columns: usize,
    next: Option<String>,
    replicas: Vec<Replica>,
}

/// Where a value stands in a body. An item can be two bytes long, so this decides what a list takes once it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TextRange {
    start: u32,
    end: u32,
}

impl TextRange {
    /// `value` is a part of `text`, of less than 4 GiB.
    fn of(text: &str, value: &RawValue) -> Self {
        let Range { start, end } = json::range_in(text, value);
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Looks at these bytes alone: that the whole body is text was seen when it was read.
    fn within(self, body: &[u8]) -> &str {
        let bytes = &body[self.start as usize..self.end as usize];
        std::str::from_utf8(bytes).expect("the body was read as text")
    }
}

/// An item that other sites may list too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replica {
    /// Among the page's items.
    pub(crate) place: usize,
    pub(crate) kind: Arc<str>,
    /// The same at all sites.
    pub(crate) key: String,
    /// Other sites that are known to have one.
    pub(crate) sites: Arc<[SiteName]>,
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
    #[error("the answer's next page, at `{0}`, cannot be read")]
    Next(Pointer),
    #[error("the answer has more than {max} items")]
    TooManyItems { max: usize },
    #[error("the answer has more bytes than a list can have")]
    TooLong,
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
        self.items.iter().map(|range| range.within(&self.body))
    }

    /// The text of one item.
    pub(crate) fn item(&self, place: usize) -> &str {
        self.items[place].within(&self.body)
    }

    /// The text of each item's document; none where an item has none.
    pub fn documents(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.len()).map(|place| self.document(place))
    }

    /// The text of one item's document; none where there is no such item or it has none.
    pub fn document(&self, place: usize) -> Option<&str> {
        let ranges = if self.documents.is_empty() {
            &self.items
        } else {
            &self.documents
        };
        let document = ranges.get(place)?.within(&self.body);
        (!document.is_empty()).then_some(document)
    }

    /// Whether items of another page can stand among those of this one: both are written in the same form, and
    /// tables have as many columns.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.form, self.columns) == (other.form, other.columns)
    }

    /// The length of its body.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// What the page takes in memory beside its body.
    pub fn parsed_bytes(&self) -> usize {
        let keys: usize = self.replicas.iter().map(|replica| replica.key.capacity()).sum();
        self.items.capacity() * size_of::<TextRange>()
            + self.documents.capacity() * size_of::<TextRange>()
            + self.replicas.capacity() * size_of::<Replica>()
            + keys
            + self.next.as_ref().map_or(0, String::len)
    }

    /// The site's own token of its next page, if there is one.
    pub fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    pub(crate) fn add_replicas(&mut self, replicas: Vec<Replica>) {
        self.replicas.extend(replicas);
    }

    pub(crate) fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// The whole page. Looks at all of it, so it is not for each item.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body was read as text")
    }

    pub(crate) fn form(&self) -> Option<usize> {
        self.form
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn array(&self) -> Range<usize> {
        self.array.clone()
    }
}

impl ListShape {
    /// Reads one site's answer.
    pub fn read(&self, body: Bytes) -> Result<ListPage, NotAList> {
        read(self, body, usize::MAX)
    }

    /// Reads one site's answer if it has so many items at most.
    pub fn read_up_to(&self, body: Bytes, items_max: usize) -> Result<ListPage, NotAList> {
        read(self, body, items_max)
    }
}

fn read(shape: &ListShape, body: Bytes, items_max: usize) -> Result<ListPage, NotAList> {
    if u32::try_from(body.len()).is_err() {
        return Err(NotAList::TooLong);
    }
    let text = std::str::from_utf8(&body).map_err(|error| NotAList::NotJson(error.to_string()))?;
    let root = json::read(text)?;
    let usual = match &shape.items {
        Items::At(pointer) => array_at(root, pointer),
        Items::Presumed => presumed_array(root, true),
        Items::Unlikely => presumed_array(root, false),
    };
    let (array, form) = match usual {
        Ok(array) => (array, None),
        Err(error) => in_other_form(shape, root)?.ok_or(error)?,
    };
    let (items, documents) = items(text, array, shape.document_of(form), items_max)?;
    let column = form.and_then(|form| shape.forms[form].column.as_ref());
    let columns = match column {
        Some(column) => count_at(root, &column.definitions)?,
        None => 0,
    };
    let next = match &shape.paging {
        Some(paging) => next(root, paging)?,
        None => None,
    };
    let array = json::range_in(text, array);
    Ok(ListPage {
        body,
        array,
        items,
        documents,
        form,
        columns,
        next,
        replicas: Vec::new(),
    })
}

/// Where the items of an array stand, and the document in each of them.
fn items(
    text: &str,
    array: &RawValue,
    document: &Pointer,
    items_max: usize,
) -> Result<(Vec<TextRange>, Vec<TextRange>), NotAList> {
    let (mut items, mut documents) = (Vec::new(), Vec::new());
    if !json::is_array(array) {
        return Ok((items, documents));
    }
    let mut found = Ok(());
    let is_whole = json::visit_elements(array, |item| {
        if items.len() == items_max {
            return ControlFlow::Break(());
        }
        items.push(TextRange::of(text, item));
        if !document.is_root() {
            match document_in(item, document) {
                Ok(inner) => {
                    documents.push(inner.map_or_else(TextRange::default, |inner| TextRange::of(text, inner)));
                }
                Err(error) => {
                    found = Err(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    found?;
    if !is_whole {
        return Err(NotAList::TooManyItems { max: items_max });
    }
    items.shrink_to_fit();
    documents.shrink_to_fit();
    Ok((items, documents))
}

/// The first form that the answer has, with its items.
fn in_other_form<'a>(
    shape: &ListShape,
    root: &'a RawValue,
) -> Result<Option<(&'a RawValue, Option<usize>)>, serde_json::Error> {
    for (place, form) in shape.forms.iter().enumerate() {
        if let Found::Value(array) = json::find(root, &form.items)?
            && (json::is_array(array) || array.get() == "null")
        {
            return Ok(Some((array, Some(place))));
        }
    }
    Ok(None)
}

fn document_in<'a>(item: &'a RawValue, pointer: &Pointer) -> Result<Option<&'a RawValue>, serde_json::Error> {
    match json::find(item, pointer)? {
        Found::Value(document) if json::is_object(document) => Ok(Some(document)),
        _ => Ok(None),
    }
}

fn count_at(root: &RawValue, pointer: &Pointer) -> Result<usize, serde_json::Error> {
    match json::find(root, pointer)? {
        Found::Value(array) if json::is_array(array) => {
            let mut count = 0;
            json::visit_elements(array, |_| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            Ok(count)
        }
        _ => Ok(0),
    }
}

/// Some applications write `null` for an empty list.
fn array_at<'a>(root: &'a RawValue, pointer: &Pointer) -> Result<&'a RawValue, NotAList> {
    match json::find(root, pointer)? {
        Found::Value(value) if json::is_array(value) || value.get() == "null" => Ok(value),
        _ => Err(NotAList::NoArray(pointer.clone())),
    }
}

/// What is there once, if it is.
#[derive(Clone, Copy)]
enum Only<T> {
    None,
    One(T),
    Several,
}

impl<T> Only<T> {
    fn add(&mut self, one: T) {
        *self = match self {
            Self::None => Self::One(one),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

fn presumed_array(root: &RawValue, any_name: bool) -> Result<&RawValue, NotAList> {
    if json::is_array(root) {
        return Ok(root);
    }
    if !json::is_object(root) {
        return Err(NotAList::NoSingleArray);
    }
    let (mut arrays, mut usual) = (Only::None, Only::None);
    let mut has_id = false;
    json::visit_members(root, |name, value| {
        has_id |= name == "id";
        if json::is_array(value) {
            arrays.add(value);
            if USUAL_NAMES.contains(&name) {
                usual.add(value);
            }
        }
    })?;
    match (usual, arrays) {
        _ if has_id => Err(NotAList::NoSingleArray),
        (Only::One(array), _) => Ok(array),
        (Only::None, Only::One(array)) if any_name => Ok(array),
        _ => Err(NotAList::NoSingleArray),
    }
}

/// No next page is written as nothing, `null`, an empty text or a list without such a link.
fn next(root: &RawValue, paging: &Paging) -> Result<Option<String>, NotAList> {
    let unreadable = || NotAList::Next(paging.next.clone());
    let value = match json::find(root, &paging.next)? {
        Found::Value(value) => value,
        Found::Missing { .. } => return Ok(None),
        Found::Blocked => return Err(unreadable()),
    };
    let text = value.get();
    match (paging.style, text.as_bytes()[0]) {
        (_, b'n') => Ok(None),
        (NextStyle::Token, b'"') => {
            let token: String = serde_json::from_str(text)?;
            Ok(Some(token).filter(|token| !token.is_empty()))
        }
        (NextStyle::Token, b'-' | b'0'..=b'9') => Ok(Some(text.to_owned())),
        (NextStyle::Link | NextStyle::Links, b'"' | b'[') => match link::url_at(value)? {
            Some(url) => link::parameter(&url, &paging.token)
                .map(Some)
                .ok_or_else(unreadable),
            None => Ok(None),
        },
        _ => Err(unreadable()),
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

    fn pointer(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    fn described() -> ListShape {
        ListShape {
            paging: Some(Paging {
                style: NextStyle::Token,
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

    /// A list of the shortest items takes a fixed number of bytes for each, and no more of them than are allowed.
    #[test]
    fn a_list_takes_little_more_than_its_text_once_it_is_read() {
        let count = 10_000;
        let text = format!(r#"{{"items":[{}]}}"#, vec!["1"; count].join(","));
        let read = |max| described().read_up_to(Bytes::from(text.clone()), max);
        let page = read(count).unwrap();
        assert_eq!(page.len(), count);
        assert_eq!(page.parsed_bytes(), 8 * count);
        assert_eq!(read(count - 1), Err(NotAList::TooManyItems { max: count - 1 }));
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
