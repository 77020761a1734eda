//! `Prefer` (RFC 7240): how far a caller wants to wait.

use cheops_ports::{Prefer, Told};
use cheops_types::{SiteName, Unreserved};
use http::{HeaderMap, HeaderName, HeaderValue};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// What replication understands of a request's preferences; the first of each kind counts, others are not ours.
pub(crate) fn read(headers: &HeaderMap) -> Prefer {
    let mut prefer = Prefer::default();
    let values = headers
        .get_all(PREFER)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    for preference in values.flat_map(|value| value.split(',')) {
        // Parameters follow behind `;` and none is known.
        let preference = preference.split(';').next().unwrap_or_default();
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "wait" => prefer.wait_s = prefer.wait_s.or_else(|| value.parse().ok()),
            "cheops-held" => prefer.held = prefer.held.or_else(|| value.parse().ok()),
            "respond-async" => prefer.respond_async = true,
            "handling" => prefer.strict |= value.eq_ignore_ascii_case("strict"),
            _ => {}
        }
    }
    prefer
}

/// How something is to span sites: `cheops-weights="site1:3 site2:1"`, `cheops-names=flag`.
pub(crate) fn span(headers: &HeaderMap) -> (Vec<(SiteName, u32)>, Unreserved) {
    let (mut weights, mut unreserved) = (Vec::new(), Unreserved::default());
    let values = headers
        .get_all(PREFER)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    for preference in values.flat_map(|value| value.split(',')) {
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "cheops-weights" => {
                let pairs = value
                    .split_ascii_whitespace()
                    .filter_map(|pair| pair.split_once(':'));
                let read = pairs
                    .filter_map(|(site, weight)| Some((SiteName::new(site).ok()?, weight.parse().ok()?)));
                weights = read.collect();
            }
            "cheops-names" if value.eq_ignore_ascii_case("flag") => unreserved = Unreserved::Flag,
            _ => {}
        }
    }
    (weights, unreserved)
}

/// Tells which preferences were honoured. One that could not be is left out; the receipt says why.
pub(crate) fn tell(headers: &mut HeaderMap, prefer: &Prefer, wait_max_s: u64, told: &Told) {
    let mut applied = Vec::new();
    if prefer.respond_async {
        applied.push("respond-async".to_owned());
    }
    if let Some(wait_s) = prefer.wait_s {
        applied.push(format!("wait={}", wait_s.min(wait_max_s)));
        if prefer.strict {
            applied.push("handling=strict".to_owned());
        }
    }
    if let Some(held) = prefer.held.filter(|held| told.held >= *held) {
        applied.push(format!("cheops-held={held}"));
    }
    if !applied.is_empty()
        && let Ok(value) = HeaderValue::try_from(applied.join(", "))
    {
        headers.insert(APPLIED, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expect: Prefer) {
        let headers = values
            .iter()
            .map(|value| (PREFER, HeaderValue::from_str(value).unwrap()))
            .collect();
        assert_eq!(read(&headers), expect, "{values:?}");
    }

    #[test]
    fn reads_what_it_knows() {
        let none = Prefer::default();
        check(&[], none);
        check(&["return=minimal, x"], none);
        check(&["wait=soon"], none);
        let wait = Prefer {
            wait_s: Some(5),
            ..none
        };
        check(&["wait=5"], wait);
        check(&["Wait = \"5\"; a=b", "wait=7"], wait);
        check(
            &["respond-async, cheops-held=2", "handling=Strict"],
            Prefer {
                held: Some(2),
                respond_async: true,
                strict: true,
                ..none
            },
        );
    }

    #[test]
    fn tells_what_was_honoured() {
        let told = |held| Told {
            set: "m".into(),
            operation: None,
            held,
            sites: Vec::new(),
            complete: true,
        };
        let prefer = Prefer {
            wait_s: Some(90),
            held: Some(2),
            strict: true,
            ..Prefer::default()
        };
        let mut headers = HeaderMap::new();
        tell(&mut headers, &prefer, 60, &told(2));
        assert_eq!(headers[APPLIED], "wait=60, handling=strict, cheops-held=2");
        tell(&mut headers, &prefer, 60, &told(1));
        assert_eq!(headers[APPLIED], "wait=60, handling=strict");
        let mut headers = HeaderMap::new();
        tell(&mut headers, &Prefer::default(), 60, &told(1));
        assert!(headers.is_empty());
    }
}
