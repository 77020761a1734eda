//! The form in which sites are asked for lists that are to be merged.

use std::collections::HashSet;

use cheops_types::{Code, Problem};
use http::{HeaderMap, HeaderValue, header::ACCEPT};

const JSON: &str = "application/json";

/// What is asked of the sites for a caller who accepts this: JSON in all its forms, in the caller's order. Text
/// that says the same as JSON is asked for, and given, as JSON.
pub(super) fn for_list(headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return Ok(HeaderValue::from_static(JSON));
    }
    let mut accepted: Vec<String> = Vec::new();
    // A head has room for ten thousands of forms: each is looked up, not compared with all.
    let mut seen = HashSet::new();
    for range in values.flat_map(|value| value.to_str().unwrap_or_default().split(',')) {
        let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
        let kind = kind.trim().to_ascii_lowercase();
        let asked = match &*kind {
            _ if is_refused(parameters) => continue,
            _ if is_json(&kind) => range.trim().to_owned(),
            "*/*" | "application/*" => with_weight(parameters),
            _ if kind.ends_with("yaml") => with_weight(parameters),
            _ => continue,
        };
        if seen.insert(asked.clone()) {
            accepted.push(asked);
        }
    }
    let refused = || {
        Problem::new(
            Code::NotAcceptable,
            format!(
                "a list of several sites is merged and given as JSON: accept `{JSON}` too, or name one site in the scope; nothing executed"
            ),
        )
    };
    if accepted.is_empty() {
        return Err(refused());
    }
    HeaderValue::try_from(accepted.join(",")).map_err(|_| refused())
}

fn is_json(kind: &str) -> bool {
    kind == JSON || kind.ends_with("+json")
}

fn weight(parameters: &str) -> Option<&str> {
    let mut parameters = parameters.split(';').map(str::trim);
    parameters.find_map(|parameter| parameter.strip_prefix("q="))
}

fn is_refused(parameters: &str) -> bool {
    weight(parameters).is_some_and(|weight| weight.bytes().all(|b| matches!(b, b'0' | b'.')))
}

fn with_weight(parameters: &str) -> String {
    weight(parameters).map_or_else(|| JSON.to_owned(), |weight| format!("{JSON};q={weight}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &[&'static str], expect: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        let asked = for_list(&headers);
        if let Err(problem) = &asked {
            assert_eq!(problem.code, Code::NotAcceptable);
        }
        assert_eq!(
            asked.ok().as_ref().map(HeaderValue::as_bytes),
            expect.map(str::as_bytes)
        );
    }

    #[test]
    fn json_is_asked_for() {
        check(&[], Some("application/json"));
        check(&["*/*"], Some("application/json"));
        check(
            &["application/json;as=Table;v=v1, application/json"],
            Some("application/json;as=Table;v=v1,application/json"),
        );
        check(
            &["application/vnd.example.protobuf,application/json;q=0.5"],
            Some("application/json;q=0.5"),
        );
        check(
            &["text/html,application/xml;q=0.9", "*/*;q=0.8"],
            Some("application/json;q=0.8"),
        );
        check(&["application/yaml"], Some("application/json"));
        check(&["application/hal+json"], Some("application/hal+json"));
        check(&["application/vnd.example.protobuf"], None);
        check(&["application/json;q=0.0, text/plain"], None);
        check(&[""], None);
    }
}
