//! Requests that can be read in two ways, or not at all: what reaches the service has one reading.

use crate::{
    harness::Mesh,
    wire::{Seen, Service, Wire, ask, get, ok},
};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: app\r\n\r\n";

/// The scope header of a request that stays, and of one that goes to another site.
const SCOPES: [&str; 3] = ["", "X-Scope: site1\r\n", "X-Scope: site2\r\n"];

/// Two sites that share a service.
async fn two_sites(service: &Service) -> Mesh {
    Mesh::of(2)
        .upstream(1, "A", service.addr())
        .upstream(2, "A", service.addr())
        .start()
        .await
}

async fn one_site(service: &Service) -> Mesh {
    Mesh::of(1).upstream(1, "A", service.addr()).start().await
}

/// Sends bytes that may be refused in the middle; what came back until the connection closed.
fn exchange(mesh: &Mesh, bytes: &str) -> String {
    let mut client = Wire::connect(mesh.a(1));
    client.send(bytes);
    String::from_utf8(client.rest()).unwrap()
}

#[tokio::test]
async fn a_length_beside_chunks_is_read_once_and_ends_the_connection() {
    let service = Service::saying("once");
    let mesh = one_site(&service).await;
    let length = "Content-Length: 6\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let cases = [
        (format!("{length}{chunked}"), "0\r\n\r\n"),
        (format!("{chunked}{length}"), "0\r\n\r\n"),
        (format!("{length}{chunked}"), "3\r\nabc\r\n0\r\n\r\n"),
        (format!("{chunked}{length}"), "3\r\nabc\r\n0\r\n\r\n"),
    ];
    for (number, (headers, body)) in cases.into_iter().enumerate() {
        let line = format!("POST /{number} HTTP/1.1");
        let request = format!("{line}\r\nHost: app\r\n{headers}\r\n{body}{SMUGGLED}");
        let answers = exchange(&mesh, &request);
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
        let mut got = service.requests();
        got.retain(|request| request.line == line);
        if answers.starts_with("HTTP/1.1 400") {
            assert!(got.is_empty(), "{got:?}");
            continue;
        }
        assert!(answers.starts_with("HTTP/1.1 200"), "{answers}");
        let [one] = got.as_slice() else {
            panic!("not one request: {got:?}");
        };
        assert_eq!(one.header("transfer-encoding"), Some("chunked"), "{one:?}");
        assert_eq!(one.header("content-length"), None, "{one:?}");
        let sent: &[u8] = if body.len() > 5 { b"abc" } else { b"" };
        assert_eq!(one.body, sent);
    }
    assert!(!service.text().contains("smuggled"), "{}", service.text());
}

#[tokio::test]
async fn codings_that_cannot_be_passed_on_are_refused() {
    let service = Service::saying("never");
    let mesh = one_site(&service).await;
    for coding in [
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ] {
        let request = format!(
            "POST /one HTTP/1.1\r\nHost: app\r\nConnection: close\r\n{coding}\r\n0\r\n\r\n{SMUGGLED}"
        );
        let answers = exchange(&mesh, &request);
        assert!(answers.starts_with("HTTP/1.1 400"), "{coding}: {answers}");
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{coding}: {answers}");
    }
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn a_bad_chunk_never_completes_the_body() {
    let service = Service::saying("never");
    let mesh = two_sites(&service).await;
    let bad = [
        "zz\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloworld\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
    ];
    for (number, scope) in SCOPES.into_iter().enumerate() {
        let head = format!("POST /bad HTTP/1.1\r\nHost: app\r\n{scope}Transfer-Encoding: chunked\r\n\r\n");
        for bad in bad {
            let answers = exchange(&mesh, &format!("{head}5\r\nfirst\r\n{bad}{SMUGGLED}"));
            assert!(!answers.contains(" 200 "), "{scope}{bad:?}: {answers}");
        }
        // One whose client goes away in the middle.
        let mut client = Wire::connect(mesh.a(1));
        client.send(head.replace("/bad", "/cut") + "5\r\nhel");
        service.wait("the first part arrives", |seen| {
            let cut = |connection: &&Seen| connection.text().contains("/cut");
            seen.iter().filter(cut).count() > number
        });
        drop(client);
        let seen = service.wait("every connection ends", |seen| {
            seen.iter().all(|connection| connection.ended)
        });
        for connection in seen {
            assert!(
                !connection.text().contains("\r\n0\r\n"),
                "{scope}: a broken body was completed: {connection:?}"
            );
            assert!(!connection.text().contains("smuggled"), "{connection:?}");
        }
    }
}

#[tokio::test]
async fn a_body_cut_short_is_never_completed_by_its_length() {
    let service = Service::saying("never");
    let mesh = two_sites(&service).await;
    for (number, scope) in SCOPES.into_iter().enumerate() {
        let mut client = Wire::connect(mesh.a(1));
        client.send(format!(
            "POST /cut HTTP/1.1\r\nHost: app\r\n{scope}Content-Length: 10\r\n\r\nhalf"
        ));
        service.wait("the first part arrives", |seen| {
            seen.get(number).is_some_and(|last| last.text().ends_with("half"))
        });
        client.finish();
        assert!(!String::from_utf8(client.rest()).unwrap().contains(" 200 "));
        let seen = service.wait("the connection ends", |seen| {
            seen.iter().all(|connection| connection.ended)
        });
        assert!(seen[number].text().ends_with("\r\n\r\nhalf"), "{scope}: {seen:?}");
    }
}

#[tokio::test]
async fn heads_with_two_readings_are_refused() {
    let service = Service::saying("never");
    let mesh = one_site(&service).await;
    for headers in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 4\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 3x\r\n",
        "Content-Length: 18446744073709551617\r\n",
        "X-A: one\r\n two\r\n",
        "X-A : one\r\n",
        "X-A\r\n",
        ": one\r\n",
        "X-A: on\0e\r\n",
        "X-A: on\re\r\n",
    ] {
        let answers = exchange(
            &mesh,
            &format!("POST /two HTTP/1.1\r\nHost: app\r\n{headers}\r\nabc"),
        );
        assert!(answers.starts_with("HTTP/1.1 400"), "{headers:?}: {answers}");
    }
    for line in [
        "GET  /two HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /two HTTP/1.2",
        "/two",
        "GET /two",
    ] {
        let answers = exchange(&mesh, &format!("{line}\r\nHost: app\r\n\r\n"));
        assert!(
            answers.is_empty() || answers.starts_with("HTTP/1.1 4") || answers.starts_with("HTTP/1.1 505"),
            "{line:?}: {answers}"
        );
    }
    let two_hosts = ask(mesh.a(1), get("/two", "Host: other\r\nConnection: close\r\n"));
    assert_eq!(two_hosts.status(), 400);
    let no_host = ask(mesh.a(1), "GET /two HTTP/1.1\r\n\r\n");
    assert_eq!((no_host.status(), no_host.code().as_str()), (400, "bad_request"));
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn a_body_of_any_method_arrives_as_it_was_sent() {
    let service = Service::answering(|request| ok(&String::from_utf8_lossy(&request.body)));
    let mesh = one_site(&service).await;
    for method in ["GET", "DELETE", "POST", "OPTIONS"] {
        for framed in [
            "Content-Length: 5\r\n\r\nhello",
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            let answer = ask(
                mesh.a(1),
                format!("{method} /body HTTP/1.1\r\nHost: app\r\n{framed}"),
            );
            assert_eq!(answer.status(), 200, "{method} {framed:?}");
            assert_eq!(answer.text(), "hello", "{method} {framed:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_with_two_readings_is_not_passed_on() {
    let service = Service::answering(|request| {
        let answer = match request.line.split(' ').nth(1).unwrap() {
            "/lengths" => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
            "/chunk" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n0\r\n\r\n",
            "/both" => {
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            }
            "/space" => "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
            other => panic!("{other}"),
        };
        answer.as_bytes().to_vec()
    });
    let mesh = two_sites(&service).await;
    for scope in SCOPES {
        for path in ["/lengths", "/space"] {
            let broken = ask(mesh.a(1), get(path, scope));
            assert_eq!(
                (broken.status(), broken.code().as_str()),
                (502, "upstream_failed"),
                "{scope}{path}"
            );
        }
        // Where the break comes before the head was written out, the head is lost as well, or another site's agent says
        // that it broke. Then the connection would go on.
        let cut = exchange(&mesh, &get("/chunk", &format!("{scope}Connection: close\r\n")));
        assert!(
            !cut.ends_with("0\r\n\r\n"),
            "{scope}: a broken answer was completed: {cut}"
        );

        let both = ask(mesh.a(1), get("/both", scope));
        let framing = (both.header("content-length"), both.header("transfer-encoding"));
        assert_eq!(
            (framing, both.text()),
            ((None, Some("chunked")), "abc"),
            "{scope}"
        );
    }
}
