//! Ids that callers choose are the same everywhere.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Mesh, delete, get, post, put, until};

use super::support::{ALL, BOTH, Made, WAIT, listed, replicate, rows};

#[tokio::test]
async fn a_name_is_the_same_at_all_sites() {
    let mesh = Mesh::of(3).start().await;
    let label = json!({ "name": "to-do", "colour": "red" });
    let made = replicate(&mesh, 1, ("B", "labels"), label.clone(), BOTH).await;
    assert_eq!(made.id, "to-do");
    for site in [1, 2] {
        assert_eq!(made.read(&mesh, site).await.is(200).json(), label);
        assert_eq!(
            rows(&mesh, site, "B", "labels").await,
            std::slice::from_ref(&label)
        );
    }
    assert!(rows(&mesh, 3, "B", "labels").await.is_empty());
    let list = get(mesh.b(3), "/labels").scope(BOTH).await.is(200).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list:#}");

    put(mesh.b(2), "/labels/to-do", r#"{"colour":"blue"}"#)
        .header("prefer", WAIT)
        .await
        .is(200);
    let expected = json!({ "name": "to-do", "colour": "blue" });
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, expected);
    delete(mesh.b(1), "/labels/to-do")
        .header("prefer", WAIT)
        .await
        .is(204);
    assert!(rows(&mesh, 2, "B", "labels").await.is_empty());

    // The same name at the same sites is the same set, made again.
    let again = replicate(&mesh, 2, ("B", "labels"), label.clone(), BOTH).await;
    assert_eq!(again.set, made.set);
    assert_eq!(again.until_same(&mesh, &[1, 2]).await, label);
    // At other sites it is another one.
    delete(mesh.b(1), "/labels/to-do")
        .header("prefer", WAIT)
        .await
        .is(204);
    let wider = replicate(&mesh, 3, ("B", "labels"), label, ALL).await;
    assert_ne!(wider.set, made.set);
    wider.until_same(&mesh, &[1, 2, 3]).await;
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_by_the_application() {
    let mesh = Mesh::of(2).start().await;
    replicate(&mesh, 1, ("B", "labels"), json!({ "name": "x" }), BOTH).await;
    for site in [1, 2] {
        let again = post(mesh.b(site), "/labels", r#"{"name":"x"}"#).scope(BOTH).await;
        assert_eq!(again.status, 409, "{again:?}");
        assert!(again.json()["error"].as_str().unwrap().contains("already has x"));
    }
    assert_eq!(listed(mesh.site(1), "replicas", "").await.len(), 1);
    assert_eq!(listed(mesh.site(2), "replicas", "").await.len(), 1);
}

/// A label through a site; it is answered when that site has it.
async fn label(mesh: &Mesh, site: usize, colour: &str) -> Made {
    let body = json!({ "name": "x", "colour": colour }).to_string();
    let created = post(mesh.b(site), "/labels", body).scope(BOTH).await;
    Made::by("B", "labels", &created)
}

async fn cut(mesh: &Mesh) {
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    mesh.site(2).until_sees("site1", false).await;
}

/// The conflicts that a site lists, and no set that is not as it should be.
async fn conflicts(mesh: &Mesh, site: usize) -> Vec<String> {
    let degraded = listed(mesh.site(site), "replicas", "state=degraded").await;
    assert!(degraded.is_empty(), "site{site}: {degraded:#?}");
    let listed = listed(mesh.site(site), "conflicts", "").await;
    let ids = listed.iter().map(|one| one["id"].as_str().unwrap().to_owned());
    ids.collect()
}

#[tokio::test]
async fn one_name_made_on_both_sides_of_a_cut_is_one_resource() {
    let mesh = Mesh::of(2).start().await;
    cut(&mesh).await;
    let red = label(&mesh, 1, "red").await;
    let blue = label(&mesh, 2, "blue").await;
    assert_eq!(red.set, blue.set, "two creates of one set");
    mesh.rejoin(2);
    until("the later one is at both sites", async || {
        red.until_same(&mesh, &[1, 2]).await["colour"] == "blue"
    })
    .await;
    for site in [1, 2] {
        until("the earlier one is kept", async || {
            conflicts(&mesh, site).await.len() == 1
        })
        .await;
        assert_eq!(rows(&mesh, site, "B", "labels").await.len(), 1, "site{site}");
        assert_eq!(listed(mesh.site(site), "replicas", "").await.len(), 1);
    }
    let loser = conflicts(&mesh, 2).await.remove(0);
    let again = format!("/v1/conflicts/{loser}/reapply");
    let reapplied = mesh.site(2).operate(Method::POST, &again, &json!({})).await;
    assert_eq!(reapplied["status"], 200, "{reapplied:#}");
    until("the earlier one is back", async || {
        red.until_same(&mesh, &[1, 2]).await["colour"] == "red"
    })
    .await;
}

#[tokio::test]
async fn one_name_made_at_two_sites_at_once_is_one_resource() {
    let mesh = Mesh::of(2).start().await;
    let create = async |site: usize, colour: &str| {
        let body = json!({ "name": "x", "colour": colour }).to_string();
        post(mesh.b(site), "/labels", body).scope(BOTH).await.status
    };
    let mut lost = 0;
    for round in 0..10 {
        let answers = tokio::join!(create(1, "red"), create(2, "blue"));
        // Who comes second hears that the name is taken, or both made it before they heard of each other.
        assert!(
            matches!(answers, (201 | 409, 201) | (201, 409)),
            "{round}: {answers:?}"
        );
        until("both have the same", async || {
            let both = [
                rows(&mesh, 1, "B", "labels").await,
                rows(&mesh, 2, "B", "labels").await,
            ];
            both[0].len() == 1 && both[0] == both[1]
        })
        .await;
        assert_eq!(listed(mesh.site(1), "replicas", "").await.len(), 1, "{round}");
        // A delete leaves a create that its site has not heard of: so both hear of both first.
        lost += usize::from(answers == (201, 201));
        until("both know who lost", async || {
            conflicts(&mesh, 1).await.len() == lost && conflicts(&mesh, 2).await.len() == lost
        })
        .await;
        delete(mesh.b(1 + round % 2), "/labels/x")
            .header("prefer", WAIT)
            .await
            .is(204);
        until("it is gone from both", async || {
            rows(&mesh, 1, "B", "labels").await.is_empty() && rows(&mesh, 2, "B", "labels").await.is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn a_name_that_is_deleted_and_made_again_during_a_cut_is_made_again_everywhere() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate(
        &mesh,
        1,
        ("B", "labels"),
        json!({ "name": "x", "colour": "red" }),
        BOTH,
    )
    .await;
    cut(&mesh).await;
    for colour in ["green", "blue"] {
        delete(mesh.b(1), "/labels/x").await.is(204);
        label(&mesh, 1, colour).await;
    }
    // Whoever has not heard of it changes what is gone.
    made.patch(&mesh, 2, json!({ "colour": "black" })).await.is(200);
    mesh.rejoin(2);
    until("both have what was made last", async || {
        made.until_same(&mesh, &[1, 2]).await["colour"] == "blue"
    })
    .await;
    for site in [1, 2] {
        until("the change of what is gone is kept", async || {
            conflicts(&mesh, site).await.len() == 1
        })
        .await;
    }
}

#[tokio::test]
async fn a_delete_leaves_the_create_that_it_had_not_seen() {
    let mesh = Mesh::of(2).start().await;
    cut(&mesh).await;
    let blue = label(&mesh, 2, "blue").await;
    label(&mesh, 1, "red").await;
    delete(mesh.b(1), "/labels/x").await.is(204);
    mesh.rejoin(2);
    until("what was not deleted is at both sites", async || {
        blue.until_same(&mesh, &[1, 2]).await["colour"] == "blue"
    })
    .await;
    for site in [1, 2] {
        conflicts(&mesh, site).await;
    }
}

#[tokio::test]
async fn a_name_of_other_sites_is_refused_while_it_is_in_use() {
    let mesh = Mesh::of(3).start().await;
    replicate(&mesh, 1, ("B", "labels"), json!({ "name": "x" }), BOTH).await;
    let other = post(mesh.b(1), "/labels", r#"{"name":"x"}"#).scope(ALL).await;
    assert_eq!(other.status, 409, "{other:?}");
    let detail = other.text();
    assert!(detail.contains("add-site"), "it says what to do: {detail}");
    assert_eq!(listed(mesh.site(1), "replicas", "").await.len(), 1);
}

#[tokio::test]
async fn an_id_that_may_be_set_is_the_same_at_all_sites() {
    const ID: &str = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736";
    let mesh = Mesh::of(3).start().await;
    let chosen = replicate(&mesh, 1, ("B", "files"), json!({ "id": ID, "name": "plan" }), ALL).await;
    assert_eq!(chosen.id, ID);
    let given = replicate(&mesh, 2, ("B", "files"), json!({ "name": "draft" }), ALL).await;
    for site in 1..=3 {
        let mut ids: Vec<_> = rows(&mesh, site, "B", "files")
            .await
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        let mut expected = [ID.to_owned(), given.id.clone()];
        expected.sort();
        assert_eq!(ids, expected, "site{site}");
    }
    let taken = post(
        mesh.b(3),
        "/files",
        json!({ "id": ID, "name": "other" }).to_string(),
    )
    .scope(ALL)
    .await;
    assert_eq!(taken.status, 409, "{taken:?}");
}

#[tokio::test]
async fn a_name_held_by_a_stranger_is_never_overwritten() {
    let mesh = Mesh::of(2).start().await;
    post(mesh.b(2), "/labels", r#"{"name":"x","colour":"red"}"#)
        .await
        .is(201);
    let created = post(mesh.b(1), "/labels", r#"{"name":"x","colour":"blue"}"#)
        .scope(BOTH)
        .header("prefer", "wait=10")
        .await;
    let made = Made::by("B", "labels", &created);
    assert!(!created.receipt().complete, "{created:?}");
    made.until_state(&mesh, &[1, 2], "degraded").await;
    made.patch(&mesh, 1, json!({ "colour": "green" })).await.is(200);
    let stranger: Value = json!({ "name": "x", "colour": "red" });
    assert_eq!(rows(&mesh, 2, "B", "labels").await, [stranger]);
}
