//! `;`, `|`, `!` and `around`: who is asked, in which order, and how often.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::sync::{Semaphore, watch};

use crate::{
    certificates::reload,
    harness::{Mesh, Port, Scripted, delete, get, json_answer, post, text_answer, until},
};

const ITEM: &str = r#"{"name":"chair"}"#;

/// A service that says which site's it is.
fn of_site(number: usize) -> Scripted {
    Scripted::start(move |_| async move { text_answer(200, &format!("from site {number}")) })
}

/// Waits until site 1 measures the far link, so that nearness is what the links say.
async fn put_site2_far(mesh: &Mesh) {
    mesh.link(1, 2).set_delay(Duration::from_millis(40));
    mesh.site(1)
        .until_plan(
            "B",
            "/string",
            "site2 | site3",
            "first-of[forward(site3), forward(site2)]",
        )
        .await;
    // Settled, not only on the right side: a busy machine adds to every measurement.
    until("the far link is measured", || async {
        let sites = mesh.site(1).ask("/v1/sites").await;
        let round_trip_us = |name: &str| {
            let sites = sites["sites"].as_array().unwrap();
            let site = sites.iter().find(|site| site["name"] == name).unwrap();
            site["round_trip_us"].as_u64().unwrap_or(0)
        };
        round_trip_us("site2") > 60_000 && round_trip_us("site3") < 30_000
    })
    .await;
}

#[tokio::test]
async fn first_available_is_the_nearest() {
    let (b2, b3) = (of_site(2), of_site(3));
    let mesh = Mesh::of(3)
        .upstream(2, "B", b2.addr())
        .upstream(3, "B", b3.addr())
        // Lateness is another test's subject.
        .limit("hedge_after_ms", 20_000)
        .limit("heartbeat_misses_max", 5)
        .start()
        .await;
    put_site2_far(&mesh).await;
    for scope in ["site2 | site3", "site3 | site2", "!site1"] {
        let read = get(mesh.b(1), "/string").scope(scope).await.is(200);
        assert_eq!(read.text(), "from site 3", "{scope}");
        assert_eq!(read.executed_at(), ["site3"], "{scope}");
        let write = post(mesh.b(1), "/items", ITEM).scope(scope).await.is(200);
        assert_eq!(write.executed_at(), ["site3"], "{scope}");
    }
    assert_eq!((b2.executed(), b3.executed()), (0, 6));
    // Nothing is nearer than here.
    let here = get(mesh.b(1), "/string").scope("site3 | site1").await.is(200);
    assert_eq!(here.text(), "from site 1");

    // The nearest that is healthy.
    mesh.link(1, 3).refuse();
    mesh.site(1).until_sees("site3", false).await;
    for scope in ["site2 | site3", "!site1"] {
        let write = post(mesh.b(1), "/items", ITEM).scope(scope).await.is(200);
        assert_eq!(write.text(), "from site 2", "{scope}");
    }
    let nobody = get(mesh.b(1), "/string").scope("!(site1 | site2)").await;
    nobody.problem(503, "no_site_left");
}

#[tokio::test]
async fn a_late_read_is_asked_elsewhere_and_a_write_never() {
    let release = Arc::new(Semaphore::new(0));
    let gate = release.clone();
    let late = Scripted::start(move |_| {
        let gate = gate.clone();
        async move {
            let _permit = gate.acquire().await;
            text_answer(200, "from site 2")
        }
    });
    let other = of_site(3);
    let mesh = Mesh::of(3)
        .upstream(2, "B", late.addr())
        .upstream(3, "B", other.addr())
        .limit("hedge_after_ms", 50)
        .start()
        .await;
    mesh.link(1, 3).set_delay(Duration::from_millis(40));
    mesh.site(1)
        .until_plan(
            "B",
            "/string",
            "site2 | site3",
            "first-of[forward(site2), forward(site3)]",
        )
        .await;
    until("site3 is measured as far", || async {
        let sites = mesh.site(1).ask("/v1/sites").await;
        let sites = sites["sites"].as_array().unwrap();
        let site3 = sites.iter().find(|site| site["name"] == "site3").unwrap();
        site3["round_trip_us"].as_u64().unwrap_or(0) > 60_000
    })
    .await;
    let scope = "site2 | site3";
    let read = get(mesh.b(1), "/string").scope(scope).await.is(200);
    assert_eq!(read.text(), "from site 3");
    assert_eq!(read.executed_at(), ["site3"]);
    assert_eq!((late.executed(), other.executed()), (1, 1));
    assert_eq!(mesh.site(1).metric("cheops_reads_hedged_total").await, 1);

    let write = tokio::spawn(post(mesh.b(1), "/items", ITEM).scope(scope).try_send());
    until("the write is at site2", || async { late.executed() == 2 }).await;
    // Many times the patience of a read.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!write.is_finished());
    assert_eq!(other.executed(), 1, "a write was asked elsewhere");
    release.add_permits(1);
    let write = write.await.unwrap().unwrap().is(200);
    assert_eq!(write.text(), "from site 2");
    assert_eq!(write.outcomes(), "site2=executed");
    assert_eq!((late.executed(), other.executed()), (2, 1));
}

/// A service that notes the credentials that it is shown.
fn noting(number: usize, seen: &Arc<Mutex<Vec<String>>>) -> Scripted {
    let seen = seen.clone();
    Scripted::start(move |request| {
        for name in ["authorization", "cookie", "x-plain"] {
            if let Some(value) = request.headers().get(name) {
                seen.lock().unwrap().push(value.to_str().unwrap().to_owned());
            }
        }
        async move { text_answer(200, &format!("from site {number}")) }
    })
}

#[tokio::test]
async fn a_credential_is_not_shown_in_vain_to_a_site_that_is_not_named() {
    // The status with which site2 answers; none while it does not.
    let (answer, answered) = watch::channel(None::<u16>);
    let late = Scripted::start(move |_| {
        let mut answered = answered.clone();
        async move {
            let status = answered.wait_for(Option::is_some).await.map(|status| *status);
            text_answer(status.unwrap().unwrap(), "from site 2")
        }
    });
    let seen = Arc::default();
    let other = noting(3, &seen);
    let mesh = Mesh::of(3)
        // One clock for all requests: whoever asks first is late first.
        .workers(1)
        .upstream(2, "B", late.addr())
        .upstream(3, "B", other.addr())
        .limit("hedge_after_ms", 50)
        .start()
        .await;
    mesh.link(1, 3).set_delay(Duration::from_millis(40));
    let nearest_is_late = "first-of[forward(site2), forward(site3)]";
    let site = mesh.site(1);
    site.until_plan("B", "/string", "!site1", nearest_is_late).await;
    until("site3 is measured as far", || async {
        let sites = site.ask("/v1/sites").await;
        let sites = sites["sites"].as_array().unwrap();
        let site3 = sites.iter().find(|site| site["name"] == "site3").unwrap();
        site3["round_trip_us"].as_u64().unwrap_or(0) > 60_000
    })
    .await;
    let ask = |scope: &str, credential: &str| {
        get(mesh.b(1), "/string")
            .scope(scope)
            .header("authorization", credential)
    };

    // Found by `!`: it waits for the site that is late. One without a credential that began after it has been answered
    // elsewhere by now.
    let waiting = tokio::spawn(ask("!site1", "Bearer mine").try_send());
    until("the read is at site2", || async { late.executed() == 1 }).await;
    let plain = get(mesh.b(1), "/string").scope("!site1").await.is(200);
    assert_eq!(plain.text(), "from site 3");
    assert!(!waiting.is_finished());
    assert_eq!(*seen.lock().unwrap(), [""; 0]);
    answer.send_replace(Some(200));
    let waited = waiting.await.unwrap().unwrap().is(200);
    assert_eq!(waited.text(), "from site 2");
    assert_eq!(waited.outcomes(), "site2=executed");
    answer.send_replace(None);

    // Named, or allowed by the configuration: it is asked.
    let named = ask("site2 | site3", "Bearer named").await.is(200);
    assert_eq!(named.text(), "from site 3");
    assert_eq!(*seen.lock().unwrap(), ["Bearer named"]);
    let allow = |key: &str| {
        site.edit_config(|text| text.replacen("[sites.site3]", &format!("[sites.site3]\n{key}"), 1));
    };
    allow("hedge_credentials = true");
    reload(&mesh, 1).await;
    let allowed = ask("!site1", "Bearer allowed").await.is(200);
    assert_eq!(allowed.text(), "from site 3");
    assert_eq!(*seen.lock().unwrap(), ["Bearer named", "Bearer allowed"]);

    // What is withheld is not shown, so nothing speaks against asking.
    site.edit_config(|text| text.replacen("hedge_credentials = true", "withhold = [\"authorization\"]", 1));
    reload(&mesh, 1).await;
    let withheld = ask("!site1", "Bearer withheld").await.is(200);
    assert_eq!(withheld.text(), "from site 3");
    assert_eq!(*seen.lock().unwrap(), ["Bearer named", "Bearer allowed"]);

    // It has its turn when it is the one that is used.
    let other_key = "withhold = [\"cookie\"]";
    site.edit_config(|text| text.replacen("withhold = [\"authorization\"]", other_key, 1));
    reload(&mesh, 1).await;
    answer.send_replace(Some(503));
    let used = ask("!site1", "Bearer used").await.is(200);
    assert_eq!(used.text(), "from site 3");
    assert_eq!(used.outcomes(), "site2=executed site3=executed");
    assert_eq!(seen.lock().unwrap().last().unwrap(), "Bearer used");
}

#[tokio::test]
async fn what_is_withheld_from_a_site_stays_here() {
    let seen = Arc::default();
    let (own, other) = (noting(1, &seen), noting(2, &seen));
    let mesh = Mesh::of(2)
        .upstream(1, "B", own.addr())
        .upstream(2, "B", other.addr())
        .start()
        .await;
    mesh.site(1).edit_config(|text| {
        let key = "[sites.site2]\nwithhold = [\"Cookie\", \"authorization\"]";
        text.replacen("[sites.site2]", key, 1)
    });
    reload(&mesh, 1).await;
    let credentials = |call: crate::harness::Call, scope: &str| {
        call.scope(scope)
            .header("authorization", "Bearer a")
            .header("cookie", "b=1")
            .header("cookie", "c=2")
            .header("x-plain", "kept")
    };
    for call in [get(mesh.b(1), "/string"), post(mesh.b(1), "/items", ITEM)] {
        credentials(call, "site2").await.is(200);
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), ["kept"]);
    }
    credentials(get(mesh.b(1), "/string"), "site1").await.is(200);
    assert_eq!(*seen.lock().unwrap(), ["Bearer a", "b=1", "kept"]);
    // The other way there is no such rule.
    seen.lock().unwrap().clear();
    credentials(get(mesh.b(2), "/string"), "site1").await.is(200);
    assert_eq!(seen.lock().unwrap()[0], "Bearer a");
}

#[tokio::test]
async fn around_goes_outwards_by_the_centres_own_distances() {
    let nobody = Port::reserve();
    let mesh = Mesh::of(3).upstream(2, "B", nobody.addr()).start().await;
    // Site 2 is far from here and near to site 3.
    mesh.link(1, 2).set_delay(Duration::from_millis(40));
    mesh.link(2, 1).set_delay(Duration::from_millis(40));
    let near = "around(site2, 60ms)";
    mesh.site(1)
        .until_plan("B", "/string", near, "fallback[forward(site2), forward(site3)]")
        .await;
    for answer in [
        get(mesh.b(1), "/string").scope(near).await.is(200),
        get(mesh.b(1), "/items").scope(near).await.is(200),
    ] {
        assert_eq!(answer.outcomes(), "site2=not-executed site3=executed");
    }
    let write = post(mesh.b(1), "/items", ITEM).scope(near).await.is(201);
    assert_eq!(write.outcomes(), "site2=not-executed site3=executed");
    // Further out is here, too.
    let far = mesh
        .site(1)
        .plan("B", "GET", "/string", "around(site2, 10s)")
        .await;
    assert_eq!(far, "fallback[forward(site2), forward(site3), local]");
}

#[tokio::test]
async fn otherwise_passes_over_a_service_that_is_unavailable_for_reads_only() {
    let status = Arc::new(AtomicU16::new(503));
    let answered = status.clone();
    let first = Scripted::start(move |_| {
        let status = answered.load(Ordering::SeqCst);
        async move { json_answer(status, &json!({ "error": "scripted" })) }
    });
    let second = of_site(3);
    let mesh = Mesh::of(3)
        .upstream(2, "B", first.addr())
        .upstream(3, "B", second.addr())
        .start()
        .await;
    let scope = "site2 ; site3";
    for unavailable in [502, 503, 504] {
        status.store(unavailable, Ordering::SeqCst);
        let read = get(mesh.b(1), "/items/1").scope(scope).await.is(200);
        assert_eq!(read.text(), "from site 3");
        assert_eq!(read.outcomes(), "site2=executed site3=executed");
        assert_eq!(read.receipt().sites[0].status, Some(unavailable));
    }
    assert_eq!(second.executed(), 3);
    // The service saw the write: its answer is the answer.
    status.store(503, Ordering::SeqCst);
    let write = post(mesh.b(1), "/items", ITEM).scope(scope).await.is(503);
    assert_eq!(write.outcomes(), "site2=executed");
    assert_eq!(write.json()["error"], "scripted");
    let write = delete(mesh.b(1), "/items/1").scope(scope).await.is(503);
    assert_eq!(write.outcomes(), "site2=executed");
    // An answer that says no is an answer.
    for no in [400, 404, 500] {
        status.store(no, Ordering::SeqCst);
        let read = get(mesh.b(1), "/items/1").scope(scope).await.is(no);
        assert_eq!(read.outcomes(), "site2=executed");
    }
    assert_eq!(second.executed(), 3);
}

#[tokio::test]
async fn otherwise_passes_over_a_site_that_is_down_at_no_cost() {
    let mesh = Mesh::of(3)
        .limit("heartbeat_misses_max", 1)
        .limit("peer_timeout_ms", 25_000)
        .limit("peer_connect_timeout_ms", 25_000)
        .start()
        .await;
    mesh.link(1, 2).cut();
    mesh.site(1).until_sees("site2", false).await;
    let read = get(mesh.b(1), "/string").scope("site2 ; site3").await.is(200);
    assert_eq!(read.text(), "from site 3");
    assert_eq!(read.outcomes(), "site2=not-executed site3=executed");
    assert!(read.elapsed < Duration::from_secs(10), "{:?}", read.elapsed);
    let write = post(mesh.b(1), "/items", ITEM)
        .scope("site2 ; site3")
        .await
        .is(201);
    assert_eq!(write.outcomes(), "site2=not-executed site3=executed");
    assert!(write.elapsed < Duration::from_secs(10), "{:?}", write.elapsed);
}
