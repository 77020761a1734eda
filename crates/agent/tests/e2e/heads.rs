//! What a proxy does to every head, as the service and the client see it.

use cheops_relay::Relay;
use serde_json::json;

use crate::{
    harness::Mesh,
    wire::{Service, Wire, ask, get, ok},
};

async fn one_site(service: &Service) -> Mesh {
    Mesh::of(1).upstream(1, "A", service.addr()).start().await
}

#[tokio::test]
async fn headers_of_a_connection_end_with_it() {
    let service = Service::answering(|_| {
        b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
          Proxy-Authenticate: Basic\r\nProxy-Connection: keep-alive\r\nX-Cheops-Note: forged\r\n\
          X-End: kept\r\nContent-Length: 2\r\n\r\nok"
            .to_vec()
    });
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .start()
        .await;
    for (path, scope) in [
        ("/plain", ""),
        ("/here", "X-Scope: site1\r\n"),
        ("/there", "X-Scope: site2\r\n"),
    ] {
        let headers = "Connection: x-foo , keep-alive\r\nX-Foo: 1\r\nKeep-Alive: 5\r\nProxy-Connection: close\r\n\
                       Proxy-Authorization: secret\r\nTE: trailers, deflate;q=0.5\r\nX-Bar: kept\r\n";
        let answer = ask(mesh.a(1), get(path, &format!("{headers}{scope}")));
        assert_eq!((answer.status(), answer.header("x-end")), (200, Some("kept")));
        for gone in [
            "connection",
            "x-hop",
            "keep-alive",
            "proxy-authenticate",
            "proxy-connection",
            "x-cheops-note",
        ] {
            assert_eq!(answer.header(gone), None, "{path}: {answer:?}");
        }
        let sent = service.request(path);
        assert_eq!(
            (sent.header("x-bar"), sent.header("te")),
            (Some("kept"), Some("trailers"))
        );
        for gone in [
            "connection",
            "x-foo",
            "keep-alive",
            "proxy-connection",
            "proxy-authorization",
        ] {
            assert_eq!(sent.header(gone), None, "{path}: {sent:?}");
        }
        let internal = |(name, _): &(String, String)| name.starts_with("x-cheops");
        assert!(!sent.headers.iter().any(internal), "{path}: {sent:?}");
    }
}

#[tokio::test]
async fn what_only_agents_write_is_taken_off_and_means_nothing() {
    let own = Service::saying("A of site1");
    let other = Service::saying("A of site2");
    let mesh = Mesh::of(2)
        .upstream(1, "A", own.addr())
        .upstream(2, "A", other.addr())
        .start()
        .await;
    let forged = "X-Cheops-Service: B\r\nX-Cheops-Scope: A: site2, B: site2\r\nX-Cheops-Peer: site2\r\nx-cheops-: 1\r\n";
    for to in [mesh.site(1).public("A"), mesh.site(1).internal("A")] {
        assert_eq!(ask(to, get("/forged", forged)).text(), "A of site1");
        let scoped = ask(to, get("/forged", &format!("{forged}X-Scope: A: site2\r\n")));
        assert_eq!(scoped.text(), "A of site2");
    }
    for service in [&own, &other] {
        let got = service.text().to_ascii_lowercase();
        assert_eq!(got.matches("get /forged").count(), 2, "{got}");
        assert!(!got.contains("x-cheops"), "{got}");
    }
}

#[tokio::test]
async fn every_agent_on_the_way_is_in_via() {
    let service = Service::saying("ok");
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .start()
        .await;
    let via = |path: &str, headers: &str| {
        ask(mesh.a(1), get(path, headers));
        let request = service.request(path);
        request.all("via").join(", ")
    };
    assert_eq!(via("/plain", ""), "1.1 cheops-site1-A");
    assert_eq!(
        via("/before", "Via: 1.0 somebody\r\n"),
        "1.0 somebody, 1.1 cheops-site1-A"
    );
    assert_eq!(
        via("/forwarded", "X-Scope: site2\r\n"),
        "1.1 cheops-site1-A, 2 cheops-site2-A"
    );
}

#[tokio::test]
async fn a_request_that_comes_back_is_a_loop() {
    let service = Service::saying("never");
    let mesh = one_site(&service).await;
    // The agent cannot know where the other end of a link is.
    let back = Relay::bind(([127, 0, 0, 1], 0).into(), mesh.a(1)).unwrap();
    mesh.site(1)
        .edit_config(|text| text.replace(&service.addr().to_string(), &back.addr().to_string()));
    mesh.site(1).tell("/v1/reload", &json!({})).await;
    for headers in ["", "X-Scope: site1\r\n"] {
        let answer = ask(mesh.a(1), get("/round", headers));
        assert_eq!((answer.status(), answer.code().as_str()), (508, "loop_detected"));
        assert!(answer.text().contains("cheops-site1-A"), "{answer:?}");
    }
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn targets_arrive_in_origin_form() {
    let service = Service::saying("ok");
    let mesh = one_site(&service).await;
    ask(
        mesh.a(1),
        "GET http://other:81/x?y=%20z HTTP/1.1\r\nHost: app\r\n\r\n",
    );
    let got = service.request("/x?y=%20z");
    assert_eq!(got.header("host"), Some("other:81"));
    ask(mesh.a(1), "OPTIONS * HTTP/1.1\r\nHost: app\r\n\r\n");
    assert_eq!(service.request("*").line, "OPTIONS * HTTP/1.1");

    for target in ["app:80", "app:80/", "/x"] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: app\r\n\r\n");
        assert_eq!(ask(mesh.a(1), request).status(), 400, "{target}");
    }
    assert_eq!(service.requests().len(), 2, "a CONNECT went on");
}

#[tokio::test]
async fn a_client_of_http_1_0_is_served() {
    let service = Service::answering(|request| {
        if request.line.contains("/long") {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_vec()
        } else {
            ok("short")
        }
    });
    let mesh = one_site(&service).await;
    let own = service.addr().to_string();
    for (path, headers, host) in [("/with", "Host: app\r\n", "app"), ("/without", "", own.as_str())] {
        let mut client = Wire::connect(mesh.a(1));
        client.send(format!("GET {path} HTTP/1.0\r\n{headers}\r\n"));
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text()), (200, "short"));
        assert_eq!(client.rest(), b"", "the connection stays open");
        let got = service.request(path);
        assert_eq!(got.line, format!("GET {path} HTTP/1.1"));
        assert_eq!(
            (got.header("host"), got.header("via")),
            (Some(host), Some("1.0 cheops-site1-A"))
        );
    }
    // It does not know chunks: the answer ends with the connection.
    let answer = ask(mesh.a(1), "GET /long HTTP/1.0\r\nHost: app\r\n\r\n");
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.text(), "hello");
}
