//! Scoped load is held: far more workflows than anything is kept for, and a flood is nobody else's matter.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::harness::{Answer, Call, Connection, Mesh, Scripted, get, json_answer, post, text_answer, until};

const FLOOD: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Room for about 64 scopes, of one address for about 16.
const ROOM_BYTES: u64 = 96 * 1024;

/// The scope `number` of as many as one likes; all mean the same.
fn scope(number: usize) -> String {
    format!("B: around(site1, {}ms)", number + 1)
}

/// Answers with the trace that it got. Under `/slow` it waits until it may go on and then asks B; what B says is its
/// answer.
struct Slow {
    service: Scripted,
    b: Arc<OnceLock<SocketAddr>>,
    may_go_on: Arc<Semaphore>,
}

impl Slow {
    fn start() -> Self {
        let (b, may_go_on) = (
            Arc::<OnceLock<SocketAddr>>::default(),
            Arc::new(Semaphore::new(0)),
        );
        let (address, waits) = (b.clone(), may_go_on.clone());
        let service = Scripted::start(move |request: Request<Bytes>| {
            let (address, waits) = (address.clone(), waits.clone());
            async move {
                let trace = request.headers()["traceparent"].to_str().unwrap().to_owned();
                if request.uri().path() != "/slow" {
                    return json_answer(200, &json!({ "traceparent": trace }));
                }
                let _going_on = waits.acquire().await.unwrap();
                let b = *address.get().unwrap();
                text_answer(
                    200,
                    &get(b, "/string")
                        .header("traceparent", &trace)
                        .await
                        .is(200)
                        .text(),
                )
            }
        });
        Self {
            service,
            b,
            may_go_on,
        }
    }

    async fn mesh(&self, sites: usize) -> Mesh {
        let mesh = Mesh::of(sites)
            .upstream(1, "A", self.service.addr())
            .limit("correlation_scopes_max_bytes", ROOM_BYTES)
            .start()
            .await;
        self.b.set(mesh.site(1).internal("B")).unwrap();
        mesh
    }

    fn go_on(&self) {
        self.may_go_on.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    async fn until_waiting(&self, requests: usize) {
        until("the service has the requests", || async {
            self.service.executed() >= requests
        })
        .await;
    }
}

/// Sends calls over four connections of one address, and tells how many were refused.
async fn flood(from: Ipv4Addr, to: SocketAddr, calls: impl Iterator<Item = Call>) -> usize {
    let mut shares: [Vec<Call>; 4] = Default::default();
    for (number, call) in calls.enumerate() {
        shares[number % 4].push(call);
    }
    let sending = shares.into_iter().map(|share| async move {
        let mut connection = Connection::http1_from(from, to).await;
        let mut refused = 0;
        for call in share {
            refused += usize::from(call.on(&mut connection).await.status != 200);
        }
        refused
    });
    join_all(sending).await.into_iter().sum()
}

fn traceparent(answer: &Answer) -> String {
    answer.json()["traceparent"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn far_more_workflows_than_there_is_room_for_are_all_served() {
    let slow = Slow::start();
    let mesh = slow.mesh(1).await;
    let a = mesh.a(1);
    let one_scope = (0..1500).map(|n| {
        if n % 2 == 0 {
            get(a, "/x")
        } else {
            post(a, "/x", "{}")
        }
        .scope(&scope(0))
    });
    assert_eq!(flood(FLOOD, a, one_scope).await, 0);
    assert_eq!(mesh.site(1).metric("cheops_scopes").await, 1);
    let many = (0..3000).map(|n| {
        if n % 2 == 0 {
            get(a, "/x")
        } else {
            post(a, "/x", "{}")
        }
        .scope(&scope(n))
    });
    assert_eq!(flood(FLOOD, a, many).await, 0);
    let scopes = mesh.site(1).metric("cheops_scopes").await;
    assert!((4..=24).contains(&scopes), "{scopes} scopes of one address");
    assert_eq!(mesh.site(1).limit_hits("correlation_scopes_max_bytes").await, 0);
}

#[tokio::test]
async fn a_flood_of_scopes_leaves_other_callers_workflows_alone() {
    let slow = Slow::start();
    let mesh = slow.mesh(2).await;
    let a = mesh.a(1);
    // One that is over, whose services may still call, and one whose second call is still to come.
    let mut other = Connection::http1_from(OTHER, a).await;
    let over = get(a, "/x").scope("B: site2").on(&mut other).await.is(200);
    let under_way =
        tokio::spawn(async move { get(a, "/slow").scope("B: site2 ; site1").on(&mut other).await });
    slow.until_waiting(2).await;

    assert_eq!(
        flood(FLOOD, a, (0..2000).map(|n| get(a, "/x").scope(&scope(n)))).await,
        0
    );
    let later = get(mesh.site(1).internal("B"), "/string").header("traceparent", &traceparent(&over));
    assert_eq!(later.await.is(200).text(), "from site 2");
    slow.go_on();
    let answer = under_way.await.unwrap().is(200);
    assert_eq!(answer.text(), "from site 2");
    assert_eq!(answer.receipt().workflow.len(), 1);
}

#[tokio::test]
async fn who_has_all_of_its_scopes_in_use_is_refused_and_nobody_else() {
    let slow = Slow::start();
    let mesh = slow.mesh(1).await;
    let a = mesh.a(1);
    let mut under_way = Vec::new();
    for number in 0..40 {
        let mut connection = Connection::http1_from(FLOOD, a).await;
        under_way.push(tokio::spawn(async move {
            get(a, "/slow").scope(&scope(number)).on(&mut connection).await
        }));
    }
    until("the share is used up", || async {
        mesh.site(1).limit_hits("correlation_scopes_max_bytes").await + slow.service.executed() as u64 == 40
    })
    .await;
    let executed = slow.service.executed();
    assert!((4..=24).contains(&executed), "{executed} under way");
    let full = get(a, "/x").scope(&scope(100)).await;
    full.problem(503, "correlation_full");
    assert_eq!(full.outcomes(), "site1=not-executed");
    assert_eq!(slow.service.executed(), executed, "the refused request executed");

    get(a, "/x")
        .scope("B: site1")
        .on(&mut Connection::http1_from(OTHER, a).await)
        .await
        .is(200);
    slow.go_on();
    let mut served = 0;
    for answer in under_way {
        let answer = answer.await.unwrap();
        served += usize::from(answer.status == 200);
    }
    assert_eq!(served, executed);
    get(a, "/x").scope(&scope(100)).await.is(200);
}

#[tokio::test]
async fn a_write_is_replayed_at_a_site_whose_callers_use_up_all_their_places() {
    let slow = Slow::start();
    let mesh = slow.mesh(2).await;
    let a = mesh.a(1);
    let mut under_way = Vec::new();
    for address in 2..10 {
        for number in 0..20 {
            let mut connection = Connection::http1_from(Ipv4Addr::new(127, 0, 0, address), a).await;
            let call = get(a, "/slow").scope(&scope(number + 20 * usize::from(address)));
            under_way.push(tokio::spawn(async move { call.on(&mut connection).await.status }));
        }
    }
    until("all places are used up", || async {
        let refused = mesh.site(1).limit_hits("correlation_scopes_max_bytes").await;
        refused > 0 && refused + slow.service.executed() as u64 == 160
    })
    .await;
    get(a, "/x")
        .scope("B: site2")
        .await
        .problem(503, "correlation_full");

    for name in ["bolt", "nut"] {
        let made = post(mesh.b(2), "/items", format!(r#"{{"name":"{name}"}}"#))
            .scope("site1 & site2")
            .header("prefer", "wait=20")
            .await
            .is(201);
        assert_eq!(made.executed_at(), ["site2", "site1"], "{made:?}");
    }
    slow.go_on();
    for status in under_way {
        assert!([200, 503].contains(&status.await.unwrap()));
    }
}
