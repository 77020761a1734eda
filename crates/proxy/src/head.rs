//! What a proxy does to every head: hop-by-hop headers, `Via`, `Host`, loops.

mod strict;

use cheops_types::{Code, Problem, headers};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH,
        CONTENT_TYPE, COOKIE, DATE, ETAG, EXPECT, HOST, LAST_MODIFIED, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, SERVER, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT, VARY,
        VIA,
    },
    request,
};

use crate::service::{
    Service, Via,
    identity::{self, Sender, begins},
};
pub(crate) use strict::check_method;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// The headers of which one tells callers of one address apart.
pub(crate) const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, AUTH_TOKEN, COOKIE];

/// What one look at all header names tells, so that each is removed only where it stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // one bit per header, read once
pub(crate) struct Facts {
    pub(crate) scope: bool,
    /// Its caller wants to know what it would do.
    pub(crate) explain: bool,
    pub(crate) via: bool,
    pub(crate) upgrade: bool,
    /// A trace of its caller.
    pub(crate) trace: bool,
    /// One of [`CREDENTIALS`].
    pub(crate) credential: bool,
    /// A length, of which there must be one.
    pub(crate) length: bool,
    /// A header that some read as one that frames the message.
    pub(crate) framing_alias: bool,
    trailer: bool,
    connection: bool,
    internal: bool,
    expect: bool,
    te: bool,
    cookie: bool,
    receipt: bool,
    /// One of the rarer hop-by-hop headers.
    rare: bool,
}

impl Facts {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut facts = Self::default();
        for name in headers.keys() {
            match *name {
                CONNECTION => facts.connection = true,
                VIA => facts.via = true,
                UPGRADE => facts.upgrade = true,
                EXPECT => facts.expect = true,
                TE => facts.te = true,
                COOKIE => (facts.cookie, facts.credential) = (true, true),
                AUTHORIZATION => facts.credential = true,
                CONTENT_LENGTH => facts.length = true,
                TRAILER => facts.trailer = true,
                TRANSFER_ENCODING | PROXY_AUTHENTICATE | PROXY_AUTHORIZATION => facts.rare = true,
                // The most frequent ones, which say nothing of this.
                ACCEPT | ACCEPT_ENCODING | ACCEPT_LANGUAGE | CACHE_CONTROL | CONTENT_TYPE | DATE | ETAG
                | HOST | LAST_MODIFIED | SERVER | SET_COOKIE | USER_AGENT | VARY => {}
                _ => facts.note_custom(name.as_str()),
            }
        }
        facts
    }

    fn note_custom(&mut self, name: &str) {
        match name.as_bytes() {
            [b'x', b'-' | b'_', ..] => {
                self.scope |= name == headers::SCOPE;
                self.internal |= is_internal(name);
                self.credential |= *name == AUTH_TOKEN;
            }
            [b't', b'r', b'a', b'c', b'e', ..] => {
                self.trace |= name == "traceparent" || name == "tracestate";
            }
            [b'c', b'h', ..] => {
                self.receipt |= name == headers::RECEIPT;
                self.explain |= name == headers::EXPLAIN;
            }
            [b'k' | b'p' | b'h', ..] => {
                self.rare |= *name == KEEP_ALIVE || *name == PROXY_CONNECTION || *name == HTTP2_SETTINGS;
            }
            [b'c', b'o', ..] | [b't', b'r', ..] => self.framing_alias |= strict::is_framing_alias(name),
            _ => {}
        }
    }
}

/// Makes a head fit for the next hop.
pub(crate) fn prepare(
    head: &mut request::Parts,
    facts: Facts,
    service: &Service,
    sender: Sender<'_>,
) -> Result<(), Problem> {
    strict::check(head, facts)?;
    check_coding(&head.headers, facts)?;
    // An agent's authority is a site.
    let keeps_host = matches!(sender, Sender::Peer { .. });
    normalise_target(head, keeps_host, || service.upstream.target().authority())?;
    join_cookies(head, facts);
    let caller = identity::told(&head.headers, service, sender)?;
    clean_request(&mut head.headers, facts);
    if facts.trailer {
        strict::clean_declared(&mut head.headers, &service.trailers);
    }
    identity::enter(&mut head.headers, service, caller.as_ref())?;
    add_via(head, facts, &service.via)
}

/// Refuses a body in a coding that this hop would take off without undoing it.
fn check_coding(headers: &HeaderMap, facts: Facts) -> Result<(), Problem> {
    if !facts.rare {
        return Ok(());
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Problem::new(
            Code::BadRequest,
            "the only transfer coding that can be passed on is `chunked`",
        )),
    }
}

/// Takes the headers off a request that end at this hop or that only agents may write.
fn clean_request(headers: &mut HeaderMap, facts: Facts) {
    let wants_trailers = facts.te && headers.get_all(TE).iter().any(|value| lists(value, "trailers"));
    clean(headers, facts);
    if facts.expect {
        // This agent answers 100-continue itself, when the next hop takes the body.
        headers.remove(EXPECT);
    }
    if facts.te {
        headers.remove(TE);
        if wants_trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    }
    if facts.internal {
        remove_internal(headers);
    }
}

/// HTTP/2 clients may send a cookie header in pieces, of which HTTP/1.1 services read one.
fn join_cookies(head: &mut request::Parts, facts: Facts) {
    if !facts.cookie || head.version != Version::HTTP_2 || head.headers.get_all(COOKIE).iter().count() < 2 {
        return;
    }
    let pieces: Vec<&[u8]> = head
        .headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(joined) = HeaderValue::from_bytes(&pieces.join(&b"; "[..])) {
        head.headers.insert(COOKIE, joined);
    }
}

/// Takes the headers off an answer that end at this hop, and a receipt, which only agents write.
pub(crate) fn clean_response(headers: &mut HeaderMap) {
    let facts = Facts::of(headers);
    clean(headers, facts);
    if facts.receipt {
        headers.remove(headers::RECEIPT);
    }
    if facts.internal {
        remove_internal(headers);
    }
}

fn clean(headers: &mut HeaderMap, facts: Facts) {
    if facts.connection {
        remove_nominated(headers);
        headers.remove(CONNECTION);
    }
    if facts.upgrade {
        headers.remove(UPGRADE);
    }
    if facts.rare {
        // Beside a coding, a length says nothing about the body that was read.
        if headers.contains_key(TRANSFER_ENCODING) {
            headers.remove(CONTENT_LENGTH);
        }
        for name in [
            TRANSFER_ENCODING,
            KEEP_ALIVE,
            PROXY_CONNECTION,
            PROXY_AUTHENTICATE,
            PROXY_AUTHORIZATION,
            HTTP2_SETTINGS,
        ] {
            headers.remove(name);
        }
    }
}

/// Headers that `Connection` names belong to the connection. `close` and `keep-alive` name none.
fn remove_nominated(headers: &mut HeaderMap) {
    let mut nominated: Vec<HeaderName> = Vec::new();
    for value in headers.get_all(CONNECTION) {
        for token in value.as_bytes().split(|b| *b == b',') {
            let token = token.trim_ascii();
            if token.eq_ignore_ascii_case(b"close") || token.eq_ignore_ascii_case(b"keep-alive") {
                continue;
            }
            // A client must not be able to take these away from the application.
            if let Ok(name) = HeaderName::from_bytes(token)
                && !matches!(name, HOST | TE | UPGRADE | CONTENT_LENGTH)
            {
                nominated.push(name);
            }
        }
    }
    for name in nominated {
        headers.remove(name);
    }
}

/// What only agents write, also as those read it who do not tell `_` from `-`.
fn is_internal(name: &str) -> bool {
    let is_scope = name.len() == headers::SCOPE.len() && begins(name, headers::SCOPE);
    begins(name, headers::INTERNAL_PREFIX) || (is_scope && name != headers::SCOPE)
}

fn remove_internal(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_internal(name.as_str()))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

fn lists(value: &HeaderValue, word: &str) -> bool {
    value.as_bytes().split(|b| *b == b',').any(|token| {
        let token = token.split(|b| *b == b';').next().unwrap_or_default();
        token.trim_ascii().eq_ignore_ascii_case(word.as_bytes())
    })
}

/// Whether an HTTP/1.1 request asks to switch protocols.
pub(crate) fn wants_upgrade(head: &request::Parts, facts: Facts) -> bool {
    facts.upgrade
        && facts.connection
        && head.version == Version::HTTP_11
        && head
            .headers
            .get_all(CONNECTION)
            .iter()
            .any(|value| lists(value, "upgrade"))
}

/// Puts the target in origin form with a `Host`, as every next hop wants it. A client of HTTP/1.0
/// need not send one; then it is `authority`, the service's own.
fn normalise_target(
    head: &mut request::Parts,
    keeps_host: bool,
    authority: impl FnOnce() -> String,
) -> Result<(), Problem> {
    if head.method == Method::CONNECT {
        return Err(Problem::new(
            Code::BadRequest,
            "CONNECT asks for a tunnel; this port forwards requests to a service",
        ));
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, has_two) = (hosts.next(), hosts.next().is_some());
    if has_two {
        return Err(Problem::new(
            Code::BadRequest,
            "the request has more than one Host header",
        ));
    }
    let Some(target) = head.uri.authority() else {
        if let Some(host) = host {
            return strict::check_host(host.as_bytes());
        }
        if head.version >= Version::HTTP_11 {
            return Err(Problem::new(Code::BadRequest, "the request has no Host header"));
        }
        let host = HeaderValue::try_from(authority())
            .map_err(|_| Problem::new(Code::Internal, "the service's address cannot be a Host header"))?;
        head.headers.insert(HOST, host);
        return Ok(());
    };
    // Only a CONNECT is about an authority and nothing else. Read like one, `DELETE items` would be `DELETE /`.
    if head.uri.scheme().is_none() {
        return Err(Problem::new(
            Code::BadRequest,
            "the request's target is neither a path nor a URL",
        ));
    }
    // An absolute target overrides Host. Only between agents, where the authority is a site's name,
    // the caller's own Host travels beside it.
    strict::check_host(target.as_str().as_bytes())?;
    if let (Some(host), true) = (host, keeps_host) {
        strict::check_host(host.as_bytes())?;
    } else {
        let host = HeaderValue::from_str(target.as_str()).map_err(|_| {
            Problem::new(
                Code::BadRequest,
                "the request's authority cannot be a Host header",
            )
        })?;
        head.headers.insert(HOST, host);
    }
    let path = head
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| http::uri::PathAndQuery::from_static("/"));
    head.uri = Uri::from(path);
    Ok(())
}

/// Adds this hop to `Via`, or refuses a request that was here before.
fn add_via(head: &mut request::Parts, facts: Facts, via: &Via) -> Result<(), Problem> {
    if facts.via
        && head
            .headers
            .get_all(VIA)
            .iter()
            .any(|value| passed(value, &via.name))
    {
        return Err(Problem::new(
            Code::LoopDetected,
            format!(
                "the request already passed `{}`: check the upstream addresses in the configuration",
                via.name
            ),
        ));
    }
    head.headers.append(VIA, via.value(head.version).clone());
    Ok(())
}

fn passed(value: &HeaderValue, name: &str) -> bool {
    value.as_bytes().split(|b| *b == b',').any(|entry| {
        let mut words = entry
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        words.nth(1) == Some(name.as_bytes())
    })
}

/// Makes a request of a head, of which nothing is left.
pub(crate) fn take_as_request<B>(head: &mut request::Parts, body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = std::mem::take(&mut head.method);
    *request.uri_mut() = std::mem::take(&mut head.uri);
    *request.version_mut() = head.version;
    *request.headers_mut() = std::mem::take(&mut head.headers);
    request
}

/// The same without a body.
pub(crate) fn take(head: &mut request::Parts) -> request::Parts {
    take_as_request(head, ()).into_parts().0
}

/// A copy of a request's head.
pub(crate) fn copy(head: &request::Parts) -> request::Parts {
    let (mut copy, ()) = http::Request::new(()).into_parts();
    copy.method = head.method.clone();
    copy.uri = head.uri.clone();
    copy.version = head.version;
    copy.headers = head.headers.clone();
    copy
}

#[cfg(test)]
mod tests {
    use cheops_types::{ServiceName, SiteName};

    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| {
                (
                    HeaderName::try_from(*name).unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn hop_by_hop_headers_end_here() {
        let mut map = headers(&[
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("te", "trailers, deflate;q=0.5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-cheops-service", "forged"),
            ("accept", "*/*"),
        ]);
        let facts = Facts::of(&map);
        clean_request(&mut map, facts);
        assert_eq!(map, headers(&[("accept", "*/*"), ("te", "trailers")]));
    }

    #[test]
    fn connection_cannot_remove_host_or_length() {
        let mut map = headers(&[
            ("connection", "host, content-length"),
            ("host", "a"),
            ("content-length", "3"),
        ]);
        let facts = Facts::of(&map);
        clean_request(&mut map, facts);
        assert_eq!(map, headers(&[("host", "a"), ("content-length", "3")]));
    }

    #[test]
    fn a_request_that_comes_back_is_refused() {
        let via =
            |site, service| Via::new(&SiteName::new(site).unwrap(), &ServiceName::new(service).unwrap());
        let (mut head, ()) = http::Request::new(()).into_parts();
        add_via(&mut head, Facts::default(), &via("a", "A")).unwrap();
        let facts = Facts::of(&head.headers);
        add_via(&mut head, facts, &via("b", "A")).unwrap();
        add_via(&mut head, facts, &via("a", "B")).unwrap();
        let problem = add_via(&mut head, facts, &via("a", "A")).unwrap_err();
        assert_eq!(problem.code, Code::LoopDetected);
    }

    #[test]
    fn an_absolute_target_becomes_origin_form() {
        let (mut head, ()) = http::Request::get("http://real/a?b")
            .header("host", "other")
            .body(())
            .unwrap()
            .into_parts();
        normalise_target(&mut head, false, || unreachable!()).unwrap();
        assert_eq!(
            (
                head.uri.to_string().as_str(),
                head.headers[HOST].to_str().unwrap()
            ),
            ("/a?b", "real")
        );
    }

    #[test]
    fn a_target_that_is_no_path_is_not_taken_for_the_root() {
        for target in ["items", "app:80", "0"] {
            let (mut head, ()) = http::Request::delete(target).body(()).unwrap().into_parts();
            let refused = normalise_target(&mut head, false, || unreachable!()).unwrap_err();
            assert_eq!(refused.code, Code::BadRequest, "{target}");
        }
    }
}
