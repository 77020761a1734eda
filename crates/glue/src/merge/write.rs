//! Writing a merged page into the first site's answer, which stays as it is around the items and the
//! token.

use cheops_types::SiteName;

use super::MergeError;
use crate::{ListPage, ListShape, edit, json};

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
        let edit = edit::put(text, &paging.next, &json::quote(next));
        edits.push(edit.map_err(|error| MergeError::Envelope(error.to_string()))?);
    }
    Ok(edit::apply(text, edits).into_owned().into_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

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
