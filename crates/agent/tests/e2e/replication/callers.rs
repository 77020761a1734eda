//! Replays speak in the names of verified callers, with the rights that those have at each site.

use std::fs;

use http::Method;
use serde_json::{Value, json};

use super::support::{BOTH, Made, listed};
use crate::harness::{Answer, Call, Mesh, get, post, until};

const GLUE: &str = concat!(
    include_str!("../../../../../glue/example.toml"),
    r#"
[services.B]
error-message = "/error"

[services.B.caller]
verify = { request = "GET /whoami", from = "Authorization", scheme = "Bearer", user = "/user" }
impersonate = { user = "Act-As", group = "Act-In" }
privileged = ["root"]
"#
);

/// Ann's token is good at site 1 only.
const SITE1: &str = "t-ann ann\nt-root root\nt-agent agent speaks\n";
const OTHERS: &str = "t-agent agent speaks\n";

async fn start() -> Mesh {
    let mesh = Mesh::of(3)
        .glue(GLUE)
        .token(SITE1)
        .credential("B", "t-agent\n")
        .limit("ship_retry_max_ms", 1_000)
        .limit("replay_blocked_ms", 200)
        .start()
        .await;
    for site in [2, 3] {
        fs::write(mesh.site(site).token_file(), OTHERS).unwrap();
    }
    mesh
}

async fn by(token: &str, call: Call) -> Answer {
    call.header("authorization", &format!("Bearer {token}")).await
}

async fn make(mesh: &Mesh, token: &str, name: &str) -> Made {
    let body = json!({ "name": name }).to_string();
    let made = by(token, post(mesh.b(1), "/items", body).scope(BOTH)).await;
    Made::by("B", "items", &made)
}

/// The names of the items that a site's application has.
async fn names(mesh: &Mesh, site: usize) -> Vec<String> {
    let list = by("t-agent", get(mesh.application(site, "B"), "/items")).await;
    let list = list.is(200).json();
    let items = list["items"].as_array().unwrap().iter();
    let mut names: Vec<_> = items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_token_that_ended_during_a_cut_does_not_stop_the_catch_up() {
    let mesh = start().await;
    let first = make(&mesh, "t-ann", "first").await;
    until("site2 has the first", async || names(&mesh, 2).await == ["first"]).await;

    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    let second = make(&mesh, "t-ann", "second").await;
    let patch = first.call(&mesh, 1, Method::PATCH, &json!({ "name": "renamed" }));
    by("t-ann", patch).await.is(200);
    let told = listed(mesh.site(1), "operations", &format!("set={}", second.set)).await;
    let path = format!("/v1/operations/{}", told[0]["id"].as_str().unwrap());
    let (_, operation) = mesh.site(1).look(&path).await;
    assert_eq!(operation["caller"], "ann", "{operation:#}");
    fs::write(mesh.site(1).token_file(), "t-agent agent speaks\n").unwrap();
    mesh.rejoin(2);

    until("site2 has followed", async || {
        names(&mesh, 2).await == ["renamed", "second"]
    })
    .await;
    for made in [&first, &second] {
        made.until_state(&mesh, &[1, 2], "ok").await;
        // Nothing is kept of the operations, and reads still have somebody's name.
        let path = format!("/v1/replicas/{}/verify", made.set);
        let found = mesh.site(1).operate(Method::POST, &path, &json!({})).await;
        assert_eq!(found["same"], true, "{found:#}");
    }
    // A site that joins makes its replica in the last writer's name.
    let path = format!("/v1/replicas/{}/sites", first.set);
    let joins = json!({ "site": "site3" });
    mesh.site(1).operate(Method::POST, &path, &joins).await;
    until("site3 has it too", async || names(&mesh, 3).await == ["renamed"]).await;
    first.until_state(&mesh, &[1, 2, 3], "ok").await;
}

#[tokio::test]
async fn a_right_that_a_caller_lacks_at_a_site_is_lacking_there() {
    let mesh = start().await;
    fs::write(mesh.site(2).token_file(), format!("{OTHERS}- ann\n")).unwrap();
    let made = make(&mesh, "t-ann", "tea").await;
    let of_site2 = |detail: &Value| {
        let replicas = detail["replicas"].as_array().unwrap().iter();
        let mut replicas = replicas.filter(|replica| replica["site"] == "site2");
        replicas.next().unwrap().clone()
    };
    for site in [1, 2] {
        made.until_state(&mesh, &[site], "degraded").await;
        let replica = of_site2(&made.detail(mesh.site(site)).await);
        assert_eq!(replica["state"], "degraded", "{replica:#}");
        assert_eq!(replica["status"], 403, "{replica:#}");
        assert_eq!(replica["said"], "ann may only read", "{replica:#}");
    }
    assert!(names(&mesh, 2).await.is_empty());

    fs::write(mesh.site(2).token_file(), OTHERS).unwrap();
    until("site2 has it once it may", async || {
        names(&mesh, 2).await == ["tea"]
    })
    .await;
    made.until_state(&mesh, &[1, 2], "ok").await;
}

#[tokio::test]
async fn privileged_callers_are_spoken_for_only_where_they_are_named() {
    let mut mesh = start().await;
    let made = make(&mesh, "t-root", "coffee").await;
    let waiting = async |mesh: &Mesh| listed(mesh.site(2), "operations", "state=needs-credentials").await;
    until("site2 wants a credential", async || {
        waiting(&mesh).await.len() == 1
    })
    .await;
    let why =
        "`root` is privileged, and site `site1` may not vouch for it here: add it to `vouch` in [services.B]";
    until("site1 knows why", async || {
        made.detail(mesh.site(1)).await.to_string().contains(why)
    })
    .await;
    assert!(names(&mesh, 2).await.is_empty());

    let config = fs::read_to_string(mesh.site(2).config_path()).unwrap();
    let config = config.replace("\ncredential = ", "\nvouch = [\"root\"]\ncredential = ");
    fs::write(mesh.site(2).config_path(), config).unwrap();
    mesh.site_mut(2).restart().await;
    until("site2 has followed", async || names(&mesh, 2).await == ["coffee"]).await;
}

#[tokio::test]
async fn whoever_speaks_for_another_does_so_at_every_site() {
    let mesh = start().await;
    fs::write(mesh.site(2).token_file(), format!("{OTHERS}- bob\n")).unwrap();
    let call = post(mesh.b(1), "/items", r#"{"name":"tea"}"#).scope(BOTH);
    let made = by("t-agent", call.header("act-as", "bob")).await;
    let made = Made::by("B", "items", &made);
    made.until_state(&mesh, &[1], "degraded").await;
    let told = made.detail(mesh.site(1)).await.to_string();
    assert!(told.contains("bob may only read"), "{told}");
    // Who may not speak for another does not, and nothing is recorded.
    let call = post(mesh.b(1), "/items", r#"{"name":"no"}"#).scope(BOTH);
    let refused = by("t-ann", call.header("act-as", "bob")).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(listed(mesh.site(1), "replicas", "").await.len(), 1);
}
