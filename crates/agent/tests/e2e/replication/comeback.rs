//! Sites that come back after the others had given them up.

use http::Method;
use serde_json::json;

use crate::harness::{Mesh, until};

use super::support::{ALL, Made, replicate_item};

/// What a site's configuration says about site3, taken out and put back.
struct Entry {
    number: usize,
    text: String,
}

impl Entry {
    fn take_out(mesh: &Mesh, number: usize) -> Self {
        let mut text = String::new();
        mesh.site(number).edit_config(|config| {
            let at = config.find("[sites.site3]").unwrap();
            let end = config[at + 1..]
                .find("\n[")
                .map_or(config.len(), |end| at + 1 + end);
            config[at..end].clone_into(&mut text);
            format!("{}{}", &config[..at], &config[end..])
        });
        mesh.site(number).hang_up();
        Self { number, text }
    }

    fn put_back(self, mesh: &Mesh) {
        mesh.site(self.number)
            .edit_config(|config| format!("{config}\n{}\n", self.text));
        mesh.site(self.number).hang_up();
    }
}

/// Removes site3 by force while nobody hears it.
async fn give_up(mesh: &Mesh, made: &Made) {
    mesh.isolate(3);
    mesh.site(1).until_sees("site3", false).await;
    let path = format!("/v1/replicas/{}/sites/site3?force=true", made.set);
    mesh.site(1).operate(Method::DELETE, &path, &json!({})).await;
}

#[tokio::test]
async fn a_site_that_was_given_up_and_is_listed_again_takes_the_others_state() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", ALL).await;
    made.until_state(&mesh, &[1, 2, 3], "ok").await;
    give_up(&mesh, &made).await;
    made.patch(&mesh, 3, json!({ "only": "site3" })).await.is(200);
    let entries = [1, 2].map(|number| Entry::take_out(&mesh, number));
    made.patch(&mesh, 2, json!({ "size": 1 })).await.is(200);
    let expected = json!({ "name": "bolt", "size": 1 });
    until("the others go on", async || {
        made.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;
    mesh.rejoin(3);
    for entry in entries {
        entry.put_back(&mesh);
    }
    mesh.site(1).until_sees("site3", true).await;
    mesh.site(2).until_sees("site3", true).await;
    let path = format!("/v1/replicas/{}/sites", made.set);
    let site3 = json!({ "site": "site3" });
    mesh.site(1).operate(Method::POST, &path, &site3).await;
    made.until_state(&mesh, &[1, 2, 3], "ok").await;
    assert_eq!(made.until_same(&mesh, &[1, 2, 3]).await, expected);
    // And follows again.
    made.patch(&mesh, 3, json!({ "size": 2 })).await.is(200);
    until("all have it", async || {
        made.until_same(&mesh, &[1, 2, 3]).await == json!({ "name": "bolt", "size": 2 })
    })
    .await;
}

#[tokio::test]
async fn a_site_that_is_let_in_before_it_can_be_reached_is_told_when_it_can() {
    // What is lost is not sent again by itself as long as the test lasts.
    let mesh = Mesh::of(3)
        .limit("ship_retry_min_ms", 120_000)
        .limit("ship_retry_max_ms", 120_000)
        .start()
        .await;
    let made = replicate_item(&mesh, 1, "bolt", ALL).await;
    made.until_state(&mesh, &[1, 2, 3], "ok").await;
    give_up(&mesh, &made).await;
    made.patch(&mesh, 3, json!({ "only": "site3" })).await.is(200);
    let entries = [1, 2].map(|number| Entry::take_out(&mesh, number));
    for site in [1, 2].map(|number| mesh.site(number)) {
        until("site3 is not known any more", async || !site.knows("site3").await).await;
    }
    for entry in entries {
        entry.put_back(&mesh);
    }
    for site in [1, 2].map(|number| mesh.site(number)) {
        until("site3 is known again", async || site.knows("site3").await).await;
    }
    let path = format!("/v1/replicas/{}/sites", made.set);
    let site3 = json!({ "site": "site3" });
    mesh.site(1).operate(Method::POST, &path, &site3).await;
    mesh.rejoin(3);
    made.until_state(&mesh, &[1, 2, 3], "ok").await;
}
