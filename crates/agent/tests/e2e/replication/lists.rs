//! Lists show each replicated resource once, under the id that callers know.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Answer, Mesh, get, post};

use super::support::{ALL, BOTH, Made, mentions, replicate_item, text};

/// Ids of a list and how often each is there.
fn ids(answer: &Answer) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in answer.json()["items"].as_array().unwrap() {
        *counts.entry(text(&item["id"])).or_default() += 1;
    }
    counts
}

async fn fill(mesh: &Mesh) -> Vec<Made> {
    let mut made = Vec::new();
    for (through, scope) in [(1, BOTH), (2, BOTH), (3, ALL), (1, "site2 & site3")] {
        made.push(replicate_item(mesh, through, "shared", scope).await);
    }
    for site in 1..=3 {
        post(mesh.b(site), "/items", r#"{"name":"own"}"#).await.is(201);
    }
    made
}

#[tokio::test]
async fn a_list_shows_replicas_by_the_id_that_callers_know() {
    let mesh = Mesh::of(3).start().await;
    let made = fill(&mesh).await;
    for (site, shared) in [(1, vec![0, 1, 2]), (2, vec![0, 1, 2, 3]), (3, vec![2, 3])] {
        let list = get(mesh.b(site), "/items").await.is(200);
        let own = format!("{}", 1001 + 1000 * (site - 1) + shared.len());
        let mut expected = BTreeMap::from([(own, 1)]);
        for place in &shared {
            let replica = &made[*place];
            expected.insert(replica.id.clone(), 1);
            let local = replica.local_id(mesh.site(site)).await.unwrap();
            assert!(!mentions(&list, &local), "a local id leaks: {list:?}");
        }
        assert_eq!(ids(&list), expected, "site{site}");
    }
    // The services of the site itself go on with the ids that they gave.
    let inside = get(mesh.site(1).internal("B"), "/items").await.is(200);
    let locals: Vec<_> = ids(&inside).into_keys().collect();
    assert_eq!(locals, ["1001", "1002", "1003", "1004"]);
}

#[tokio::test]
async fn a_list_of_several_sites_shows_each_replica_once() {
    let mesh = Mesh::of(3).start().await;
    let made = fill(&mesh).await;
    for through in 1..=3 {
        for (scope, shared, own) in [
            (BOTH, vec![0, 1, 2, 3], vec!["1004", "2005"]),
            (ALL, vec![0, 1, 2, 3], vec!["1004", "2005", "3003"]),
            ("site1 & site3", vec![0, 1, 2, 3], vec!["1004", "3003"]),
        ] {
            let list = get(mesh.b(through), "/items").scope(scope).await.is(200);
            let mut expected: BTreeMap<_, _> = own.into_iter().map(|id| (id.to_owned(), 1)).collect();
            expected.extend(shared.into_iter().map(|place| (made[place].id.clone(), 1)));
            assert_eq!(ids(&list), expected, "{scope} through site{through}");
        }
    }
}

#[tokio::test]
async fn pages_of_several_sites_show_each_replica_once() {
    let mesh = Mesh::of(3).start().await;
    let made = fill(&mesh).await;
    for limit in 1..=4 {
        let mut counts = BTreeMap::new();
        let mut path = format!("/items?limit={limit}");
        loop {
            let page = get(mesh.b(1), &path).scope(ALL).await.is(200);
            for (id, count) in ids(&page) {
                *counts.entry(id).or_insert(0) += count;
            }
            let list = page.json();
            let Some(next) = list["next"].as_str() else {
                break;
            };
            path = format!("/items?limit={limit}&page_token={next}");
        }
        let expected = made
            .iter()
            .map(|made| made.id.clone())
            .chain(["1004", "2005", "3003"].map(str::to_owned))
            .map(|id| (id, 1))
            .collect::<BTreeMap<_, _>>();
        assert_eq!(counts, expected, "pages of {limit}");
    }
}

#[tokio::test]
async fn a_replica_is_listed_while_the_first_site_is_away() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    mesh.isolate(1);
    mesh.site(3).until_sees("site1", false).await;
    let list = get(mesh.b(3), "/items").scope(BOTH).await.is(200);
    assert_eq!(ids(&list), BTreeMap::from([(made.id.clone(), 1)]));
    assert!(!list.receipt().complete);
    let item: &Value = &list.json()["items"][0];
    assert_eq!(item["name"], json!("bolt"));
}
