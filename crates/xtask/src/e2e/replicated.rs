//! A long body that is uploaded once and has to be at three sites.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Demo, MIB, judge, memories};

const SCOPE: &str = "site1 & site2 & site3";
const BUFFER_BYTES: usize = 256 * 1024;
/// Longest time without a byte: the answer comes when the body is on the disk and the service has it.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// How long the other sites may take after the answer.
const FOLLOW_MAX: Duration = Duration::from_secs(900);
const POLL: Duration = Duration::from_millis(100);

/// Whether every site got the body and no agent kept it.
pub(super) fn run(program: &Path, rtt_ms: u16, bytes: u64) -> Result<bool> {
    let demo = Demo::of(program, 3, rtt_ms)?;
    let file = ask(demo.entry, "POST", "/files", r#"{"name":"long"}"#)?;
    let id = file["id"].as_str().context("the file has no id")?.to_owned();
    let path = format!("/files/{id}");
    let before = memories(&demo)?;
    let start = Instant::now();
    upload(demo.entry, &format!("{path}/data"), bytes)?;
    let answered = start.elapsed();
    for agent in &demo.agents {
        while ask(agent.b, "GET", &path, "")?["bytes"] != bytes {
            if start.elapsed() > FOLLOW_MAX {
                bail!("{} does not have the body after {FOLLOW_MAX:?}", agent.site);
            }
            thread::sleep(POLL);
        }
    }
    println!(
        "replicated upload: {} MiB answered after {:.1} s, at all three sites after {:.1} s",
        bytes / MIB,
        answered.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    let holds = judge(&demo, &before)?;
    demo.stop()?;
    Ok(holds)
}

fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(to).with_context(|| format!("nobody answers at {to}"))?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> Result<Value> {
    let mut stream = connect(to)?;
    let scope = if method == "POST" {
        format!("X-Scope: {SCOPE}\r\nPrefer: wait=30\r\n")
    } else {
        String::new()
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: b\r\n{scope}Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let (head, body) = read(stream)?;
    if !head.starts_with("HTTP/1.1 20") {
        bail!("{method} {path}: {head}{body}");
    }
    Ok(serde_json::from_str(&body)?)
}

fn upload(to: SocketAddr, path: &str, bytes: u64) -> Result<()> {
    let mut stream = connect(to)?;
    write!(
        stream,
        "PUT {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\r\n"
    )?;
    let part = vec![0; BUFFER_BYTES];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BUFFER_BYTES as u64);
        stream
            .write_all(&part[..length as usize])
            .with_context(|| format!("the upload broke off with {left} bytes left"))?;
        left -= length;
    }
    let (head, body) = read(stream)?;
    if !head.starts_with("HTTP/1.1 20") {
        bail!("PUT {path}: {head}{body}");
    }
    Ok(())
}

/// Head and body of an answer that ends with its connection.
fn read(stream: TcpStream) -> Result<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            bail!("the answer ended in its head: {head}");
        }
    }
    let mut body = String::new();
    reader.read_to_string(&mut body)?;
    Ok((head, body))
}
