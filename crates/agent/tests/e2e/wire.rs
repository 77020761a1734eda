//! HTTP/1.1 as bytes, on both sides of an agent: clients and services that may send anything, and
//! that remember everything they got.

mod service;

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use service::Record;
pub(crate) use service::{Seen, Service};

/// Far more than anything takes on a busy machine; only a failure waits so long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A sender that could not send for so long is held back, not slow.
const STALL: Duration = Duration::from_millis(500);

/// One end of a connection.
pub(crate) struct Wire<S = TcpStream> {
    stream: S,
    /// Read but not yet asked for.
    ahead: Vec<u8>,
    record: Option<Record>,
}

/// A response, or a request that a service got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The first line, without its end.
    pub(crate) line: String,
    /// Names in lower case, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Of a chunked body, names in lower case.
    pub(crate) trailers: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn status(&self) -> u16 {
        let code = self.line.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no status: {self:?}"))
    }

    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name} is there more than once: {self:?}");
        values.first().copied()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(other, _)| other == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The code of an `application/problem+json`.
    pub(crate) fn code(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        problem["code"].as_str().unwrap().to_owned()
    }
}

impl Wire {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap_or_else(|error| panic!("{to}: {error}"));
        Self::over_tcp(stream)
    }

    pub(crate) fn over_tcp(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Sends zeros until `total` bytes are gone or nobody took any for [`STALL`]; how many went.
    pub(crate) fn offer(&mut self, total: usize) -> usize {
        let zeros = vec![0; 64 * 1024];
        self.stream.set_write_timeout(Some(STALL)).unwrap();
        let mut sent = 0;
        while sent < total {
            match self.stream.write(&zeros[..zeros.len().min(total - sent)]) {
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        sent
    }

    /// Tells the other side that nothing follows.
    pub(crate) fn finish(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

impl<S: Read + Write> Wire<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
            record: None,
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Waits for more bytes; false at the end, however it comes.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => {
                    if let Some(record) = &self.record {
                        record.note(&buffer[..read]);
                    }
                    self.ahead.extend_from_slice(&buffer[..read]);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let got = String::from_utf8_lossy(&self.ahead);
                    panic!("nothing came for {DEADLINE:?}; so far: {got:?}");
                }
                Err(_) => return false,
            }
        }
    }

    /// Exactly `length` bytes, or none when the connection ends before.
    pub(crate) fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.ahead.len() < length {
            if !self.more() {
                return None;
            }
        }
        Some(self.ahead.drain(..length).collect())
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut searched = 0;
        loop {
            let mut windows = self.ahead[searched..].windows(end.len());
            if let Some(at) = windows.position(|window| window == end) {
                return Some(self.ahead.drain(..searched + at + end.len()).collect());
            }
            searched = (self.ahead.len() + 1).saturating_sub(end.len());
            if !self.more() {
                return None;
            }
        }
    }

    /// Up to and without the next line feed. None when the connection ends before.
    pub(crate) fn line(&mut self) -> Option<String> {
        let line = String::from_utf8(self.until(b"\n")?).unwrap();
        Some(line.trim_end().to_owned())
    }

    /// All that comes until the connection ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.ahead)
    }

    /// A head, without the body that may follow it. None when the connection ends before.
    pub(crate) fn head(&mut self) -> Option<Message> {
        let head = self.until(b"\r\n\r\n")?;
        let text = String::from_utf8(head).unwrap();
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().unwrap().to_owned();
        Some(Message {
            line,
            headers: lines.map(field).collect(),
            body: Vec::new(),
            trailers: Vec::new(),
        })
    }

    /// Reads the body that a head announces; false when the connection ends in it.
    pub(crate) fn body(&mut self, message: &mut Message) -> bool {
        let coding = message.header("transfer-encoding").map(str::to_ascii_lowercase);
        if coding.as_deref() == Some("chunked") {
            return self.chunks(message).is_some();
        }
        let length = message.header("content-length").map(|text| text.parse().unwrap());
        if let Some(length) = length {
            let body = self.bytes(length);
            message.body = body.unwrap_or_default();
            return message.body.len() == length;
        }
        if message.line.starts_with("HTTP/") {
            message.body = self.rest();
        }
        true
    }

    fn chunks(&mut self, message: &mut Message) -> Option<()> {
        loop {
            let size = String::from_utf8(self.until(b"\r\n")?).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            if size == 0 {
                break;
            }
            message.body.extend(self.bytes(size)?);
            self.bytes(2)?;
        }
        loop {
            let line = String::from_utf8(self.until(b"\r\n")?).unwrap();
            if line == "\r\n" {
                return Some(());
            }
            message.trailers.push(field(line.trim_end()));
        }
    }

    /// A whole answer to anything but HEAD.
    pub(crate) fn answer(&mut self) -> Message {
        let mut message = self.head().expect("the connection ended before an answer");
        if !matches!(message.status(), 100..=199 | 204 | 304) {
            assert!(
                self.body(&mut message),
                "the connection ended in an answer: {message:?}"
            );
        }
        message
    }

    /// A whole request. None when the connection ends before, or within it.
    pub(crate) fn request(&mut self) -> Option<Message> {
        let mut message = self.head()?;
        self.body(&mut message).then_some(message)
    }
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line
        .split_once(':')
        .unwrap_or_else(|| panic!("no header: {line:?}"));
    (name.to_ascii_lowercase(), value.trim().to_owned())
}

/// Sends one request on a connection of its own and reads the answer.
pub(crate) fn ask(to: SocketAddr, request: impl AsRef<[u8]>) -> Message {
    let mut wire = Wire::connect(to);
    wire.send(request);
    wire.answer()
}

/// A GET with further header lines, each with its end.
pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: app\r\n{headers}\r\n")
}

/// An answer 200 with a text.
pub(crate) fn ok(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
}
