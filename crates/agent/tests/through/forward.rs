//! What becomes of what kubectl asks.

use std::io::{Read as _, Write as _};

use serde_json::Value;

use crate::{
    fake::{Fake, text},
    upstream::{Upstream, read, read_head, send},
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: forwarder\r\nAuthorization: Bearer t\r\n\r\n")
}

#[test]
fn a_request_gets_the_scope_and_nothing_else() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&format!("{}/base/", upstream.url()));
    let running = fake.start(&["kubectl", "get", "--scope", "{site1 & site2}"]);
    assert!(running.url().ends_with("/base"), "{}", running.url());
    let served = upstream.once(|stream| {
        let mut requests = Vec::new();
        for _ in 0..2 {
            requests.push(read(stream));
            stream.get_mut().write_all(OK.as_bytes()).unwrap();
        }
        requests
    });
    let mut client = send(&running.address(), &get("/base/api/v1/pods?limit=5"));
    assert_eq!(read(&mut client).body, "{}");
    // The same connection once more, with a body, and with a scope that only we may choose.
    let post = "POST /base/api HTTP/1.1\r\nHost: f\r\nX-Scope: site9\r\nContent-Length: 4\r\n\r\nbody";
    client.get_mut().write_all(post.as_bytes()).unwrap();
    assert_eq!(read(&mut client).body, "{}");
    let requests = served.join().unwrap();
    let expected = format!(
        "get /base/api/v1/pods?limit=5 http/1.1\nhost: {}\nauthorization: bearer t\nx-scope: {{site1 & site2}}\n\n",
        upstream.address()
    );
    let mut lines: Vec<_> = requests[0].head.lines().collect();
    let mut wanted: Vec<_> = expected.lines().collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    assert_eq!(requests[1].body, "body");
    assert_eq!(requests[1].head.matches("x-scope").count(), 1);
    assert!(requests[1].head.contains("x-scope: {site1 & site2}\n"));
    drop(client);
    assert!(running.end("").status.success());
}

#[test]
fn an_answer_without_end_comes_piece_by_piece() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&upstream.url());
    let running = fake.start(&["kubectl", "get", "-w", "--scope", "site1"]);
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let served = upstream.once(move |stream| {
        read(stream);
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        wait.recv().unwrap();
        stream.get_mut().write_all(b"6\r\nsecond\r\n").unwrap();
        // The end of the reader is the end of the connection.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let mut client = send(&running.address(), &get("/watch"));
    read_head(&mut client);
    let mut piece = [0; 10];
    client.read_exact(&mut piece).unwrap();
    assert_eq!(&piece, b"5\r\nfirst\r\n");
    go_on.send(()).unwrap();
    let mut piece = [0; 11];
    client.read_exact(&mut piece).unwrap();
    assert_eq!(&piece, b"6\r\nsecond\r\n");
    drop(client);
    served.join().unwrap();
    running.end("");
}

#[test]
fn an_upgrade_is_passed_on() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&upstream.url());
    let running = fake.start(&["kubectl", "exec", "p", "--scope", "site1"]);
    let served = upstream.once(|stream| {
        let request = read_head(stream);
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello";
        stream.get_mut().write_all(switch.as_bytes()).unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).unwrap();
        (request, said)
    });
    let request = "POST /exec HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n";
    let mut client = send(&running.address(), request);
    let head = read_head(&mut client);
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: spdy/3.1\n"), "{head}");
    let mut said = [0; 5];
    client.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello");
    client.get_mut().write_all(b"back").unwrap();
    let (request, said) = served.join().unwrap();
    assert!(request.contains("upgrade: spdy/3.1\n"), "{request}");
    assert!(request.contains("connection: upgrade\n"), "{request}");
    assert!(request.contains("x-scope: site1\n"), "{request}");
    assert_eq!(&said, b"back");
    running.end("");
}

#[test]
fn an_agents_error_is_said_in_kubectls_words() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&upstream.url());
    let running = fake.start(&["kubectl", "get", "--scope", "site1"]);
    let served = upstream.answer(
        "HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/problem+json\r\nContent-Length: 49\r\n\r\n\
         {\"code\": \"peer_down\", \"detail\": \"site2 is down\" }\n",
    );
    let answer = read(&mut send(&running.address(), &get("/api")));
    served.join().unwrap();
    assert!(answer.head.starts_with("http/1.1 502 "), "{}", answer.head);
    assert!(
        answer.head.contains("content-type: application/json\n"),
        "{}",
        answer.head
    );
    let status: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["reason"], "peer_down");
    assert_eq!(status["message"], "site2 is down");
    running.end("");
}

#[test]
fn missing_sites_become_warnings() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&upstream.url());
    let running = fake.start(&["kubectl", "get", "--scope", "site1 & site2"]);
    let served = upstream.answer(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCheops-Receipt: plan=gather, complete=?0, \
         sites=(\"site1\";outcome=executed;status=200 \"site2\";outcome=not-executed;error=\"peer_down\")\r\n\r\n{}",
    );
    let answer = read(&mut send(&running.address(), &get("/api")));
    served.join().unwrap();
    let warning = "warning: 299 - \"site2 is missing here: peer_down\"\n";
    assert!(answer.head.contains(warning), "{}", answer.head);
    running.end("");
}

#[test]
fn a_scope_that_the_agent_refuses_ends_the_command() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&upstream.url());
    let running = fake.start(&["kubectl", "get", "--scope", "sit1"]);
    let served = upstream.answer(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: 107\r\n\r\n\
         {\"code\": \"unknown_site\", \"detail\": \"no site `sit1` is known here\", \"position\": {\"offset\": 0, \"length\": 4}}\n\n\n",
    );
    let _client = send(&running.address(), &get("/api"));
    served.join().unwrap();
    let output = running.wait();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let expected = "\
error[unknown_site]: no site `sit1` is known here
  |
1 | sit1
  | ^^^^
";
    assert_eq!(text(&output.stderr), expected);
    assert_eq!(text(&output.stdout), "", "kubectl was ended before its input was");
    assert!(fake.left().is_empty());
}

#[test]
fn an_agent_that_is_not_there_ends_the_command() {
    let upstream = Upstream::bind();
    let url = upstream.url();
    drop(upstream);
    let fake = Fake::plain(&url);
    let running = fake.start(&["kubectl", "get", "--scope", "site1"]);
    let _client = send(&running.address(), &get("/api"));
    let output = running.wait();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = text(&output.stderr);
    assert!(
        told.starts_with(&format!("error: the agent at {url} did not answer: ")),
        "{told}"
    );
}

#[test]
fn an_agent_that_goes_away_is_told_to_kubectl() {
    let upstream = Upstream::bind();
    let fake = Fake::plain(&upstream.url());
    let running = fake.start(&["kubectl", "get", "--scope", "site1"]);
    let served = upstream.answer(OK);
    let mut client = send(&running.address(), &get("/api"));
    read(&mut client);
    served.join().unwrap();
    drop(upstream);
    client.get_mut().write_all(get("/again").as_bytes()).unwrap();
    let answer = read(&mut client);
    assert!(answer.head.starts_with("http/1.1 502 "), "{}", answer.head);
    assert!(answer.body.contains("did not answer"), "{}", answer.body);
    assert!(running.end("").status.success(), "kubectl decides how it ends");
}
