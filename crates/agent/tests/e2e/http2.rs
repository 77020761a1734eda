//! HTTP/2 clients and services, and gRPC's way of using them.

use std::{collections::BTreeSet, convert::Infallible, net::SocketAddr, thread};

use bytes::Bytes;
use futures_util::{future::join_all, stream};
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, runtime, sync::mpsc};

use crate::harness::{Connection, DEADLINE, Mesh, Scripted, get, post, text_answer};

type StreamedBody = BoxBody<Bytes, Infallible>;

/// A body whose frames are sent one by one; it ends with its sender.
fn streamed() -> (mpsc::Sender<Frame<Bytes>>, StreamedBody) {
    let (sender, frames) = mpsc::channel(1);
    let frames = stream::unfold(frames, |mut frames| async {
        let frame = frames.recv().await?;
        Some((Ok(frame), frames))
    });
    (sender, StreamBody::new(frames).boxed())
}

/// A service that speaks HTTP/2 only: it sends every message back as it comes and then, in the
/// trailers, how many there were. It runs until the test's process ends.
fn grpc() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service_fn(send_back));
                tokio::spawn(connection);
            }
        });
    });
    addr
}

async fn send_back(request: Request<Incoming>) -> Result<Response<StreamedBody>, Infallible> {
    let (sender, body) = streamed();
    let te = request.headers().get("te").cloned();
    let version = format!("{:?}", request.version());
    tokio::spawn(async move {
        let mut incoming = request.into_body();
        let mut count = 0;
        while let Some(Ok(frame)) = incoming.frame().await {
            // The end of a stream may come as a frame of its own.
            if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                count += 1;
                if sender.send(frame).await.is_err() {
                    return;
                }
            }
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.insert("x-messages", HeaderValue::from(count));
        let _ = sender.send(Frame::trailers(trailers)).await;
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("x-version", HeaderValue::try_from(version).unwrap());
    if let Some(te) = te {
        headers.insert("x-te", te);
    }
    Ok(response)
}

#[tokio::test]
async fn many_streams_at_once() {
    let service = Scripted::start(|request| async move { text_answer(200, request.uri().path()) });
    let mesh = Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .tls("B")
        .start()
        .await;
    let cleartext = Connection::http2(mesh.a(1)).await;
    for scope in ["site1", "site2"] {
        let calls = (0..300).map(|number| {
            let mut connection = cleartext.try_clone().unwrap();
            let path = format!("/{scope}/{number}");
            let call = get(mesh.a(1), &path).scope(scope);
            async move {
                let answer = call.on(&mut connection).await.is(200);
                assert_eq!((answer.version, answer.text()), (Version::HTTP_2, path));
                answer.executed_at()
            }
        });
        let sites: BTreeSet<_> = join_all(calls).await.into_iter().flatten().collect();
        assert_eq!(sites, BTreeSet::from([scope.to_owned()]));
    }
    assert!(!cleartext.is_closed());
    assert_eq!(service.executed(), 600);

    let tls = Connection::try_open(mesh.b(1), true, Some(mesh.tls()))
        .await
        .unwrap();
    let calls = (0..100).map(|_| {
        let mut connection = tls.try_clone().unwrap();
        let call = get(mesh.b(1), "/string");
        async move { call.on(&mut connection).await.is(200).text() }
    });
    let answers: BTreeSet<_> = join_all(calls).await.into_iter().collect();
    assert_eq!(answers, BTreeSet::from(["from site 1".to_owned()]));
}

#[tokio::test]
async fn a_long_head_is_refused_and_the_connection_goes_on() {
    let service = Scripted::start(|_| async { text_answer(200, "ok") });
    let mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("head_max_bytes", 16 * 1024)
        .start()
        .await;
    let mut connection = Connection::http2(mesh.a(1)).await;
    let long = "a".repeat(20 * 1024);
    let refused = get(mesh.a(1), "/")
        .header("x-long", &long)
        .on(&mut connection)
        .await;
    assert_eq!(refused.status, 431);
    get(mesh.a(1), "/").on(&mut connection).await.is(200);
    assert_eq!(service.executed(), 1);
}

#[tokio::test]
async fn the_status_of_a_grpc_call_arrives() {
    let upstream = grpc();
    let mesh = Mesh::of(2)
        .upstream(1, "A", upstream)
        .upstream(2, "A", upstream)
        .start()
        .await;
    for scope in [None, Some("site1"), Some("site2")] {
        let call = post(mesh.a(1), "/package.Service/Method", "message")
            .http2()
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let call = match scope {
            Some(scope) => call.scope(scope),
            None => call,
        };
        let answer = call.await.is(200);
        assert_eq!(answer.text(), "message", "{scope:?}");
        assert_eq!(answer.header("x-version"), Some("HTTP/2.0"), "{scope:?}");
        assert_eq!(answer.header("x-te"), Some("trailers"), "{scope:?}");
        let trailers = answer.trailers.unwrap();
        assert_eq!(trailers["grpc-status"], "0", "{scope:?}");
    }
}

#[tokio::test]
async fn messages_are_answered_before_the_last_was_sent() {
    let upstream = grpc();
    let mesh = Mesh::of(2)
        .upstream(1, "A", upstream)
        .upstream(2, "A", upstream)
        .start()
        .await;
    for scope in ["site1", "site2"] {
        let stream = tokio::net::TcpStream::connect(mesh.a(1)).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let (messages, outgoing) = streamed();
        let request = Request::post(format!("http://{}/package.Service/Chat", mesh.a(1)))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("x-scope", scope)
            .body(outgoing)
            .unwrap();
        let chat = async {
            messages
                .send(Frame::data(Bytes::from_static(b"0")))
                .await
                .unwrap();
            let mut body = sender.send_request(request).await.unwrap().into_body();
            for number in 0..20 {
                let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
                assert_eq!(data, number.to_string());
                let next = Bytes::from((number + 1).to_string());
                messages.send(Frame::data(next)).await.unwrap();
            }
            drop(messages);
            let rest = body.collect().await.unwrap();
            let trailers = rest.trailers().unwrap();
            assert_eq!(
                (&trailers["grpc-status"], &trailers["x-messages"]),
                (&HeaderValue::from(0), &HeaderValue::from(21))
            );
        };
        tokio::time::timeout(DEADLINE, chat).await.unwrap();
    }
}
