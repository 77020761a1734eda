//! The least HTTP/1.1 that moves a long body: one request per connection, lengths known.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, bail};

const SCOPE: &str = "site2";
const BUFFER_BYTES: usize = 256 * 1024;
/// Longest time without a byte.
const SILENCE_MAX: Duration = Duration::from_secs(30);
static ZEROS: [u8; BUFFER_BYTES] = [0; BUFFER_BYTES];

/// Sends `bytes` to B's `/upload`, which answers how many arrived.
pub(super) fn upload(to: SocketAddr, bytes: u64) -> Result<()> {
    let mut stream = connect(to)?;
    write!(
        stream,
        "POST /upload HTTP/1.1\r\nHost: b\r\nX-Scope: {SCOPE}\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n"
    )?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(BUFFER_BYTES as u64);
        stream
            .write_all(&ZEROS[..part as usize])
            .with_context(|| format!("the upload broke off with {left} bytes left"))?;
        left -= part;
    }
    let mut answer = Answer::read(stream)?;
    let mut body = String::new();
    answer.body.read_to_string(&mut body)?;
    let counted: serde_json::Value = serde_json::from_str(&body)?;
    if counted["bytes"] != bytes {
        bail!("{bytes} bytes were sent, and the service says {body}");
    }
    Ok(())
}

/// Reads `bytes` zeros from B's `/download`.
pub(super) fn download(from: SocketAddr, bytes: u64) -> Result<()> {
    let mut stream = connect(from)?;
    write!(
        stream,
        "GET /download?bytes={bytes} HTTP/1.1\r\nHost: b\r\nX-Scope: {SCOPE}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Answer::read(stream)?;
    if answer.length != Some(bytes) {
        bail!(
            "{bytes} bytes were asked for, and the answer has {:?}",
            answer.length
        );
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut got = 0;
    loop {
        let part = answer
            .body
            .read(&mut buffer)
            .with_context(|| format!("the download broke off after {got} bytes"))?;
        if part == 0 {
            break;
        }
        if buffer[..part] != ZEROS[..part] {
            bail!("the download has bytes that were never sent, after {got}");
        }
        got += part as u64;
    }
    if got != bytes {
        bail!("the download ended after {got} of {bytes} bytes");
    }
    Ok(())
}

fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(to).with_context(|| format!("nobody answers at {to}"))?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

/// A good answer, its head read.
struct Answer {
    length: Option<u64>,
    body: BufReader<TcpStream>,
}

impl Answer {
    fn read(stream: TcpStream) -> Result<Self> {
        let mut body = BufReader::with_capacity(BUFFER_BYTES, stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if body.read_line(&mut head)? == 0 {
                bail!("the answer ended in its head: {head}");
            }
        }
        if !head.starts_with("HTTP/1.1 200 ") {
            let mut problem = String::new();
            // What there is of it says enough.
            let _ = body.take(64 * 1024).read_to_string(&mut problem);
            bail!("{head}{problem}");
        }
        if !head.to_ascii_lowercase().contains("cheops-receipt: ") {
            bail!("the answer has no receipt, so it was not forwarded:\n{head}");
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().ok()).flatten()
        });
        Ok(Self { length, body })
    }
}
