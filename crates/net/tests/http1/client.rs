use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use cheops_net::{
    Body, BoxError, Clock, SendError, SendErrorKind, Upstream, UpstreamHttp, UpstreamOptions, UpstreamTarget,
};
use cheops_types::{Limits, Outcome};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::{net::TcpListener, sync::mpsc};

use crate::{on_a_core, read_rest, read_until, write};

const END: &str = "\r\n\r\n";

/// A service whose connections the test plays itself.
struct Service {
    listener: TcpListener,
    upstream: Rc<Upstream>,
}

impl Service {
    async fn start() -> Self {
        Self::with(&Limits::default()).await
    }

    async fn with(limits: &Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = UpstreamTarget {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
            tls: None,
            http: UpstreamHttp::Auto,
        };
        let upstream = Upstream::new(target, UpstreamOptions::from(limits), Clock::new());
        Self { listener, upstream }
    }

    async fn accept(&self) -> tokio::net::TcpStream {
        self.listener.accept().await.unwrap().0
    }

    async fn get(&self) -> Result<Response<Body>, SendError> {
        self.upstream.send(request("GET", Body::Empty)).await
    }
}

fn request(method: &str, body: Body) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri("/a")
        .header("host", "app")
        .body(body)
        .unwrap()
}

async fn text(response: Response<Body>) -> Result<String, BoxError> {
    let whole = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(whole.to_vec()).unwrap())
}

/// A body whose pieces the test hands in.
struct Piecewise(mpsc::UnboundedReceiver<Result<Frame<Bytes>, BoxError>>);

impl http_body::Body for Piecewise {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(cx)
    }
}

fn piecewise() -> (mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Body::other(Piecewise(receiver)))
}

fn piece(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_connection_is_used_again_after_each_kind_of_answer() {
    on_a_core(async {
        let service = Service::start().await;
        let serve = async {
            let mut connection = service.accept().await;
            for answer in [
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
                "HTTP/1.1 204 No Content\r\n\r\n",
                "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
            ] {
                read_until(&mut connection, END).await;
                write(&mut connection, answer).await;
            }
            read_until(&mut connection, END).await
        };
        let ask = async {
            for expected in ["ab", "ab", "", ""] {
                let answer = service.get().await.unwrap();
                assert_eq!(text(answer).await.unwrap(), expected);
            }
            let body = Body::full("hello");
            tokio::time::timeout(
                std::time::Duration::from_millis(200),
                service.upstream.send(request("PUT", body)),
            )
            .await
        };
        let (last, _) = tokio::join!(serve, ask);
        assert_eq!(last, "PUT /a HTTP/1.1\r\nhost: app\r\ncontent-length: 5\r\n\r\n");
    });
}

#[test]
fn a_connection_is_not_used_again_when_it_may_not_be() {
    on_a_core(async {
        let service = Service::start().await;
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
            // Something that nobody asked for lies behind it.
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n\r\n",
            // Another reader takes its length.
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        ] {
            let serve = async {
                let mut connection = service.accept().await;
                read_until(&mut connection, END).await;
                write(&mut connection, answer).await;
                read_rest(&mut connection).await
            };
            let ask = async { text(service.get().await.unwrap()).await.unwrap() };
            assert_eq!(
                tokio::join!(serve, ask),
                (String::new(), "ab".to_owned()),
                "{answer}"
            );
        }
    });
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_not_used() {
    on_a_core(async {
        let service = Service::start().await;
        for _ in 0..3 {
            let serve = async {
                let mut connection = service.accept().await;
                read_until(&mut connection, END).await;
                write(&mut connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab").await;
            };
            let ask = service.upstream.send(request("POST", Body::Empty));
            let ((), answer) = tokio::join!(serve, ask);
            assert_eq!(text(answer.unwrap()).await.unwrap(), "ab");
            // The service has closed it. What comes later than that shows that the core was told of it.
            let later = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = later.local_addr().unwrap();
            let (accepted, connected) = tokio::join!(later.accept(), tokio::net::TcpStream::connect(address));
            drop((accepted.unwrap(), connected.unwrap()));
        }
    });
}

#[test]
fn what_was_sent_and_not_answered_is_unknown() {
    on_a_core(async {
        let service = Service::start().await;
        for answer in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        ] {
            let serve = async {
                let mut connection = service.accept().await;
                read_until(&mut connection, END).await;
                write(&mut connection, answer).await;
            };
            let ((), error) = tokio::join!(serve, service.upstream.send(request("POST", Body::Empty)));
            let error = error.err().expect("no answer");
            assert_eq!(
                (error.kind, error.outcome),
                (SendErrorKind::Broken, Outcome::Unknown),
                "{answer:?}"
            );
            assert!(error.request.is_none());
        }
    });
}

#[test]
fn a_request_goes_on_when_its_answer_has_begun() {
    on_a_core(async {
        let service = Service::start().await;
        let (sender, body) = piecewise();
        let serve = async {
            let mut connection = service.accept().await;
            let head = read_until(&mut connection, END).await;
            assert!(head.ends_with("transfer-encoding: chunked\r\n\r\n"), "{head}");
            read_until(&mut connection, "3\r\none\r\n").await;
            write(
                &mut connection,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
            )
            .await;
            read_until(&mut connection, "3\r\ntwo\r\n0\r\n\r\n").await;
            write(&mut connection, "2\r\ncd\r\n0\r\n\r\n").await;
        };
        let ask = async {
            sender.send(Ok(piece("one"))).unwrap();
            let answer = service.upstream.send(request("POST", body)).await.unwrap();
            // Sent although nobody reads the answer meanwhile.
            sender.send(Ok(piece("two"))).unwrap();
            drop(sender);
            text(answer).await.unwrap()
        };
        assert_eq!(tokio::join!(serve, ask).1, "abcd");
    });
}

#[test]
fn a_request_that_breaks_off_never_looks_whole() {
    on_a_core(async {
        let service = Service::start().await;
        for begins_early in [false, true] {
            let (sender, body) = piecewise();
            let serve = async {
                let mut connection = service.accept().await;
                read_until(&mut connection, "3\r\none\r\n").await;
                if begins_early {
                    write(&mut connection, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab").await;
                }
                sender.send(Err("gone".into())).unwrap();
                read_rest(&mut connection).await
            };
            let ask = async {
                match service.upstream.send(request("POST", body)).await {
                    Ok(answer) => text(answer).await.map_err(|_| Outcome::Unknown),
                    Err(error) => Err(error.outcome),
                }
            };
            sender.send(Ok(piece("one"))).unwrap();
            let (rest, answer) = tokio::join!(serve, ask);
            assert_eq!(
                (rest.as_str(), answer),
                ("", Err(Outcome::Unknown)),
                "{begins_early}"
            );
        }
    });
}

#[test]
fn a_service_may_refuse_a_request_before_it_has_read_it() {
    on_a_core(async {
        let service = Service::start().await;
        let serve = async {
            let mut connection = service.accept().await;
            read_until(&mut connection, END).await;
            write(
                &mut connection,
                "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
            )
            .await;
        };
        let ask = async {
            let answer = service
                .upstream
                .send(request("PUT", Body::full(vec![0; 8 << 20])))
                .await
                .unwrap();
            assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        };
        tokio::join!(serve, ask);
    });
}

/// Nothing of either side moves any more: the rest must not keep both connections for ever.
#[test]
fn what_is_left_of_a_request_that_was_answered_ends_where_nothing_takes_it() {
    on_a_core(async {
        let stall = std::time::Duration::from_millis(300);
        let limits = Limits {
            request_stall_ms: stall.as_millis() as u64,
            ..Limits::default()
        };
        let service = Service::with(&limits).await;
        let (sender, body) = piecewise();
        sender.send(Ok(piece("one"))).unwrap();
        let (mut connection, answer) = tokio::join!(
            async {
                let mut connection = service.accept().await;
                read_until(&mut connection, "one\r\n").await;
                write(&mut connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab").await;
                connection
            },
            service.upstream.send(request("POST", body)),
        );
        assert_eq!(text(answer.unwrap()).await.unwrap(), "ab");
        // As long as it moves it goes on.
        let start = std::time::Instant::now();
        while start.elapsed() < 3 * stall {
            sender.send(Ok(piece("two"))).unwrap();
            read_until(&mut connection, "two\r\n").await;
        }
        sender.closed().await;
        assert_eq!(read_rest(&mut connection).await, "");
    });
}

#[test]
fn announced_trailers_pass_both_ways() {
    on_a_core(async {
        let service = Service::start().await;
        let (sender, body) = piecewise();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        trailers.insert("x-other", "2".parse().unwrap());
        sender.send(Ok(piece("one"))).unwrap();
        sender.send(Ok(Frame::trailers(trailers))).unwrap();
        let mut request = request("POST", body);
        request.headers_mut().insert("trailer", "x-sum".parse().unwrap());
        let serve = async {
            let mut connection = service.accept().await;
            read_until(&mut connection, "3\r\none\r\n0\r\nx-sum: 1\r\n\r\n").await;
            write(
                &mut connection,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-End: 3\r\n\r\n",
            )
            .await;
        };
        let ask = async {
            let answer = service.upstream.send(request).await.unwrap();
            let whole = answer.into_body().collect().await.unwrap();
            assert_eq!(whole.trailers().unwrap()["x-end"], "3");
        };
        tokio::join!(serve, ask);
    });
}
