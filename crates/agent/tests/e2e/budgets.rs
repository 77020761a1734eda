//! What one caller may take of what all need.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::{
    harness::{Connection, Mesh, Port, get as call, post, until},
    wire::{Seen, Service, Wire, ask, get, ok},
};

const ONE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn connect_from(address: Ipv4Addr, to: SocketAddr) -> Wire {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::new(IpAddr::V4(address), 0).into())
        .unwrap();
    socket.connect(&to.into()).unwrap();
    Wire::over_tcp(socket.into())
}

/// Whether a request on a new connection is answered.
fn is_served(from: Ipv4Addr, to: SocketAddr) -> bool {
    let mut client = connect_from(from, to);
    client.try_send(get("/", "")).is_ok() && client.head().is_some_and(|head| head.status() == 200)
}

/// Connections that were answered once and stay.
fn stay(count: usize, from: Ipv4Addr, to: SocketAddr) -> Vec<Wire> {
    let stay = |_| {
        let mut client = connect_from(from, to);
        client.send(get("/", ""));
        assert_eq!(client.answer().status(), 200);
        client
    };
    (0..count).map(stay).collect()
}

#[tokio::test]
async fn one_address_has_its_connections_and_others_theirs() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .workers(1)
        .limit("address_connections_max", 8)
        .start()
        .await;
    let mut open = stay(8, ONE, mesh.a(1));
    assert!(!is_served(ONE, mesh.a(1)), "a ninth connection");
    assert!(is_served(OTHER, mesh.a(1)), "another address is not concerned");
    assert!(mesh.site(1).limit_hits("address_connections_max").await >= 1);
    open.pop();
    until("the place is free again", || async { is_served(ONE, mesh.a(1)) }).await;
}

#[tokio::test]
async fn who_is_exempt_has_more() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .workers(1)
        .limit("address_connections_max", 8)
        .exempt("127.0.0.0/30")
        .start()
        .await;
    let _open = stay(20, ONE, mesh.a(1));
    assert!(is_served(ONE, mesh.a(1)));
}

#[tokio::test]
async fn heads_without_an_end_are_bounded_together() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .workers(1)
        .limit("heads_max_bytes", 512 * 1024)
        .start()
        .await;
    let part = format!(
        "GET /part HTTP/1.1\r\nHost: app\r\nX-Long: {}",
        "a".repeat(60 * 1024)
    );
    // A request of before, with a body whose length nobody knew, does not hide what follows it.
    let before =
        "POST /before HTTP/1.1\r\nHost: app\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for first in ["", before] {
        let mut clients: Vec<Wire> = (0..10).map(|_| connect_from(ONE, mesh.a(1))).collect();
        let hits = mesh.site(1).limit_hits("heads_max_bytes").await;
        for client in &mut clients {
            if !first.is_empty() {
                client.send(first);
                assert_eq!(client.answer().text(), "ok");
            }
            // It may be closed in the middle.
            let _ = client.try_send(&part);
        }
        // A quarter, 128 KiB, is this address's: two heads of 60 KiB.
        until("the others are closed", || async {
            mesh.site(1).limit_hits("heads_max_bytes").await == hits + 8
        })
        .await;
        assert!(is_served(ONE, mesh.a(1)), "an ordinary request");
        let long = format!("X-Long: {}\r\n", "a".repeat(60 * 1024));
        let mut other = connect_from(OTHER, mesh.a(1));
        other.send(get("/long", &long));
        assert_eq!(other.answer().status(), 200, "another address has its own");
        drop(clients);
        until("the room is free again", || async {
            let mut client = connect_from(ONE, mesh.a(1));
            client.try_send(get("/long", &long)).is_ok() && client.head().is_some()
        })
        .await;
    }
}

#[tokio::test]
async fn long_bodies_are_no_heads() {
    let service = Service::answering(|request| ok(&request.body.len().to_string()));
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .workers(1)
        .limit("heads_max_bytes", 32 * 1024)
        .start()
        .await;
    let body = "a".repeat(4 * 1024 * 1024);
    let mut client = Wire::connect(mesh.a(1));
    for framed in [
        format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        ),
    ] {
        client.send(format!("POST /body HTTP/1.1\r\nHost: app\r\n{framed}"));
        assert_eq!(client.answer().text(), body.len().to_string());
    }
    let mut shared = Connection::http2(mesh.a(1)).await;
    for _ in 0..2 {
        call(mesh.a(1), "/").on(&mut shared).await.is(200);
        let answer = post(mesh.a(1), "/body", body.clone())
            .on(&mut shared)
            .await
            .is(200);
        assert_eq!(answer.text(), body.len().to_string());
    }
    assert_eq!(mesh.site(1).limit_hits("heads_max_bytes").await, 0);
}

#[tokio::test]
async fn clients_that_take_all_files_leave_the_operator_and_the_peers_theirs() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .workers(1)
        .files_max(128)
        .start()
        .await;
    // What is not accepted waits in the kernel's queue.
    let mut clients: Vec<Wire> = (0..300).map(|_| connect_from(ONE, mesh.a(1))).collect();
    for client in &mut clients {
        client.send("GET /part HTTP/1.1\r\n");
    }
    until("the reserve is reached", || async {
        mesh.site(1).limit_hits("files_reserved").await > 0
    })
    .await;
    for _ in 0..20 {
        let status = mesh.site(1).ask("/v1/status").await;
        assert_eq!(status["site"], json!("site1"));
        let forwarded = call(mesh.a(2), "/").scope("site1").await.is(200);
        assert_eq!(forwarded.executed_at(), ["site1"]);
    }
    assert!(mesh.site(2).sees("site1").await);
    drop(clients);
    until("clients are served again", || async {
        call(mesh.a(1), "/").try_send().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn one_address_does_not_take_all_places_at_a_peer() {
    let own = Service::saying("own");
    let silent = Service::start(|wire| {
        wire.rest();
    });
    let mesh = Mesh::of(2)
        .upstream(1, "A", own.addr())
        .upstream(2, "A", silent.addr())
        .workers(1)
        .limit("address_peer_inflight_max", 4)
        .start()
        .await;
    let slow_ones = |seen: &[Seen]| seen.iter().filter(|one| one.text().contains("/slow")).count();
    let asked = |count: usize| drop(silent.wait("the requests arrive", |seen| slow_ones(seen) >= count));
    let slow = get("/slow", "X-Scope: site2\r\n");
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut client = connect_from(ONE, mesh.a(1));
        client.send(&slow);
        waiting.push(client);
    }
    asked(4);
    let refused = ask(mesh.a(1), &slow);
    assert_eq!((refused.status(), refused.code().as_str()), (503, "peer_busy"));
    assert_eq!(ask(mesh.a(1), get("/", "")).text(), "own");
    let mut other = connect_from(OTHER, mesh.a(1));
    other.send(&slow);
    asked(5);
    assert_eq!(mesh.site(1).limit_hits("address_peer_inflight_max").await, 1);
    // Who goes away leaves the place.
    drop(waiting);
    let again = std::cell::RefCell::new(Vec::new());
    until("the places are free again", || async {
        let mut client = connect_from(ONE, mesh.a(1));
        client.send(&slow);
        again.borrow_mut().push(client);
        slow_ones(&silent.seen()) >= 6
    })
    .await;
}

#[tokio::test]
async fn one_scope_does_not_become_a_hundred_requests_to_a_site() {
    let service = Service::answering(|_| b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec());
    let mesh = Mesh::of(1).upstream(1, "A", service.addr()).start().await;
    // Sites where nobody is.
    let others = ["a", "b", "c", "d", "e", "f"];
    let ports = others.map(|_| Port::reserve());
    mesh.site(1).edit_config(|mut text| {
        for (name, port) in others.iter().zip(&ports) {
            write!(text, "\n[sites.{name}]\naddress = \"{}\"\n", port.addr()).unwrap();
        }
        text
    });
    mesh.site(1).tell("/v1/reload", &json!({})).await;
    // Each part is another one, and each is this site's affair too.
    let parts: Vec<String> = (1..64)
        .map(|which| {
            let named = (0..others.len()).filter(|other| which >> other & 1 == 1);
            let named: Vec<_> = named.map(|other| others[other]).collect();
            format!("(site1&{})", named.join("&"))
        })
        .collect();
    let scope = parts.join(";");
    assert!(scope.len() < 2048);
    let answer = ask(mesh.a(1), get("/items", &format!("X-Scope: {scope}\r\n")));
    assert!(answer.status() >= 500, "{answer:?}");
    assert_eq!(service.requests().len(), 16);
    assert!(mesh.site(1).limit_hits("site_asks_max").await > 0);
}
