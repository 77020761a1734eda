//! Ids that callers choose are the same everywhere.

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

    // The same name again is another resource.
    let again = replicate(&mesh, 2, ("B", "labels"), label, BOTH).await;
    assert_ne!(again.set, made.set);
    again.until_same(&mesh, &[1, 2]).await;
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

#[tokio::test]
async fn one_name_made_on_both_sides_of_a_cut_ends_as_one_state() {
    let mesh = Mesh::of(2).start().await;
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    mesh.site(2).until_sees("site1", false).await;
    for (site, colour) in [(1, "red"), (2, "blue")] {
        let body = json!({ "name": "x", "colour": colour }).to_string();
        post(mesh.b(site), "/labels", body).scope(BOTH).await.is(201);
    }
    mesh.rejoin(2);
    // One set with the later body and the earlier one a conflict, or both degraded where the name is taken.
    until("both sites know what became of the name", async || {
        let mut settled = true;
        for site in [1, 2] {
            let sets = listed(mesh.site(site), "replicas", "state=degraded").await.len();
            let conflicts = listed(mesh.site(site), "conflicts", "").await.len();
            settled &= sets + conflicts > 0;
        }
        settled
    })
    .await;
    for site in [1, 2] {
        assert_eq!(rows(&mesh, site, "B", "labels").await.len(), 1, "site{site}");
    }
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
