//! Merged lists of applications that write them in their own ways: tables, links to the next page, streams.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::harness::{Mesh, Scripted, get, json_answer};

const GLUE: &str = r#"
application = "listing"

[services.B]
context-free = ["/version"]
effect-free = ["POST /reviews"]
stream = ["?watch"]

[[services.B.resources]]
kind = "pod"
collection = "/pods"
effect-free = ["dryRun"]
actions = [{ path = "/attach", as = "local" }]
[services.B.resources.list]
items = "/items"
provenance = "/metadata/annotations/site"
forms = [{ items = "/rows", document = "/object", columns = "/columns", cells = "/cells", column = '{"name":"Site"}' }]

[[services.B.resources]]
kind = "image"
collection = "/images"
list = { items = "/images", paging = { style = "link", limit = "limit", token = "marker", next = "/next" } }

[[services.B.resources]]
kind = "server"
collection = "/servers"
list = { items = "/servers", paging = { style = "links", limit = "limit", token = "marker", next = "/servers_links" } }
"#;

const BOTH: &str = "site1 & site2";

/// A mesh of two whose services B these are.
async fn mesh(services: &[Scripted; 2]) -> Mesh {
    Mesh::of(2)
        .glue(GLUE)
        .upstream(1, "B", services[0].addr())
        .upstream(2, "B", services[1].addr())
        .start()
        .await
}

fn table(rows: &[&str]) -> Value {
    let row = |name: &&str| json!({"cells": [name, "Running"], "object": {"metadata": {"name": name}}});
    let rows: Vec<Value> = rows.iter().map(row).collect();
    json!({"kind": "Table", "columns": [{"name": "Name"}, {"name": "Status"}], "rows": rows})
}

fn list(names: &[&str]) -> Value {
    let item = |name: &&str| json!({"metadata": {"name": name}});
    json!({"kind": "List", "items": names.iter().map(item).collect::<Vec<_>>()})
}

fn accept(request: &Request<Bytes>) -> &str {
    let value = request.headers().get("accept");
    value.and_then(|value| value.to_str().ok()).unwrap_or("nothing")
}

/// Pods as a table or as a list, as asked; a service may know no tables.
fn pods(names: &'static [&'static str], knows_tables: bool) -> Scripted {
    Scripted::start(move |request| async move {
        if accept(&request).starts_with("application/json;as=Table") && knows_tables {
            json_answer(200, &table(names))
        } else {
            json_answer(200, &list(names))
        }
    })
}

const TABLE: &str = "application/json;as=Table, application/json";

#[tokio::test]
async fn tables_get_a_column_for_the_site() {
    let services = [pods(&[], true), pods(&["b", "c"], true)];
    let mesh = mesh(&services).await;
    let answer = get(mesh.b(1), "/pods")
        .header("accept", TABLE)
        .scope(BOTH)
        .await
        .is(200);
    let table = answer.json();
    assert_eq!(
        table["columns"],
        json!([{"name": "Name"}, {"name": "Status"}, {"name": "Site"}])
    );
    let cells: Vec<_> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["cells"])
        .collect();
    assert_eq!(
        cells,
        [
            &json!(["b", "Running", "site2"]),
            &json!(["c", "Running", "site2"])
        ]
    );
    assert_eq!(
        table["rows"][0]["object"],
        json!({"metadata": {"name": "b", "annotations": {"site": "site2"}}})
    );
    let plain = get(mesh.b(1), "/pods").scope(BOTH).await.is(200).json();
    assert_eq!(plain["kind"], "List");
    assert_eq!(plain["items"][1]["metadata"]["annotations"]["site"], "site2");
}

#[tokio::test]
async fn what_is_written_in_another_way_is_missing() {
    let services = [pods(&["a"], true), pods(&["b"], false)];
    let mesh = mesh(&services).await;
    let answer = get(mesh.b(1), "/pods")
        .header("accept", TABLE)
        .scope(BOTH)
        .await
        .is(200);
    assert_eq!(answer.json()["rows"].as_array().unwrap().len(), 1);
    let receipt = answer.receipt();
    assert!(!receipt.complete);
    assert_eq!(receipt.sites[1].error.as_deref(), Some("body_unreadable"));
    // The first that answers decides.
    let answer = get(mesh.b(1), "/pods")
        .header("accept", TABLE)
        .scope("site2 & site1")
        .await
        .is(200);
    assert_eq!(answer.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sites_are_asked_for_json() {
    let echo = || {
        Scripted::start(|request| async move {
            json_answer(200, &json!({"items": [{"accept": accept(&request)}]}))
        })
    };
    let services = [echo(), echo()];
    let mesh = mesh(&services).await;
    for (asked, expect) in [
        (
            "application/vnd.proto, application/json;q=0.5",
            "application/json;q=0.5",
        ),
        ("application/yaml", "application/json"),
        ("*/*", "application/json"),
    ] {
        let answer = get(mesh.b(1), "/pods")
            .header("accept", asked)
            .scope(BOTH)
            .await
            .is(200);
        for item in answer.json()["items"].as_array().unwrap() {
            assert_eq!(item["accept"], expect, "{asked}");
        }
    }
    let before = services.each_ref().map(Scripted::executed);
    let refused = get(mesh.b(1), "/pods")
        .header("accept", "application/vnd.proto")
        .scope(BOTH);
    refused.await.problem(406, "not_acceptable");
    assert_eq!(services.each_ref().map(Scripted::executed), before);
    // One site answers as it likes.
    let one = get(mesh.b(1), "/pods")
        .header("accept", "application/vnd.proto")
        .scope("site2");
    assert_eq!(
        one.await.is(200).json()["items"][0]["accept"],
        "application/vnd.proto"
    );
}

#[tokio::test]
async fn streams_come_from_one_site() {
    let services = [pods(&["a"], true), pods(&["b"], true)];
    let mesh = mesh(&services).await;
    let refused = get(mesh.b(1), "/pods?watch=true").scope(BOTH).await;
    refused.problem(501, "not_available");
    assert_eq!(services.each_ref().map(Scripted::executed), [0, 0]);
    get(mesh.b(1), "/pods?watch=true").scope("site2").await.is(200);
    get(mesh.b(1), "/pods?watch=false").scope(BOTH).await.is(200);
    get(mesh.b(1), "/pods?watch=1").await.is(200);
}

#[tokio::test]
async fn what_belongs_to_no_workflow_is_answered_here() {
    let named = |name: &'static str| Scripted::start(move |_| async move { json_answer(200, &json!(name)) });
    let services = [named("one"), named("two")];
    let mesh = mesh(&services).await;
    for (scope, expect) in [(BOTH, "one"), ("site2 & site1", "one"), ("site2", "two")] {
        let answer = get(mesh.b(1), "/version").scope(scope).await.is(200);
        assert_eq!(answer.json(), expect, "{scope}");
    }
}

/// A service that pages by links, at most two items at a time, and tells the item before.
fn paged(ids: &'static [&'static str]) -> Scripted {
    Scripted::start(move |request| async move { page(ids, &request) })
}

fn page(ids: &[&str], request: &Request<Bytes>) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    let marker = query.split('&').find_map(|pair| pair.strip_prefix("marker="));
    let begin = match marker {
        Some(marker) => match ids.iter().position(|id| *id == marker) {
            Some(place) => place + 1,
            None => return json_answer(400, &json!({"error": format!("marker {marker} not found")})),
        },
        None => 0,
    };
    let end = (begin + 2).min(ids.len());
    let items: Vec<Value> = ids[begin..end].iter().map(|id| json!({"id": id})).collect();
    let (path, more) = (request.uri().path(), end < ids.len());
    let mut answer = json!({&path[1..]: items});
    if more {
        let last = ids[end - 1];
        let host = request.headers()["host"].to_str().unwrap();
        if path == "/images" {
            answer["next"] = json!(format!("{path}?limit=2&marker={last}"));
        } else {
            let href = format!("http://{host}{path}?limit=2&marker={last}");
            answer["servers_links"] =
                json!([{"rel": "previous", "href": "x"}, {"rel": "next", "href": href}]);
        }
    }
    json_answer(200, &answer)
}

#[tokio::test]
async fn links_lead_through_the_lists_of_all_sites() {
    let services = [paged(&["a", "b", "c"]), paged(&["d", "e", "f"])];
    let mesh = mesh(&services).await;
    let origin = format!("http://{}", mesh.b(1));
    for path in ["/images", "/servers"] {
        let (mut next, mut seen) = (Some(format!("{path}?limit=2&name=x")), Vec::new());
        while let Some(url) = next.take() {
            let answer = get(mesh.b(1), &url).scope(BOTH).await.is(200).json();
            let items = answer[&path[1..]].as_array().unwrap();
            seen.extend(
                items
                    .iter()
                    .map(|item| format!("{}@{}", item["id"], item["@site"])),
            );
            let told = match &answer["next"] {
                Value::String(url) => Some(url.clone()),
                _ => answer["servers_links"][0]["href"].as_str().map(str::to_owned),
            };
            next = told.map(|url| {
                assert!(url.contains("limit=2&name=x&marker="), "{url}");
                let is_absolute = path == "/servers";
                assert_eq!(url.starts_with(&origin), is_absolute, "{url}");
                url.strip_prefix(&origin).unwrap_or(&url).to_owned()
            });
        }
        let expect = ["a", "b", "c"].map(|id| format!("\"{id}\"@\"site1\""));
        let more = ["d", "e", "f"].map(|id| format!("\"{id}\"@\"site2\""));
        assert_eq!(seen, [expect, more].concat());
    }
}

#[tokio::test]
async fn links_of_a_listener_with_tls_lead_back_to_it() {
    let services = [paged(&["a", "b", "c"]), paged(&["d", "e", "f"])];
    let mesh = Mesh::of(2)
        .glue(GLUE)
        .tls("B")
        .upstream(1, "B", services[0].addr())
        .upstream(2, "B", services[1].addr())
        .start()
        .await;
    let call = get(mesh.b(1), "/servers?limit=2").scope(BOTH).tls(mesh.tls());
    for call in [call.clone(), call.http2()] {
        let answer = call.await.is(200).json();
        let next = answer["servers_links"][0]["href"].as_str().unwrap();
        assert!(next.starts_with("https://"), "{next}");
    }
}

#[tokio::test]
async fn what_one_site_is_enough_for_is_explained_so() {
    let services = [pods(&["a"], false), pods(&["b"], false)];
    let mesh = mesh(&services).await;
    let site = mesh.site(1);
    for (method, path, scope, plan) in [
        ("GET", "/version", BOTH, "local"),
        ("GET", "/version", "site2", "forward"),
        ("POST", "/reviews", BOTH, "local"),
        ("POST", "/pods?dryRun=All", BOTH, "local"),
        ("POST", "/pods/a/attach", BOTH, "local"),
        ("POST", "/pods", BOTH, "replicate"),
        ("GET", "/pods?dryRun=All", BOTH, "gather"),
    ] {
        let told = site.plan("B", method, path, scope).await;
        assert!(told.starts_with(plan), "{method} {path} {scope}: {told}");
    }
    let request = json!({ "service": "B", "path": "/version", "scope": BOTH });
    let explained = site.tell("/v1/explain", &request).await;
    assert_eq!(
        explained["notes"],
        json!([
            "it belongs to no workflow: one site is enough, this one if it is among them, else the nearest"
        ])
    );
    let request = json!({ "service": "B", "path": "/pods?watch=1", "scope": BOTH });
    let notes = site.tell("/v1/explain", &request).await["notes"].to_string();
    assert!(notes.contains("does not end"), "{notes}");
}

#[tokio::test]
async fn a_caller_may_go_on_behind_an_item_of_its_own_choice() {
    let services = [paged(&["a", "b", "c"]), paged(&["d", "e", "f"])];
    let mesh = mesh(&services).await;
    let ids = |answer: Value| -> String {
        let items = answer["servers"].as_array().unwrap().iter();
        items
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect()
    };
    for (marker, expect) in [("b", "cde"), ("c", "de"), ("e", "f"), ("f", "")] {
        let path = format!("/servers?marker={marker}");
        let answer = get(mesh.b(1), &path).scope(BOTH).await.is(200);
        assert_eq!(ids(answer.json()), expect, "{marker}");
    }
    let unknown = get(mesh.b(1), "/servers?marker=z").scope(BOTH).await.is(400);
    assert_eq!(unknown.json()["error"], "marker z not found");
}
