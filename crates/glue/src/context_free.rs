//! Requests that belong to no workflow.

use crate::{
    NotJson, Pointer, edit,
    json::{self, Found},
};

/// A request that belongs to no workflow: what it does is the same whoever asks, and for whatever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFree {
    /// Whether the last good answer stands in while the service gives none.
    pub is_remembered: bool,
    /// What tells the workflow that it is asked for after all.
    pub workflow: Option<ByCredential>,
    /// What in the answer is each site's own, whoever gives the rest.
    pub site_owned: Vec<Pointer>,
}

impl ContextFree {
    /// What of an answer is the site's own, alone; none when there is nothing.
    pub fn own_part(&self, answer: &[u8]) -> Result<Option<String>, NotJson> {
        let (_, root) = edit::parse(answer)?;
        let mut own = "{}".to_owned();
        let mut has_any = false;
        for pointer in &self.site_owned {
            if let Found::Value(value) = json::find(root, pointer)? {
                let put = edit::put(&own, pointer, value.get())?;
                own = edit::apply(&own, vec![put]).into_owned();
                has_any = true;
            }
        }
        Ok(has_any.then_some(own))
    }

    /// Another site's answer with this site's own part in place of that site's.
    pub fn with_own_part(&self, answer: &[u8], own: &str) -> Result<String, NotJson> {
        let (text, root) = edit::parse(answer)?;
        let own = json::read(own)?;
        let mut edits = Vec::new();
        for pointer in &self.site_owned {
            if let Found::Value(theirs) = json::find(root, pointer)?
                && let Found::Value(ours) = json::find(own, pointer)?
            {
                edits.push((json::range_in(text, theirs), ours.get().to_owned()));
            }
        }
        Ok(edit::apply(text, edits).into_owned())
    }
}

/// A request that is about the credential of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByCredential {
    /// The header of this request that has the credential, in lower case.
    pub header: String,
    /// The header in which the request that began the workflow brought it, in lower case.
    pub credential: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pointers: &[&str]) -> ContextFree {
        let pointers = pointers.iter().map(|text| Pointer::parse(text).unwrap());
        ContextFree {
            is_remembered: false,
            workflow: None,
            site_owned: pointers.collect(),
        }
    }

    #[test]
    fn a_sites_own_part_takes_the_place_of_anothers() {
        let rule = rule(&["/token/catalog", "/region"]);
        let theirs = br#"{"token": {"user":"u", "catalog":[{"url":"two"}] ,"n":1.0}}"#;
        let ours = br#"{"token":{"catalog":[{"url": "one"}],"user":"other"},"region":"here"}"#;
        let own = rule.own_part(ours).unwrap().unwrap();
        assert_eq!(own, r#"{"token":{"catalog":[{"url": "one"}]},"region":"here"}"#);
        assert_eq!(
            rule.with_own_part(theirs, &own).unwrap(),
            r#"{"token": {"user":"u", "catalog":[{"url": "one"}] ,"n":1.0}}"#
        );
    }

    #[test]
    fn an_answer_may_have_no_part_of_its_site() {
        let rule = rule(&["/token/catalog"]);
        assert_eq!(rule.own_part(b"{\"token\":{}}"), Ok(None));
        assert_eq!(rule.own_part(b"[1]"), Ok(None));
        assert!(rule.own_part(b"<html>").is_err());
    }
}
