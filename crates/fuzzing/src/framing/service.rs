//! The service behind the agent: reads strictly, and answers everything it could read.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use super::{
    ledger::Ledger,
    strict::{self, End, Length, Request},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// The answer to a HEAD has no body.
const BARE_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
/// What no head of these streams reaches.
const HEAD_MAX_BYTES: usize = 1024 * 1024;

/// It lives as long as the process.
pub(super) struct Service {
    addr: SocketAddr,
}

impl Service {
    pub(super) fn start(ledger: &Arc<Ledger>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let ledger = Arc::clone(ledger);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || {
                    let mut connection = Connection {
                        stream,
                        ahead: Vec::new(),
                    };
                    while connection.serve(&ledger).is_some() {}
                });
            }
        });
        Ok(Self { addr })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

struct Connection {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Connection {
    /// One request; none when the connection is over.
    fn serve(&mut self, ledger: &Ledger) -> Option<()> {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more() {
                // A head that is cut is no request: nobody executes it.
                return None;
            }
            if self.ahead.len() > HEAD_MAX_BYTES {
                ledger.see_nonsense(&self.ahead[..100]);
                return None;
            }
        };
        let head: Vec<u8> = self.ahead.drain(..end).collect();
        // A bare line feed, or an empty line in front, is nothing that an agent writes.
        let is_strict = !head.starts_with(b"\r\n")
            && (0..head.len()).all(|at| head[at] != b'\n' || head[at - 1] == b'\r');
        let read = strict::head(&head).filter(|_| is_strict);
        let Some((mut request, length)) = read.and_then(|(request, _)| {
            let length = strict::length(&request)?;
            (length != Length::ChunksThenNothing && request.may_pass()).then_some((request, length))
        }) else {
            ledger.see_nonsense(&head);
            return None;
        };
        self.body(&mut request, length, ledger);
        if !request.target.starts_with("/clean/") {
            ledger.see(&request);
        }
        if !request.is_complete {
            return None;
        }
        let answer = if request.method == "HEAD" {
            BARE_ANSWER
        } else {
            ANSWER
        };
        self.stream.write_all(answer).ok()
    }

    fn body(&mut self, request: &mut Request, length: Length, ledger: &Ledger) {
        if let Length::Bytes(length) = length {
            while self.ahead.len() < length && self.more() {}
            request.is_complete = self.ahead.len() >= length;
            let here = length.min(self.ahead.len());
            request.body = self.ahead.drain(..here).collect();
            return;
        }
        loop {
            let (body, end) = strict::chunks(&self.ahead);
            request.body = body;
            if matches!(end, End::Odd(_)) {
                return ledger.see_nonsense(&self.ahead);
            }
            if let End::At(rest) = end {
                let left = rest.len();
                request.is_complete = true;
                self.ahead.drain(..self.ahead.len() - left);
                return;
            }
            if !self.more() {
                return;
            }
            if self.ahead.len() > HEAD_MAX_BYTES {
                ledger.see_nonsense(&self.ahead[..100]);
                return;
            }
        }
    }

    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(read @ 1..) => {
                self.ahead.extend_from_slice(&buffer[..read]);
                true
            }
            _ => false,
        }
    }
}
