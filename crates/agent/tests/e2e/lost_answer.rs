//! A write whose answer is lost executes nowhere twice, and the caller is told.

use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use http::Method;
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Semaphore;

use crate::harness::{Call, Mesh, Port, RawUpstream, Scripted, get, json_answer, post, until};

const ITEM: &str = r#"{"name":"chair"}"#;

/// Executes what it reads and closes the connection without an answer.
fn executes_and_drops() -> RawUpstream {
    RawUpstream::start(|connection, counter| {
        connection.request()?;
        counter.executed();
        None
    })
}

/// Answers everything well.
fn good() -> Scripted {
    Scripted::start(|request| async move {
        let status = if request.method() == "POST" { 201 } else { 200 };
        json_answer(status, &json!({ "id": 1, "name": "chair" }))
    })
}

#[tokio::test]
async fn a_forwarded_write_whose_answer_is_lost_executes_once() {
    let (lossy, other) = (executes_and_drops(), good());
    let mesh = Mesh::of(3)
        .upstream(2, "B", lossy.addr())
        .upstream(3, "B", other.addr())
        .start()
        .await;
    let answer = post(mesh.b(1), "/items", ITEM).scope("site2 ; site3").await;
    let problem = answer.problem(504, "unknown_outcome");
    assert_eq!(problem["site"], "site2");
    assert_eq!(answer.outcomes(), "site2=unknown");
    assert_eq!((lossy.executed(), other.executed()), (1, 0));
    assert_eq!(lossy.connections(), 1, "it was sent again");

    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        let before = lossy.executed();
        let call = Call::new(method.clone(), mesh.b(1), "/items/1").body(ITEM);
        let answer = call.scope("site2 ; site3").await;
        answer.problem(504, "unknown_outcome");
        assert_eq!((lossy.executed(), other.executed()), (before + 1, 0), "{method}");
    }

    // The same at the caller's own site and without a scope.
    let before = lossy.executed();
    let answer = post(mesh.b(2), "/items", ITEM).scope("site2 ; site3").await;
    answer.problem(504, "unknown_outcome");
    assert_eq!(answer.outcomes(), "site2=unknown");
    let answer = post(mesh.b(2), "/items", ITEM).await;
    answer.problem(504, "unknown_outcome");
    assert_eq!((lossy.executed(), other.executed()), (before + 2, 0));

    // A read has no second effect and falls over.
    let answer = get(mesh.b(1), "/items/1").scope("site2 ; site3").await.is(200);
    assert_eq!(answer.outcomes(), "site2=unknown site3=executed");
    assert_eq!(other.executed(), 1);
}

#[tokio::test]
async fn a_kept_connection_that_drops_a_write_is_no_reason_to_repeat_it() {
    // The first request of a connection is answered, the second one executes and is dropped.
    let lossy = RawUpstream::start(|connection, counter| {
        connection.request()?;
        connection.answer(200, "{}")?;
        connection.request()?;
        counter.executed();
        None
    });
    let other = good();
    let mesh = Mesh::of(3)
        .workers(1)
        .upstream(2, "B", lossy.addr())
        .upstream(3, "B", other.addr())
        .start()
        .await;
    get(mesh.b(1), "/items/1").scope("site2").await.is(200);
    let answer = post(mesh.b(1), "/items", ITEM).scope("site2 ; site3").await;
    answer.problem(504, "unknown_outcome");
    assert_eq!(lossy.connections(), 1, "the kept connection was not used");
    assert_eq!((lossy.executed(), other.executed()), (1, 0));
}

#[tokio::test]
async fn a_link_that_breaks_while_the_write_executes() {
    // Executes, but answers only when told to.
    let release = Arc::new(Semaphore::new(0));
    let gate = release.clone();
    let slow = Scripted::start(move |_| {
        let gate = gate.clone();
        async move {
            let _permit = gate.acquire().await;
            json_answer(201, &json!({ "id": 1 }))
        }
    });
    let other = good();
    let mesh = Mesh::of(3)
        .upstream(2, "B", slow.addr())
        .upstream(3, "B", other.addr())
        .start()
        .await;
    let call = post(mesh.b(1), "/items", ITEM).scope("site2 ; site3");
    let call = tokio::spawn(call.try_send());
    until("it executes at site2", || async { slow.executed() == 1 }).await;
    mesh.link(1, 2).refuse();
    let answer = call.await.unwrap().unwrap();
    answer.problem(504, "unknown_outcome");
    assert_eq!(answer.outcomes(), "site2=unknown");
    release.add_permits(1);
    assert_eq!((slow.executed(), other.executed()), (1, 0));
}

#[tokio::test]
async fn a_service_that_refuses_certainly_did_not_execute() {
    let (nobody, other) = (Port::reserve(), good());
    let mesh = Mesh::of(3)
        .upstream(2, "B", nobody.addr())
        .upstream(3, "B", other.addr())
        .start()
        .await;
    let answer = post(mesh.b(1), "/items", ITEM)
        .scope("site2 ; site3")
        .await
        .is(201);
    assert_eq!(answer.outcomes(), "site2=not-executed site3=executed");
    let first = &answer.receipt().sites[0];
    assert_eq!(first.error.as_deref(), Some("upstream_unreachable"));
    assert_eq!(other.executed(), 1);
    // With nobody left, the last failure is the answer.
    let answer = post(mesh.b(1), "/items", ITEM).scope("site2").await;
    let problem = answer.problem(502, "upstream_unreachable");
    assert_eq!(problem["site"], "site2");
    assert_eq!(answer.outcomes(), "site2=not-executed");
}

#[tokio::test]
async fn a_service_that_never_accepts_certainly_did_not_execute() {
    let (full, other) = (FullQueue::new(), good());
    let mesh = Mesh::of(3)
        .limit("upstream_connect_timeout_ms", 300)
        .upstream(2, "B", full.addr)
        .upstream(3, "B", other.addr())
        .start()
        .await;
    let answer = post(mesh.b(1), "/items", ITEM)
        .scope("site2 ; site3")
        .await
        .is(201);
    assert_eq!(answer.outcomes(), "site2=not-executed site3=executed");
    assert_eq!(other.executed(), 1);
}

/// A listener whose queue is full, so that the kernel lets further connections hang.
struct FullQueue {
    addr: SocketAddr,
    _listener: Socket,
    _queued: Vec<TcpStream>,
}

impl FullQueue {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        listener
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        listener.listen(0).unwrap();
        let addr = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
            queued.push(stream);
        }
        Self {
            addr,
            _listener: listener,
            _queued: queued,
        }
    }
}

#[tokio::test]
async fn a_write_after_the_service_closed_an_idle_connection_succeeds_once() {
    // Answers one request per connection, then closes without having said so.
    let closing = RawUpstream::start(|connection, counter| {
        connection.request()?;
        counter.executed();
        connection.answer(201, r#"{"id":1}"#)
    });
    let mesh = Mesh::of(2)
        .workers(1)
        .upstream(2, "B", closing.addr())
        .start()
        .await;
    for n in 1..=20 {
        let answer = post(mesh.b(1), "/items", ITEM).scope("site2").await;
        assert_eq!(answer.status, 201, "request {n}: {answer:?}");
        assert_eq!(closing.executed(), n);
        until("the service closed the connection", || async {
            closing.closed() == n
        })
        .await;
    }
}
