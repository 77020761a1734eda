//! What only agents may say, in headers and behind the body.

use anyhow::Result;

use super::{Scene, Verdict};
use crate::hostile::client;

/// The last one by the glue.
const FORBIDDEN: [&str; 4] = ["x-scope", "x-cheops-caller", "x-cheops-service", "x-remote-user"];

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let fields: String = FORBIDDEN.iter().flat_map(|name| [*name, ": evil\r\n"]).collect();
    // A scope in the head is a scope; there it would say nothing about the trailers.
    let in_head = fields.replace("x-scope: evil\r\n", "");
    let names = FORBIDDEN.join(", ");
    let chunks = "4\r\nbody\r\n0\r\n";
    let requests = [
        format!("POST /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{in_head}Content-Length: 0\r\n\r\n"),
        format!(
            "POST /2 HTTP/1.1\r\nHost: x\r\nConnection: close, te\r\nTE: trailers\r\nTrailer: {names}\r\n\
             Transfer-Encoding: chunked\r\n\r\n{chunks}{fields}x-good: fine\r\n\r\n"
        ),
        format!(
            "POST /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{fields}\r\n"
        ),
        format!(
            "POST /4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{}\r\n",
            fields.replace('-', "_")
        ),
    ];
    scene.stage.recorder.take();
    let mut answers = Vec::new();
    for request in &requests {
        let mut stream = client::connect(client::STRANGER, scene.victim().c.addr)?;
        let answer = client::exchange(&mut stream, request.as_bytes());
        answers.push(answer.map_or(0, |answer| answer.status));
    }
    let heard = scene.stage.recorder.take();
    let evil: Vec<_> = heard
        .iter()
        .flat_map(|text| text.split("\r\n"))
        .filter(|line| line.ends_with(": evil"))
        .collect();
    let what = if evil.is_empty() {
        "none of it reached the application".to_owned()
    } else {
        format!("the application got {}", evil.join(", "))
    };
    Ok(Verdict::of(
        evil.is_empty() && !heard.is_empty(),
        format!("answered {}; {what}", super::counted(&answers)),
    ))
}
