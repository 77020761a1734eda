//! What is left of a plan, from one agent to another.

use cheops_plan::Remainder;
use cheops_types::{Problem, headers::PEER_PLAN};
use http::{HeaderName, HeaderValue, request};

const PLAN: HeaderName = HeaderName::from_static(PEER_PLAN);

/// Tells another agent what is left of the plan.
pub(crate) fn put(head: &mut request::Parts, remainder: &Remainder) {
    if let Ok(value) = HeaderValue::try_from(remainder.to_string()) {
        head.headers.insert(PLAN, value);
    }
}

/// What another agent has left to this one.
pub(crate) fn read(head: &request::Parts) -> Result<Remainder, Problem> {
    let Some(value) = head.headers.get(PLAN) else {
        return Ok(Remainder::default());
    };
    Remainder::parse(value.to_str().unwrap_or_default())
}
