use std::{convert::Infallible, net::SocketAddr, rc::Rc};

use bytes::Bytes;
use cheops_net::{
    Body, Command, Connection, CoreHandle, CoreOptions, Handler, Received, ServeOptions, bind, spawn_core,
};
use cheops_types::Limits;
use http::{Request, Response, header::CONNECTION};
use http_body_util::BodyExt as _;
use tokio::net::TcpStream;

use crate::{on_a_core, read_rest, read_until, write};

/// Answers with what it was asked; the path says how.
struct Echo;

impl Handler for Echo {
    type Tag = ();

    async fn handle(
        self: Rc<Self>,
        connection: Rc<Connection<()>>,
        request: Request<Received>,
    ) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let mut response = Response::new(Body::Empty);
        match head.uri.path() {
            // The body is not wanted.
            "/unread" => *response.body_mut() = Body::full("unread"),
            // It goes back as it comes.
            "/back" => *response.body_mut() = body.into(),
            "/silent" => std::future::pending().await,
            "/switch" => {
                let on_switch = connection.on_switch();
                *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
                response
                    .headers_mut()
                    .insert(CONNECTION, "upgrade".parse().unwrap());
                tokio::task::spawn_local(async move {
                    let stream = on_switch.switched().await.unwrap();
                    let (mut from, mut to) = tokio::io::split(stream);
                    tokio::io::copy(&mut from, &mut to).await.map(drop)
                });
            }
            _ => {
                let text = match body.collect().await {
                    Ok(whole) => whole.to_bytes(),
                    Err(_) => Bytes::from_static(b"broken"),
                };
                *response.body_mut() = Body::full(text);
            }
        }
        Ok(response)
    }
}

struct Server {
    core: CoreHandle<()>,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let options = CoreOptions {
            name: "test".to_owned(),
            drain_timeout_ms: 1000,
            unix_s: || 784_111_777,
        };
        let core = spawn_core(options, |_| Rc::new(Echo)).unwrap();
        let listener = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let address = listener.local_addr().unwrap();
        core.send(Command::Listen {
            id: 1,
            listener,
            tls: None,
            options: ServeOptions::for_clients(&Limits::default()),
            exempt: Vec::new().into(),
            tag: (),
        });
        Self { core, address }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// All that comes back on a connection of its own.
    async fn exchange(&self, text: &str) -> String {
        let mut client = self.connect().await;
        write(&mut client, text).await;
        read_rest(&mut client).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.core.send(Command::Stop);
    }
}

const DATE: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

#[test]
fn requests_in_one_piece_are_answered_in_their_order() {
    on_a_core(async {
        let server = Server::start();
        let requests = "POST /1 HTTP/1.1\r\nContent-Length: 3\r\n\r\none\
                        POST /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n\
                        GET /3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
                        HEAD /unread HTTP/1.1\r\n\r\n\
                        POST /4 HTTP/1.1\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfour";
        let expected = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n{DATE}\r\none\
             HTTP/1.1 200 OK\r\ncontent-length: 3\r\n{DATE}\r\ntwo\
             HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n{DATE}\r\n\
             HTTP/1.1 200 OK\r\n{DATE}\r\n\
             HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n{DATE}\r\nfour"
        );
        assert_eq!(server.exchange(requests).await, expected);
    });
}

#[test]
fn a_body_is_asked_for_when_it_is_wanted() {
    on_a_core(async {
        let server = Server::start();
        let head =
            |path: &str| format!("POST {path} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        let mut client = server.connect().await;
        write(&mut client, &head("/wanted")).await;
        let asked = read_until(&mut client, "\r\n\r\n").await;
        assert_eq!(asked, "HTTP/1.1 100 Continue\r\n\r\n");
        write(&mut client, "one").await;
        assert!(
            read_until(&mut client, "one")
                .await
                .starts_with("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n")
        );
        // Who does not ask for it cannot know whether it comes.
        write(&mut client, &head("/unread")).await;
        let unread = read_rest(&mut client).await;
        assert!(
            unread.contains("connection: close\r\n") && unread.ends_with("unread"),
            "{unread}"
        );
    });
}

#[test]
fn a_body_that_nobody_reads_does_not_become_a_request() {
    on_a_core(async {
        let server = Server::start();
        // Where all of it has come the connection goes on behind it.
        let whole = "POST /unread HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n";
        let last = "GET /last HTTP/1.1\r\nConnection: close\r\n\r\n";
        let answers = server.exchange(&format!("{whole}{last}")).await;
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        let part = "POST /unread HTTP/1.1\r\nContent-Length: 100\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n";
        let answers = server.exchange(part).await;
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
        assert!(answers.contains("connection: close\r\n"), "{answers}");
    });
}

#[test]
fn a_body_streams_both_ways() {
    on_a_core(async {
        let server = Server::start();
        let mut client = server.connect().await;
        write(
            &mut client,
            "POST /back HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
        )
        .await;
        let begun = read_until(&mut client, "3\r\none\r\n").await;
        assert!(begun.contains("transfer-encoding: chunked\r\n"), "{begun}");
        let long = "x".repeat(200_000);
        write(&mut client, &format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len())).await;
        let rest = read_until(&mut client, "0\r\n\r\n").await;
        assert_eq!(rest.matches('x').count(), long.len());
        write(&mut client, "GET /next HTTP/1.1\r\n\r\n").await;
        read_until(&mut client, "\r\n\r\n").await;
    });
}

#[test]
fn heads_that_cannot_be_read_are_refused_and_nothing_behind_them_is_taken() {
    on_a_core(async {
        let server = Server::start();
        let next = "GET /next HTTP/1.1\r\n\r\n";
        for (head, status) in [
            ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), "400 Bad Request"),
            ("GET / HTTP/1.1\r\nA : b\r\n\r\n".to_owned(), "400 Bad Request"),
            ("GET / HTTP/3.0\r\n\r\n".to_owned(), "400 Bad Request"),
            (
                format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101)),
                "431 Request Header Fields Too Large",
            ),
            (
                format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)),
                "414 URI Too Long",
            ),
        ] {
            let answer = server.exchange(&format!("{head}{next}")).await;
            let expected =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n{DATE}\r\n");
            // What lies unread behind it may make the kernel take back what was written.
            assert!(answer == expected || answer.is_empty(), "{answer}");
        }
    });
}

#[test]
fn a_switched_connection_is_bytes() {
    on_a_core(async {
        let server = Server::start();
        let mut client = server.connect().await;
        write(
            &mut client,
            "GET /switch HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly",
        )
        .await;
        let head = read_until(&mut client, "\r\n\r\n").await;
        assert!(
            head.starts_with("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n"),
            "{head}"
        );
        read_until(&mut client, "early").await;
        write(&mut client, "GET / HTTP/1.1\r\n\r\n").await;
        assert_eq!(
            read_until(&mut client, "\r\n\r\n").await,
            "GET / HTTP/1.1\r\n\r\n"
        );
    });
}

#[test]
fn who_goes_away_is_not_answered() {
    on_a_core(async {
        let server = Server::start();
        let mut client = server.connect().await;
        write(&mut client, "GET /silent HTTP/1.1\r\n\r\n").await;
        tokio::io::AsyncWriteExt::shutdown(&mut client).await.unwrap();
        assert_eq!(read_rest(&mut client).await, "");
    });
}

#[test]
fn a_drain_ends_what_waits_and_lets_the_rest_end() {
    on_a_core(async {
        let server = Server::start();
        let mut idle = server.connect().await;
        write(&mut idle, "GET / HTTP/1.1\r\n\r\n").await;
        read_until(&mut idle, "\r\n\r\n").await;
        let mut busy = server.connect().await;
        let head = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        write(&mut busy, head).await;
        read_until(&mut busy, "HTTP/1.1 100 Continue\r\n\r\n").await;
        server.core.send(Command::Unlisten { id: 1 });
        assert_eq!(read_rest(&mut idle).await, "");
        write(&mut busy, "one").await;
        let last = read_rest(&mut busy).await;
        assert!(
            last.contains("connection: close\r\n") && last.ends_with("one"),
            "{last}"
        );
    });
}
