//! One resource that spans sites: containers, and counts that are divided.

mod containers;
mod cuts;
mod divided;
mod races;
mod sites;
mod watching;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Call, Mesh, get, post};

const BOTH: &str = "site1 % site2";

/// Makes a room that spans sites and waits until it is at all of them.
async fn room(mesh: &Mesh, name: &str, scope: &str) -> Answer {
    let body = json!({ "name": name }).to_string();
    let answer = post(mesh.b(1), "/rooms", body)
        .scope(scope)
        .header("prefer", "wait=20")
        .await;
    assert!(answer.receipt().complete, "{answer:?}");
    answer.is(201)
}

fn make(mesh: &Mesh, site: usize, room: &str, name: &str) -> Call {
    let body = json!({ "name": name, "by": site }).to_string();
    post(mesh.b(site), &format!("/rooms/{room}/boxes"), body)
}

async fn names(mesh: &Mesh, site: usize, path: &str) -> Vec<String> {
    let list = get(mesh.b(site), path).await.is(200).json();
    of(&list, |item| {
        format!(
            "{}@{}",
            item["name"].as_str().unwrap(),
            item["@site"].as_str().unwrap_or("-")
        )
    })
}

fn of(list: &Value, show: impl Fn(&Value) -> String) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(show).collect()
}

/// What the application of a site has, without the agent.
async fn own(mesh: &Mesh, site: usize, path: &str) -> (u16, Value) {
    let answer = get(mesh.application(site, "B"), path).await;
    (answer.status, answer.json())
}

fn call(mesh: &Mesh, site: usize, method: Method, path: &str, body: &Value) -> Call {
    Call::new(method, mesh.b(site), path).body(body.to_string())
}
