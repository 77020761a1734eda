//! `&` on reads: one list of several sites, or the first site that has the resource.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use crate::harness::{Answer, Mesh, Port, Scripted, get, head, json_answer, post};

const ALL: &str = "site1 & site2 & site3";

/// Puts `count` items into B at each of three sites; site n's ids begin at 1000 n + 1.
async fn fill(mesh: &Mesh, count: usize) {
    for site in 1..=3 {
        for _ in 0..count {
            post(mesh.b(site), "/items", r#"{"name":"chair"}"#).await.is(201);
        }
    }
}

/// The items as `id@site`.
#[track_caller]
fn items(answer: &Answer) -> Vec<String> {
    let list = answer.json();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list:#}"));
    items
        .iter()
        .map(|item| format!("{}@{}", item["id"], item["@site"].as_str().unwrap_or("?")))
        .collect()
}

/// The receipt as `site=items`, or `site:error` where the part is missing.
#[track_caller]
fn parts(answer: &Answer) -> String {
    let visits = answer.receipt().sites;
    let told: Vec<_> = visits
        .iter()
        .map(|visit| match (&visit.items, &visit.error) {
            (Some(items), None) => format!("{}={items}", visit.site),
            (None, Some(error)) => format!("{}:{error}", visit.site),
            _ => panic!("{visit:?}"),
        })
        .collect();
    told.join(" ")
}

#[tokio::test]
async fn lists_are_merged_in_scope_order() {
    for glue in ["example", "plain"] {
        let mesh = Mesh::of(3).glue(glue).start().await;
        fill(&mesh, 2).await;
        let answer = get(mesh.b(1), "/items").scope(ALL).await.is(200);
        assert_eq!(
            items(&answer),
            [
                "1001@site1",
                "1002@site1",
                "2001@site2",
                "2002@site2",
                "3001@site3",
                "3002@site3"
            ],
            "{glue}"
        );
        assert_eq!(parts(&answer), "site1=2 site2=2 site3=2", "{glue}");
        assert!(answer.receipt().complete, "{glue}");

        let answer = get(mesh.b(1), "/items").scope("site3 & site1").await.is(200);
        assert_eq!(
            items(&answer),
            ["3001@site3", "3002@site3", "1001@site1", "1002@site1"],
            "{glue}"
        );
        // Told by the length alone, for a HEAD.
        let told = head(mesh.b(1), "/items").scope("site3 & site1").await.is(200);
        assert_eq!(
            told.header("content-length"),
            Some(answer.body.len().to_string().as_str())
        );
        assert_eq!(told.body.len(), 0);
        assert_eq!(parts(&told), "site3=2 site1=2", "{glue}");

        let everywhere = get(mesh.b(2), "/items").scope("all()").await.is(200);
        assert_eq!(items(&everywhere).len(), 6, "{glue}");
    }
}

#[tokio::test]
async fn a_missing_site_is_marked_and_hides_nothing() {
    let mesh = Mesh::of(3).limit("heartbeat_misses_max", 1).start().await;
    fill(&mesh, 1).await;
    mesh.link(1, 2).refuse();
    mesh.site(1).until_sees("site2", false).await;
    let answer = get(mesh.b(1), "/items").scope(ALL).await.is(200);
    assert_eq!(items(&answer), ["1001@site1", "3001@site3"]);
    assert_eq!(parts(&answer), "site1=1 site2:peer_down site3=1");
    assert!(!answer.receipt().complete);

    let strict = get(mesh.b(1), "/items")
        .scope(ALL)
        .header("prefer", "handling=strict")
        .await;
    let problem = strict.problem(503, "incomplete_list");
    assert!(
        problem["detail"].as_str().unwrap().contains("`site2`"),
        "{problem:#}"
    );
    assert!(!strict.receipt().complete);

    mesh.link(1, 2).heal();
    mesh.site(1).until_sees("site2", true).await;
    let strict = get(mesh.b(1), "/items")
        .scope(ALL)
        .header("prefer", "handling=strict")
        .await
        .is(200);
    assert_eq!(items(&strict).len(), 3);
}

#[tokio::test]
async fn a_site_that_fails_or_is_no_list_is_marked_too() {
    let broken = Scripted::start(|_| async { json_answer(500, &json!({ "error": "broken" })) });
    let mesh = Mesh::of(3)
        .upstream(2, "B", broken.addr())
        .limit("peer_timeout_ms", 500)
        .limit("heartbeat_misses_max", 1_000)
        .start()
        .await;
    for site in [1, 3] {
        post(mesh.b(site), "/items", r#"{"name":"chair"}"#).await.is(201);
    }
    // Not yet known to be gone.
    mesh.link(1, 3).cut();
    let answer = get(mesh.b(1), "/items").scope(ALL).await.is(200);
    assert_eq!(items(&answer), ["1001@site1"]);
    assert!(!answer.receipt().complete);
    let receipt = answer.receipt();
    assert_eq!(receipt.sites[1].status, Some(500));
    assert!(receipt.sites[1].error.is_some());
    assert_eq!(receipt.sites[2].error.as_deref(), Some("peer_timeout"));
}

/// Reads a list page by page; the items and the number of pages.
async fn walk(b: SocketAddr, scope: &str, limit: usize) -> (Vec<String>, usize) {
    let (mut all, mut pages) = (Vec::new(), 0);
    let mut path = format!("/items?limit={limit}");
    loop {
        let answer = get(b, &path).scope(scope).await.is(200);
        let page = items(&answer);
        assert!(page.len() <= limit, "{page:?}");
        all.extend(page);
        pages += 1;
        assert!(pages < 100, "no end: {all:?}");
        match &answer.json()["next"] {
            Value::Null => return (all, pages),
            Value::String(token) => path = format!("/items?limit={limit}&page_token={token}"),
            other => panic!("a token: {other}"),
        }
    }
}

#[tokio::test]
async fn pages_of_several_sites_are_pages_of_one_list() {
    let mesh = Mesh::of(3).start().await;
    fill(&mesh, 5).await;
    let whole = items(&get(mesh.b(1), "/items").scope(ALL).await.is(200));
    assert_eq!(whole.len(), 15);
    for limit in [1, 2, 5, 7, 100] {
        let (all, pages) = walk(mesh.b(1), ALL, limit).await;
        assert_eq!(all, whole, "limit {limit}");
        assert!(pages >= 15_usize.div_ceil(limit), "limit {limit}: {pages} pages");
    }
    // The token is stateless: another site's agent goes on with it.
    let first = get(mesh.b(1), "/items?limit=2").scope(ALL).await.is(200);
    let token = first.json()["next"].as_str().unwrap().to_owned();
    let path = format!("/items?limit=2&page_token={token}");
    let second = get(mesh.b(3), &path).scope(ALL).await.is(200);
    assert_eq!(items(&second), ["1003@site1", "1004@site1"]);

    let forged = get(mesh.b(1), "/items?limit=2&page_token=nonsense")
        .scope(ALL)
        .await;
    forged.problem(400, "page_token");
    // A token of a list without the site that it speaks of.
    let other = get(mesh.b(1), &path).scope("site2 & site3").await;
    other.problem(400, "page_token");
}

/// Nothing is known about paging: the list is the first page of each site.
#[tokio::test]
async fn without_glue_every_site_gives_its_first_page() {
    let mesh = Mesh::of(3).glue("plain").start().await;
    fill(&mesh, 3).await;
    let answer = get(mesh.b(1), "/items?limit=2").scope(ALL).await.is(200);
    assert_eq!(
        items(&answer),
        [
            "1001@site1",
            "1002@site1",
            "2001@site2",
            "2002@site2",
            "3001@site3",
            "3002@site3"
        ]
    );
    assert_eq!(parts(&answer), "site1=2 site2=2 site3=2");
}

#[tokio::test]
async fn a_sorted_list_is_merged_by_its_key() {
    let glue = r#"
        application = "sorted"
        correlation = ["traceparent"]

        [[services.B.resources]]
        kind = "item"
        collection = "/items"
        item = "/items/{id}"
        list = { items = "/items", sort = "/id", paging = { style = "token", limit = "limit", token = "page_token", next = "/next" } }
    "#;
    let mesh = Mesh::of(3).glue(glue).start().await;
    fill(&mesh, 4).await;
    for limit in [1, 3, 100] {
        let (all, _) = walk(mesh.b(1), "site3 & site1 & site2", limit).await;
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(all, sorted, "limit {limit}");
        assert_eq!(all.len(), 12, "limit {limit}");
    }
}

#[tokio::test]
async fn a_slow_site_does_not_delay_a_decided_page() {
    let never = Scripted::start(|_| std::future::pending());
    let mesh = Mesh::of(3)
        .upstream(3, "B", never.addr())
        .limit("peer_timeout_ms", 25_000)
        .start()
        .await;
    for site in [1, 2] {
        for _ in 0..3 {
            post(mesh.b(site), "/items", r#"{"name":"chair"}"#).await.is(201);
        }
    }
    let answer = get(mesh.b(1), "/items?limit=2").scope(ALL).await.is(200);
    assert_eq!(items(&answer), ["1001@site1", "1002@site1"]);
    assert!(answer.receipt().complete);
    assert!(answer.elapsed < Duration::from_secs(10), "{:?}", answer.elapsed);
}

#[tokio::test]
async fn one_resource_comes_from_the_site_that_has_it() {
    for glue in ["example", "plain"] {
        let mesh = Mesh::of(3).glue(glue).start().await;
        fill(&mesh, 1).await;
        for site in 1..=3 {
            let path = format!("/items/{site}001");
            let answer = get(mesh.b(1), &path).scope(ALL).await.is(200);
            assert_eq!(answer.json()["id"].to_string(), format!("{site}001"));
            let name = format!("site{site}");
            let has_it: Vec<_> = answer.receipt().sites.into_iter().collect();
            let told = has_it.iter().find(|visit| visit.status == Some(200));
            assert_eq!(
                told.map(|visit| visit.site.as_str()),
                Some(name.as_str()),
                "{glue}"
            );

            let told = head(mesh.b(1), &path).scope(ALL).await.is(200);
            assert_eq!(told.body.len(), 0, "{glue}");
            assert!(told.executed_at().contains(&name), "{glue}");
        }
        let nowhere = get(mesh.b(1), "/items/9999").scope(ALL).await.is(404);
        assert_eq!(nowhere.executed_at(), ["site1", "site2", "site3"], "{glue}");
        // One that could have it is away: the others' word is all there is, and the receipt tells.
        mesh.link(1, 3).refuse();
        let unsure = get(mesh.b(1), "/items/3001").scope(ALL).await.is(404);
        assert_eq!(unsure.executed_at(), ["site1", "site2"], "{glue}");
        assert_eq!(unsure.receipt().sites.len(), 3, "{glue}");
    }
}

#[tokio::test]
async fn an_answer_to_head_never_has_a_body() {
    let broken = Scripted::start(|_| async { json_answer(500, &json!({ "error": "broken" })) });
    let nobody = Port::reserve();
    let mesh = Mesh::of(3)
        .upstream(1, "B", nobody.addr())
        .upstream(2, "B", nobody.addr())
        .upstream(3, "B", broken.addr())
        .start()
        .await;
    for (scope, status) in [
        (None, 502),
        (Some("site2"), 502),
        (Some("site3"), 500),
        (Some("site1 & site2"), 502),
        (Some("site2 & site3"), 500),
        (Some("nowhere"), 400),
    ] {
        for path in ["/items", "/items/1"] {
            for is_http2 in [false, true] {
                let mut call = head(mesh.b(1), path);
                if let Some(scope) = scope {
                    call = call.scope(scope);
                }
                let call = if is_http2 { call.http2() } else { call };
                let answer = call.await;
                assert_eq!(answer.status, status, "{scope:?} {path}: {answer:?}");
                assert_eq!(answer.body.len(), 0, "{scope:?} {path}");
                let length = answer.header("content-length").unwrap_or_default();
                assert!(length.parse::<u64>().is_ok_and(|length| length > 0), "{answer:?}");
            }
        }
    }
}
