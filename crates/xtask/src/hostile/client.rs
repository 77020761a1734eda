//! The least HTTP/1.1 for this suite, over raw sockets: ordinary callers and hostile ones.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// Where ordinary callers come from.
pub(super) const ORDINARY: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Where hostile ones do, so that budgets per address can tell them apart.
pub(super) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longer than any answer that these attacks wait for.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// What is kept of an answer.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    head: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    pub(super) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("no JSON in an answer {}: {}", self.status, self.text()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).into_owned()
    }
}

pub(super) fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((IpAddr::V4(from), 0)).into())?;
    socket.connect_timeout(&to.into(), CONNECT_MAX)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

/// One request of an ordinary caller on a connection of its own.
pub(super) fn call(
    to: SocketAddr,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Answer> {
    let text = request((method, path), headers, body);
    exchange(&mut connect(ORDINARY, to)?, text.as_bytes())
}

pub(super) fn request(
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: cheops\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.extend([*name, ": ", *value, "\r\n"]);
    }
    let Some(body) = body else {
        return text + "\r\n";
    };
    let body = body.to_string();
    text + &format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends bytes as they are and reads one answer.
pub(super) fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> Result<Answer> {
    stream.write_all(bytes)?;
    read(stream)
}

pub(super) fn read(stream: &mut TcpStream) -> Result<Answer> {
    let mut got = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let end = loop {
        if let Some(end) = find(&got, b"\r\n\r\n") {
            break end;
        }
        let count = stream.read(&mut piece)?;
        if count == 0 {
            bail!("the answer ended in its head");
        }
        got.extend_from_slice(&piece[..count]);
    };
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    let status = status.with_context(|| format!("no status in `{head}`"))?;
    let mut body = got.split_off(end + 4);
    let length = field(&head, "content-length").and_then(|length| length.parse::<usize>().ok());
    let is_chunked = field(&head, "transfer-encoding").is_some();
    loop {
        let is_whole = match length {
            Some(length) => body.len() >= length,
            None if is_chunked => find(&body, b"\r\n0\r\n").is_some() || body.starts_with(b"0\r\n"),
            None => status == 204,
        };
        if is_whole || body.len() > BODY_MAX_BYTES {
            break;
        }
        let count = stream.read(&mut piece)?;
        if count == 0 {
            break;
        }
        body.extend_from_slice(&piece[..count]);
    }
    if is_chunked {
        body = unchunk(&body);
    }
    Ok(Answer { status, body, head })
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn find(in_bytes: &[u8], what: &[u8]) -> Option<usize> {
    in_bytes.windows(what.len()).position(|window| window == what)
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = find(rest, b"\r\n") {
        let length = usize::from_str_radix(String::from_utf8_lossy(&rest[..end]).trim(), 16).unwrap_or(0);
        let chunk = &rest[end + 2..];
        if length == 0 || chunk.len() < length + 2 {
            break;
        }
        whole.extend_from_slice(&chunk[..length]);
        rest = &chunk[length + 2..];
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_become_one() {
        assert_eq!(unchunk(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), b"abcde");
        assert_eq!(unchunk(b"0\r\n\r\n"), b"");
        assert_eq!(unchunk(b"5\r\nab"), b"");
    }

    #[test]
    fn fields_have_no_case() {
        assert_eq!(
            field("HTTP/1.1 200 OK\r\nContent-Length: 7", "content-length"),
            Some("7")
        );
        assert_eq!(field("HTTP/1.1 200 OK", "content-length"), None);
    }
}
