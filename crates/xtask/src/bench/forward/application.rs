//! The application behind both pairs of proxies: it sends and takes bodies as fast as one core can.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
};

use anyhow::{Context as _, Result};

use super::{BIG_BYTES, pin};
use crate::bench::contender::PLAIN_BODY;

const CHUNK_BYTES: usize = 256 * 1024;

/// Starts it on a core; it goes on until this program ends.
pub(super) fn start(core: usize) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::Builder::new()
        .name("application".to_owned())
        .spawn(move || {
            // The threads of connections inherit it.
            if let Err(error) = pin(core) {
                eprintln!("the application cannot be pinned to core {core}: {error:#}");
            }
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    // Whoever hangs up is gone.
                    let _ = serve(stream);
                });
            }
        })?;
    Ok(address)
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(CHUNK_BYTES, stream);
    let mut chunk = vec![b'x'; CHUNK_BYTES];
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let length = content_length(&head).context("no length")?;
        let mut left = length;
        while left > 0 {
            let read = stream.read(&mut chunk[..left.min(CHUNK_BYTES)])?;
            anyhow::ensure!(read > 0, "the body ended early");
            left -= read;
        }
        let out = stream.get_mut();
        if head.starts_with("GET /big ") {
            write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {BIG_BYTES}\r\n\r\n")?;
            for _ in 0..BIG_BYTES / CHUNK_BYTES {
                out.write_all(&chunk)?;
            }
        } else {
            let length = PLAIN_BODY.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{PLAIN_BODY}");
            out.write_all(answer.as_bytes())?;
        }
    }
}

/// Nothing said is no body.
fn content_length(head: &str) -> Option<usize> {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    value.map_or(Some(0), |value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_read() {
        assert_eq!(content_length("GET / HTTP/1.1\r\n\r\n"), Some(0));
        assert_eq!(
            content_length("PUT / HTTP/1.1\r\ncontent-length: 7\r\n\r\n"),
            Some(7)
        );
        assert_eq!(
            content_length("PUT / HTTP/1.1\r\ncontent-length: x\r\n\r\n"),
            None
        );
    }
}
