//! One request in the forms of both versions of HTTP.

use http::{
    HeaderValue, Method, Request, Uri, Version, header, request,
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body::Body as _;

use crate::{Body, SendError, SendErrorKind};

/// HTTP/1.1 wants a path and a `Host` header.
pub(super) fn http1(request: &mut Request<Body>) {
    *request.version_mut() = Version::HTTP_11;
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str());
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        if let Ok(host) = host {
            request.headers_mut().insert(header::HOST, host);
        }
    }
}

/// HTTP/2 wants scheme and authority; the `Host` header gives the authority where there is one.
pub(super) fn http2(
    request: &mut Request<Body>,
    is_tls: bool,
    default_authority: impl FnOnce() -> String,
) -> Result<(), SendError> {
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(header::TRANSFER_ENCODING);
    if request.uri().authority().is_some() {
        return Ok(());
    }
    let host = request.headers_mut().remove(header::HOST);
    let host = host.as_ref().and_then(|host| host.to_str().ok());
    let authority = match host {
        Some(host) => Authority::try_from(host),
        None => Authority::try_from(default_authority()),
    };
    let not_sent = |detail| SendError::not_executed(SendErrorKind::Connect, detail);
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(authority.map_err(|error| not_sent(error.to_string()))?);
    parts
        .path_and_query
        .get_or_insert_with(|| PathAndQuery::from_static("/"));
    let uri = Uri::from_parts(parts).map_err(|error| not_sent(error.to_string()))?;
    *request.uri_mut() = uri;
    Ok(())
}

/// A copy of a request that may be repeated and has no body.
pub(super) fn copy_of_safe(request: &Request<Body>) -> Option<Box<Request<Body>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || !request.body().is_end_stream()
    {
        return None;
    }
    let (mut head, ()) = Request::new(()).into_parts();
    let request::Parts {
        method,
        uri,
        version,
        headers,
        ..
    } = &mut head;
    *method = request.method().clone();
    *uri = request.uri().clone();
    *version = request.version();
    *headers = request.headers().clone();
    Some(Box::new(Request::from_parts(head, Body::Empty)))
}

pub(super) fn is_grpc(request: &Request<Body>) -> bool {
    request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().strip_prefix(b"application/grpc"))
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_changes_its_form_and_back() {
        let mut request = Request::get("/a?b")
            .header("host", "app:1")
            .body(Body::Empty)
            .unwrap();
        http2(&mut request, true, || unreachable!()).unwrap();
        assert_eq!(request.uri(), "https://app:1/a?b");
        assert!(!request.headers().contains_key("host"));
        http1(&mut request);
        assert_eq!(
            (request.uri().to_string().as_str(), &request.headers()["host"]),
            ("/a?b", &"app:1".parse().unwrap())
        );
        assert_eq!(request.version(), Version::HTTP_11);
    }
}
