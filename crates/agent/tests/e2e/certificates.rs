//! Callers who are known by their certificate, and everybody who says so without one.

use serde_json::{Value, json};

use crate::{
    harness::{Authority, Call, Front, Mesh, ServiceTls, get, post},
    wire::{Wire, get as get_text},
};

/// What A does with certificates.
pub(crate) const GLUE: &str = r#"
application = "front"

[services.A]
stream = ["?watch"]

[services.A.caller]
privileged = ["system:"]
certificate = { user = "X-Remote-User", group = "X-Remote-Group", strip = ["X-Remote-"] }
"#;

/// Sites with an application behind TLS each, whose clients may show certificates of `users`.
pub(crate) async fn sites(fronts: &[&Front], users: &Authority) -> Mesh {
    let mut mesh = Mesh::of(fronts.len()).glue(GLUE).tls("A").start().await;
    for (number, front) in (1..).zip(fronts) {
        let site = mesh.site(number);
        std::fs::write(site.dir().join("users.pem"), &users.cert_pem).unwrap();
        let plain = format!("upstream = \"http://{}\"", mesh.application(number, "A"));
        let behind = format!("{}\n{}", front.upstream(site.dir()), Front::pair());
        site.edit_config(|text| {
            text.replacen(&plain, &behind, 1).replacen(
                "key = \"tls.key\" }",
                "key = \"tls.key\", client_ca = \"users.pem\" }",
                1,
            )
        });
        // Not reloaded: a connection could still reach the listener without `client_ca`.
        mesh.site_mut(number).restart().await;
    }
    for number in 2..=fronts.len() {
        mesh.site(1).until_sees(&format!("site{number}"), true).await;
    }
    mesh
}

/// Reloads; the configuration must be good.
pub(crate) async fn reload(mesh: &Mesh, number: usize) {
    let answer = mesh.site(number).tell("/v1/reload", &json!({})).await;
    assert!(answer["generation"].is_u64(), "{answer:#}");
}

/// Who the application took the caller for, and on whose word.
fn told(answer: &Value) -> Value {
    json!([answer["user"], answer["groups"], answer["believed"]])
}

async fn ask(call: Call) -> Value {
    call.await.is(200).json()
}

#[tokio::test]
async fn a_certificate_becomes_headers() {
    let (front, users) = (Front::start(), Authority::make("users"));
    let mesh = sites(&[&front], &users).await;
    let alice = mesh.tls().showing(&users.person("alice", &["devs", "Foo, Inc."]));
    let zoe = mesh.tls().showing(&users.person("Zoé", &[]));
    for (addr, where_) in [(mesh.a(1), "public"), (mesh.site(1).internal("A"), "internal")] {
        for is_http2 in [false, true] {
            let call = |tls: &ServiceTls| {
                let call = get(addr, "/who").tls(tls).header("authorization", "Bearer t");
                if is_http2 { call.http2() } else { call }
            };
            let seen = ask(call(&alice)).await;
            assert_eq!(
                told(&seen),
                json!([["alice"], ["devs", "Foo, Inc."], true]),
                "{where_}"
            );
            // Whose token it is nobody knows; the certificate's owner is asked for.
            assert_eq!(seen["authorization"], json!([]), "{where_}");
            assert_eq!(
                told(&ask(call(&zoe)).await),
                json!([["Zoé"], [], true]),
                "{where_}"
            );
            let seen = ask(call(mesh.tls())).await;
            assert_eq!(told(&seen), json!([[], [], false]), "{where_}");
            assert_eq!(seen["authorization"], json!(["Bearer t"]), "{where_}");
        }
    }
}

#[tokio::test]
async fn nobody_brings_an_identity() {
    let (front, users) = (Front::start(), Authority::make("users"));
    let mesh = sites(&[&front], &users).await;
    let alice = mesh.tls().showing(&users.person("alice", &["devs"]));
    let spoofed = |call: Call| {
        let mut call = call;
        for name in [
            "x-remote-user",
            "X-Remote-Group",
            "X-REMOTE-EXTRA-Scopes",
            "x_remote_user",
            "x-remote_group",
        ] {
            call = call.header(name, "system:masters");
        }
        call.header(
            "x-cheops-caller",
            r#"{"user":"root","groups":["system:masters"]}"#,
        )
        // Named here, a header would be taken off by whoever looks at it in the wrong order.
        .header("x-kept", "yes")
    };
    let expect = |seen: &Value, caller: Value| {
        let names = seen["headers"].as_array().unwrap();
        let is_identity = |name: &&Value| {
            let name = name.as_str().unwrap().replace('_', "-");
            name.starts_with("x-remote-") || name.starts_with("x-cheops-")
        };
        let left: Vec<_> = names.iter().filter(is_identity).collect();
        let own: &[&str] = if caller[0] == json!([]) {
            &[]
        } else {
            &["x-remote-user", "x-remote-group"]
        };
        assert_eq!(left.len(), own.len(), "{left:?}");
        assert_eq!(told(seen), caller);
        assert!(names.iter().any(|name| name == "x-kept"));
    };
    for addr in [mesh.a(1), mesh.site(1).internal("A")] {
        for scope in [None, Some("site1")] {
            for is_http2 in [false, true] {
                let call = |tls| {
                    let mut call = spoofed(get(addr, "/who").tls(tls));
                    call = if is_http2 { call.http2() } else { call };
                    match scope {
                        Some(scope) => call.scope(scope),
                        None => call,
                    }
                };
                expect(&ask(call(mesh.tls())).await, json!([[], [], false]));
                expect(&ask(call(&alice)).await, json!([["alice"], ["devs"], true]));
            }
        }
    }
    // `Connection` takes headers off a request, but none that the agent puts on.
    let call = get(mesh.a(1), "/who")
        .tls(&alice)
        .header("connection", "x-remote-user, x-remote-group");
    assert_eq!(told(&ask(call).await), json!([["alice"], ["devs"], true]));
}

#[tokio::test]
async fn certificates_of_nobody_known_end_the_handshake() {
    let (front, users) = (Front::start(), Authority::make("users"));
    let mesh = sites(&[&front], &users).await;
    // A CA of the same name is another one.
    let stranger = Authority::make("users").person("alice", &[]);
    let doubtful = users.person(" alice", &[]);
    let grouped = users.person("alice", &["devs "]);
    for caller in [stranger, doubtful, grouped] {
        for is_http2 in [false, true] {
            let call = get(mesh.a(1), "/who").tls(&mesh.tls().showing(&caller));
            let call = if is_http2 { call.http2() } else { call };
            let answer = call.try_send().await;
            assert!(answer.is_err(), "{answer:?}");
        }
    }
    assert_eq!(front.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_sites_own_certificate_is_no_users() {
    let (front, users) = (Front::start(), Authority::make("users"));
    let mut mesh = sites(&[&front], &users).await;
    let site = mesh.site_mut(1);
    site.edit_config(|text| text.replacen("client_ca = \"users.pem\"", "client_ca = \"ca.pem\"", 1));
    site.restart().await;
    let site = mesh.site(1);
    let read = |name: &str| std::fs::read_to_string(site.dir().join(name)).unwrap();
    let own = crate::harness::Issued {
        cert_pem: read("site1.pem"),
        key_pem: read("site1.key"),
    };
    let answer = get(mesh.a(1), "/who")
        .tls(&mesh.tls().showing(&own))
        .try_send()
        .await;
    assert!(answer.is_err(), "{answer:?}");
    get(mesh.a(1), "/who").tls(mesh.tls()).await.is(200);
}

#[tokio::test]
async fn an_identity_travels_to_other_sites() {
    let (one, two, users) = (Front::start(), Front::start(), Authority::make("users"));
    let mesh = sites(&[&one, &two], &users).await;
    let alice = mesh.tls().showing(&users.person("alice", &["devs"]));
    let root = mesh
        .tls()
        .showing(&users.person("root", &["devs", "system:masters"]));
    let there = |tls: &ServiceTls| get(mesh.a(1), "/who").tls(tls).scope("site2");

    let answer = there(&alice).await.is(200);
    assert_eq!(told(&answer.json()), json!([["alice"], ["devs"], true]));
    assert_eq!(answer.executed_at(), ["site2"]);
    assert_eq!(told(&ask(there(mesh.tls())).await), json!([[], [], false]));
    assert_eq!(one.seen(), Vec::<String>::new());

    // Here it is this agent that saw the certificate; there it is another's word.
    let here = get(mesh.a(1), "/who").tls(&root);
    assert_eq!(
        told(&ask(here).await),
        json!([["root"], ["devs", "system:masters"], true])
    );
    let refused = there(&root).await;
    let problem = refused.problem(403, "caller_refused");
    assert!(
        problem["detail"].as_str().unwrap().contains("`system:masters`"),
        "{problem:#}"
    );
    assert_eq!(refused.outcomes(), "site2=not-executed");
    let post_there = post(mesh.a(1), "/things", "{}").tls(&root).scope("site2");
    post_there.await.problem(403, "caller_refused");

    let before = std::fs::read_to_string(mesh.site(2).config_path()).unwrap();
    let vouching = format!("{}\nvouch = [\"system:masters\"]", Front::pair());
    mesh.site(2)
        .edit_config(|text| text.replacen(Front::pair(), &vouching, 1));
    reload(&mesh, 2).await;
    assert_eq!(
        told(&ask(there(&root)).await),
        json!([["root"], ["devs", "system:masters"], true])
    );

    // A site that cannot tell its application, and one that believes nobody, say so.
    let unable = before.replacen(&format!("{}\n", Front::pair()), "", 1).replacen(
        ", client_ca = \"users.pem\"",
        "",
        1,
    );
    mesh.site(2).edit_config(|_| unable);
    reload(&mesh, 2).await;
    there(&alice).await.problem(403, "caller_refused");
    assert_eq!(told(&ask(there(mesh.tls())).await), json!([[], [], false]));
    let distrusting = before.replacen("[sites.site1]", "[sites.site1]\nvouch = \"none\"", 1);
    mesh.site(2).edit_config(|_| distrusting);
    reload(&mesh, 2).await;
    there(&alice).await.problem(403, "caller_refused");
}

#[tokio::test]
async fn a_switch_of_protocols_keeps_the_identity() {
    let (front, users) = (Front::start(), Authority::make("users"));
    let mesh = sites(&[&front], &users).await;
    let alice = mesh.tls().showing(&users.person("alice", &[]));
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let open = |tls: &ServiceTls| {
        let config = tls.client(&[b"http/1.1"]);
        let session = rustls::ClientConnection::new(config, name.clone()).unwrap();
        let stream = std::net::TcpStream::connect(mesh.a(1)).unwrap();
        stream.set_read_timeout(Some(crate::harness::DEADLINE)).unwrap();
        Wire::over(rustls::StreamOwned::new(session, stream))
    };
    for (tls, scope) in [(&alice, ""), (mesh.tls(), ""), (&alice, "X-Scope: site1\r\n")] {
        let mut client = open(tls);
        client.send(get_text(
            "/switch",
            &format!("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Remote-User: root\r\n{scope}"),
        ));
        let head = client.head().unwrap();
        assert_eq!(
            (head.status(), head.header("upgrade")),
            (101, Some("SPDY/3.1")),
            "{head:?}"
        );
        for number in 0..50 {
            client.send(format!("line {number}\n"));
            assert_eq!(client.line(), Some(format!("line {number}")));
        }
        let long = "x".repeat(1024 * 1024);
        client.send(format!("{long}\n"));
        assert_eq!(client.line().map(|line| line.len()), Some(long.len()));
    }
    // A refusal comes through as it is.
    let mut client = open(&alice);
    client.send(get_text("/who", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    let answer: Value = serde_json::from_slice(&client.answer().body).unwrap();
    assert_eq!(told(&answer), json!([["alice"], [], true]));
    assert_eq!(mesh.site(1).metric("cheops_upgrades_total").await, 3);
}
