//! A long body, down or up, on one connection.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{BIG_BYTES, pairs::Way};

const CHUNK_BYTES: usize = 256 * 1024;
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Up,
}

/// Megabytes per second.
pub(super) fn rate(way: &Way, direction: Direction) -> Result<f64> {
    let stream = TcpStream::connect(way.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut stream = BufReader::with_capacity(CHUNK_BYTES, stream);
    let header = way
        .header
        .map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
    let start = Instant::now();
    let length = match direction {
        Direction::Down => {
            let head = format!("GET /big HTTP/1.1\r\nHost: bench\r\n{header}\r\n");
            stream.get_mut().write_all(head.as_bytes())?;
            read(&mut stream)?
        }
        Direction::Up => {
            let head = format!(
                "PUT /big HTTP/1.1\r\nHost: bench\r\n{header}Content-Type: application/octet-stream\r\n\
                 Content-Length: {BIG_BYTES}\r\n\r\n"
            );
            stream.get_mut().write_all(head.as_bytes())?;
            let chunk = vec![b'x'; CHUNK_BYTES];
            for _ in 0..BIG_BYTES / CHUNK_BYTES {
                stream.get_mut().write_all(&chunk)?;
            }
            read(&mut stream)?;
            BIG_BYTES
        }
    };
    anyhow::ensure!(length == BIG_BYTES, "{length} bytes came, not {BIG_BYTES}");
    Ok(BIG_BYTES as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// How many bytes the answer's body has.
fn read(stream: &mut BufReader<TcpStream>) -> Result<usize> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        anyhow::ensure!(
            stream.read_line(&mut head)? > 0,
            "the answer ended in its head: {head}"
        );
    }
    anyhow::ensure!(head.starts_with("HTTP/1.1 200 "), "answered with {head}");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then_some(value.trim())
    });
    let length = length.with_context(|| format!("the answer does not tell its length: {head}"))?;
    let length: usize = length.parse()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = length;
    while left > 0 {
        let read = stream.read(&mut chunk[..left.min(CHUNK_BYTES)])?;
        anyhow::ensure!(read > 0, "the body ended {left} bytes early");
        left -= read;
    }
    Ok(length)
}
