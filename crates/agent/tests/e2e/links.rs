//! Peers that swallow, fall silent or refuse: a clear answer in time, and nobody else waits.

use std::time::{Duration, Instant};

use cheops_types::Outcome;
use tokio::task::JoinSet;

use crate::harness::{Answer, Connection, Mesh, MeshBuilder, get, post, until};

const CONNECT_MS: u64 = 500;
const ANSWER_MS: u64 = 700;
/// What scheduling may add on a busy machine.
const SLACK: Duration = Duration::from_millis(1500);

/// Heartbeats are kept from deciding: what is tested is the request's own time.
fn pair() -> MeshBuilder {
    Mesh::of(2)
        .limit("peer_connect_timeout_ms", CONNECT_MS)
        .limit("peer_timeout_ms", ANSWER_MS)
        .limit("heartbeat_misses_max", 1_000)
}

#[track_caller]
fn ends_in_time(answer: &Answer, status: u16, code: &str) {
    let problem = answer.problem(status, code);
    assert_eq!(problem["site"], "site2", "{problem:#}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`site2`"), "{detail}");
    let limit = Duration::from_millis(ANSWER_MS) + SLACK;
    assert!(answer.elapsed < limit, "{:?}: {problem:#}", answer.elapsed);
}

#[tokio::test]
async fn a_peer_that_accepts_and_never_answers() {
    let mesh = pair().cut(1, 2).start().await;
    for _ in 0..3 {
        let read = get(mesh.b(1), "/string").scope("site2").await;
        ends_in_time(&read, 504, "peer_timeout");
    }
    // Without a connection nothing can have executed, and the answer says so.
    let write = post(mesh.b(1), "/items", r#"{"name":"x"}"#).scope("site2").await;
    ends_in_time(&write, 504, "peer_timeout");
    assert_eq!(write.outcomes(), "site2=not-executed");
    mesh.link(1, 2).heal();
    mesh.site(1).until_sees("site2", true).await;
    let healed = get(mesh.b(1), "/string").scope("site2").await.is(200);
    assert_eq!(healed.text(), "from site 2");
}

#[tokio::test]
async fn an_established_connection_that_falls_silent() {
    let mesh = pair().workers(1).start().await;
    get(mesh.b(1), "/string").scope("site2").await.is(200);
    mesh.link(1, 2).cut();
    let write = post(mesh.b(1), "/items", r#"{"name":"x"}"#).scope("site2").await;
    ends_in_time(&write, 504, "unknown_outcome");
    assert_eq!(write.receipt().sites[0].outcome, Outcome::Unknown);
    let read = get(mesh.b(1), "/string").scope("site2").await;
    ends_in_time(&read, 504, "peer_timeout");
    mesh.link(1, 2).heal();
    until("site2 answers again", || async {
        get(mesh.b(1), "/string").scope("site2").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_refuses() {
    let mesh = pair().start().await;
    get(mesh.b(1), "/string").scope("site2").await.is(200);
    mesh.link(1, 2).refuse();
    // An open connection may break under the first requests; then there is none. Each core has its own, and which one a
    // request meets is chance.
    let mut in_a_row = 0;
    while in_a_row < 16 {
        let read = get(mesh.b(1), "/string").scope("site2").await;
        assert_eq!(read.status, 502, "{read:?}");
        assert_eq!(read.json()["site"], "site2");
        let is_certain = read.json()["code"] == "peer_unreachable";
        in_a_row = if is_certain { in_a_row + 1 } else { 0 };
    }
    let read = get(mesh.b(1), "/string").scope("site2").await;
    ends_in_time(&read, 502, "peer_unreachable");
    let write = post(mesh.b(1), "/items", r#"{"name":"x"}"#).scope("site2").await;
    ends_in_time(&write, 502, "peer_unreachable");
    assert_eq!(write.outcomes(), "site2=not-executed");
}

#[tokio::test]
async fn a_peer_whose_agent_is_gone() {
    let mut mesh = pair().start().await;
    mesh.site_mut(2).agent_mut().kill();
    until("the agent has no connection left", || async {
        let read = get(mesh.b(1), "/string").scope("site2").await;
        read.json()["code"] == "peer_unreachable"
    })
    .await;
    let write = post(mesh.b(1), "/items", r#"{"name":"x"}"#).scope("site2").await;
    ends_in_time(&write, 502, "peer_unreachable");
    assert_eq!(write.outcomes(), "site2=not-executed");
    let local = get(mesh.b(1), "/string").await.is(200);
    assert_eq!(local.text(), "from site 1");
}

#[tokio::test]
async fn local_requests_do_not_wait_for_a_silent_peer() {
    let mesh = Mesh::of(2).workers(1).start().await;
    get(mesh.b(1), "/string").scope("site2").await.is(200);
    mesh.link(1, 2).cut();
    compare_latency(&mesh).await;
}

#[tokio::test]
async fn local_requests_do_not_wait_for_a_peer_that_never_accepts() {
    let mesh = Mesh::of(2)
        .workers(1)
        .limit("peer_connect_timeout_ms", 20_000)
        .cut(1, 2)
        .start()
        .await;
    compare_latency(&mesh).await;
}

/// Local requests alone and beside requests that hang on site 2, in turns, on one core.
async fn compare_latency(mesh: &Mesh) {
    const ROUNDS: usize = 6;
    const REQUESTS: usize = 60;
    const HANGING: usize = 50;
    let mut connection = Connection::http1(mesh.b(1)).await;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.extend(local_latencies(mesh, &mut connection, REQUESTS).await);
        let before = mesh.site(1).metric("cheops_requests_to_peers_total").await;
        let mut hanging = JoinSet::new();
        for _ in 0..HANGING {
            hanging.spawn(get(mesh.b(1), "/string").scope("site2").try_send());
        }
        until("all requests hang", || async {
            mesh.site(1).metric("cheops_requests_to_peers_total").await >= before + HANGING as u64
        })
        .await;
        beside.extend(local_latencies(mesh, &mut connection, REQUESTS).await);
        assert!(hanging.try_join_next().is_none(), "a request did not hang");
        hanging.shutdown().await;
    }
    let (alone, beside) = (median(alone), median(beside));
    assert!(beside < 2 * alone, "alone {alone:?}, beside {beside:?}");
}

async fn local_latencies(mesh: &Mesh, connection: &mut Connection, count: usize) -> Vec<Duration> {
    let mut latencies = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        get(mesh.b(1), "/string").on(connection).await.is(200);
        latencies.push(start.elapsed());
    }
    latencies
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}
