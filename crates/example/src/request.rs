//! Reading requests.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Longest JSON body that is read.
pub(crate) const JSON_MAX_BYTES: usize = 1024 * 1024;

/// A body that is a JSON object, whatever its content type says: `curl -d` sends none that fits.
pub(crate) struct Object(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                let error = format!("the body is longer than {JSON_MAX_BYTES} bytes");
                Failure::new(StatusCode::PAYLOAD_TOO_LARGE, error)
            } else {
                Failure::malformed(rejection.body_text())
            }
        })?;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(Failure::invalid("the body must be a JSON object")),
            Err(error) => Err(Failure::malformed(format!("the body is not JSON: {error}"))),
        }
    }
}

/// The id at the end of a path; what cannot be an id names nothing.
pub(crate) struct Id(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => Err(Failure::not_found("ids are whole numbers")),
        }
    }
}

/// The text at the end of a path that tells one of a collection.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(rejection) => Err(Failure::not_found(rejection.body_text())),
        }
    }
}

/// All texts of a path.
pub(crate) struct Names<const N: usize>(pub(crate) [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Names<N> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let names = Path::<Vec<String>>::from_request_parts(parts, state).await;
        let names = names.ok().and_then(|Path(names)| names.try_into().ok());
        names
            .map(Self)
            .ok_or_else(|| Failure::not_found("there is nothing under that path"))
    }
}

/// The parameters of a query.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(rejection) => Err(Failure::malformed(rejection.body_text())),
        }
    }
}
