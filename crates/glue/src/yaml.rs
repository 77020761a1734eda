//! Bodies in YAML. They leave as JSON, which is YAML too: whoever takes the one takes the other.

use std::borrow::Cow;

use serde_json::Value;

use crate::{NotJson, json};

/// Whether a content type says that a body is YAML.
pub fn is_yaml(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    let is_one = |name: &str| subtype.eq_ignore_ascii_case(name);
    is_one("yaml") || is_one("x-yaml") || subtype.to_ascii_lowercase().ends_with("+yaml")
}

/// The same document as JSON; the same bytes where it is JSON already, whatever its type says.
pub fn json_of_yaml(body: &[u8]) -> Result<Cow<'_, [u8]>, NotJson> {
    let text = std::str::from_utf8(body).map_err(|error| NotJson(format!("it is not text: {error}")))?;
    if json::read(text).is_ok() {
        return Ok(Cow::Borrowed(body));
    }
    // The first line of a report says it; the rest is for terminals.
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        let report = error.to_string();
        NotJson(format!(
            "it is not YAML: {}",
            report.lines().next().unwrap_or_default()
        ))
    })?;
    Ok(Cow::Owned(value.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_mean_yaml() {
        for yaml in [
            "application/yaml",
            "text/x-yaml; charset=utf-8",
            "application/apply-patch+YAML",
        ] {
            assert!(is_yaml(yaml), "{yaml}");
        }
        for other in ["application/json", "yaml", "application/yamlish", ""] {
            assert!(!is_yaml(other), "{other}");
        }
    }

    #[test]
    fn one_document_becomes_json() {
        let json =
            |yaml: &str| json_of_yaml(yaml.as_bytes()).map(|json| String::from_utf8(json.into()).unwrap());
        assert_eq!(
            json("metadata:\n  name: web # a comment\nspec: {replicas: 2, on: [yes, 'yes', ~]}\n").unwrap(),
            r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"on":[true,"yes",null]}}"#
        );
        let as_it_is = " {\"a\": 1.50}\n";
        assert_eq!(json(as_it_is).unwrap(), as_it_is);
        for bad in ["a: [1", "a: 1\n---\nb: 2\n", "a: 1\na: 2\n", "a: *x\n"] {
            assert!(json(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_small_text_cannot_become_a_huge_one() {
        let line = |level: usize| {
            let inner = match level {
                0 => "x".to_owned(),
                level => format!("*a{}", level - 1),
            };
            format!("a{level}: &a{level} [{}]\n", vec![inner; 9].join(","))
        };
        let bomb: String = (0..12).map(line).collect();
        assert!(json_of_yaml(bomb.as_bytes()).is_err());
    }
}
