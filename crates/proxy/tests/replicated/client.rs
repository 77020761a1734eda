//! One request on a connection of its own.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use cheops_types::Receipt;

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.to_owned(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The code of Cheops' own error; empty where it is none.
    pub(crate) fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        problem["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn receipt(&self) -> Receipt {
        Receipt::parse(self.header("cheops-receipt").expect("a receipt")).unwrap()
    }
}

/// `head` is the request line without its version, then header lines.
pub(crate) fn send(to: SocketAddr, head: &str, body: &str) -> Answer {
    let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
    let mut text = format!("{line} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    for header in headers.lines() {
        text.push_str(header.trim());
        text.push_str("\r\n");
    }
    if !body.is_empty() {
        write!(text, "content-length: {}\r\n", body.len()).unwrap();
    }
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
    // The other side may refuse and close before it has read all.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(':'));
    Answer {
        status: status.and_then(|status| status.parse().ok()).expect("a status"),
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect(),
        body: body.to_owned(),
    }
}
