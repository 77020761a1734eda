//! Resources that their sites decide about together.

use std::time::Duration;

use cheops_types::PlanKind;
use http::Method;
use serde_json::json;

use super::support::{Made, WAIT};
use crate::harness::{Answer, Mesh, get, post, until};

const STRONG: &str = "strong(site1 & site2 & site3)";

async fn create(mesh: &Mesh, through: usize, name: &str) -> Made {
    let body = json!({ "name": name }).to_string();
    // So that a request without a scope is for it at every site.
    let answer = post(mesh.b(through), "/items", body)
        .scope(STRONG)
        .header("prefer", WAIT)
        .await;
    Made::by("B", "items", &answer)
}

impl Made {
    /// What is decided, as a site tells it.
    async fn latest(&self, mesh: &Mesh, site: usize) -> Answer {
        get(self.at(mesh, site), &self.path()).scope(STRONG).await
    }

    async fn set_size(&self, mesh: &Mesh, site: usize, size: u32) -> Answer {
        self.patch(mesh, site, json!({ "size": size })).await
    }
}

#[tokio::test]
async fn what_is_written_through_one_site_is_read_through_all() {
    let mesh = Mesh::of(3).start().await;
    let made = create(&mesh, 1, "bolt").await;
    for site in 1..=3 {
        let answer = made.latest(&mesh, site).await.is(200);
        assert_eq!(answer.json()["name"], "bolt", "site {site}");
        assert_eq!(answer.receipt().plan, PlanKind::Latest);
    }
    for (size, through) in [(1, 2), (2, 3), (3, 1)] {
        let written = made.set_size(&mesh, through, size).await.is(200);
        assert_eq!(written.json()["size"], size, "{written:?}");
        // Whoever wrote it reads it where it was written, whatever the scope.
        assert_eq!(made.read(&mesh, through).await.json()["size"], size);
        for site in 1..=3 {
            let read = made.latest(&mesh, site).await.is(200);
            assert_eq!(
                read.json()["size"],
                size,
                "through site {through}, at site {site}"
            );
        }
    }
    let gone = made.call(&mesh, 2, Method::DELETE, &json!(null)).await;
    assert!(gone.status < 300, "{gone:?}");
    for site in 1..=3 {
        let read = made.latest(&mesh, site).await;
        assert!(matches!(read.status, 404 | 410), "{read:?}");
    }
}

#[tokio::test]
async fn a_minority_refuses_writes_and_says_that_what_it_shows_may_be_old() {
    let mesh = Mesh::of(3).start().await;
    let made = create(&mesh, 1, "bolt").await;
    made.set_size(&mesh, 1, 1).await.is(200);
    mesh.isolate(1);
    mesh.site(1).until_sees("site2", false).await;
    mesh.site(1).until_sees("site3", false).await;
    let refused = made.set_size(&mesh, 1, 2).await;
    refused.problem(503, "no_majority");
    assert_eq!(refused.executed_at(), Vec::<String>::new());
    assert!(refused.elapsed < Duration::from_secs(5), "{:?}", refused.elapsed);
    let stale = made.latest(&mesh, 1).await.is(200);
    assert_eq!(stale.json()["size"], 1);
    assert!(
        stale
            .header("warning")
            .is_some_and(|text| text.starts_with("110")),
        "{stale:?}"
    );
    assert!(!stale.receipt().complete);
    let strict = get(made.at(&mesh, 1), &made.path()).scope(STRONG);
    strict
        .header("prefer", "handling=strict")
        .await
        .problem(503, "no_majority");
    until("the others have a leader", async || {
        made.set_size(&mesh, 2, 3).await.status == 200
    })
    .await;
    assert_eq!(made.latest(&mesh, 3).await.is(200).json()["size"], 3);
    mesh.rejoin(1);
    until("site1 is as far as the others", async || {
        let read = made.latest(&mesh, 1).await;
        read.status == 200 && read.header("warning").is_none()
    })
    .await;
    assert_eq!(made.latest(&mesh, 1).await.json()["size"], 3);
    assert_eq!(made.until_same(&mesh, &[1, 2, 3]).await["size"], 3);
}

#[tokio::test]
async fn the_others_go_on_when_the_leader_is_killed() {
    let mut mesh = Mesh::of(3).start().await;
    let made = create(&mesh, 1, "bolt").await;
    made.set_size(&mesh, 1, 1).await.is(200);
    mesh.site_mut(1).agent_mut().kill();
    until("the others have a leader", async || {
        made.set_size(&mesh, 2, 2).await.status == 200
    })
    .await;
    for site in 2..=3 {
        assert_eq!(made.latest(&mesh, site).await.is(200).json()["size"], 2);
    }
    mesh.site_mut(1).restart().await;
    until("site1 is as far as the others", async || {
        let read = made.latest(&mesh, 1).await;
        read.status == 200 && read.header("warning").is_none()
    })
    .await;
    assert_eq!(made.latest(&mesh, 1).await.json()["size"], 2);
    made.set_size(&mesh, 1, 3).await.is(200);
    assert_eq!(made.until_same(&mesh, &[1, 2, 3]).await["size"], 3);
}

#[tokio::test]
async fn what_the_application_refuses_is_refused_everywhere() {
    let mesh = Mesh::of(3).start().await;
    let refused = post(mesh.b(2), "/items", "no document").scope(STRONG).await;
    assert!((400..500).contains(&refused.status), "{refused:?}");
    for site in 1..=3 {
        let list = get(mesh.application(site, "B"), "/items").await.json();
        assert_eq!(list["items"], json!([]), "site {site}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let mesh = Mesh::of(3).start().await;
    let strong = create(&mesh, 1, "bolt").await;
    let other = "strong(site1 & site2)";
    let body = json!({ "name": "washer" }).to_string();
    let asked = [
        get(strong.at(&mesh, 1), &strong.path()),
        strong.call(&mesh, 1, Method::PATCH, &json!({ "size": 1 })),
    ];
    for call in asked {
        call.scope(other).await.problem(409, "set_refused");
    }
    let eventual = super::support::replicate_item(&mesh, 1, "nut", "site1 & site2 & site3").await;
    let call = eventual.call(&mesh, 1, Method::PATCH, &json!({ "size": 1 }));
    call.scope(STRONG).await.problem(409, "set_refused");
    let alone = post(mesh.b(1), "/items", body)
        .scope("strong(site2)")
        .await
        .is(201);
    assert_eq!(
        alone.receipt().plan,
        PlanKind::Forward,
        "one site decides for itself"
    );
}

#[tokio::test]
async fn one_name_is_made_once_and_again_after_its_end() {
    const BOTH_SCOPES: [&str; 2] = [STRONG, "site1 & site2 & site3"];
    let mesh = Mesh::of(3).start().await;
    let make = |site: usize, tone: &str, scope: &'static str| {
        let body = json!({ "name": "blue", "tone": tone }).to_string();
        post(mesh.b(site), "/labels", body).scope(scope)
    };
    let (one, two) = tokio::join!(make(1, "sky", STRONG), make(2, "navy", STRONG));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409], "{one:?} {two:?}");
    let tone = if one.status == 201 { "sky" } else { "navy" };
    for site in 1..=3 {
        let read = get(mesh.b(site), "/labels/blue").scope(STRONG).await.is(200);
        assert_eq!(read.json()["tone"], tone, "site {site}");
    }
    // One name is one resource, of one consistency.
    let other = make(3, "ink", BOTH_SCOPES[1]).await;
    assert_eq!(other.status, 409, "{other:?}");
    let gone = crate::harness::delete(mesh.b(3), "/labels/blue").await;
    assert!(gone.status < 300, "{gone:?}");
    let again = make(2, "teal", STRONG).await;
    assert_eq!(again.status, 201, "{again:?}");
    for site in 1..=3 {
        let read = get(mesh.b(site), "/labels/blue").scope(STRONG).await.is(200);
        assert_eq!(read.json()["tone"], "teal", "site {site}");
    }
}

#[tokio::test]
async fn a_site_that_lost_its_store_follows_and_votes_again() {
    let mut mesh = Mesh::of(3).start().await;
    let made = create(&mesh, 1, "bolt").await;
    made.set_size(&mesh, 1, 1).await.is(200);
    mesh.site_mut(2).lose_store().await;
    until("site2 has what is decided", async || {
        let read = made.latest(&mesh, 2).await;
        read.status == 200 && read.header("warning").is_none() && read.json()["size"] == 1
    })
    .await;
    until("site2 votes", async || {
        let groups = mesh.site(1).ask("/v1/groups").await;
        let members = groups["groups"][0]["members"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_new = |member: &serde_json::Value| member["site"] == "site2" && member["votes"] == true;
        members.len() == 3 && members.iter().any(is_new)
    })
    .await;
    mesh.site_mut(1).agent_mut().kill();
    until("site2 and site3 are a majority", async || {
        made.set_size(&mesh, 3, 2).await.status == 200
    })
    .await;
    assert_eq!(made.latest(&mesh, 2).await.is(200).json()["size"], 2);
}

#[tokio::test]
async fn what_was_decided_survives_a_restart_of_all() {
    let mut mesh = Mesh::of(3).start().await;
    let made = create(&mesh, 1, "bolt").await;
    for size in 1..=5 {
        made.set_size(&mesh, 1 + size as usize % 3, size).await.is(200);
    }
    for site in 1..=3 {
        mesh.site_mut(site).agent_mut().kill();
    }
    for site in 1..=3 {
        mesh.site_mut(site).restart().await;
    }
    until("they decide again", async || {
        made.set_size(&mesh, 2, 6).await.status == 200
    })
    .await;
    for site in 1..=3 {
        until("all have it", async || {
            let read = made.latest(&mesh, site).await;
            read.status == 200 && read.header("warning").is_none() && read.json()["size"] == 6
        })
        .await;
    }
    assert_eq!(made.until_same(&mesh, &[1, 2, 3]).await["size"], 6);
}

#[tokio::test]
async fn operators_see_the_group_and_move_its_leader() {
    let mesh = Mesh::of(3).start().await;
    let made = create(&mesh, 1, "bolt").await;
    let groups = mesh.site(1).ask("/v1/groups").await;
    let group = &groups["groups"][0];
    assert_eq!(group["founders"], json!(["site1", "site2", "site3"]));
    assert_eq!(group["leader"], "site1", "{group:#}");
    let id = group["id"].as_str().unwrap().to_owned();
    mesh.site(1)
        .tell(
            &format!("/v1/groups/{}/transfer", &id[..6]),
            &json!({ "to": "site3" }),
        )
        .await;
    until("site3 leads", async || {
        mesh.site(2).ask(&format!("/v1/groups/{id}")).await["leader"] == "site3"
    })
    .await;
    made.set_size(&mesh, 2, 1).await.is(200);
    let detail = made.detail(mesh.site(2)).await;
    assert_eq!(detail["set"]["consistency"], "strong");
    assert_eq!(mesh.site(1).metric("cheops_groups").await, 1);
}
