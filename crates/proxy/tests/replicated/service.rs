//! A service of a site that answers what a test tells it, and keeps what it saw.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use super::client::Answer;

/// One request as the service got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }
}

pub(crate) type Reaction = Box<dyn Fn(&Seen) -> Answer + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    pub(crate) fn start(react: Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self {
            port: listener.local_addr().unwrap().port(),
            seen: Arc::default(),
        };
        let (seen, react) = (service.seen.clone(), Arc::new(react));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), seen, react) = (stream, seen.clone(), react.clone()) else {
                    return;
                };
                std::thread::spawn(move || while answer(&stream, &seen, &react).is_some() {});
            }
        });
        service
    }

    /// Everything that the service got since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn answer(mut stream: &TcpStream, seen: &Mutex<Vec<Seen>>, react: &Reaction) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Seen {
        method,
        target,
        headers,
        body: String::new(),
    };
    let length = request
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    reader
        .by_ref()
        .take(length)
        .read_to_string(&mut request.body)
        .ok()?;
    let Answer {
        status,
        headers,
        body,
    } = react(&request);
    seen.lock().unwrap().push(request);
    let is_endless = headers.iter().any(|(name, _)| name == "transfer-encoding");
    let mut head = format!("HTTP/1.1 {status} X\r\n");
    if !is_endless {
        write!(head, "content-length: {}\r\n", body.len()).unwrap();
    }
    for (name, value) in headers {
        head.extend([&*name, ": ", &*value, "\r\n"]);
    }
    if is_endless {
        let chunk = format!("{head}\r\n{:x}\r\n{body}\r\n", body.len());
        stream.write_all(chunk.as_bytes()).ok()?;
        // Until whoever asked has had enough.
        let _ = reader.read(&mut [0]);
        return None;
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).ok()
}
