//! Service A: says hello and takes orders, both with B's help.

use std::{io, net::SocketAddr, path::Path, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    b_client::BClient,
    carry::Carry,
    collection::{Collection, Page, merge},
    failure::Failure,
    if_match::IfMatch,
    request::{Id, Object, Parameters},
    storage,
};

struct A {
    b: BClient,
    orders: Collection<u64>,
    id_base: u64,
}

type Answer = Result<Response, Failure>;

pub(crate) fn router(b_addr: SocketAddr, carry: Carry, data_dir: &Path, id_base: u64) -> io::Result<Router> {
    let a = A {
        b: BClient::new(b_addr, carry),
        orders: Collection::open("orders", "id", data_dir)?,
        id_base,
    };
    let router = Router::new()
        .route("/hello", get(say_hello))
        .route("/orders", get(list_orders).post(create_order))
        .route(
            "/orders/{id}",
            get(get_order)
                .put(replace_order)
                .patch(patch_order)
                .delete(delete_order),
        )
        .route("/orders/{id}/ship", post(ship_order))
        .route("/orders/{id}/cancel", post(cancel_order))
        .with_state(Arc::new(a));
    Ok(router)
}

async fn say_hello(State(a): State<Arc<A>>, headers: HeaderMap) -> Answer {
    let answer = a.b.get("/string", &headers).await?;
    if answer.status != StatusCode::OK {
        return Err(answer.unexpected());
    }
    let string = String::from_utf8_lossy(&answer.body);
    if wants_json(&headers) {
        Ok(Json(json!({ "a": "hello", "b": string })).into_response())
    } else {
        Ok(format!("A says hello, B answers: {string}").into_response())
    }
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|accept| accept.contains("application/json"))
}

/// Which orders are wanted; without anything, all.
#[derive(Deserialize)]
struct Wanted {
    #[serde(rename = "ref")]
    reference: Option<String>,
}

async fn list_orders(
    State(a): State<Arc<A>>,
    Parameters(page): Parameters<Page>,
    Parameters(wanted): Parameters<Wanted>,
) -> Answer {
    a.orders.list(&page, |order| {
        let reference = wanted.reference.as_deref();
        reference.is_none_or(|reference| order.get("ref").and_then(Value::as_str) == Some(reference))
    })
}

async fn create_order(State(a): State<Arc<A>>, headers: HeaderMap, Object(order): Object) -> Answer {
    let mut order = checked(order)?;
    a.add_name(&mut order, &headers).await?;
    a.orders.create_next(a.id_base, order, None)
}

async fn get_order(State(a): State<Arc<A>>, Id(id): Id) -> Answer {
    a.orders.get(&id)
}

async fn replace_order(
    State(a): State<Arc<A>>,
    Id(id): Id,
    if_match: IfMatch,
    headers: HeaderMap,
    Object(order): Object,
) -> Answer {
    let mut order = checked(order)?;
    a.add_name(&mut order, &headers).await?;
    a.orders.change(&id, &if_match, |_| Ok(order))
}

async fn patch_order(
    State(a): State<Arc<A>>,
    Id(id): Id,
    if_match: IfMatch,
    headers: HeaderMap,
    Object(mut patch): Object,
) -> Answer {
    if patch.contains_key("item") {
        a.add_name(&mut patch, &headers).await?;
    }
    a.orders.change(&id, &if_match, |order| {
        let mut order = order.clone();
        merge(&mut order, patch);
        checked(order)
    })
}

async fn delete_order(State(a): State<Arc<A>>, Id(id): Id, if_match: IfMatch) -> Answer {
    a.orders.delete(&id, &if_match)
}

/// One more shipment. Twice is two.
async fn ship_order(State(a): State<Arc<A>>, Id(id): Id, if_match: IfMatch) -> Answer {
    a.orders.change(&id, &if_match, |order| {
        let mut order = order.clone();
        let shipments = order.get("shipments").and_then(Value::as_u64).unwrap_or(0);
        order.insert("shipments".to_owned(), json!(shipments + 1));
        Ok(order)
    })
}

/// Twice is as good as once.
async fn cancel_order(State(a): State<Arc<A>>, Id(id): Id, if_match: IfMatch) -> Answer {
    a.orders.change(&id, &if_match, |order| {
        let mut order = order.clone();
        order.insert("status".to_owned(), json!("cancelled"));
        Ok(order)
    })
}

/// An order has an item's id, a quantity and, if its buyer likes, a reference.
fn checked(order: storage::Object) -> Result<storage::Object, Failure> {
    item_of(&order)?;
    if order.get("ref").is_some_and(|reference| !reference.is_string()) {
        return Err(Failure::invalid("the ref of an order is a text"));
    }
    match order.get("quantity").map(Value::as_u64) {
        Some(Some(1..)) => Ok(order),
        _ => Err(Failure::invalid(
            "an order needs a quantity, a whole number of at least 1",
        )),
    }
}

fn item_of(order: &storage::Object) -> Result<u64, Failure> {
    order
        .get("item")
        .and_then(Value::as_u64)
        .ok_or_else(|| Failure::invalid("an order needs an item, the id of one that B has"))
}

impl A {
    /// Asks B for the item of an order and notes its name.
    async fn add_name(&self, order: &mut storage::Object, headers: &HeaderMap) -> Result<(), Failure> {
        let id = item_of(order)?;
        let answer = self.b.get(&format!("/items/{id}"), headers).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(Failure::invalid(format!("B has no item {id}"))),
            _ => return Err(answer.unexpected()),
        }
        let item: storage::Object = serde_json::from_slice(&answer.body).map_err(|_| answer.unexpected())?;
        let name = item.get("name").ok_or_else(|| answer.unexpected())?;
        order.insert("name".to_owned(), name.clone());
        Ok(())
    }
}
