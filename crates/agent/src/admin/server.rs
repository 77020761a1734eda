//! The routes of the admin API.

use std::{future::Future, io, sync::Arc};

use axum::{
    Json, Router,
    extract::{State, rejection::JsonRejection},
    http::{HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use cheops_types::{Code, Problem};

use super::{
    AdminSocket, ExplainRequest, Explained, LimitsAnswer, ReloadAnswer, ServicesAnswer, SitesAnswer, Source,
    Status, cross, groups, metrics, replication,
};

pub(super) type Shared = Arc<dyn Source>;

/// Answers requests until `stop` is ready, then those under way, then removes the socket.
pub(crate) async fn serve(
    mut socket: AdminSocket,
    source: Shared,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = socket
        .take_listener()
        .ok_or_else(|| io::Error::other("the admin socket is served already"))?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let served = axum::serve(listener, router(source))
        .with_graceful_shutdown(stop)
        .await;
    drop(socket);
    served
}

fn router(source: Shared) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/sites", get(sites))
        .route("/v1/services", get(services))
        .route("/v1/limits", get(limits))
        .route("/v1/explain", post(explain))
        .route("/v1/reload", post(reload))
        .route("/metrics", get(metrics_text))
        .merge(replication::router())
        .merge(cross::router())
        .merge(groups::router())
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(source)
}

async fn status(State(source): State<Shared>) -> Json<Status> {
    Json(source.status())
}

async fn sites(State(source): State<Shared>) -> Json<SitesAnswer> {
    Json(SitesAnswer {
        sites: source.sites(),
    })
}

async fn services(State(source): State<Shared>) -> Json<ServicesAnswer> {
    Json(ServicesAnswer {
        services: source.services(),
    })
}

async fn limits(State(source): State<Shared>) -> Json<LimitsAnswer> {
    Json(LimitsAnswer::of(&source.limits()))
}

async fn explain(
    State(source): State<Shared>,
    request: Result<Json<ExplainRequest>, JsonRejection>,
) -> Result<Json<Explained>, Refusal> {
    let Json(request) = request.map_err(|rejection| Refusal {
        status: rejection.status(),
        problem: Problem::new(Code::BadRequest, rejection.body_text()),
    })?;
    Ok(Json(source.explain(&request)?))
}

async fn reload(State(source): State<Shared>) -> Result<Json<ReloadAnswer>, Refusal> {
    Ok(Json(source.reload().await?))
}

async fn metrics_text(State(source): State<Shared>) -> impl IntoResponse {
    let replication = match source.operator() {
        Some(operator) => operator.metrics().await,
        None => String::new(),
    };
    (
        [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)],
        metrics::render(&[&source.metrics(), &replication]),
    )
}

async fn unknown_path(uri: Uri) -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        problem: Problem::new(
            Code::BadRequest,
            format!("the admin API has no `{}`; see docs/admin-api.md", uri.path()),
        ),
    }
}

async fn wrong_method(uri: Uri) -> Refusal {
    Refusal {
        status: StatusCode::METHOD_NOT_ALLOWED,
        problem: Problem::new(
            Code::BadRequest,
            format!("`{}` needs another method; see docs/admin-api.md", uri.path()),
        ),
    }
}

/// A problem as an answer.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) problem: Problem,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            status: StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            problem,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut object = self.problem.to_json();
        // The transport's status may be narrower than the code's (404 for a path).
        object["status"] = self.status.as_u16().into();
        let mut response = (self.status, Json(object)).into_response();
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(Problem::CONTENT_TYPE),
        );
        response
    }
}
