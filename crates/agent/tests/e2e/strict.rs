//! Requests that another reader could read otherwise, and what strangers say behind a body.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    harness::{DEADLINE, Mesh},
    wire::{Service, Wire, ask, get, ok},
};

/// An application that believes a header about who is calling.
const GLUE: &str = "application = \"a\"\n[services.A.caller]\n\
    certificate = { user = \"X-Remote-User\", group = \"X-Remote-Group\", strip = [\"X-Remote-\"] }\n";

const SCOPES: [&str; 3] = ["", "X-Scope: site1\r\n", "X-Scope: site2\r\n"];

async fn two_sites(service: &Service) -> Mesh {
    Mesh::of(2)
        .glue(GLUE)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .start()
        .await
}

/// The status of what is refused, or answered, on a connection of its own.
fn status(mesh: &Mesh, request: &str) -> u16 {
    let mut client = Wire::connect(mesh.a(1));
    client.send(request);
    client.head().expect("an answer").status()
}

#[tokio::test]
async fn trailers_are_not_a_way_around_headers() {
    let service = Service::saying("ok");
    let mesh = two_sites(&service).await;
    for (number, scope) in SCOPES.into_iter().enumerate() {
        let path = format!("/{number}");
        let declared =
            "x-sum, X-Remote-User, x-scope, X-Cheops-Scope, x_remote_user, Content-Length, Authorization";
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: app\r\n{scope}TE: trailers\r\nTrailer: {declared}\r\n\
             Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 42\r\nX-Remote-User: root\r\n\
             x_remote_user: root\r\nX-Scope: site2\r\nX-Cheops-Scope: A: site2\r\nContent-Length: 0\r\n\
             Authorization: root\r\n\r\n"
        );
        assert_eq!(ask(mesh.a(1), request).status(), 200, "{scope}");
        let got = service.request(&path);
        assert_eq!(got.body, b"abc");
        assert_eq!(got.trailers, [("x-sum".to_owned(), "42".to_owned())], "{scope}");
        assert_eq!(got.header("trailer"), Some("x-sum"), "{scope}");
    }
}

#[tokio::test]
async fn lengths_and_framing_have_one_reading() {
    let service = Service::saying("never");
    let mesh = two_sites(&service).await;
    for headers in [
        "Content-Length: 003\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: 3\r\nContent_Length: 30\r\n",
        "Content-Length: 3\r\nTransfer_Encoding: chunked\r\n",
        "Content-Length: 3\r\ntransfer_ENCODING: chunked\r\n",
    ] {
        for scope in SCOPES {
            let request = format!("POST /two HTTP/1.1\r\nHost: app\r\n{scope}{headers}\r\nabc");
            assert_eq!(status(&mesh, &request), 400, "{scope}{headers}");
        }
    }
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn a_host_is_a_host_and_perhaps_a_port() {
    let service = Service::saying("ok");
    let mesh = two_sites(&service).await;
    for host in [
        "",
        "user@app",
        "app,other",
        "app other",
        "app/x",
        "app:80:81",
        "a\\b",
    ] {
        for scope in SCOPES {
            let request = format!("GET /host HTTP/1.1\r\nHost: {host}\r\n{scope}\r\n");
            assert_eq!(status(&mesh, &request), 400, "{scope}{host:?}");
        }
    }
    let absolute = "GET http://user@app/host HTTP/1.1\r\nHost: app\r\n\r\n";
    assert_eq!(status(&mesh, absolute), 400);
    assert_eq!(service.text(), "");
    for (number, host) in ["app", "app:80", "my_app.example", "[::1]:80"]
        .into_iter()
        .enumerate()
    {
        for (which, scope) in SCOPES.into_iter().enumerate() {
            let path = format!("/{number}/{which}");
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{scope}\r\n");
            assert_eq!(status(&mesh, &request), 200, "{scope}{host}");
            assert_eq!(service.request(&path).header("host"), Some(host), "{scope}");
        }
    }
}

#[tokio::test]
async fn trace_is_not_passed_on() {
    let service = Service::saying("never");
    let mesh = two_sites(&service).await;
    for scope in SCOPES {
        let answer = ask(mesh.a(1), get("/trace", scope).replacen("GET", "TRACE", 1));
        assert_eq!(
            (answer.status(), answer.code().as_str()),
            (405, "method_refused"),
            "{scope}"
        );
    }
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn no_switch_to_http_however_it_is_asked_for() {
    let service = Service::answering(|request| match request.header("upgrade") {
        None => ok("no switch"),
        Some(_) => {
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_vec()
        }
    });
    let mesh = two_sites(&service).await;
    let upgrades = [
        "Upgrade: h2c\r\n",
        "Upgrade: H2C\r\n",
        "Upgrade: websocket, h2c\r\n",
        "Upgrade: websocket ,h2C ; q\r\n",
        "Upgrade: websocket\r\nUpgrade: h2c\r\n",
        "Upgrade: HTTP/2.0\r\n",
    ];
    for (number, upgrade) in upgrades.into_iter().enumerate() {
        for (which, scope) in SCOPES.into_iter().enumerate() {
            let path = format!("/{number}/{which}");
            let headers = format!("Connection: Upgrade\r\nHTTP2-Settings: AAMAAABk\r\n{upgrade}{scope}");
            assert_eq!(
                ask(mesh.a(1), get(&path, &headers)).text(),
                "no switch",
                "{upgrade}{scope}"
            );
            let got = service.request(&path);
            assert_eq!(got.header("http2-settings"), None, "{upgrade}{scope}");
        }
    }
}

#[tokio::test]
async fn names_that_some_read_with_a_dash_are_read_so() {
    let service = Service::saying("ok");
    let mesh = two_sites(&service).await;
    let forged = "X_Cheops_Scope: A: site2\r\nX-Cheops_Peer: site2\r\nx_scope: site2\r\nX_Other: kept\r\n";
    for (number, scope) in SCOPES.into_iter().enumerate() {
        let path = format!("/{number}");
        assert_eq!(
            ask(mesh.a(1), get(&path, &format!("{forged}{scope}"))).status(),
            200
        );
        let got = service.request(&path);
        assert_eq!(got.header("x_other"), Some("kept"));
        let is_forged = |(name, _): &(String, String)| {
            let name = name.replace('_', "-");
            name.starts_with("x-cheops") || (name == "x-scope" && scope.is_empty())
        };
        assert!(!got.headers.iter().any(is_forged), "{scope}: {got:?}");
    }
}

#[tokio::test]
async fn an_http2_request_has_one_length() {
    let service = Service::saying("never");
    let mesh = two_sites(&service).await;
    for (lengths, scope) in [
        (["5", "5"], None),
        (["5", "6"], None),
        (["5", "05"], None),
        (["5", "5"], Some("site2")),
    ] {
        let stream = TcpStream::connect(mesh.a(1)).await.unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = Request::post(format!("http://{}/two", mesh.a(1)));
        for length in lengths {
            request = request.header("content-length", length);
        }
        if let Some(scope) = scope {
            request = request.header("x-scope", scope);
        }
        let request = request.body(Full::new(Bytes::from_static(b"hello"))).unwrap();
        let sent = timeout(DEADLINE, sender.send_request(request)).await.unwrap();
        // HTTP/2 itself may end what is malformed.
        assert!(
            sent.as_ref().is_err() || sent.as_ref().is_ok_and(|answer| answer.status() == 400),
            "{lengths:?}: {sent:?}"
        );
    }
    assert_eq!(service.text(), "");
}
