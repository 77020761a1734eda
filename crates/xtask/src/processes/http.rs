//! The least HTTP/1.1 for this suite: one request per connection, to a service or to an agent's admin socket.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;

const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a caller waits: longer than any pause of an agent.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// An operator has more time: its lists are long.
const ADMIN_MAX: Duration = Duration::from_secs(20);

pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) scope: Option<&'a str>,
    /// Null for none.
    pub(crate) body: &'a Value,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) receipt: Option<String>,
    pub(crate) warning: Option<String>,
    pub(crate) body: Value,
}

/// Connects to a service. What fails here was certainly not sent.
pub(crate) fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, CONNECT_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

/// Sends a request; an error says nothing about whether it executed.
pub(crate) fn send(mut stream: impl Read + Write, request: &Request<'_>) -> Result<Answer> {
    stream.write_all(text(request).as_bytes())?;
    read(stream)
}

/// Reads something from an application.
pub(crate) fn get(from: SocketAddr, path: &str) -> Result<Value> {
    good(send(connect(from)?, &reading(path))?, path)
}

/// Reads something from an agent.
pub(crate) fn admin(socket: &Path, path: &str) -> Result<Value> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ADMIN_MAX))?;
    good(send(stream, &reading(path))?, path)
}

/// All pages of a collection of an application.
pub(crate) fn rows(application: SocketAddr, collection: &str) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    let mut path = format!("/{collection}?limit=1000");
    loop {
        let mut page = get(application, &path)?;
        rows.append(page["items"].as_array_mut().context("a list has items")?);
        let Some(next) = page["next"].as_str() else {
            return Ok(rows);
        };
        path = format!("/{collection}?limit=1000&page_token={next}");
    }
}

/// All pages of a list of the admin API.
pub(crate) fn listed<T: DeserializeOwned>(socket: &Path, what: &str) -> Result<Vec<T>> {
    let member = if what == "replicas" { "sets" } else { what };
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let mut page = admin(socket, &format!("/v1/{what}?limit=1000{after}"))?;
        let items = page[member]
            .as_array_mut()
            .with_context(|| format!("a list has {member}"))?;
        for item in items.drain(..) {
            all.push(serde_json::from_value(item)?);
        }
        let Some(next) = page["next"].as_str() else {
            return Ok(all);
        };
        after = format!("&after={}", encoded(next));
    }
}

/// An id in a path.
pub(crate) fn encoded(id: &str) -> PercentEncode<'_> {
    utf8_percent_encode(id, NON_ALPHANUMERIC)
}

fn reading(path: &str) -> Request<'_> {
    Request {
        method: "GET",
        path,
        scope: None,
        body: &Value::Null,
    }
}

fn good(answer: Answer, path: &str) -> Result<Value> {
    if answer.status != 200 {
        bail!("GET {path} was answered with {}: {}", answer.status, answer.body);
    }
    Ok(answer.body)
}

fn text(request: &Request<'_>) -> String {
    let Request { method, path, .. } = request;
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: cheops\r\nConnection: close\r\n");
    if let Some(scope) = request.scope {
        text.extend(["X-Scope: ", scope, "\r\n"]);
    }
    if request.body.is_null() {
        text.push_str("\r\n");
    } else {
        let body = request.body.to_string();
        text.extend([
            "Content-Type: application/json\r\nContent-Length: ",
            &body.len().to_string(),
            "\r\n\r\n",
            &body,
        ]);
    }
    text
}

fn read(stream: impl Read) -> Result<Answer> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            bail!("the answer ended in its head");
        }
    }
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    let field = |name: &str| {
        head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let mut body = Vec::new();
    match field("content-length").map(|length| length.parse()) {
        Some(length) => {
            body.resize(length?, 0);
            stream.read_exact(&mut body)?;
        }
        None if field("transfer-encoding").is_some() => bail!("the answer comes in pieces:\n{head}"),
        None => {
            stream.read_to_end(&mut body)?;
        }
    }
    Ok(Answer {
        status: status.with_context(|| format!("no status in `{head}`"))?,
        receipt: field("cheops-receipt"),
        warning: field("warning"),
        // Errors of a layer below need not be JSON.
        body: serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
    })
}
