//! What lies in a container is at one site each and found from everywhere.

use cheops_types::PlanKind;
use http::Method;
use serde_json::json;

use super::{BOTH, call, make, names, own, room};
use crate::harness::{Mesh, get, post, until};

#[tokio::test]
async fn the_papers_table() {
    let mesh = Mesh::of(2).start().await;
    // The container is created on both sites.
    room(&mesh, "foo", BOTH).await;
    for site in [1, 2] {
        assert_eq!(own(&mesh, site, "/rooms/foo").await.0, 200);
    }
    // Blue at site 1 from site 2, yellow at site 2 from site 1.
    let blue = make(&mesh, 2, "foo", "blue").scope("site1").await.is(201);
    assert_eq!(blue.executed_at(), ["site1"]);
    make(&mesh, 1, "foo", "yellow").scope("site2").await.is(201);
    assert_eq!(own(&mesh, 1, "/rooms/foo/boxes/blue").await.0, 200);
    assert_eq!(own(&mesh, 2, "/rooms/foo/boxes/blue").await.0, 404);
    assert_eq!(own(&mesh, 2, "/rooms/foo/boxes/yellow").await.0, 200);
    // Listed as one from either side.
    for site in [1, 2] {
        assert_eq!(
            names(&mesh, site, "/rooms/foo/boxes").await,
            ["blue@site1", "yellow@site2"]
        );
    }
    // The second of a name is refused as the application does.
    for (site, name) in [(1, "yellow"), (2, "yellow"), (2, "blue")] {
        let refused = make(&mesh, site, "foo", name).await.is(409);
        assert_eq!(
            refused.json()["error"],
            format!("rooms/foo/boxes already has {name}")
        );
        assert_eq!(refused.receipt().plan, PlanKind::Cross);
        assert!(refused.executed_at().is_empty(), "{refused:?}");
    }
    // In other rooms, and outside of any, names are free.
    room(&mesh, "bar", BOTH).await;
    make(&mesh, 1, "bar", "yellow").await.is(201);
}

#[tokio::test]
async fn children_are_read_changed_and_deleted_from_anywhere() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 2, "foo", "far").await.is(201);
    let path = "/rooms/foo/boxes/far";
    let read = get(mesh.b(1), path).await.is(200);
    assert_eq!(read.json(), json!({ "name": "far", "by": 2 }));
    let patched = call(&mesh, 1, Method::PATCH, path, &json!({ "full": true }))
        .await
        .is(200);
    assert_eq!(patched.executed_at(), ["site2"]);
    assert_eq!(
        own(&mesh, 2, path).await.1,
        json!({ "name": "far", "by": 2, "full": true })
    );
    call(&mesh, 1, Method::PUT, path, &json!({ "by": 1 }))
        .await
        .is(200);
    assert_eq!(own(&mesh, 2, path).await.1, json!({ "name": "far", "by": 1 }));
    // Whoever names a site means what is there.
    assert_eq!(get(mesh.b(1), path).scope("site1").await.status, 404);
    assert_eq!(names(&mesh, 1, "/rooms/foo/boxes").await, ["far@site2"]);
    let own_part = get(mesh.b(1), "/rooms/foo/boxes")
        .scope("site1")
        .await
        .is(200)
        .json();
    assert_eq!(own_part, json!({ "items": [] }));
    call(&mesh, 1, Method::DELETE, path, &json!({})).await.is(204);
    assert_eq!(own(&mesh, 2, path).await.0, 404);
    let gone = call(&mesh, 1, Method::DELETE, path, &json!({})).await.is(404);
    assert_eq!(gone.json()["error"], "rooms/foo/boxes has no far");
    // The name is free again, for the other site too.
    make(&mesh, 1, "foo", "far").await.is(201);
}

#[tokio::test]
async fn a_name_is_free_after_a_refusal_and_after_its_owner_lost_it() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    // B refuses names of more than 63 letters: reserved, refused, released.
    let long = "x".repeat(64);
    make(&mesh, 2, "foo", &long).await.is(422);
    make(&mesh, 2, "foo", "there").await.is(201);
    // Deleted behind the agents' backs.
    let path = "/rooms/foo/boxes/there";
    crate::harness::delete(mesh.application(2, "B"), path)
        .await
        .is(204);
    make(&mesh, 1, "foo", "there").await.is(201);
    make(&mesh, 2, "foo", "there").await.is(409);
}

#[tokio::test]
async fn a_deleted_container_is_gone_everywhere_with_its_names() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 1, "foo", "a").await.is(201);
    make(&mesh, 2, "foo", "b").await.is(201);
    call(&mesh, 2, Method::DELETE, "/rooms/foo", &json!({}))
        .await
        .is(204);
    for site in [1, 2] {
        until("the extent is gone", async || {
            own(&mesh, site, "/rooms/foo").await.0 == 404
        })
        .await;
        assert_eq!(get(mesh.b(site), "/rooms/foo/boxes").await.status, 404);
    }
    room(&mesh, "foo", BOTH).await;
    assert!(names(&mesh, 1, "/rooms/foo/boxes").await.is_empty());
    make(&mesh, 2, "foo", "a").await.is(201);
}

#[tokio::test]
async fn pages_go_through_all_sites() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    for name in ["a", "c", "e"] {
        make(&mesh, 1, "foo", name).await.is(201);
    }
    for name in ["b", "d"] {
        make(&mesh, 2, "foo", name).await.is(201);
    }
    let mut seen = Vec::new();
    let mut path = "/rooms/foo/boxes?limit=2".to_owned();
    loop {
        let page = get(mesh.b(2), &path).await.is(200).json();
        let items = super::of(&page, |item| item["name"].as_str().unwrap().to_owned());
        assert!(items.len() <= 2, "{page}");
        seen.extend(items);
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/rooms/foo/boxes?limit=2&page_token={next}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn what_cannot_span_is_refused() {
    let mesh = Mesh::of(2).start().await;
    let refused = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(BOTH).await;
    let problem = refused.problem(409, "set_refused");
    assert!(
        problem["detail"].as_str().unwrap().contains("use `&`"),
        "{problem}"
    );
    let outside = Mesh::of(3).start().await;
    room(&outside, "foo", BOTH).await;
    let refused = make(&outside, 1, "foo", "x").scope("site3").await;
    let problem = refused.problem(409, "set_refused");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("cheops cross add-site"),
        "{problem}"
    );
    let all = call(&outside, 1, Method::DELETE, "/rooms/foo/boxes", &json!({})).await;
    all.problem(501, "not_available");
}

#[tokio::test]
async fn a_replicated_child_has_its_name_once() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    let both = make(&mesh, 1, "foo", "shared")
        .scope("site1 & site2")
        .header("prefer", "wait=20")
        .await
        .is(201);
    assert_eq!(both.executed_at().len(), 2, "{both:?}");
    for site in [1, 2] {
        assert_eq!(own(&mesh, site, "/rooms/foo/boxes/shared").await.0, 200);
        assert_eq!(names(&mesh, site, "/rooms/foo/boxes").await.len(), 1);
        make(&mesh, site, "foo", "shared").await.is(409);
    }
}

#[tokio::test]
async fn whoever_is_no_part_of_a_container_takes_no_name_from_it() {
    let mesh = Mesh::of(3).start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 1, "foo", "blue").await.is(201);
    // Site 3 knows nothing of the room, and sends it where its scope says.
    let refused = make(&mesh, 3, "foo", "blue").scope("site2").await.is(409);
    assert_eq!(refused.json()["error"], "rooms/foo/boxes already has blue");
    assert_eq!(own(&mesh, 2, "/rooms/foo/boxes/blue").await.0, 404);
    make(&mesh, 3, "foo", "green").scope("site2").await.is(201);
    make(&mesh, 1, "foo", "green").await.is(409);
    assert_eq!(
        names(&mesh, 1, "/rooms/foo/boxes").await,
        ["blue@site1", "green@site2"]
    );
}

#[tokio::test]
async fn a_body_in_yaml_has_a_name_too() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    let yaml = |site: usize| {
        post(
            mesh.b(site),
            "/rooms/foo/boxes",
            "name: soft\ncolour: a long text in YAML that is shorter or longer in JSON\n",
        )
        .header("content-type", "application/yaml")
    };
    let made = yaml(2).await.is(201);
    assert_eq!(made.json()["name"], "soft");
    yaml(1).await.is(409);
}

#[tokio::test]
async fn a_site_without_its_service_hands_a_cross_create_over() {
    let nobody = crate::harness::Port::reserve();
    let mesh = Mesh::of(2).upstream(1, "B", nobody.addr()).start().await;
    let body = json!({ "name": "packers", "workers": 10 }).to_string();
    let made = post(mesh.b(1), "/crews", body).scope(BOTH).await.is(201);
    assert_eq!(made.json()["workers"], 10);
    assert_eq!(own(&mesh, 2, "/crews/packers").await.1["workers"], 5);
    let cross = mesh.site(2).ask("/v1/cross").await;
    assert_eq!(cross["resources"][0]["form"], "divided", "{cross:#}");
}
