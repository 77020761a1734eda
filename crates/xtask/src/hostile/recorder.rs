//! An application that keeps what it was sent, byte by byte, and says little.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Result;

/// Longer than any pause in this suite.
const PATIENCE: Duration = Duration::from_secs(600);
/// What `/big` answers with: more than all buffers between it and a client.
const BIG_BYTES: usize = 64 * 1024 * 1024;

pub(super) struct Recorder {
    addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Heads, bodies and trailers, as they came.
    heard: Mutex<Vec<String>>,
    /// Answers to `/big` that are not written yet.
    pinned: AtomicUsize,
}

impl Recorder {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = shared.clone();
                    thread::spawn(move || {
                        // Whoever hangs up has been heard.
                        let _ = serve(stream, &state);
                    });
                }
            })?;
        Ok(Self { addr, state })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What was heard since the last time.
    pub(super) fn take(&self) -> Vec<String> {
        let mut heard = self.state.heard.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *heard)
    }

    pub(super) fn pinned(&self) -> usize {
        self.state.pinned.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut got = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        while !is_whole(&got) {
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            got.extend_from_slice(&piece[..count]);
        }
        let text = String::from_utf8_lossy(&got).into_owned();
        got.clear();
        let path = text.split_whitespace().nth(1).unwrap_or_default().to_owned();
        state
            .heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
        if path == "/big" {
            state.pinned.fetch_add(1, Ordering::Relaxed);
            let written = write_big(&mut stream);
            state.pinned.fetch_sub(1, Ordering::Relaxed);
            written?;
        } else if path.contains("watch") {
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            // A watch without news, until the other side has enough of it.
            while stream.read(&mut piece)? > 0 {}
            return Ok(());
        } else {
            // What fails is asked for elsewhere, where a scope says so.
            let status = if path.ends_with("/fail") {
                "503 Service Unavailable"
            } else {
                "200 OK"
            };
            let body = if path.starts_with("/notes") {
                "{\"items\":[],\"version\":\"1\"}"
            } else {
                "\"heard\""
            };
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )?;
        }
    }
}

fn write_big(stream: &mut TcpStream) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BIG_BYTES}\r\n\r\n")?;
    let piece = vec![0; 64 * 1024];
    for _ in 0..BIG_BYTES / piece.len() {
        stream.write_all(&piece)?;
    }
    Ok(())
}

/// Whether a request has all of its body and trailers.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        // The last chunk, then trailers up to an empty line.
        return body.starts_with("0\r\n\r\n")
            || body
                .split_once("\r\n0\r\n")
                .is_some_and(|(_, rest)| rest == "\r\n" || rest.ends_with("\r\n\r\n"));
    }
    let length = head
        .split("\r\n")
        .find_map(|line| line.strip_prefix("content-length:"));
    length.is_none_or(|length| body.len() >= length.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_where_its_framing_says() {
        for (text, whole) in [
            ("GET / HTTP/1.1\r\n", false),
            ("GET / HTTP/1.1\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na", false),
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", true),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
                true,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n",
                false,
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n",
                true,
            ),
        ] {
            assert_eq!(is_whole(text.as_bytes()), whole, "{text:?}");
        }
    }
}
