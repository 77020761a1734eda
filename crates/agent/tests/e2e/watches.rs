//! Answers without end, beside others on the same connections.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::Signal;
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{
    certificates::{reload, sites},
    harness::{Authority, DEADLINE, Front, FrontOptions, Mesh, get, until},
};

type Sender = http2::SendRequest<Empty<Bytes>>;

async fn connect(mesh: &Mesh) -> Sender {
    let stream = TcpStream::connect(mesh.a(1)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(mesh.tls().client(&[b"h2"]));
    let stream = connector.connect(name, stream).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Begins to read an answer without end.
async fn begin(sender: &mut Sender, mesh: &Mesh, path: &str, scope: Option<&str>) -> Incoming {
    let mut request = Request::get(format!("https://{}{path}", mesh.a(1)));
    if let Some(scope) = scope {
        request = request.header("x-scope", scope);
    }
    let request = request.body(Empty::new()).unwrap();
    let response = timeout(DEADLINE, sender.send_request(request))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// The next piece; none at a proper end.
async fn next(body: &mut Incoming) -> Option<Bytes> {
    loop {
        let frame = timeout(DEADLINE, body.frame()).await.expect("a piece in time")?;
        let piece = frame.expect("no broken stream").into_data().unwrap();
        // The end may come as a frame of its own.
        if !piece.is_empty() {
            return Some(piece);
        }
    }
}

#[tokio::test]
async fn the_service_chooses_its_version_of_http() {
    let users = Authority::make("users");
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], "HTTP/2.0"),
        (&["http/1.1"], "HTTP/1.1"),
        (&[], "HTTP/1.1"),
    ] {
        let front = Front::with(&FrontOptions {
            protocols,
            ..FrontOptions::default()
        });
        let mesh = sites(&[&front], &users).await;
        let calls = (0..20).map(|_| async { get(mesh.a(1), "/who").tls(mesh.tls()).await.is(200).json() });
        for seen in join_all(calls).await {
            assert_eq!(seen["version"], version, "{protocols:?}");
        }
        mesh.site(1)
            .edit_config(|text| text.replacen("upstream_ca", "upstream_http = \"1\"\nupstream_ca", 1));
        reload(&mesh, 1).await;
        let seen = get(mesh.a(1), "/who").tls(mesh.tls()).await.is(200).json();
        assert_eq!(seen["version"], "HTTP/1.1", "{protocols:?}");
    }
}

#[tokio::test]
async fn a_full_connection_holds_nobody_back() {
    let front = Front::with(&FrontOptions {
        streams_max: 4,
        ..FrontOptions::default()
    });
    let mesh = sites(&[&front], &Authority::make("users")).await;
    let mut sender = connect(&mesh).await;
    let mut watches = Vec::new();
    for _ in 0..30 {
        watches.push(begin(&mut sender, &mesh, "/watch?watch=1", None).await);
    }
    let gets = (0..50).map(|_| async { get(mesh.a(1), "/who").tls(mesh.tls()).await.is(200) });
    join_all(gets).await;
    front.tell("news\n");
    for watch in &mut watches {
        assert_eq!(next(watch).await.as_deref(), Some(&b"news\n"[..]));
    }
    assert!(front.connections() >= 8, "{}", front.connections());
    assert!(mesh.site(1).limit_hits("upstream_streams_max").await > 0);
    drop(watches);
    until("the service learns that nobody watches", || async {
        front.watching() == 0
    })
    .await;
}

#[tokio::test]
async fn a_body_that_nobody_reads_holds_nobody_back() {
    let front = Front::start();
    let mesh = sites(&[&front], &Authority::make("users")).await;
    let mut unread = Vec::new();
    // On connections of their own: this is about the agent's connections to the service.
    for _ in 0..40 {
        let mut sender = connect(&mesh).await;
        unread.push((begin(&mut sender, &mesh, "/flood?watch=1", None).await, sender));
    }
    for _ in 0..20 {
        let seen = get(mesh.a(1), "/who").tls(mesh.tls()).await.is(200).json();
        assert_eq!(seen["version"], "HTTP/2.0");
    }
}

#[tokio::test]
async fn a_watch_outlives_reloads() {
    let (one, two) = (Front::start(), Front::start());
    let mesh = sites(&[&one, &two], &Authority::make("users")).await;
    let mut sender = connect(&mesh).await;
    let mut here = begin(&mut sender, &mesh, "/watch?watch=1", None).await;
    let mut there = begin(&mut sender, &mesh, "/watch?watch=1", Some("site2")).await;
    let mut piece = async |news: &'static str| {
        one.tell(news);
        two.tell(news);
        assert_eq!(next(&mut here).await.as_deref(), Some(news.as_bytes()));
        assert_eq!(next(&mut there).await.as_deref(), Some(news.as_bytes()));
    };
    piece("before\n").await;
    reload(&mesh, 1).await;
    reload(&mesh, 2).await;
    piece("nothing changed\n").await;
    for number in [1, 2] {
        let site = mesh.site(number);
        site.edit_config(|text| text.replacen("[limits]", "[limits]\nupstream_idle_max = 9", 1));
        reload(&mesh, number).await;
        // Those who connect from now on see it, so it is in force.
        let made = crate::harness::ServiceTls::make();
        made.write(site.dir());
        reload(&mesh, number).await;
        let shows = async |tls| get(mesh.a(number), "/who").tls(tls).try_send().await.is_ok();
        until("the new certificate is shown", || async { shows(&made).await }).await;
        until("the old one is not", || async { !shows(mesh.tls()).await }).await;
    }
    piece("limits and certificates\n").await;
    piece("and on\n").await;
}

#[tokio::test]
async fn a_watch_ends_properly_when_the_agent_does() {
    let (one, two) = (Front::start(), Front::start());
    let mut mesh = sites(&[&one, &two], &Authority::make("users")).await;
    for (ending, scope) in [(2, Some("site2")), (1, None)] {
        let mut sender = connect(&mesh).await;
        let mut watch = begin(&mut sender, &mesh, "/watch?watch=1", scope).await;
        let front = if ending == 1 { &one } else { &two };
        front.tell("last\n");
        assert_eq!(next(&mut watch).await.as_deref(), Some(&b"last\n"[..]));
        mesh.site(ending).agent().signal(Signal::TERM);
        assert_eq!(next(&mut watch).await, None);
        let ended = timeout(Duration::from_secs(20), mesh.site_mut(ending).agent_mut().ended());
        assert_eq!(ended.await.unwrap().code(), Some(0));
        until("the service learns it", || async { front.watching() == 0 }).await;
    }
}
