//! What a service passes on from a request to the calls that it makes for it.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use http::{HeaderMap, HeaderName, HeaderValue};

/// W3C Trace Context: `version-trace id-span id-flags`.
const TRACEPARENT: &str = "traceparent";

/// The header fields that are passed on. `traceparent` gets a span id of the service's own, as an
/// instrumented service does; others are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carry(Vec<HeaderName>);

/// A text that does not say what to pass on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a header name: use `none`, `all` or header names separated by commas")]
pub struct InvalidCarry(String);

impl Carry {
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Everything that tools for tracing and routing are known to pass on.
    pub fn all() -> Self {
        Self(
            [TRACEPARENT, "tracestate", "baggage", "x-scope"]
                .map(HeaderName::from_static)
                .into(),
        )
    }

    pub(crate) fn select(&self, incoming: &HeaderMap) -> HeaderMap {
        let mut outgoing = HeaderMap::new();
        for name in &self.0 {
            for value in incoming.get_all(name) {
                let value = if name == TRACEPARENT {
                    child_of(value)
                } else {
                    value.clone()
                };
                outgoing.append(name, value);
            }
        }
        outgoing
    }
}

impl Default for Carry {
    fn default() -> Self {
        Self(vec![HeaderName::from_static(TRACEPARENT)])
    }
}

impl FromStr for Carry {
    type Err = InvalidCarry;

    fn from_str(text: &str) -> Result<Self, InvalidCarry> {
        match text {
            "none" => Ok(Self::none()),
            "all" => Ok(Self::all()),
            names => names
                .split(',')
                .map(|name| name.trim().parse().map_err(|_| InvalidCarry(name.to_owned())))
                .collect::<Result<_, _>>()
                .map(Self),
        }
    }
}

/// The same trace with a new span. What is not a traceparent is passed on as it is.
fn child_of(parent: &HeaderValue) -> HeaderValue {
    let child = parent.to_str().ok().and_then(|text| {
        let mut parts = text.splitn(4, '-');
        let (version, trace, _span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        HeaderValue::try_from(format!("{version}-{trace}-{:016x}-{flags}", new_span_id())).ok()
    });
    child.unwrap_or_else(|| parent.clone())
}

/// Unlikely to have been used by anyone, and not zero, which W3C forbids.
fn new_span_id() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new()
        .hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn selected(carry: &str) -> HeaderMap {
        let mut incoming = HeaderMap::new();
        incoming.insert("traceparent", PARENT.parse().unwrap());
        incoming.insert("tracestate", "a=1".parse().unwrap());
        incoming.append("x-scope", "here".parse().unwrap());
        incoming.append("x-scope", "there".parse().unwrap());
        incoming.insert("authorization", "secret".parse().unwrap());
        carry.parse::<Carry>().unwrap().select(&incoming)
    }

    #[test]
    fn passes_on_what_was_asked_for() {
        let names = |carry: &str| {
            let headers = selected(carry);
            let mut names: Vec<_> = headers.keys().map(ToString::to_string).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(names("none"), "");
        assert_eq!(names("all"), "traceparent tracestate x-scope");
        assert_eq!(names("X-Scope, tracestate"), "tracestate x-scope");
        assert_eq!(selected("x-scope").get_all("x-scope").iter().count(), 2);
    }

    #[test]
    fn keeps_the_trace_and_changes_the_span() {
        let headers = selected("traceparent");
        let child: Vec<_> = headers["traceparent"].to_str().unwrap().split('-').collect();
        let parent: Vec<_> = PARENT.split('-').collect();
        assert_eq!((child[0], child[1], child[3]), (parent[0], parent[1], parent[3]));
        assert_eq!(child[2].len(), 16);
        assert_ne!(child[2], parent[2]);
    }

    #[test]
    fn refuses_what_is_no_header_name() {
        assert!("a b".parse::<Carry>().is_err());
        assert!("".parse::<Carry>().is_err());
    }
}
