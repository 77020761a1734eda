//! Who may ask at all, and in whose name.

use std::{io, path::PathBuf, sync::Arc};

use axum::{
    Json,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::json;

use crate::failure::Failure;

/// The header by which somebody who may do so speaks in another's name.
const ACT_AS: &str = "act-as";
/// Where a caller hears who it is.
const WHO_AM_I: &str = "/whoami";

/// A file with the tokens that are good, one per line. It is read at each request, so that tokens come
/// and go while the service runs.
///
/// After a token may follow the name of whoever it belongs to, and after that `speaks`, if that one may speak in
/// other names. A line `- NAME` says that somebody may only read.
#[derive(Debug)]
pub(crate) struct TokenFile(pub(crate) PathBuf);

/// What a file says about a request.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// In whose name it is made.
    Good(String),
    NoToken,
    /// Whoever it is may not do that.
    Forbidden(String),
}

impl TokenFile {
    fn judge(&self, method: &Method, headers: &HeaderMap) -> io::Result<Found> {
        Ok(judge(&std::fs::read_to_string(&self.0)?, method, headers))
    }
}

fn judge(file: &str, method: &Method, headers: &HeaderMap) -> Found {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let given = text(header::AUTHORIZATION.as_str())
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim);
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = file.lines().map(words).collect();
    let Some(holder) = lines.iter().find(|line| {
        line.first()
            .is_some_and(|token| token != "-" && Some(&**token) == given)
    }) else {
        return Found::NoToken;
    };
    let own = holder.get(1).cloned().unwrap_or_default();
    let name = match text(ACT_AS) {
        Some(_) if holder.get(2).is_none_or(|word| word != "speaks") => {
            return Found::Forbidden(format!("{own} may not speak for others"));
        }
        Some(other) => other.to_owned(),
        None => own,
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let may_only_read = lines
        .iter()
        .any(|line| line[..] == ["-".to_owned(), name.clone()]);
    if may_only_read && !is_read {
        return Found::Forbidden(format!("{name} may only read"));
    }
    Found::Good(name)
}

/// Lets a request through if it brings a good token.
pub(crate) async fn demand(State(tokens): State<Arc<TokenFile>>, request: Request, next: Next) -> Response {
    match tokens.judge(request.method(), request.headers()) {
        Ok(Found::Good(name)) if request.uri().path() == WHO_AM_I => {
            Json(json!({ "user": name })).into_response()
        }
        Ok(Found::Good(_)) => next.run(request).await,
        Ok(Found::NoToken) => {
            let failure = Failure::new(
                StatusCode::UNAUTHORIZED,
                "a good token is needed: Authorization: Bearer ...",
            );
            let scheme = HeaderValue::from_static("Bearer");
            ([(header::WWW_AUTHENTICATE, scheme)], failure).into_response()
        }
        Ok(Found::Forbidden(why)) => Failure::new(StatusCode::FORBIDDEN, why).into_response(),
        Err(error) => Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the tokens cannot be read: {error}"),
        )
        .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_names() {
        let file = "plain\nt1 ann\nt2 agent speaks\n- bob\n";
        let check = |method: Method, token: Option<&str>, act_as: Option<&str>, expect: Found| {
            let mut headers = HeaderMap::new();
            if let Some(token) = token {
                headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
            }
            if let Some(name) = act_as {
                headers.insert(ACT_AS, name.parse().unwrap());
            }
            assert_eq!(judge(file, &method, &headers), expect, "{token:?} {act_as:?}");
        };
        let good = |name: &str| Found::Good(name.to_owned());
        let forbidden = |why: &str| Found::Forbidden(why.to_owned());
        check(Method::POST, Some("plain"), None, good(""));
        check(Method::POST, Some("t1"), None, good("ann"));
        check(Method::POST, Some("t2"), Some("ann"), good("ann"));
        check(Method::GET, Some("t2"), Some("bob"), good("bob"));
        check(
            Method::PUT,
            Some("t2"),
            Some("bob"),
            forbidden("bob may only read"),
        );
        check(
            Method::PUT,
            Some("t1"),
            Some("bob"),
            forbidden("ann may not speak for others"),
        );
        for token in [None, Some(""), Some("-"), Some("ann"), Some("t")] {
            check(Method::GET, token, None, Found::NoToken);
        }
    }
}
