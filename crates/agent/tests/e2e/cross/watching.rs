//! Lists of several sites that are watched.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Mesh, Scripted, get, json_answer, text_answer, until};

const GLUE: &str = r#"
application = "watched"

[services.B]
stream = ["?watch"]

[[services.B.resources]]
kind = "pod"
collection = "/pods"
[services.B.resources.list]
items = "/items"
watch = { parameter = "version", version = "/version", object = "/object" }
"#;
const BOTH: &str = "site1 & site2";

/// A list of one pod at a version; a watch tells one event that says from which version it was asked.
fn service(site: &'static str, version: u32) -> Scripted {
    Scripted::start(move |request| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let answer = if query.contains("watch") {
            let asked = query.split('&').find_map(|one| one.strip_prefix("version="));
            let name = format!("{site} from {}", asked.unwrap_or("the beginning"));
            let event =
                json!({ "type": "ADDED", "object": { "name": name, "version": (version + 1).to_string() } });
            let mut answer = text_answer(200, &format!("{event}\n"));
            let json = "application/json".parse().unwrap();
            answer.headers_mut().insert("content-type", json);
            answer
        } else {
            json_answer(
                200,
                &json!({ "version": version.to_string(), "items": [{ "id": site }] }),
            )
        };
        async move { answer }
    })
}

async fn events(mesh: &Mesh, query: &str) -> Vec<Value> {
    let answer = get(mesh.b(1), &format!("/pods?watch=1{query}"))
        .scope(BOTH)
        .await
        .is(200);
    let text = answer.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn each_site_goes_on_from_its_own_version() {
    let services = [service("one", 7), service("two", 9)];
    let mesh = Mesh::of(2)
        .glue(GLUE)
        .upstream(1, "B", services[0].addr())
        .upstream(2, "B", services[1].addr())
        .start()
        .await;
    let list = get(mesh.b(1), "/pods").scope(BOTH).await.is(200).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let version = format!("&version={}", list["version"].as_str().unwrap());
    // The stream ends soon after one site has ended its own.
    let mut seen = BTreeSet::new();
    let mut later = String::new();
    until("both are told", async || {
        for event in events(&mesh, &version).await {
            let object = &event["object"];
            assert!(object["@site"].is_string(), "{event}");
            seen.insert(object["name"].as_str().unwrap().to_owned());
            later = object["version"].as_str().unwrap().to_owned();
        }
        seen.len() == 2
    })
    .await;
    let expect = ["one from 7", "two from 9"].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(expect));
    // An event's version holds both sites' too: the one that it is about, and the other as it was.
    let mut seen = BTreeSet::new();
    until("both are told again", async || {
        for event in events(&mesh, &format!("&version={later}")).await {
            seen.insert(event["object"]["name"].as_str().unwrap().to_owned());
        }
        seen.len() == 2
    })
    .await;
    let moved: Vec<_> = seen
        .iter()
        .filter(|name| name.ends_with("from 8") || name.ends_with("from 10"))
        .collect();
    assert!(!moved.is_empty(), "{seen:?}");
    // A version of nobody's begins anew.
    let begun = events(&mesh, "&version=12").await;
    assert!(
        begun[0]["object"]["name"]
            .as_str()
            .unwrap()
            .ends_with("the beginning"),
        "{begun:?}"
    );
}
