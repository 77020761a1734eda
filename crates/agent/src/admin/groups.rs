//! The routes for operators of sites that decide together.

use axum::{
    Json, Router,
    extract::Path,
    routing::{get, post},
};
use cheops_node::model::{GroupList, GroupSummary, Transfer};

use super::{
    replication::{Body, Operating, Reply, read},
    server::Shared,
};

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/v1/groups", get(list))
        .route("/v1/groups/{id}", get(one))
        .route("/v1/groups/{id}/transfer", post(transfer))
}

async fn list(Operating(operator): Operating) -> Reply<GroupList> {
    Ok(Json(operator.groups().await))
}

async fn one(Operating(operator): Operating, Path(id): Path<String>) -> Reply<GroupSummary> {
    Ok(Json(operator.group(&id).await?))
}

async fn transfer(
    Operating(operator): Operating,
    Path(id): Path<String>,
    body: Body<Transfer>,
) -> Reply<GroupSummary> {
    Ok(Json(operator.transfer(&id, &read(body)?.to).await?))
}
