//! Requests that are wrong, long or late, and what A passes on.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::support::{Instance, Running};

#[tokio::test]
async fn wrong_requests_get_reasons() {
    let app = Instance::start("none").await;
    let create = async |body: Bytes| app.b.ask("POST", "/items", body).await;
    create("{".into()).await.failed(400, "not JSON");
    create("".into()).await.failed(400, "not JSON");
    create("[1]".into()).await.failed(422, "object");
    create("{}".into()).await.failed(422, "name");
    create(vec![b' '; 1024 * 1024 + 1].into())
        .await
        .failed(413, "1048576");
    app.b.get("/nowhere").await.failed(404, "/nowhere");
    app.b.get("/items/x").await.failed(404, "whole numbers");
    let refused = app.b.ask("DELETE", "/items", "").await;
    refused.failed(405, "DELETE");
    assert_eq!(refused.headers["allow"], "GET,HEAD,POST");
    assert_eq!(app.b.get("/items").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn long_bodies_stream() {
    const LENGTH: usize = 5 * 1024 * 1024 + 3;
    let app = Instance::start("none").await;
    let uploaded = app.b.ask("POST", "/upload", vec![1; LENGTH]).await;
    assert_eq!(uploaded.json(), json!({ "bytes": LENGTH }));
    let downloaded = app.b.get(&format!("/download?bytes={LENGTH}")).await;
    assert_eq!(downloaded.headers["content-length"], LENGTH.to_string());
    assert_eq!(downloaded.body.len(), LENGTH);
    assert!(downloaded.body.iter().all(|byte| *byte == 0));
    assert_eq!(app.b.get("/download?bytes=0").await.body.len(), 0);
    app.b.get("/download").await.failed(400, "bytes");
}

#[tokio::test]
async fn late_answers_are_late() {
    let app = Instance::start("none").await;
    let start = Instant::now();
    assert_eq!(app.b.get("/slow?ms=80").await.text(), "after 80 ms");
    assert!(start.elapsed() >= Duration::from_millis(80));
    app.b.get("/slow?ms=60001").await.failed(400, "60000");
}

#[tokio::test]
async fn shows_the_headers_it_got() {
    let app = Instance::start("none").await;
    let request = Request::get("/headers").header("x-one", "1").header("x-one", "2");
    let shown = app.b.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!(shown.json()["x-one"], json!(["1", "2"]));
}

#[tokio::test]
async fn a_passes_on_the_trace_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let service = cheops_example::Service::A {
        b_addr: listener.local_addr().unwrap(),
        carry: cheops_example::Carry::default(),
    };
    let a = Running::start(service, 1, data.path()).await;
    let request = Request::get("/hello")
        .header(
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
        .header("tracestate", "vendor=1")
        .header("x-scope", "B: site2")
        .header("authorization", "secret")
        .body(Full::<Bytes>::default())
        .unwrap();
    let (answer, seen) = tokio::join!(a.send(request), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\ntrace";
        stream.write_all(answer).await.unwrap();
        head
    });
    assert_eq!(answer.text(), "A says hello, B answers: trace");
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(lines[0], "GET /string HTTP/1.1");
    let names: Vec<_> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["traceparent", "host"]);
    assert!(lines[1].contains("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    assert!(!lines[1].contains("00f067aa0ba902b7"), "the span is the caller's");
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
