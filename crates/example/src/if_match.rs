//! Versions of a row, as HTTP shows and demands them.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::{StatusCode, header, request::Parts};

use crate::failure::Failure;

pub(crate) fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

/// The versions that a caller wants to change, and no others; without any, whatever there is.
#[derive(Debug, Default)]
pub(crate) struct IfMatch(Option<Vec<String>>);

impl IfMatch {
    pub(crate) fn check(&self, version: u64) -> Result<(), Failure> {
        let Some(wanted) = &self.0 else {
            return Ok(());
        };
        let current = etag(version);
        if wanted.iter().any(|tag| *tag == current || tag == "*") {
            return Ok(());
        }
        Err(Failure::new(
            StatusCode::PRECONDITION_FAILED,
            format!("the version is {current} now"),
        ))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let fields = parts.headers.get_all(header::IF_MATCH).iter();
        let tags: Vec<_> = fields
            .flat_map(|field| field.as_bytes().split(|byte| *byte == b','))
            .map(|tag| String::from_utf8_lossy(tag.trim_ascii()).into_owned())
            .collect();
        Ok(Self((!tags.is_empty()).then_some(tags)))
    }
}
