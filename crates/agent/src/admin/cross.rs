//! The routes for operators of resources that span sites.

use axum::{
    Json, Router,
    extract::Path,
    routing::{delete, get, post},
};
use cheops_node::model::{AddSite, CrossDetail, CrossList, Rebalance, SetFilter, SetHint};
use cheops_types::{Code, Problem, SiteName};
use serde::Deserialize;

use super::{
    replication::{Asked, Body, Operating, Reply, read},
    server::Shared,
};

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/v1/cross", get(list))
        .route("/v1/cross/{id}", get(one))
        .route("/v1/cross/{id}/sites", post(add_site))
        .route("/v1/cross/{id}/sites/{site}", delete(remove_site))
        .route("/v1/cross/{id}/rebalance", post(rebalance))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveSite {
    service: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    rebalance: bool,
}

async fn list(Operating(operator): Operating, Asked(filter): Asked<SetFilter>) -> Reply<CrossList> {
    Ok(Json(operator.crosses(filter).await?))
}

async fn one(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(hint): Asked<SetHint>,
) -> Reply<CrossDetail> {
    Ok(Json(operator.cross(&id, &hint).await?))
}

async fn add_site(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(hint): Asked<SetHint>,
    body: Body<AddSite>,
) -> Reply<CrossDetail> {
    Ok(Json(operator.add_extent(&id, &hint, &read(body)?).await?))
}

async fn remove_site(
    Operating(operator): Operating,
    Path((id, site)): Path<(String, String)>,
    Asked(asked): Asked<RemoveSite>,
) -> Reply<CrossDetail> {
    let site = SiteName::new(&site).map_err(|error| Problem::new(Code::UnknownSite, error.to_string()))?;
    let hint = SetHint {
        service: asked.service,
        kind: asked.kind,
    };
    let rebalance = asked.rebalance.then(Rebalance::default);
    let removed = operator.remove_extent(&id, &hint, &site, asked.force, rebalance.as_ref());
    Ok(Json(removed.await?))
}

async fn rebalance(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(hint): Asked<SetHint>,
    body: Body<Rebalance>,
) -> Reply<CrossDetail> {
    Ok(Json(operator.rebalance(&id, &hint, &read(body)?).await?))
}
