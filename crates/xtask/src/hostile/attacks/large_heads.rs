//! Thousands of connections of one address, each with most of a large head.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use anyhow::Result;

use super::{Scene, Verdict};
use crate::hostile::client;

const CONNECTIONS: usize = 5_000;
const HEAD_BYTES: usize = 60_000;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (held, refused) = open(scene.victim().b.addr, CONNECTIONS);
    anyhow::ensure!(!held.is_empty(), "not one connection was taken");
    thread::sleep(scene.flood);
    let still = held.iter().filter(|stream| is_open(stream)).count();
    Ok(Verdict::of(
        true,
        format!(
            "{} connections taken, {refused} refused, {still} still open in the end",
            held.len()
        ),
    ))
}

/// Opens connections that send a head and do not end it. Those that are not taken, or are closed meanwhile, are refused.
pub(in crate::hostile) fn open(to: SocketAddr, connections: usize) -> (Vec<TcpStream>, usize) {
    let head = format!(
        "GET /string HTTP/1.1\r\nHost: x\r\nX-Long: {}",
        "x".repeat(HEAD_BYTES)
    );
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..connections {
        let opened = client::connect(client::STRANGER, to).and_then(|mut stream| {
            stream.set_write_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(head.as_bytes())?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => held.push(stream),
            Err(_) => refused += 1,
        }
        // One that takes no more would make the rest wait for its time-outs.
        if refused > 20 && held.len() < refused {
            break;
        }
    }
    (held, refused)
}

fn is_open(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let mut byte = [0];
    let mut stream = stream;
    matches!(stream.read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
