//! What is left when the killing is over: settled by an operator where the glue gives no means to tell,
//! then compared with what callers were told.

use std::{collections::BTreeMap, time::Duration};

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Mesh, get};

use super::{
    super::support::{listed, portable, rows, text},
    Story,
};

/// How long sites may take. An execution without an answer is looked for only when the application cannot
/// be working on it any more.
const SETTLE_MAX: Duration = Duration::from_secs(90);
/// Service, collection, and the member that tells who asked for a resource.
const COLLECTIONS: [(&str, &str, &str); 3] = [
    ("B", "items", "name"),
    ("A", "orders", "buyer"),
    ("B", "labels", "name"),
];

/// Waits until no operation is open anywhere and all sites have the same.
pub(super) async fn settle(mesh: &Mesh) {
    let start = Instant::now();
    let mut doubted = 0;
    loop {
        let mut open = Vec::new();
        for site in 1..=3 {
            for operation in listed(mesh.site(site), "operations", "").await {
                if operation["state"] == "in-doubt" {
                    resolve(mesh, site, &operation).await;
                    doubted += 1;
                }
                open.push(operation);
            }
        }
        let mut states = Vec::new();
        for site in 1..=3 {
            states.push(state(mesh, site).await);
        }
        if open.is_empty() && states.iter().all(|state| *state == states[0]) {
            println!("{doubted} creates were in doubt");
            return;
        }
        assert!(
            start.elapsed() < SETTLE_MAX,
            "it never settles; open: {open:#?}, states: {states:#?}"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// Looks into the application, as an operator would, and says what became of an operation.
async fn resolve(mesh: &Mesh, site: usize, operation: &Value) {
    // Items have a key and orders a marker: nobody needs to be asked about them.
    assert_eq!(operation["kind"], "label", "{operation:#}");
    let id = operation["id"].as_str().unwrap();
    let detail = mesh.site(site).ask(&format!("/v1/operations/{id}")).await;
    let name = detail["body"]["value"]["name"].as_str();
    let name = name.unwrap_or_else(|| panic!("{detail:#}"));
    let found = get(mesh.application(site, "B"), &format!("/labels/{name}")).await;
    let verdict = match found.status {
        200 => json!({ "executed": true, "local_id": name }),
        _ => json!({ "executed": false }),
    };
    let path = format!("/v1/operations/{id}/settle");
    mesh.site(site).operate(Method::POST, &path, &verdict).await;
}

/// What a site's application has, without what differs between sites, sorted.
async fn state(mesh: &Mesh, site: usize) -> Vec<String> {
    let mut state = Vec::new();
    for (service, collection, _) in COLLECTIONS {
        for row in rows(mesh, site, service, collection).await {
            state.push(format!("{collection} {}", portable(row)));
        }
    }
    state.sort();
    state
}

pub(super) async fn check(mesh: &Mesh, stories: &[Story]) {
    for site in 1..=3 {
        let mut found = BTreeMap::<_, usize>::new();
        for (service, collection, member) in COLLECTIONS {
            for row in rows(mesh, site, service, collection).await {
                *found.entry((collection, text(&row[member]))).or_default() += 1;
            }
        }
        for (asked, acknowledged) in stories.iter().flat_map(|story| &story.made) {
            let count = found.get(asked).copied().unwrap_or(0);
            assert!(count <= 1, "{asked:?} was made {count} times at site{site}");
            assert!(count == 1 || !acknowledged, "{asked:?} is lost at site{site}");
        }
    }
    for (path, (acknowledged, asked)) in stories.iter().flat_map(|story| &story.values) {
        let read = get(mesh.b(1), path).await.is(200).json();
        let value = read["value"].as_u64().unwrap_or(0);
        assert!(
            (*acknowledged..=*asked).contains(&value),
            "{path} has {value}; {acknowledged} was acknowledged, {asked} the last asked for"
        );
    }
    let creates: Vec<_> = stories.iter().flat_map(|story| story.made.values()).collect();
    let made = creates.iter().filter(|made| ***made).count();
    println!("{made} of {} creates were acknowledged", creates.len());
    for (_, collection, _) in COLLECTIONS {
        let mut made = stories.iter().flat_map(|story| &story.made);
        let is_made = made.any(|((of, _), acknowledged)| *of == collection && *acknowledged);
        assert!(is_made, "the writers made no {collection}");
    }
}
