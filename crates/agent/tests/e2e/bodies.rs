//! Bodies of every kind, through one agent and through two.

use std::sync::{Mutex, mpsc};

use crate::{
    harness::{Mesh, Port, until},
    wire::{DEADLINE, Service, Wire, ask, get, ok},
};

const MIB: usize = 1024 * 1024;
const OFFERED_BYTES: usize = 256 * MIB;
const GROWTH_MAX_KIB: u64 = 64 * 1024;
const LONG_BYTES: usize = 64 * MIB;

/// A mesh of two sites that share the service A, and the header of a request for each of them.
async fn two_sites(service: &Service) -> (Mesh, [&'static str; 3]) {
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .start()
        .await;
    (mesh, ["", "X-Scope: site1\r\n", "X-Scope: site2\r\n"])
}

fn resident_kib(mesh: &Mesh) -> [u64; 2] {
    [1, 2].map(|site| mesh.site(site).agent().memory_kib("VmRSS"))
}

/// How far each agent's peak is above an earlier state.
#[track_caller]
fn grew_little(mesh: &Mesh, before_kib: [u64; 2]) {
    for (site, before_kib) in [1, 2].into_iter().zip(before_kib) {
        let growth_kib = mesh
            .site(site)
            .agent()
            .memory_kib("VmHWM")
            .saturating_sub(before_kib);
        assert!(growth_kib < GROWTH_MAX_KIB, "site{site} grew by {growth_kib} KiB");
    }
}

#[tokio::test]
async fn a_slow_reader_holds_the_service_back() {
    let (told, offered) = mpsc::channel();
    let told = Mutex::new(told);
    let service = Service::start(move |wire| {
        while wire.request().is_some() {
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {OFFERED_BYTES}\r\n\r\n"
            ));
            let sent = wire.offer(OFFERED_BYTES);
            told.lock().unwrap().send(sent).unwrap();
        }
    });
    let (mesh, scopes) = two_sites(&service).await;
    for scope in [scopes[0], scopes[2]] {
        let before_kib = resident_kib(&mesh);
        let mut client = Wire::connect(mesh.a(1));
        client.send(get("/big", scope));
        assert_eq!(client.head().unwrap().status(), 200);
        let sent = offered.recv_timeout(DEADLINE).unwrap();
        assert!(sent < OFFERED_BYTES / 2, "{scope}: {sent} bytes went to nobody");
        grew_little(&mesh, before_kib);
    }
}

#[tokio::test]
async fn a_slow_service_holds_the_client_back() {
    let (_holds, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let service = Service::start(move |wire| {
        wire.head();
        // Reads no further until the test is over.
        let _ = held.lock().unwrap().recv();
    });
    let (mesh, scopes) = two_sites(&service).await;
    for scope in [scopes[0], scopes[2]] {
        let before_kib = resident_kib(&mesh);
        let mut client = Wire::connect(mesh.a(1));
        client.send(format!(
            "POST /big HTTP/1.1\r\nHost: app\r\n{scope}Content-Length: {OFFERED_BYTES}\r\n\r\n"
        ));
        let sent = client.offer(OFFERED_BYTES);
        assert!(
            sent < OFFERED_BYTES / 2,
            "{scope}: nobody read, but {sent} bytes went"
        );
        grew_little(&mesh, before_kib);
    }
}

/// Bytes that are not the same anywhere near: the length is prime.
fn pattern() -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..65_521).map(next).collect()
}

/// The lengths of the parts of a long body.
fn parts(block: usize) -> impl Iterator<Item = usize> {
    let rest = LONG_BYTES % block;
    std::iter::repeat_n(block, LONG_BYTES / block).chain([rest])
}

#[tokio::test]
async fn long_bodies_arrive_whole() {
    let service = Service::start(|wire| {
        let pattern = pattern();
        while let Some(mut request) = wire.head() {
            if request.line.starts_with("GET") {
                wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG_BYTES}\r\n\r\n"));
                parts(pattern.len()).for_each(|part| wire.send(&pattern[..part]));
                continue;
            }
            assert!(wire.body(&mut request));
            let mut blocks = request.body.chunks(pattern.len());
            let same = blocks.all(|block| block == &pattern[..block.len()]);
            wire.send(ok(&format!("{} {same}", request.body.len())));
        }
    });
    let (mesh, scopes) = two_sites(&service).await;
    let pattern = pattern();
    for scope in [scopes[0], scopes[2]] {
        let mut client = Wire::connect(mesh.a(1));
        client.send(format!(
            "POST /up HTTP/1.1\r\nHost: app\r\n{scope}Transfer-Encoding: chunked\r\n\r\n"
        ));
        for part in parts(pattern.len()) {
            client.send(format!("{part:x}\r\n"));
            client.send(&pattern[..part]);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        assert_eq!(client.answer().text(), format!("{LONG_BYTES} true"));

        client.send(get("/down", scope));
        let head = client.head().unwrap();
        assert_eq!(
            head.header("content-length"),
            Some(LONG_BYTES.to_string().as_str())
        );
        for part in parts(pattern.len()) {
            assert_eq!(client.bytes(part).as_deref(), Some(&pattern[..part]));
        }
    }
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it_when_the_body_is_wanted() {
    let service = Service::answering(|request| ok(&String::from_utf8_lossy(&request.body)));
    let (mesh, scopes) = two_sites(&service).await;
    let expect = |path: &str, scope: &str| {
        let mut client = Wire::connect(mesh.a(1));
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: app\r\n{scope}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        ));
        let first = client.head().unwrap();
        (client, first)
    };
    for (path, scope) in ["/plain", "/here", "/there"].into_iter().zip(scopes) {
        let (mut client, first) = expect(path, scope);
        assert_eq!(first.status(), 100, "{path}");
        client.send("hello");
        assert_eq!(client.answer().text(), "hello", "{path}");
        assert_eq!(service.request(path).header("expect"), None);
    }
    for scope in ["X-Scope: nowhere\r\n", "X-Scope: site1 &\r\n"] {
        let (mut client, first) = expect("/refused", scope);
        assert_eq!(first.status(), 400, "{scope}");
        // Nobody reads the body, so nothing can follow on this connection.
        let mut refused = first;
        assert!(client.body(&mut refused));
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(service.requests().len(), 3);
}

#[tokio::test]
async fn a_body_that_nobody_takes_is_not_asked_for() {
    let nobody = Port::reserve();
    let mesh = Mesh::of(1).upstream(1, "A", nobody.addr()).start().await;
    let mut client = Wire::connect(mesh.a(1));
    client.send("POST /x HTTP/1.1\r\nHost: app\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let answer = client.answer();
    assert_eq!(
        (answer.status(), answer.code().as_str()),
        (502, "upstream_unreachable")
    );
}

#[tokio::test]
async fn answers_without_a_body_keep_the_connection_in_step() {
    let service = Service::answering(|request| {
        let target = request.line.split(' ').nth(1).unwrap();
        let answer = match (request.line.split(' ').next().unwrap(), target) {
            ("HEAD", _) => "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nX-Kept: yes\r\n\r\n",
            (_, "/204") => "HTTP/1.1 204 No Content\r\nX-Kept: yes\r\n\r\n",
            (_, "/304") => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nX-Kept: yes\r\n\r\n",
            _ => return ok("after"),
        };
        answer.as_bytes().to_vec()
    });
    let (mesh, scopes) = two_sites(&service).await;
    for scope in scopes {
        let mut client = Wire::connect(mesh.a(1));
        for (request, status) in [
            (format!("HEAD /long HTTP/1.1\r\nHost: app\r\n{scope}\r\n"), 200),
            (get("/204", scope), 204),
            (get("/304", scope), 304),
        ] {
            client.send(request);
            let head = client.head().unwrap();
            assert_eq!(
                (head.status(), head.header("x-kept")),
                (status, Some("yes")),
                "{scope}"
            );
            assert_eq!(head.header("transfer-encoding"), None, "{scope}: {head:?}");
            if status == 200 {
                assert_eq!(head.header("content-length"), Some("1234"), "{scope}");
            }
            if status == 304 {
                assert_eq!(head.header("etag"), Some("\"a\""), "{scope}");
            }
        }
        client.send(get("/after", scope));
        assert_eq!(client.answer().text(), "after", "{scope}");
    }
}

#[tokio::test]
async fn trailers_travel_both_ways() {
    let service = Service::answering(|request| {
        let sum = request.trailers.iter().find(|(name, _)| name == "x-sum");
        let sum = sum.map_or("none", |(_, value)| value);
        format!(
            "HTTP/1.1 200 OK\r\nTrailer: x-back\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\nok\r\n0\r\nx-back: {sum}\r\n\r\n"
        )
        .into_bytes()
    });
    let (mesh, scopes) = two_sites(&service).await;
    for scope in scopes {
        let answer = ask(
            mesh.a(1),
            format!(
                "POST /sum HTTP/1.1\r\nHost: app\r\n{scope}TE: trailers\r\nTrailer: x-sum\r\n\
                 Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 42\r\n\r\n"
            ),
        );
        assert_eq!(answer.text(), "ok");
        assert_eq!(
            answer.trailers,
            [("x-back".to_owned(), "42".to_owned())],
            "{scope}"
        );
    }
}

#[tokio::test]
async fn heads_have_bounds() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("head_max_bytes", 16 * 1024)
        .limit("head_fields_max", 50)
        .start()
        .await;
    let long = format!("X-Long: {}\r\n", "a".repeat(17 * 1024));
    let many = "X-Many: a\r\n".repeat(60);
    for headers in [&long, &many] {
        let answer = ask(mesh.a(1), get("/refused", headers));
        assert_eq!(answer.status(), 431);
    }
    until("the limits count", || async {
        mesh.site(1).limit_hits("head_max_bytes").await == 2
    })
    .await;
    let within = format!("X-Long: {}\r\n", "a".repeat(8 * 1024));
    assert_eq!(ask(mesh.a(1), get("/fine", &within)).status(), 200);
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("head_timeout_ms", 300)
        .start()
        .await;
    let mut silent = Wire::connect(mesh.a(1));
    let mut partial = Wire::connect(mesh.a(1));
    partial.send("GET /slow HTTP/1.1\r\nHost: ");
    let mut second = Wire::connect(mesh.a(1));
    second.send(get("/first", ""));
    assert_eq!(second.answer().text(), "ok");
    second.send("GET /slow HTTP/1.1\r\nHost: ");
    for client in [&mut silent, &mut partial, &mut second] {
        let last = String::from_utf8(client.rest()).unwrap();
        assert!(last.is_empty() || last.starts_with("HTTP/1.1 408"), "{last}");
    }
    until("the limit counts", || async {
        mesh.site(1).limit_hits("head_timeout_ms").await == 3
    })
    .await;
    assert_eq!(service.requests().len(), 1);
}
