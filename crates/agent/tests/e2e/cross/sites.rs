//! Extents that come and go.

use http::Method;
use serde_json::{Value, json};

use super::{BOTH, make, names, own, room};
use crate::harness::{Mesh, get, post, until};

/// The meta-id of the only cross resource.
async fn only(mesh: &Mesh) -> String {
    let list = mesh.site(1).ask("/v1/cross").await;
    list["resources"][0]["meta_id"].as_str().unwrap().to_owned()
}

async fn operate(mesh: &Mesh, method: Method, path: &str, body: Value) -> Value {
    mesh.site(1).operate(method, path, &body).await
}

#[tokio::test]
async fn a_container_reaches_one_more_site_and_one_less() {
    let mesh = Mesh::of(3).start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 1, "foo", "one").await.is(201);
    let sites = format!("/v1/cross/{}/sites", only(&mesh).await);
    operate(&mesh, Method::POST, &sites, json!({ "site": "site3" })).await;
    until("the extent is there", async || {
        own(&mesh, 3, "/rooms/foo").await.0 == 200
    })
    .await;
    until("site 3 knows the container", async || {
        names(&mesh, 3, "/rooms/foo/boxes").await == ["one@site1"]
    })
    .await;
    // The application may have it before its agent has heard so: until then creates there are told to try again.
    until("the agent of site 3 knows its extent", async || {
        mesh.site(3).ask("/v1/cross").await["resources"][0]["state"] == "ok"
    })
    .await;
    // Adding a site changes nothing about who gives names away.
    make(&mesh, 3, "foo", "three").await.is(201);
    make(&mesh, 3, "foo", "one").await.is(409);
    assert_eq!(
        names(&mesh, 2, "/rooms/foo/boxes").await,
        ["one@site1", "three@site3"]
    );
    operate(&mesh, Method::DELETE, &format!("{sites}/site3"), json!({})).await;
    until("the extent is gone", async || {
        own(&mesh, 3, "/rooms/foo").await.0 == 404
    })
    .await;
    until("its content is too", async || {
        names(&mesh, 2, "/rooms/foo/boxes").await == ["one@site1"]
    })
    .await;
    make(&mesh, 2, "foo", "three").await.is(201);
}

#[tokio::test]
async fn a_part_is_handed_over() {
    let mesh = Mesh::of(3).start().await;
    post(mesh.b(1), "/crews", r#"{"name":"packers","workers":10}"#)
        .scope(BOTH)
        .header("prefer", "wait=20")
        .await
        .is(201);
    let cross = format!("/v1/cross/{}", only(&mesh).await);
    let parts = async || {
        let mut parts = Vec::new();
        for site in 1..=3 {
            parts.push(own(&mesh, site, "/crews/packers").await.1["workers"].clone());
        }
        parts
    };
    operate(
        &mesh,
        Method::POST,
        &format!("{cross}/sites"),
        json!({ "site": "site3" }),
    )
    .await;
    until("the new site has nothing yet", async || {
        parts().await == [5, 5, 0]
    })
    .await;
    let told = operate(&mesh, Method::POST, &format!("{cross}/rebalance"), json!({})).await;
    assert_eq!(told["form"], "divided");
    until("everyone has a part", async || parts().await == [4, 3, 3]).await;
    operate(
        &mesh,
        Method::POST,
        &format!("{cross}/rebalance"),
        json!({ "total": 12, "weights": [["site3", 2]] }),
    )
    .await;
    until("it is divided by weight", async || parts().await == [3, 3, 6]).await;
    let path = format!("{cross}/sites/site3?rebalance=true");
    operate(&mesh, Method::DELETE, &path, json!({})).await;
    until("the others have its part", async || parts().await[..2] == [6, 6]).await;
    assert_eq!(
        get(mesh.b(2), "/crews/packers").await.is(200).json()["workers"],
        12
    );
    // What somebody changes behind the agents' backs is set right.
    let body = json!({ "workers": 99 }).to_string();
    crate::harness::patch(mesh.application(2, "B"), "/crews/packers", body)
        .await
        .is(200);
    let verify = format!("/v1/replicas/{}/verify?repair=true", only(&mesh).await);
    operate(&mesh, Method::POST, &verify, json!({})).await;
    until("the part is right again", async || parts().await[..2] == [6, 6]).await;
}
