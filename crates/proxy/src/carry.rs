//! Putting a workflow's key where the application passes it on, and finding it again.

use cheops_glue::Carrier;
use cheops_types::headers;
use http::{HeaderMap, HeaderName, HeaderValue, header::AsHeaderName};

use crate::correlation::{Correlation, Workflow};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
const SCOPE: HeaderName = HeaderName::from_static(headers::SCOPE);
/// The member of `tracestate` and `baggage` that holds a key.
const KEY_MEMBER: &str = "cheops";
/// The member of `tracestate` that names the trace of the caller, which the key replaced.
const LINK_MEMBER: &str = "cheops-link";

/// A parsed `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trace {
    id: u128,
    span: u64,
    flags: u8,
}

impl Trace {
    fn parse(value: &HeaderValue) -> Option<Self> {
        let text = value.to_str().ok()?;
        let mut parts = text.split('-');
        let version = parts.next().filter(|v| v.len() == 2 && *v != "ff")?;
        let id = hex(parts.next()?, 32)?;
        let span = hex(parts.next()?, 16)? as u64;
        let flags = hex(parts.next()?, 2)? as u8;
        let is_whole = version != "00" || parts.next().is_none();
        (is_whole && id != 0 && span != 0).then_some(Self { id, span, flags })
    }

    fn print(self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.id, self.span, self.flags)
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex {
        u128::from_str_radix(text, 16).ok()
    } else {
        None
    }
}

/// Writes a workflow's key and scope into every header that the application may pass on.
pub(crate) fn write(headers: &mut HeaderMap, workflow: &Workflow, carriers: &[Carrier]) {
    headers.remove(SCOPE);
    for carrier in carriers {
        match carrier {
            Carrier::ScopeHeader => {
                if let Ok(value) = HeaderValue::from_str(&workflow.carried.text) {
                    headers.insert(SCOPE, value);
                }
            }
            Carrier::Traceparent => write_trace(headers, workflow.key),
            Carrier::Tracestate => {
                put_member(headers, TRACESTATE, KEY_MEMBER, &format!("{:032x}", workflow.key));
                // Without a parent the state would be ignored.
                if !headers.contains_key(TRACEPARENT) {
                    write_trace(headers, workflow.key);
                }
            }
            Carrier::Baggage => put_member(headers, BAGGAGE, KEY_MEMBER, &format!("{:032x}", workflow.key)),
            Carrier::Header { name, format } => write_header(headers, name, format.write(workflow.key)),
        }
    }
}

/// The key becomes the request's id. One that the caller chose would be another workflow's too if the caller
/// used it twice; the log tells which key took its place.
fn write_header(headers: &mut HeaderMap, name: &str, id: String) {
    let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(id)) else {
        return;
    };
    let callers = headers.insert(name, value.clone());
    if let Some(callers) = callers.filter(|callers| *callers != value) {
        tracing::debug!(id = ?value, replaced = ?callers, "a workflow has an id of its own");
    }
}

/// The key becomes the trace id. A trace id of the caller's own is never a key: another request of
/// the same trace, with another scope or none, may be under way. It is linked instead.
fn write_trace(headers: &mut HeaderMap, key: u128) {
    let callers = headers.get(TRACEPARENT).and_then(Trace::parse);
    if callers.is_some_and(|trace| trace.id == key) {
        return;
    }
    let (span, flags) = callers.map_or(((key >> 64) as u64 | 1, 0), |trace| (trace.span, trace.flags));
    let trace = Trace { id: key, span, flags };
    if let Ok(value) = HeaderValue::try_from(trace.print()) {
        headers.insert(TRACEPARENT, value);
    }
    if let Some(callers) = callers {
        put_member(headers, TRACESTATE, LINK_MEMBER, &format!("{:032x}", callers.id));
    }
}

/// Puts `member=value` in front of a list header, in place of an older one.
fn put_member(headers: &mut HeaderMap, name: HeaderName, member: &str, value: &str) {
    let mut list = format!("{member}={value}");
    for old in members(headers, &name) {
        if old.split('=').next().map(str::trim) != Some(member) {
            list.push(',');
            list.push_str(old);
        }
    }
    if let Ok(value) = HeaderValue::try_from(list) {
        headers.insert(name, value);
    }
}

fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|member| !member.is_empty())
}

/// The first key of ours that a request carries, by the glue's order.
pub(crate) fn find_key(headers: &HeaderMap, carriers: &[Carrier], correlation: &Correlation) -> Option<u128> {
    carriers
        .iter()
        .filter_map(|carrier| read_key(headers, carrier))
        .find(|key| correlation.is_ours(*key))
}

fn read_key(headers: &HeaderMap, carrier: &Carrier) -> Option<u128> {
    let member_key = |name: &HeaderName| {
        members(headers, name).find_map(|member| {
            let (member, value) = member.split_once('=')?;
            if member.trim() == KEY_MEMBER {
                hex(value.split(';').next()?.trim(), 32)
            } else {
                None
            }
        })
    };
    match carrier {
        Carrier::ScopeHeader => None,
        Carrier::Traceparent => headers
            .get(TRACEPARENT)
            .and_then(Trace::parse)
            .map(|trace| trace.id),
        Carrier::Tracestate => member_key(&TRACESTATE),
        Carrier::Baggage => member_key(&BAGGAGE),
        Carrier::Header { name, format } => headers
            .get(name.as_str())
            .and_then(|value| value.to_str().ok())
            .and_then(|text| format.read(text)),
    }
}

/// Takes keys of ours off a request of a user or a peer, who cannot have got one honestly. Every value
/// is looked at: an application may read another one than this agent would.
pub(crate) fn strip_keys(headers: &mut HeaderMap, carriers: &[Carrier], correlation: &Correlation) {
    for carrier in carriers {
        match carrier {
            Carrier::ScopeHeader => {}
            Carrier::Tracestate => strip_member(headers, TRACESTATE),
            Carrier::Baggage => strip_member(headers, BAGGAGE),
            Carrier::Traceparent => {
                let id = |value: &HeaderValue| Trace::parse(value).map(|trace| trace.id);
                strip_header(headers, &TRACEPARENT, correlation, id);
            }
            Carrier::Header { name, format } => {
                // Most requests have none; to compare the names is cheaper than to look one up by its text.
                if headers.keys().any(|header| header.as_str() == name) {
                    let key = |value: &HeaderValue| format.read(value.to_str().ok()?);
                    strip_header(headers, name.as_str(), correlation, key);
                }
            }
        }
    }
}

fn strip_header(
    headers: &mut HeaderMap,
    name: impl AsHeaderName + Copy,
    correlation: &Correlation,
    key: impl Fn(&HeaderValue) -> Option<u128>,
) {
    let is_ours = |value| key(value).is_some_and(|key| correlation.is_ours(key));
    if headers.get_all(name).iter().any(is_ours) {
        headers.remove(name);
    }
}

/// The member is this agent's alone, whatever its value and however it is written.
fn strip_member(headers: &mut HeaderMap, name: HeaderName) {
    if !headers.contains_key(&name) {
        return;
    }
    let is_ours = |member: &str| {
        let key = member.split('=').next().unwrap_or_default().trim();
        key == KEY_MEMBER || key.contains('%')
    };
    if !members(headers, &name).any(is_ours) {
        return;
    }
    let kept: Vec<&str> = members(headers, &name)
        .filter(|member| !is_ours(member))
        .collect();
    let kept = kept.join(",");
    headers.remove(&name);
    if let Ok(value) = HeaderValue::try_from(kept)
        && !value.is_empty()
    {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cheops_glue::KeyFormat;
    use cheops_scope::{ParseLimits, parse};

    use super::*;
    use crate::{
        KeyMaker,
        correlation::{Carried, Lasting},
    };

    fn begin(correlation: &Correlation, text: &str) -> Arc<Workflow> {
        let scope = parse(
            text,
            &ParseLimits {
                max_bytes: 100,
                max_depth: 4,
            },
        )
        .unwrap();
        correlation
            .begin(Carried::new(scope), Lasting::Write, 10)
            .unwrap()
    }

    #[test]
    fn the_callers_trace_is_replaced_and_linked() {
        let correlation = Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]));
        let workflow = begin(&correlation, "B: site2");
        let mut headers = HeaderMap::new();
        let callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        headers.insert(TRACEPARENT, HeaderValue::from_static(callers));
        headers.insert(TRACESTATE, HeaderValue::from_static("other=1"));
        write(&mut headers, &workflow, &[Carrier::Traceparent]);
        let written = headers[TRACEPARENT].to_str().unwrap();
        assert_eq!(written, format!("00-{:032x}-b7ad6b7169203331-01", workflow.key));
        assert_eq!(
            headers[TRACESTATE],
            "cheops-link=0af7651916cd43dd8448eb211c80319c,other=1"
        );
        assert_eq!(
            find_key(&headers, &[Carrier::Traceparent], &correlation),
            Some(workflow.key)
        );
    }

    #[test]
    fn a_foreign_key_is_no_key_and_ours_is_taken_off_users() {
        let correlation = Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]));
        let carriers = [Carrier::Tracestate, Carrier::Traceparent, Carrier::Baggage];
        let mut headers = HeaderMap::new();
        headers.insert(
            TRACEPARENT,
            HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        );
        assert_eq!(find_key(&headers, &carriers, &correlation), None);
        strip_keys(&mut headers, &carriers, &correlation);
        assert!(headers.contains_key(TRACEPARENT));
        write(&mut headers, &begin(&correlation, "B: site2"), &carriers);
        let key = headers[TRACEPARENT].clone();
        strip_keys(&mut headers, &carriers, &correlation);
        assert_eq!(find_key(&headers, &carriers, &correlation), None);
        // Not the first value, and not the only member.
        headers.insert(
            TRACEPARENT,
            HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        );
        headers.append(TRACEPARENT, key);
        headers.insert(TRACESTATE, HeaderValue::from_static("a=1,cheops=0,b=2,cheops=1"));
        strip_keys(&mut headers, &carriers, &correlation);
        assert!(!headers.contains_key(TRACEPARENT));
        assert_eq!(headers[TRACESTATE], "a=1,b=2");
    }

    #[test]
    fn an_id_of_ours_is_taken_off_users_in_every_value() {
        let correlation = Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]));
        let format = KeyFormat::default();
        let ours = format.write(begin(&correlation, "B: site2").key);
        let carriers = [Carrier::Header {
            name: "x-request-id".to_owned(),
            format,
        }];
        let foreign = HeaderValue::from_static("0af76519-16cd-43dd-8448-eb211c80319c");
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", foreign);
        strip_keys(&mut headers, &carriers, &correlation);
        assert!(headers.contains_key("x-request-id"));
        headers.append("x-request-id", HeaderValue::try_from(ours).unwrap());
        strip_keys(&mut headers, &carriers, &correlation);
        assert!(!headers.contains_key("x-request-id"));
    }
}
