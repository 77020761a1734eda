//! Operations execute with their caller's credential, which is found nowhere.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Call, Mesh, get, post, until};

use super::support::{BOTH, Made, listed};

const OLD: &str = "tk-old-9f3b1c77e2a04d51";
const NEW: &str = "tk-new-41d8c0b95e6f4a23";

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

async fn as_user(call: Call, token: &str) -> Answer {
    call.header("authorization", &bearer(token)).await
}

/// The names of items that a site's application has.
async fn names(mesh: &Mesh, site: usize, token: &str) -> Vec<String> {
    let list = as_user(get(mesh.application(site, "B"), "/items"), token).await;
    let list = list.is(200).json();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Files below a directory whose bytes have one of the tokens, in clear or in base64.
fn files_with(dir: &Path, tokens: &[&str], found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with(&path, tokens, found);
            continue;
        }
        // Sockets cannot be read, and files may be gone by now.
        let Ok(bytes) = fs::read(&path) else { continue };
        for token in tokens {
            let forms = [
                (*token).to_owned(),
                STANDARD.encode(token),
                STANDARD.encode(bearer(token)),
            ];
            for form in forms {
                // The end of a base64 text depends on what follows.
                let form = &form.as_bytes()[..form.trim_end_matches('=').len() - 2];
                if bytes.windows(form.len()).any(|window| window == form) {
                    found.push(format!("{} in {}", String::from_utf8_lossy(form), path.display()));
                }
            }
        }
    }
}

/// Looks for tokens wherever they must not be: logs, everything that agents keep, all that operators see.
async fn search(mesh: &Mesh, tokens: &[&str]) {
    let mut found = Vec::new();
    for number in 1..=3 {
        let site = mesh.site(number);
        files_with(site.data_dir(), tokens, &mut found);
        for token in tokens {
            if site.agent().log().contains(token) {
                found.push(format!("{token} in the log of {}", site.name));
            }
        }
        let mut paths = ["replicas", "operations", "conflicts", "sites", "limits"]
            .map(|what| format!("/v1/{what}"))
            .to_vec();
        for set in listed(site, "replicas", "").await {
            let meta = set["meta_id"].as_str().unwrap();
            paths.push(format!("/v1/replicas/{meta}"));
            paths.push(format!("/v1/operations?set={meta}"));
            for operation in listed(site, "operations", &format!("set={meta}")).await {
                paths.push(format!("/v1/operations/{}", operation["id"].as_str().unwrap()));
            }
        }
        for path in paths {
            let (_, answer) = site.look(&path).await;
            for token in tokens {
                if answer.to_string().contains(token) {
                    found.push(format!("{token} in {path} of {}", site.name));
                }
            }
        }
    }
    assert!(found.is_empty(), "credentials are found: {found:#?}");
}

async fn waiting(mesh: &Mesh, site: usize) -> Vec<Value> {
    listed(mesh.site(site), "operations", "state=needs-credentials").await
}

#[tokio::test]
async fn a_token_that_ends_while_a_site_is_away() {
    let mesh = Mesh::of(3)
        .token(OLD)
        .limit("ship_retry_max_ms", 1_000)
        .start()
        .await;
    let refused = post(mesh.b(1), "/items", r#"{"name":"nobody"}"#)
        .scope(BOTH)
        .await;
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(listed(mesh.site(1), "replicas", "").await.is_empty());

    let first = post(mesh.b(1), "/items", r#"{"name":"first"}"#).scope(BOTH);
    let first = as_user(first.header("prefer", "wait=20"), OLD).await;
    let first = Made::by("B", "items", &first);
    assert_eq!(names(&mesh, 2, OLD).await, ["first"]);

    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    let second = as_user(post(mesh.b(1), "/items", r#"{"name":"second"}"#).scope(BOTH), OLD).await;
    let second = Made::by("B", "items", &second);
    let patched = first.call(&mesh, 1, Method::PATCH, &json!({ "name": "renamed" }));
    as_user(patched, OLD).await.is(200);
    search(&mesh, &[OLD]).await;

    fs::write(mesh.site(2).token_file(), NEW).unwrap();
    mesh.rejoin(2);
    until("both operations wait for a credential", async || {
        waiting(&mesh, 2).await.len() == 2
    })
    .await;
    assert_eq!(names(&mesh, 2, NEW).await, ["first"]);
    for operation in waiting(&mesh, 2).await {
        let path = format!("/v1/operations/{}", operation["id"].as_str().unwrap());
        until("site1 knows what site2 waits for", async || {
            let (_, told) = mesh.site(1).look(&path).await;
            told["sites"][1] == json!({ "site": "site2", "state": "needs-credentials" })
        })
        .await;
    }
    search(&mesh, &[OLD]).await;

    for operation in waiting(&mesh, 2).await {
        let path = format!("/v1/operations/{}/retry", operation["id"].as_str().unwrap());
        let credential = json!({ "credential": { "authorization": bearer(NEW) } });
        mesh.site(2).operate(Method::POST, &path, &credential).await;
    }
    until("site2 has followed", async || {
        let mut names = names(&mesh, 2, NEW).await;
        names.sort();
        names == ["renamed", "second"]
    })
    .await;
    assert!(waiting(&mesh, 2).await.is_empty());
    for made in [&first, &second] {
        made.until_state(&mesh, &[1, 2], "ok").await;
    }
    search(&mesh, &[OLD, NEW]).await;
}

#[tokio::test]
async fn a_credential_survives_a_restart_sealed() {
    let mut mesh = Mesh::of(3).token(OLD).start().await;
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    let made = as_user(post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(BOTH), OLD).await;
    Made::by("B", "items", &made);
    mesh.site_mut(1).restart().await;
    search(&mesh, &[OLD]).await;
    mesh.rejoin(2);
    until("site2 has the item", async || {
        names(&mesh, 2, OLD).await == ["bolt"]
    })
    .await;
    search(&mesh, &[OLD]).await;
}

#[tokio::test]
async fn a_site_outside_of_the_set_never_sees_the_credential() {
    let mesh = Mesh::of(3).token(OLD).start().await;
    let before = mesh.link(1, 3).traffic().to_target_bytes;
    let made = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(BOTH);
    let made = as_user(made.header("prefer", "wait=20"), OLD).await;
    Made::by("B", "items", &made);
    search(&mesh, &[OLD]).await;
    assert!(listed(mesh.site(3), "replicas", "").await.is_empty());
    // Heartbeats only.
    let sent = mesh.link(1, 3).traffic().to_target_bytes - before;
    assert!(sent < 64 * 1024, "{sent} bytes to a site that is not involved");
}
