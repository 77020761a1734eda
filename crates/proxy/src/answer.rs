//! The one place where outcomes become HTTP.

use cheops_net::{Body, SendError, SendErrorKind};
use cheops_types::{
    Code, Outcome, PlanKind, Problem, Receipt, ServiceName, SiteName, VerbClass, Visit, headers,
};
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use serde::Serialize;

pub(crate) const RECEIPT: HeaderName = HeaderName::from_static(headers::RECEIPT);

pub(crate) fn problem(problem: &Problem) -> Response<Body> {
    let mut response = Response::new(Body::full(problem.to_bytes()));
    *response.status_mut() =
        StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(Problem::CONTENT_TYPE));
    response
}

pub(crate) fn json<T: Serialize>(value: &T) -> Response<Body> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    let mut response = Response::new(Body::full(text));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Makes an answer one to a HEAD: with the length that its body would have, and without the body, which
/// HTTP/2 would send.
pub(crate) fn drop_body(response: &mut Response<Body>) {
    let body = std::mem::replace(response.body_mut(), Body::Empty);
    if let Body::Full(Some(bytes)) = body {
        let length = HeaderValue::from(bytes.len());
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length);
    }
}

/// An error answer with a receipt of its own: a request that stayed here, or was refused.
pub(crate) fn failure(problem: &Problem, here: &SiteName, outcome: Outcome) -> Response<Body> {
    let mut response = self::problem(problem);
    put_failure(&mut response, here, outcome, problem.code);
    response
}

/// Says in a receipt that this site's service did not answer.
pub(crate) fn put_failure(response: &mut Response<Body>, here: &SiteName, outcome: Outcome, code: Code) {
    let visit = Visit::failed(here, outcome, code.as_str());
    put_receipt(response, &Receipt::new(PlanKind::Local, vec![visit]));
}

pub(crate) fn put_receipt(response: &mut Response<Body>, receipt: &Receipt) {
    if let Ok(value) = HeaderValue::try_from(receipt.to_header()) {
        response.headers_mut().insert(RECEIPT, value);
    }
}

/// Takes the receipt off an answer of a peer.
pub(crate) fn take_receipt(response: &mut Response<Body>) -> Option<Receipt> {
    let value = response.headers_mut().remove(RECEIPT)?;
    Receipt::parse(value.to_str().ok()?).ok()
}

/// A request to a service of this site that got no answer.
pub(crate) fn upstream_problem(
    error: &SendError,
    here: &SiteName,
    service: &ServiceName,
    verb: VerbClass,
) -> Problem {
    let code = match error.kind {
        _ if is_lost_write(error, verb) => Code::UnknownOutcome,
        SendErrorKind::Connect | SendErrorKind::ConnectTimeout | SendErrorKind::Busy => {
            Code::UpstreamUnreachable
        }
        SendErrorKind::Timeout => Code::UpstreamTimeout,
        SendErrorKind::Broken => Code::UpstreamFailed,
    };
    let detail = format!(
        "service `{service}` of site `{here}`: {}{}",
        error.detail,
        advice(error, verb)
    );
    Problem::new(code, detail).at(here).of(service)
}

/// A request to another site that got no answer.
pub(crate) fn peer_problem(error: &SendError, site: &SiteName, verb: VerbClass) -> Problem {
    let code = match error.kind {
        _ if is_lost_write(error, verb) => Code::UnknownOutcome,
        SendErrorKind::Connect => Code::PeerUnreachable,
        SendErrorKind::ConnectTimeout | SendErrorKind::Timeout => Code::PeerTimeout,
        SendErrorKind::Broken => Code::PeerFailed,
        SendErrorKind::Busy => Code::PeerBusy,
    };
    let detail = format!("site `{site}`: {}{}", error.detail, advice(error, verb));
    Problem::new(code, detail).at(site)
}

/// A site that this agent has no link to.
pub(crate) fn unlinked(site: &SiteName) -> Problem {
    Problem::new(
        Code::PeerUnreachable,
        format!("site `{site}` has no address here: add it under [sites]"),
    )
    .at(site)
}

fn is_lost_write(error: &SendError, verb: VerbClass) -> bool {
    error.outcome == Outcome::Unknown && !verb.is_read()
}

fn advice(error: &SendError, verb: VerbClass) -> &'static str {
    match error.outcome {
        _ if is_lost_write(error, verb) => "; the request may have executed there, look before you repeat it",
        Outcome::NotExecuted => "; nothing executed there",
        Outcome::Executed | Outcome::Unknown | Outcome::Pending => "",
    }
}
