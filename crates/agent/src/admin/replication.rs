//! The routes for operators of replication.

use axum::{
    Json, Router,
    extract::{
        FromRequestParts, Path, Query,
        rejection::{JsonRejection, QueryRejection},
    },
    http::request::Parts,
    routing::{delete, get, post},
};
use cheops_node::{
    Operator,
    model::{
        AddSite, Adopt, Afterwards, ConflictDetail, ConflictFilter, ConflictList, Credential, Move,
        OperationDetail, OperationFilter, OperationList, Reapplied, SetDetail, SetFilter, SetHint, SetList,
        Settle, Verification,
    },
};
use cheops_types::{Code, Problem, SiteName};
use serde::{Deserialize, de::DeserializeOwned};

use super::server::{Refusal, Shared};

pub(super) type Reply<T> = Result<Json<T>, Refusal>;
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/v1/replicas", get(sets).post(adopt))
        .route("/v1/replicas/{id}", get(set))
        .route("/v1/replicas/{id}/sites", post(add_site))
        .route("/v1/replicas/{id}/sites/{site}", delete(remove_site))
        .route("/v1/replicas/{id}/move", post(move_to))
        .route("/v1/replicas/{id}/verify", post(verify))
        .route("/v1/replicas/{id}/unfence", post(unfence))
        .route("/v1/operations", get(operations))
        .route("/v1/operations/{id}", get(operation))
        .route("/v1/operations/{id}/retry", post(retry))
        .route("/v1/operations/{id}/settle", post(settle))
        .route("/v1/operations/{id}/abandon", post(abandon))
        .route("/v1/conflicts", get(conflicts))
        .route("/v1/conflicts/{id}", get(conflict))
        .route("/v1/conflicts/{id}/reapply", post(reapply))
        .route("/v1/conflicts/{id}/dismiss", post(dismiss))
}

/// The operator of the running agent, or the answer that there is none.
pub(super) struct Operating(pub(super) Operator);

impl FromRequestParts<Shared> for Operating {
    type Rejection = Refusal;

    async fn from_request_parts(_: &mut Parts, source: &Shared) -> Result<Self, Refusal> {
        let none = || {
            Problem::new(
                Code::NotAvailable,
                "this agent replicates nothing: it has no store",
            )
        };
        Ok(Self(source.operator().ok_or_else(none)?))
    }
}

/// A query; one that cannot be read is a problem like every other.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, source: &Shared) -> Result<Self, Refusal> {
        let refused = |rejection: QueryRejection| Refusal {
            status: rejection.status(),
            problem: Problem::new(Code::BadRequest, rejection.body_text()),
        };
        let Query(asked) = Query::from_request_parts(parts, source).await.map_err(refused)?;
        Ok(Self(asked))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveSite {
    service: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verify {
    service: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    repair: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unfence {
    service: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    drop: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct With {
    credential: Credential,
}

async fn sets(Operating(operator): Operating, Asked(filter): Asked<SetFilter>) -> Reply<SetList> {
    Ok(Json(operator.sets(filter).await?))
}

async fn set(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(hint): Asked<SetHint>,
) -> Reply<SetDetail> {
    Ok(Json(operator.set(&id, &hint).await?))
}

async fn adopt(Operating(operator): Operating, body: Body<Adopt>) -> Reply<SetDetail> {
    Ok(Json(operator.adopt(read(body)?).await?))
}

async fn add_site(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(hint): Asked<SetHint>,
    body: Body<AddSite>,
) -> Reply<SetDetail> {
    Ok(Json(operator.add_site(&id, &hint, &read(body)?).await?))
}

async fn remove_site(
    Operating(operator): Operating,
    Path((id, site)): Path<(String, String)>,
    Asked(asked): Asked<RemoveSite>,
) -> Reply<SetDetail> {
    let RemoveSite { service, kind, force } = asked;
    let site = SiteName::new(&site).map_err(|error| Problem::new(Code::UnknownSite, error.to_string()))?;
    let hint = SetHint { service, kind };
    Ok(Json(operator.remove_site(&id, &hint, &site, force).await?))
}

async fn move_to(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(hint): Asked<SetHint>,
    body: Body<Move>,
) -> Reply<SetDetail> {
    Ok(Json(operator.move_to(&id, &hint, &read(body)?).await?))
}

async fn verify(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(asked): Asked<Verify>,
) -> Reply<Verification> {
    let Verify {
        service,
        kind,
        repair,
    } = asked;
    Ok(Json(
        operator.verify(&id, &SetHint { service, kind }, repair).await?,
    ))
}

async fn unfence(
    Operating(operator): Operating,
    Path(id): Path<String>,
    Asked(asked): Asked<Unfence>,
) -> Reply<Afterwards> {
    let Unfence { service, kind, drop } = asked;
    Ok(Json(
        operator.unfence(&id, &SetHint { service, kind }, drop).await?,
    ))
}

async fn operations(
    Operating(operator): Operating,
    Asked(filter): Asked<OperationFilter>,
) -> Reply<OperationList> {
    Ok(Json(operator.operations(filter).await?))
}

async fn operation(Operating(operator): Operating, Path(id): Path<String>) -> Reply<OperationDetail> {
    Ok(Json(operator.operation(&id).await?))
}

async fn retry(
    Operating(operator): Operating,
    Path(id): Path<String>,
    body: Body<With>,
) -> Reply<Afterwards> {
    let With { credential } = read(body)?;
    Ok(Json(operator.retry(&id, &credential).await?))
}

async fn settle(
    Operating(operator): Operating,
    Path(id): Path<String>,
    body: Body<Settle>,
) -> Reply<Afterwards> {
    Ok(Json(operator.settle(&id, &read(body)?).await?))
}

async fn abandon(Operating(operator): Operating, Path(id): Path<String>) -> Reply<Afterwards> {
    Ok(Json(operator.abandon(&id).await?))
}

async fn conflicts(
    Operating(operator): Operating,
    Asked(filter): Asked<ConflictFilter>,
) -> Reply<ConflictList> {
    Ok(Json(operator.conflicts(filter).await?))
}

async fn conflict(Operating(operator): Operating, Path(id): Path<String>) -> Reply<ConflictDetail> {
    Ok(Json(operator.conflict(&id).await?))
}

async fn reapply(
    Operating(operator): Operating,
    Path(id): Path<String>,
    body: Body<With>,
) -> Reply<Reapplied> {
    let With { credential } = read(body)?;
    Ok(Json(operator.reapply(&id, &credential).await?))
}

async fn dismiss(Operating(operator): Operating, Path(id): Path<String>) -> Reply<Afterwards> {
    Ok(Json(operator.dismiss(&id).await?))
}

/// The body of a request. What is wrong with it may be part of a credential, so it is not told.
pub(super) fn read<T>(body: Body<T>) -> Result<T, Refusal> {
    let Json(value) = body.map_err(|rejection| Refusal {
        status: rejection.status(),
        problem: Problem::new(
            Code::BadRequest,
            match rejection {
                JsonRejection::MissingJsonContentType(_) => rejection.body_text(),
                _ => "the body is not the JSON that this path takes; see docs/admin-api.md".to_owned(),
            },
        ),
    })?;
    Ok(value)
}
