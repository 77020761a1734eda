//! Clients that ask and do not read: what they hold of the application is let go.

use std::{thread, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    harness::{DEADLINE, Mesh, until},
    wire::{Seen, Service, Wire, get, ok},
};

const STALL: Duration = Duration::from_millis(400);

/// Where a client reads: longer than a busy machine keeps it from that.
const LONG_STALL: Duration = Duration::from_secs(2);

/// More than the buffers of all connections on the way.
const LONG_BYTES: usize = 48 * 1024 * 1024;

const SCOPES: [&str; 3] = ["", "X-Scope: site1\r\n", "X-Scope: site2\r\n"];

async fn two_sites(service: &Service, stall: Duration) -> Mesh {
    Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .limit("answer_stall_ms", stall.as_millis() as u64)
        .start()
        .await
}

/// A service whose long answer ends only if somebody reads it.
fn long() -> Service {
    let long = ok(&"x".repeat(LONG_BYTES));
    Service::answering(move |request| match request.line.split(' ').nth(1) {
        Some("/long") => long.clone(),
        _ => ok("short"),
    })
}

/// A service that says something, is silent for far longer than a client may be, and says more.
fn silent() -> Service {
    Service::start(|wire| {
        while wire.request().is_some() {
            let begun = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";
            if wire.try_send(begun).is_err() {
                return;
            }
            // Not to be on time: the silence is what is tested.
            thread::sleep(STALL * 4);
            if wire.try_send("7\r\nsecond\n\r\n0\r\n\r\n").is_err() {
                return;
            }
        }
    })
}

/// Whether the long answer was asked for so often, and holds no connection.
fn are_free(seen: &[Seen], asked: usize) -> bool {
    let mut long = seen
        .iter()
        .filter(|connection| connection.text().contains("/long"));
    long.clone().count() == asked && long.all(|connection| connection.ended)
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_no_connection_of_the_application() {
    let service = long();
    let mesh = two_sites(&service, STALL).await;
    for (asked, scope) in (1..).zip(SCOPES) {
        let mut client = Wire::connect(mesh.a(1));
        client.send(get("/long", scope));
        service.wait("the application's connections are let go", |seen| {
            are_free(seen, asked)
        });
        // It was open until then.
        assert!(client.head().is_none_or(|head| head.status() == 200), "{scope}");
    }
    let mut hits = Vec::new();
    for site in [1, 2] {
        for limit in ["answer_stall_ms", "answer_rate_min_bytes_per_s"] {
            hits.push(mesh.site(site).limit_hits(limit).await);
        }
    }
    assert!(hits.iter().sum::<u64>() >= SCOPES.len() as u64, "{hits:?}");
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_loses_its_answer() {
    let service = long();
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("answer_stall_ms", LONG_STALL.as_millis() as u64)
        .limit("answer_rate_min_bytes_per_s", 1 << 40)
        .start()
        .await;
    let mut client = Wire::connect(mesh.a(1));
    client.send(get("/long", ""));
    assert_eq!(client.head().unwrap().status(), 200);
    let mut read = 0;
    while client.bytes(16 * 1024).is_some() {
        read += 16 * 1024;
        // Not to be on time: the slowness is what is tested.
        thread::sleep(Duration::from_millis(2));
    }
    assert!(read < LONG_BYTES, "it came to its end");
    service.wait("the application's connection is let go", |seen| are_free(seen, 1));
    let hits = async |limit| mesh.site(1).limit_hits(limit).await;
    assert_eq!(
        (
            hits("answer_rate_min_bytes_per_s").await,
            hits("answer_stall_ms").await
        ),
        (1, 0)
    );
}

#[tokio::test]
async fn a_client_that_reads_gets_all_of_it() {
    let service = long();
    let mesh = two_sites(&service, LONG_STALL).await;
    for scope in SCOPES {
        let mut client = Wire::connect(mesh.a(1));
        client.send(get("/long", scope));
        assert_eq!(client.answer().body.len(), LONG_BYTES, "{scope}");
    }
    assert_eq!(mesh.site(1).limit_hits("answer_stall_ms").await, 0);
}

#[tokio::test]
async fn an_answer_without_a_window_ends_and_others_go_on() {
    let service = long();
    // What its window lets in at once is read at this rate.
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .limit("answer_stall_ms", STALL.as_millis() as u64)
        .limit("answer_rate_min_bytes_per_s", 1 << 40)
        .start()
        .await;
    for (asked, scope) in (1..).zip([None, Some("site1"), Some("site2")]) {
        let stream = TcpStream::connect(mesh.a(1)).await.unwrap();
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1024)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut ask = async |path: &str| {
            let mut request = Request::get(format!("http://{}{path}", mesh.a(1)));
            if let Some(scope) = scope {
                request = request.header("x-scope", scope);
            }
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let answer = timeout(DEADLINE, sender.send_request(request)).await.unwrap();
            answer.unwrap().into_body()
        };
        let unread = ask("/long").await;
        until("the application's connections are let go", || async {
            are_free(&service.seen(), asked)
        })
        .await;
        let read = ask("/short").await.collect().await.unwrap().to_bytes();
        assert_eq!(read, "short", "{scope:?}");
        assert!(unread.collect().await.is_err(), "{scope:?}: it came to its end");
    }
    until("the limit counts", || async {
        mesh.site(1).limit_hits("answer_stall_ms").await >= 3
    })
    .await;
}

#[tokio::test]
async fn a_silent_application_ends_nothing() {
    let service = silent();
    let mesh = two_sites(&service, STALL).await;
    for scope in SCOPES {
        let mut client = Wire::connect(mesh.a(1));
        client.send(get("/watch", scope));
        assert_eq!(client.answer().text(), "first\nsecond\n", "{scope}");
    }
    for scope in ["site1", "site2"] {
        let call = crate::harness::get(mesh.a(1), "/watch").http2().scope(scope);
        assert_eq!(call.await.is(200).text(), "first\nsecond\n", "{scope}");
    }
    for site in [1, 2] {
        assert_eq!(mesh.site(site).limit_hits("answer_stall_ms").await, 0);
    }
}
