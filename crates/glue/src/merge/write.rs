//! Writing a merged page into the first site's answer, which stays as it is around the items and the
//! token.

use std::ops::Range;

use cheops_types::SiteName;

use super::MergeError;
use crate::{
    ListPage, ListShape, Pointer,
    json::{self, Found},
};

/// `items` are texts of JSON with the sites that they come from.
pub(super) fn page<'i>(
    shape: &ListShape,
    envelope: &ListPage,
    next: Option<&str>,
    items: impl Iterator<Item = (&'i SiteName, &'i str)>,
) -> Result<Vec<u8>, MergeError> {
    let text = envelope.text();
    let mut edits = vec![(envelope.array(), array(shape.provenance.as_deref(), items))];
    // Without a further page the first site had none either, and shows it in its own way.
    if let (Some(next), Some(paging)) = (next, &shape.paging) {
        edits.push(token(text, &paging.next, next)?);
    }
    edits.sort_by_key(|(range, _)| range.start);
    let added: usize = edits.iter().map(|(_, new)| new.len()).sum();
    let mut body = Vec::with_capacity(text.len() + added);
    let mut done = 0;
    for (range, new) in edits {
        body.extend_from_slice(&text.as_bytes()[done..range.start]);
        body.extend_from_slice(new.as_bytes());
        done = range.end;
    }
    body.extend_from_slice(&text.as_bytes()[done..]);
    Ok(body)
}

fn array<'i>(provenance: Option<&str>, items: impl Iterator<Item = (&'i SiteName, &'i str)>) -> String {
    let mut array = "[".to_owned();
    for (place, (site, item)) in items.enumerate() {
        if place > 0 {
            array.push(',');
        }
        match provenance.and_then(|member| provenance_for(member, site, item)) {
            Some(member) => {
                array.push_str(&item[..item.len() - 1]);
                array.push_str(&member);
                array.push('}');
            }
            None => array.push_str(item),
        }
    }
    array.push(']');
    array
}

/// The text that tells an item's site, to be put before its closing brace; none for items that are not
/// objects and for those that already have such a member, which is not the agent's to change.
fn provenance_for(member: &str, site: &SiteName, item: &str) -> Option<String> {
    let object = json::read(item).ok().filter(|item| json::is_object(item))?;
    if json::member(object, member).ok()?.is_some() {
        return None;
    }
    let comma = if json::is_empty(object) { "" } else { "," };
    Some(format!("{comma}{}:{}", json::quote(member), json::quote(site)))
}

/// The edit that puts a token where the application tells its next page, together with the objects
/// around it that are missing.
fn token(text: &str, pointer: &Pointer, token: &str) -> Result<(Range<usize>, String), MergeError> {
    let broken = |reason: String| MergeError::Envelope(reason);
    let root = json::read(text).map_err(|error| broken(error.to_string()))?;
    let token = json::quote(token);
    match json::find(root, pointer).map_err(|error| broken(error.to_string()))? {
        Found::Value(value) => Ok((json::range_in(text, value), token)),
        Found::Missing { holder, step } => {
            let names = pointer.steps()[step..]
                .iter()
                .map(|name| format!("{}:", json::quote(name)));
            let names: Vec<_> = names.collect();
            let member = format!("{}{token}{}", names.join("{"), "}".repeat(names.len() - 1));
            let range = json::range_in(text, holder);
            if !json::is_object(holder) {
                return Ok((range, format!("{{{member}}}")));
            }
            let comma = if json::is_empty(holder) { "" } else { "," };
            Ok((range.end - 1..range.end - 1, format!("{comma}{member}")))
        }
        Found::Blocked => Err(broken(format!("there is no place for a token at `{pointer}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_token(text: &str, pointer: &str) -> String {
        let (range, new) = token(text, &Pointer::parse(pointer).unwrap(), "T\"").unwrap();
        format!("{}{new}{}", &text[..range.start], &text[range.end..])
    }

    #[test]
    fn a_token_finds_its_place() {
        for (text, pointer, expect) in [
            (r#"{"next": "a", "x":1}"#, "/next", r#"{"next": "T\"", "x":1}"#),
            (r#"{"next":null}"#, "/next", r#"{"next":"T\""}"#),
            (r#"{"x":1 }"#, "/next", r#"{"x":1 ,"next":"T\""}"#),
            ("{ }", "/next", r#"{ "next":"T\""}"#),
            (
                r#"{"m":{"v":1}}"#,
                "/m/continue",
                r#"{"m":{"v":1,"continue":"T\""}}"#,
            ),
            (r#"{"m":null}"#, "/m/continue", r#"{"m":{"continue":"T\""}}"#),
            (r#"{"x":1}"#, "/a/b/c", r#"{"x":1,"a":{"b":{"c":"T\""}}}"#),
        ] {
            assert_eq!(with_token(text, pointer), expect);
        }
        let blocked = token(r#"{"m":3}"#, &Pointer::parse("/m/continue").unwrap(), "T");
        assert!(matches!(blocked, Err(MergeError::Envelope(_))));
    }

    #[test]
    fn objects_tell_their_site_and_nothing_else_changes() {
        let site = SiteName::new("paris").unwrap();
        for (item, expect) in [
            (r#"{"a": 1.50}"#, r#"[{"a": 1.50,"@site":"paris"}]"#),
            ("{}", r#"[{"@site":"paris"}]"#),
            (r#"{"@site":"rome"}"#, r#"[{"@site":"rome"}]"#),
            (r#"{"in":{"@site":1}}"#, r#"[{"in":{"@site":1},"@site":"paris"}]"#),
            ("12345678901234567890.10", "[12345678901234567890.10]"),
            (r#""{}""#, r#"["{}"]"#),
        ] {
            assert_eq!(array(Some("@site"), [(&site, item)].into_iter()), expect);
        }
        assert_eq!(array(None, [(&site, "{}"), (&site, "1")].into_iter()), "[{},1]");
    }
}
