//! The scope follows the workflow, and only its own.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use serde_json::json;
use tokio::time::Duration;

use crate::harness::{Answer, Connection, Mesh, Scripted, get, json_answer};

#[tokio::test]
async fn a_scope_names_the_site_of_b() {
    let mesh = Mesh::of(2).start().await;
    let there = get(mesh.a(1), "/hello").scope("B: site2").await.is(200);
    assert_eq!(there.text(), "A says hello, B answers: from site 2");
    let receipt = there.receipt();
    assert_eq!(there.outcomes(), "site1=executed");
    assert_eq!(receipt.workflow.len(), 1);
    assert_eq!(receipt.workflow[0].site.as_str(), "site2");
    assert_eq!(receipt.workflow[0].service.as_deref(), Some("B"));

    let json = get(mesh.a(1), "/hello").scope(r#"{"B": "site2"}"#).await.is(200);
    assert_eq!(json.text(), "A says hello, B answers: from site 2");

    let here = get(mesh.a(1), "/hello").await.is(200);
    assert_eq!(here.text(), "A says hello, B answers: from site 1");
    assert_eq!(here.header("cheops-receipt"), None);
}

#[tokio::test]
async fn a_scope_goes_on_at_the_site_it_was_forwarded_to() {
    let mesh = Mesh::of(3).start().await;
    let answer = get(mesh.a(1), "/hello").scope("A: site2, B: site3").await.is(200);
    assert_eq!(answer.text(), "A says hello, B answers: from site 3");
    assert_eq!(answer.outcomes(), "site2=executed");
    // A bare location is the called service's; the call to B stays where A is.
    let answer = get(mesh.a(1), "/hello").scope("site2").await.is(200);
    assert_eq!(answer.text(), "A says hello, B answers: from site 2");
}

#[tokio::test]
async fn one_address_for_users_and_services_is_enough() {
    let mesh = Mesh::of(2).one_address().start().await;
    let there = get(mesh.a(1), "/hello").scope("B: site2").await.is(200);
    assert_eq!(there.text(), "A says hello, B answers: from site 2");
    let here = get(mesh.a(1), "/hello").await.is(200);
    assert_eq!(here.text(), "A says hello, B answers: from site 1");
}

#[tokio::test]
async fn a_workflow_ends_where_the_application_passes_nothing_on() {
    for (carry, site) in [("x-scope", 2), ("all", 2), ("none", 1)] {
        let mesh = Mesh::of(2).carry(carry.parse().unwrap()).start().await;
        let answer = get(mesh.a(1), "/hello").scope("B: site2").await.is(200);
        let expected = format!("A says hello, B answers: from site {site}");
        assert_eq!(answer.text(), expected, "carry {carry}");
        // And whoever sent the scope is told that it had no effect.
        let unused = answer.receipt().unused;
        let expected: &[&str] = if carry == "none" { &["B"] } else { &[] };
        assert!(
            unused
                .iter()
                .map(|service| &**service)
                .eq(expected.iter().copied()),
            "carry {carry}"
        );
    }
}

/// The application passes on `traceparent` and nothing else.
#[tokio::test]
async fn a_call_that_is_refused_is_told_and_not_called_unused() {
    let mesh = Mesh::of(2).start().await;
    let answer = get(mesh.a(1), "/hello").scope("B: strong(site1 % site2)").await;
    let receipt = answer.receipt();
    let [called] = &receipt.workflow[..] else {
        panic!("{receipt:?}");
    };
    assert_eq!(called.service.as_deref(), Some("B"));
    assert_eq!(called.error.as_deref(), Some("not_available"));
    assert!(receipt.unused.is_empty(), "{receipt:?}");
}

#[tokio::test]
async fn the_site_that_executes_tells_what_a_scope_names_in_vain() {
    let mesh = Mesh::of(2).carry("none".parse().unwrap()).start().await;
    let answer = get(mesh.a(1), "/hello").scope("A: site2, B: site1").await.is(200);
    assert_eq!(answer.outcomes(), "site2=executed");
    assert_eq!(answer.receipt().unused.len(), 1, "{:?}", answer.receipt());
    // Where a service passes on the scope itself, nobody can tell, and nobody is alarmed.
    let mesh = Mesh::of(2).carry("x-scope".parse().unwrap()).start().await;
    let answer = get(mesh.a(1), "/hello").scope("A: site2, B: site1").await.is(200);
    assert_eq!(answer.text(), "A says hello, B answers: from site 1");
    assert!(answer.receipt().unused.is_empty(), "{:?}", answer.receipt());
}

#[tokio::test]
async fn a_thousand_workflows_never_see_each_others_scope() {
    const WORKFLOWS: usize = 1000;
    const CONNECTIONS: usize = 4;
    let mesh = Mesh::of(3).start().await;
    // B's answers from elsewhere take a while, so that workflows overlap.
    mesh.link(1, 2).set_delay(Duration::from_millis(60));
    mesh.link(1, 3).set_delay(Duration::from_millis(30));
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::http2(mesh.a(1)).await);
    }
    let calls = (0..WORKFLOWS).map(|i| {
        let mut call = get(mesh.a(1), "/hello");
        // Every fourth has no scope.
        if i % 4 != 3 {
            call = call.scope(&format!("B: site{}", i % 4 + 1));
        }
        // No trace, one of its own, or one that many share.
        call = match i % 3 {
            0 => call,
            1 => call.header("traceparent", &format!("00-{:032x}-00f067aa0ba902b7-01", i + 1)),
            _ => call.header(
                "traceparent",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            ),
        };
        let mut connection = connections[i / 12 % CONNECTIONS].try_clone().unwrap();
        async move { call.on(&mut connection).await }
    });
    let answers = join_all(calls).await;

    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    for (i, answer) in answers.into_iter().enumerate() {
        let site = if i % 4 == 3 { 1 } else { i % 4 + 1 };
        let answer = answer.is(200);
        assert_eq!(
            answer.text(),
            format!("A says hello, B answers: from site {site}"),
            "workflow {i}"
        );
        if i % 4 == 3 {
            assert_eq!(answer.header("cheops-receipt"), None, "workflow {i}");
        } else {
            let workflow = answer.receipt().workflow;
            let sites: Vec<_> = workflow.iter().map(|visit| visit.site.as_str()).collect();
            assert_eq!(sites, [format!("site{site}")], "workflow {i}");
        }
        *seen.entry(site).or_default() += 1;
    }
    assert_eq!(seen, [(1, 500), (2, 250), (3, 250)].into());
}

/// A site 1 whose A shows the headers that it got, and the key of a workflow with `B: site2`.
struct Spied {
    mesh: Mesh,
    traceparent: String,
    _a: Scripted,
}

impl Spied {
    async fn start() -> Self {
        let a = Scripted::start(show_headers);
        let mesh = Mesh::of(2).upstream(1, "A", a.addr()).start().await;
        let seen = get(mesh.a(1), "/anything").scope("B: site2").await.is(200);
        Self {
            mesh,
            traceparent: traceparent(&seen).expect("a key"),
            _a: a,
        }
    }

    /// What B answers on its internal listener under the key.
    async fn internal(&self, traceparent: &str) -> Answer {
        let b = self.mesh.site(1).internal("B");
        get(b, "/string").header("traceparent", traceparent).await
    }
}

async fn show_headers(request: Request<Bytes>) -> http::Response<http_body_util::Full<Bytes>> {
    let headers = request.headers().iter();
    let shown: serde_json::Map<_, _> = headers
        .map(|(name, value)| (name.to_string(), json!(String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    json_answer(200, &shown.into())
}

fn traceparent(answer: &Answer) -> Option<String> {
    answer.json()["traceparent"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_user_cannot_join_a_workflow_with_a_stolen_key() {
    let spied = Spied::start().await;
    let joined = spied.internal(&spied.traceparent).await.is(200);
    assert_eq!(joined.text(), "from site 2");

    let stolen = get(spied.mesh.b(1), "/string")
        .header("traceparent", &spied.traceparent)
        .await
        .is(200);
    assert_eq!(stolen.text(), "from site 1");
    // Nor does the key reach a service, which would pass it on.
    let shown = get(spied.mesh.a(1), "/anything")
        .header("traceparent", &spied.traceparent)
        .await
        .is(200);
    assert_eq!(traceparent(&shown), None);
    // With a scope of the user's own, that scope is what counts.
    let scoped = get(spied.mesh.a(1), "/anything")
        .scope("B: site1")
        .header("traceparent", &spied.traceparent)
        .await
        .is(200);
    let own = traceparent(&scoped).expect("a key");
    assert_ne!(own.split('-').nth(1), spied.traceparent.split('-').nth(1));
    assert_eq!(spied.internal(&own).await.is(200).text(), "from site 1");
}

#[tokio::test]
async fn a_users_own_trace_reaches_the_service_unchanged_without_a_scope() {
    let spied = Spied::start().await;
    let own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let shown = get(spied.mesh.a(1), "/anything")
        .header("traceparent", own)
        .await
        .is(200);
    assert_eq!(traceparent(&shown).as_deref(), Some(own));
    // Under a scope it is replaced by a key, and linked.
    let scoped = get(spied.mesh.a(1), "/anything")
        .header("traceparent", own)
        .scope("B: site2")
        .await
        .is(200);
    assert_ne!(
        traceparent(&scoped).unwrap().split('-').nth(1),
        own.split('-').nth(1)
    );
    let linked = scoped.json()["tracestate"].to_string();
    assert!(linked.contains("4bf92f3577b34da6a3ce929d0e0e4736"), "{linked}");
}

#[tokio::test]
async fn a_key_of_before_a_restart_is_lost_and_never_local() {
    let mut spied = Spied::start().await;
    spied.mesh.site_mut(1).restart().await;
    let lost = spied.internal(&spied.traceparent).await;
    lost.problem(503, "correlation_lost");
    assert_eq!(lost.outcomes(), "site1=not-executed");
    // A user's request with it is only a user's request.
    let public = get(spied.mesh.b(1), "/string")
        .header("traceparent", &spied.traceparent)
        .await
        .is(200);
    assert_eq!(public.text(), "from site 1");
}

/// Unlike a trace id, `tracestate` has room for the scope itself.
#[tokio::test]
async fn a_scope_in_tracestate_survives_a_restart() {
    const GLUE: &str =
        "application = \"a\"\ncorrelation = [\"tracestate\", \"traceparent\"]\n[services.A]\n[services.B]\n";
    let a = Scripted::start(show_headers);
    let mut mesh = Mesh::of(2).glue(GLUE).upstream(1, "A", a.addr()).start().await;
    let seen = get(mesh.a(1), "/anything").scope("B: site2").await.is(200);
    let (traceparent, b) = (traceparent(&seen).unwrap(), mesh.site(1).internal("B"));
    let tracestate = seen.json()["tracestate"].as_str().expect("a member").to_owned();
    let call = |tracestate: &str| {
        get(b, "/string")
            .header("traceparent", &traceparent)
            .header("tracestate", tracestate)
    };
    assert_eq!(call(&tracestate).await.is(200).text(), "from site 2");
    mesh.site_mut(1).restart().await;
    mesh.site(1).until_sees("site2", true).await;
    // Nobody else has such a member.
    let (member, _) = tracestate.rsplit_once('.').unwrap();
    for invalid in ["cheops=1", member, &format!("{member}.AAAAAAAAAAAAQjogc2l0ZTI")] {
        call(invalid).await.problem(503, "correlation_lost");
    }
    assert_eq!(call(&tracestate).await.is(200).text(), "from site 2");
    // From then on the key alone is enough.
    assert_eq!(call(member).await.is(200).text(), "from site 2");
    let of_others = get(b, "/string").header("tracestate", "other=1").await.is(200);
    assert_eq!(of_others.text(), "from site 1");
}

#[tokio::test]
async fn a_forged_key_is_no_key() {
    let spied = Spied::start().await;
    let (version, rest) = spied.traceparent.split_once('-').unwrap();
    let (key, rest) = rest.split_once('-').unwrap();
    let key = u128::from_str_radix(key, 16).unwrap();
    for bit in [0, 63, 64, 127] {
        let forged = format!("{version}-{:032x}-{rest}", key ^ (1 << bit));
        let answer = spied.internal(&forged).await.is(200);
        assert_eq!(answer.text(), "from site 1", "bit {bit}");
        assert_eq!(answer.header("cheops-receipt"), None, "bit {bit}");
    }
    assert_eq!(spied.internal(&spied.traceparent).await.text(), "from site 2");
}
