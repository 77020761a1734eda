//! Connections that switch protocols, through one agent and through two.

use std::net::TcpStream;

use cheops_types::Receipt;
use rustix::process::Signal;

use crate::{
    harness::{Mesh, Port, until},
    wire::{Message, Service, Wire, ok},
};

const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Kept: yes\r\n\r\n";

/// Switches to a protocol that says who it is and then sends lines back, in capitals; `bye` ends it.
fn echo(name: &'static str) -> Service {
    Service::start(move |wire| {
        while let Some(request) = wire.request() {
            if request.line.contains("/forbidden") || request.header("upgrade") != Some("echo") {
                let answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
                wire.send(if request.line.contains("/forbidden") {
                    answer.to_vec()
                } else {
                    ok("no switch")
                });
                continue;
            }
            // What comes at once with the switch belongs to the new protocol already.
            wire.send(format!("{SWITCH}{name}\n"));
            while let Some(line) = wire.line() {
                if line == "bye" {
                    return;
                }
                if wire.try_send(format!("{}\n", line.to_ascii_uppercase())).is_err() {
                    return;
                }
            }
        }
    })
}

fn handshake(scope: &str) -> String {
    format!(
        "GET /socket HTTP/1.1\r\nHost: app\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n{scope}\r\n"
    )
}

/// Shakes hands; the answer's head must be a switch.
fn open(mesh: &Mesh, scope: &str, first: &str) -> (Wire, Message) {
    let mut client = Wire::connect(mesh.a(1));
    client.send(format!("{}{first}", handshake(scope)));
    let head = client.head().unwrap();
    assert_eq!(head.status(), 101, "{scope}: {head:?} {:?}", client.rest());
    assert_eq!(
        (head.header("upgrade"), head.header("x-kept")),
        (Some("echo"), Some("yes")),
        "{scope}"
    );
    let connection = head.header("connection").map(str::to_ascii_lowercase);
    assert_eq!(connection.as_deref(), Some("upgrade"), "{scope}");
    (client, head)
}

fn outcomes(head: &Message) -> String {
    let receipt = Receipt::parse(head.header("cheops-receipt").unwrap()).unwrap();
    let visits = receipt.sites.iter();
    let told: Vec<_> = visits
        .map(|visit| format!("{}={}", visit.site, visit.outcome))
        .collect();
    told.join(" ")
}

#[tokio::test]
async fn bytes_go_both_ways_after_the_switch() {
    let services = [echo("one"), echo("two")];
    let mesh = Mesh::of(2)
        .upstream(1, "A", services[0].addr())
        .upstream(2, "A", services[1].addr())
        .start()
        .await;
    for (scope, service, name) in [
        ("", &services[0], "one"),
        ("X-Scope: site1\r\n", &services[0], "one"),
        ("X-Scope: site2\r\n", &services[1], "two"),
    ] {
        let (mut client, _) = open(&mesh, scope, "early\n");
        assert_eq!(client.line().as_deref(), Some(name), "{scope}");
        assert_eq!(client.line().as_deref(), Some("EARLY"), "{scope}");
        for number in 0..100 {
            client.send(format!("line {number}\n"));
            assert_eq!(client.line(), Some(format!("LINE {number}")), "{scope}");
        }
        let long = "x".repeat(1024 * 1024);
        client.send(format!("{long}\n"));
        assert_eq!(client.line().map(|line| line.len()), Some(long.len()), "{scope}");

        // Either side may end it, and the other one learns.
        client.send("bye\n");
        assert_eq!(client.rest(), b"", "{scope}");
        let (client, _) = open(&mesh, scope, "");
        drop(client);
        service.wait("the end reaches the service", |seen| {
            seen.iter().all(|connection| connection.ended)
        });
    }
}

#[tokio::test]
async fn a_refused_switch_is_an_ordinary_answer() {
    let services = [echo("one"), echo("two")];
    let mesh = Mesh::of(2)
        .upstream(1, "A", services[0].addr())
        .upstream(2, "A", services[1].addr())
        .start()
        .await;
    for scope in ["", "X-Scope: site1\r\n", "X-Scope: site2\r\n"] {
        let mut client = Wire::connect(mesh.a(1));
        client.send(handshake(scope).replace("/socket", "/forbidden"));
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text()), (403, "no"), "{scope}");
        assert_eq!(answer.header("upgrade"), None, "{scope}");
    }
    // Without `Connection: upgrade` nobody asked for anything.
    let mut client = Wire::connect(mesh.a(1));
    client.send("GET /socket HTTP/1.1\r\nHost: app\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.answer().text(), "no switch");
}

#[tokio::test]
async fn the_first_site_that_takes_it_gets_it() {
    let third = echo("three");
    let nobody = Port::reserve();
    let mesh = Mesh::of(3)
        .upstream(1, "A", nobody.addr())
        .upstream(2, "A", nobody.addr())
        .upstream(3, "A", third.addr())
        .start()
        .await;
    for scope in ["site2 ; site3", "site1 ; site2 ; site3"] {
        let (mut client, head) = open(&mesh, &format!("X-Scope: {scope}\r\n"), "");
        assert_eq!(client.line().as_deref(), Some("three"));
        let told = outcomes(&head);
        assert!(
            told.ends_with("site2=not-executed site3=executed"),
            "{scope}: {told}"
        );
    }
    mesh.link(1, 2).refuse();
    let (mut client, head) = open(&mesh, "X-Scope: site2 ; site3\r\n", "");
    assert_eq!(client.line().as_deref(), Some("three"));
    assert!(outcomes(&head).ends_with("site3=executed"), "{head:?}");
    mesh.site(1).until_sees("site2", false).await;
    let (_, head) = open(&mesh, "X-Scope: site2 | site3\r\n", "");
    assert!(outcomes(&head).ends_with("site3=executed"), "{head:?}");
}

#[tokio::test]
async fn it_cannot_go_to_two_sites() {
    let service = echo("any");
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .start()
        .await;
    for scope in ["site1 & site2", "all()"] {
        let mut client = Wire::connect(mesh.a(1));
        client.send(handshake(&format!("X-Scope: {scope}\r\n")));
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.code().as_str()),
            (400, "upgrade_not_possible"),
            "{scope}"
        );
    }
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn only_the_handshake_has_a_time_limit() {
    let service = Service::start(|wire| {
        let Some(request) = wire.request() else { return };
        if request.line.contains("/socket") {
            wire.send(SWITCH);
            while let Some(line) = wire.line() {
                wire.send(format!("{line}\n"));
            }
        }
        // Anything else is never answered.
        wire.rest();
    });
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .limit("upstream_timeout_ms", 400)
        .limit("peer_timeout_ms", 600)
        .limit("head_timeout_ms", 400)
        .start()
        .await;
    let scopes = ["", "X-Scope: site1\r\n", "X-Scope: site2\r\n"];
    let mut open = scopes.map(|scope| open(&mesh, scope, "").0);
    // Each of these takes its time limit, so that afterwards the open ones were silent for longer.
    for scope in scopes {
        let mut client = Wire::connect(mesh.a(1));
        client.send(handshake(scope).replace("/socket", "/silent"));
        let answer = client.answer();
        assert_eq!(
            (answer.status(), answer.code().as_str()),
            (504, "upstream_timeout"),
            "{scope}"
        );
    }
    for client in &mut open {
        client.send("still here\n");
        assert_eq!(client.line().as_deref(), Some("still here"));
    }
}

#[tokio::test]
async fn an_agent_that_ends_waits_for_it() {
    let service = echo("one");
    let mut mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("drain_timeout_ms", 20_000)
        .start()
        .await;
    let address = mesh.a(1);
    let (mut client, _) = open(&mesh, "", "");
    assert_eq!(client.line().as_deref(), Some("one"));
    mesh.site(1).agent().signal(Signal::TERM);
    until("new connections are refused", || async {
        TcpStream::connect(address).is_err()
    })
    .await;
    client.send("last words\n");
    assert_eq!(client.line().as_deref(), Some("LAST WORDS"));
    client.send("bye\n");
    assert_eq!(client.rest(), b"");
    let status = mesh.site_mut(1).agent_mut().ended().await;
    assert_eq!(status.code(), Some(0));
}
