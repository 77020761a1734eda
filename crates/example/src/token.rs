//! Who may ask at all.

use std::{io, path::PathBuf, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::failure::Failure;

/// A file with the tokens that are good, one per line. It is read at each request, so that tokens come
/// and go while the service runs.
#[derive(Debug)]
pub(crate) struct TokenFile(pub(crate) PathBuf);

impl TokenFile {
    fn allows(&self, headers: &HeaderMap) -> io::Result<bool> {
        let good = std::fs::read_to_string(&self.0)?;
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
            .map(str::trim)
            .filter(|token| !token.is_empty());
        Ok(given.is_some_and(|given| good.lines().any(|token| token.trim() == given)))
    }
}

/// Lets a request through if it brings a good token.
pub(crate) async fn demand(State(tokens): State<Arc<TokenFile>>, request: Request, next: Next) -> Response {
    match tokens.allows(request.headers()) {
        Ok(true) => next.run(request).await,
        Ok(false) => {
            let failure = Failure::new(
                StatusCode::UNAUTHORIZED,
                "a good token is needed: Authorization: Bearer ...",
            );
            let scheme = HeaderValue::from_static("Bearer");
            ([(header::WWW_AUTHENTICATE, scheme)], failure).into_response()
        }
        Err(error) => Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the tokens cannot be read: {error}"),
        )
        .into_response(),
    }
}
