//! Requests that two programs read in two ways.

use anyhow::Result;

use super::{Scene, Verdict};
use crate::hostile::client;

/// The head between the request line and `Connection`, and the body.
const REQUESTS: [(&str, &str, &str); 12] = [
    ("POST /x", "Host: x\r\nContent-Length: 005\r\n", "hello"),
    ("POST /x", "Host: x\r\nContent-Length: +5\r\n", "hello"),
    ("POST /x", "Host: x\r\nContent-Length: 5, 5\r\n", "hello"),
    (
        "POST /x",
        "Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        "hello!",
    ),
    (
        "POST /x",
        "Host: x\r\nContent_Length: 5\r\nContent-Length: 0\r\n",
        "",
    ),
    (
        "POST /x",
        "Host: x\r\nTransfer-Encoding: chunked, identity\r\n",
        "0\r\n\r\n",
    ),
    (
        "POST /x",
        "Host: x\r\nTransfer-Encoding: xchunked\r\n",
        "0\r\n\r\n",
    ),
    ("TRACE /x", "Host: x\r\n", ""),
    ("GET /x", "Host: user@x\r\n", ""),
    ("GET /x", "Host: x, y\r\n", ""),
    ("GET /x", "Host: x\r\nHost: y\r\n", ""),
    ("GET /x", "Host : x\r\n", ""),
];

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    scene.stage.recorder.take();
    let mut passed = Vec::new();
    for (line, head, body) in REQUESTS {
        let request = format!("{line} HTTP/1.1\r\n{head}Connection: close\r\n\r\n{body}");
        let mut stream = client::connect(client::STRANGER, scene.victim().c.addr)?;
        let answer = client::exchange(&mut stream, request.as_bytes());
        if answer.is_ok_and(|answer| answer.status < 400) {
            let what = if line.starts_with("TRACE") {
                line
            } else {
                head.trim_end()
            };
            passed.push(what.replace("Host: x\r\n", "").replace("\r\n", " and "));
        }
    }
    let heard = scene.stage.recorder.take().len();
    let what = if passed.is_empty() {
        "all refused".to_owned()
    } else {
        format!("passed on: {}", passed.join("; "))
    };
    Ok(Verdict::of(
        passed.is_empty() && heard == 0,
        format!("{} requests, {what}", REQUESTS.len()),
    ))
}
