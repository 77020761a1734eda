//! Putting a workflow's key where the application passes it on, and finding it again.

use bytes::Bytes;
use cheops_glue::Carrier;
use cheops_types::{Limits, headers};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AsHeaderName, Entry},
};

use crate::{
    KeyMaker,
    correlation::{Correlation, Found, Workflow},
    hex,
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
const SCOPE: HeaderName = HeaderName::from_static(headers::SCOPE);
/// The member of `tracestate` and `baggage` that holds a key.
const KEY_MEMBER: &str = "cheops";
/// Between a member's key and the sealed scope.
const SEALED: char = '.';
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
        let mut parts = value.to_str().ok()?.as_bytes().split(|byte| *byte == b'-');
        let version = parts.next().filter(|v| v.len() == 2 && *v != b"ff")?;
        let id = hex::read(parts.next()?, 32)?;
        let span = hex::read(parts.next()?, 16)? as u64;
        let flags = hex::read(parts.next()?, 2)? as u8;
        let is_whole = version != b"00" || parts.next().is_none();
        (is_whole && id != 0 && span != 0).then_some(Self { id, span, flags })
    }

    fn print(self) -> Vec<u8> {
        let mut text = Vec::with_capacity("00-".len() + 32 + "-".len() + 16 + "-".len() + 2);
        text.extend_from_slice(b"00-");
        hex::push(&mut text, self.id, 32);
        text.push(b'-');
        hex::push(&mut text, self.span.into(), 16);
        text.push(b'-');
        hex::push(&mut text, self.flags.into(), 2);
        text
    }
}

/// Writes a workflow's key and scope into every header that the application may pass on.
pub(crate) fn write(
    headers: &mut HeaderMap,
    workflow: &Workflow,
    carriers: &[Carrier],
    correlation: &Correlation,
) {
    if !carriers.contains(&Carrier::ScopeHeader) || workflow.carried.value.is_none() {
        headers.remove(SCOPE);
    }
    let mut is_traced = false;
    for carrier in carriers {
        match carrier {
            Carrier::ScopeHeader => {
                if let Some(value) = &workflow.carried.value {
                    put_scope(headers, value.clone());
                }
            }
            Carrier::Traceparent if is_traced => {}
            Carrier::Traceparent => {
                is_traced = true;
                write_trace(headers, workflow.key);
            }
            Carrier::Tracestate => {
                write_member(headers, TRACESTATE, workflow, correlation);
                // Without a parent the state would be ignored.
                if !is_traced && !headers.contains_key(TRACEPARENT) {
                    is_traced = true;
                    write_trace(headers, workflow.key);
                }
            }
            Carrier::Baggage => write_member(headers, BAGGAGE, workflow, correlation),
            Carrier::Header { name, format } => write_header(headers, name, format.write(workflow.key)),
        }
    }
}

/// A request that brought the scope itself has the header once, which is found faster among the few there are than by its name.
fn put_scope(headers: &mut HeaderMap, scope: HeaderValue) {
    let mut known = headers.iter_mut().filter(|(name, _)| **name == SCOPE);
    if let (Some((_, only)), None) = (known.next(), known.next()) {
        *only = scope;
        return;
    }
    headers.insert(SCOPE, scope);
}

/// The key, and the scope itself where there is room for it: that is still known when the key no longer finds it.
fn write_member(headers: &mut HeaderMap, name: HeaderName, workflow: &Workflow, correlation: &Correlation) {
    let sealed = correlation.seal(workflow);
    let sealed_bytes = sealed.as_ref().map_or(0, |sealed| 1 + sealed.text_bytes());
    let mut list = member(KEY_MEMBER, 32 + sealed_bytes);
    hex::push(&mut list, workflow.key, 32);
    if let Some(sealed) = sealed {
        list.push(SEALED as u8);
        sealed.push(&mut list);
    }
    put_member(headers, name, KEY_MEMBER, list);
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
    let own = |span, flags| {
        let trace = Trace { id: key, span, flags };
        HeaderValue::from_maybe_shared(Bytes::from(trace.print()))
    };
    let own_span = (key >> 64) as u64 | 1;
    let callers = match headers.entry(TRACEPARENT) {
        Entry::Vacant(nothing) => {
            if let Ok(value) = own(own_span, 0) {
                nothing.insert(value);
            }
            return;
        }
        Entry::Occupied(mut callers) => {
            let trace = Trace::parse(callers.get());
            if trace.is_some_and(|trace| trace.id == key) {
                return;
            }
            let (span, flags) = trace.map_or((own_span, 0), |trace| (trace.span, trace.flags));
            if let Ok(value) = own(span, flags) {
                callers.insert(value);
            }
            trace
        }
    };
    if let Some(callers) = callers {
        let mut link = member(LINK_MEMBER, 32);
        hex::push(&mut link, callers.id, 32);
        put_member(headers, TRACESTATE, LINK_MEMBER, link);
    }
}

/// The beginning of a member, with room for its value.
fn member(key: &str, value_bytes: usize) -> Vec<u8> {
    let mut member = Vec::with_capacity(key.len() + "=".len() + value_bytes);
    member.extend_from_slice(key.as_bytes());
    member.push(b'=');
    member
}

/// Puts a member, `key=value`, in front of a list header, in place of an older one.
fn put_member(headers: &mut HeaderMap, name: HeaderName, key: &str, member: Vec<u8>) {
    let mut list = member;
    match headers.entry(name) {
        Entry::Vacant(nothing) => {
            if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
                nothing.insert(value);
            }
        }
        Entry::Occupied(mut others) => {
            for old in members_of(others.iter()).filter(|old| key_of(old) != key.as_bytes()) {
                list.push(b',');
                list.extend_from_slice(old);
            }
            if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
                others.insert(value);
            }
        }
    }
}

/// As bytes: what others write into their members need not be text.
fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    members_of(headers.get_all(name).into_iter())
}

fn members_of<'a>(values: impl Iterator<Item = &'a HeaderValue>) -> impl Iterator<Item = &'a [u8]> {
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

fn key_of(member: &[u8]) -> &[u8] {
    let key = member.split(|byte| *byte == b'=').next().unwrap_or_default();
    key.trim_ascii()
}

/// What a request carries of a workflow: the first that is known, by the glue's order.
///
/// An id of somebody else's is no key. A member `cheops` that is not as an agent wrote it is a lost one: nobody else
/// has such a member.
pub(crate) fn find_workflow(
    headers: &HeaderMap,
    carriers: &[Carrier],
    correlation: &Correlation,
    limits: &Limits,
) -> Found {
    let mut found = Found::Foreign;
    for carrier in carriers {
        let here = match carrier {
            Carrier::ScopeHeader => Found::Foreign,
            Carrier::Tracestate => find_member(headers, &TRACESTATE, correlation, limits),
            Carrier::Baggage => find_member(headers, &BAGGAGE, correlation, limits),
            Carrier::Traceparent => headers
                .get(TRACEPARENT)
                .and_then(Trace::parse)
                .map_or(Found::Foreign, |trace| correlation.find(trace.id, limits)),
            Carrier::Header { name, format } => headers
                .get(name.as_str())
                .and_then(|value| format.read(value.to_str().ok()?))
                .map_or(Found::Foreign, |key| correlation.find(key, limits)),
        };
        match here {
            Found::Known(_) => return here,
            Found::Lost => found = here,
            Found::Foreign => {}
        }
    }
    found
}

fn find_member(headers: &HeaderMap, name: &HeaderName, correlation: &Correlation, limits: &Limits) -> Found {
    if !headers.contains_key(name) {
        return Found::Foreign;
    }
    let Some(member) = members(headers, name).find(|member| key_of(member) == KEY_MEMBER.as_bytes()) else {
        return Found::Foreign;
    };
    let Some((_, value)) = std::str::from_utf8(member)
        .ok()
        .and_then(|member| member.split_once('='))
    else {
        return Found::Lost;
    };
    let value = value.split(';').next().unwrap_or_default().trim();
    let (key, sealed) = match value.split_once(SEALED) {
        Some((key, sealed)) => (key, Some(sealed)),
        None => (value, None),
    };
    let Some(key) = hex::read(key.as_bytes(), 32) else {
        return Found::Lost;
    };
    match correlation.find(key, limits) {
        Found::Known(workflow) => Found::Known(workflow),
        Found::Lost => sealed
            .and_then(|sealed| correlation.unseal(key, sealed, limits))
            .map_or(Found::Lost, Found::Known),
        Found::Foreign => Found::Lost,
    }
}

/// Takes keys of ours off a request of a user or a peer, who cannot have got one honestly. Every value
/// is looked at: an application may read another one than this agent would.
pub(crate) fn strip_keys(headers: &mut HeaderMap, carriers: &[Carrier], keys: &KeyMaker) {
    for carrier in carriers {
        match carrier {
            Carrier::ScopeHeader => {}
            Carrier::Tracestate => strip_member(headers, TRACESTATE),
            Carrier::Baggage => strip_member(headers, BAGGAGE),
            Carrier::Traceparent => {
                let id = |value: &HeaderValue| Trace::parse(value).map(|trace| trace.id);
                strip_header(headers, &TRACEPARENT, keys, id);
            }
            Carrier::Header { name, format } => {
                // Most requests have none; to compare the names is cheaper than to look one up by its text.
                if headers.keys().any(|header| header.as_str() == name) {
                    let key = |value: &HeaderValue| format.read(value.to_str().ok()?);
                    strip_header(headers, name.as_str(), keys, key);
                }
            }
        }
    }
}

fn strip_header(
    headers: &mut HeaderMap,
    name: impl AsHeaderName + Copy,
    keys: &KeyMaker,
    key: impl Fn(&HeaderValue) -> Option<u128>,
) {
    let is_ours = |value| key(value).is_some_and(|key| keys.is_ours(key));
    if headers.get_all(name).iter().any(is_ours) {
        headers.remove(name);
    }
}

/// The member is this agent's alone, whatever its value and however it is written.
fn strip_member(headers: &mut HeaderMap, name: HeaderName) {
    if !headers.contains_key(&name) {
        return;
    }
    let is_ours = |member: &[u8]| {
        let key = key_of(member);
        key == KEY_MEMBER.as_bytes() || key.contains(&b'%')
    };
    if !members(headers, &name).any(is_ours) {
        return;
    }
    let kept: Vec<&[u8]> = members(headers, &name)
        .filter(|member| !is_ours(member))
        .collect();
    let kept = kept.join(&b',');
    headers.remove(&name);
    if let Ok(value) = HeaderValue::from_bytes(&kept)
        && !value.is_empty()
    {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
