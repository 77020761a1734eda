//! As much of RFC 6455 as a remote command needs.
//!
//! In `v5.channel.k8s.io` the first byte of a message is a channel: 0 is the command's input, 1 its output, 3 how it
//! ended, and 255 says that the channel in the next byte is closed.

use std::io::{Read as _, Write as _};

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::Stream;

const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const INPUT: u8 = 0;
const OUTPUT: u8 = 1;
const END: u8 = 3;
const CLOSED: u8 = 255;

/// A command that prints what it reads and ends well when there is no more.
pub(super) fn repeat_input(stream: &mut Stream, key: &str) -> Result<()> {
    let accept = STANDARD.encode(digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{GUID}").as_bytes(),
    ));
    write!(
        stream.get_mut(),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    )?;
    loop {
        let (opcode, message) = read(stream)?;
        match (opcode, message.as_slice()) {
            (CLOSE, _) => return Ok(()),
            (BINARY, [INPUT, text @ ..]) if !text.is_empty() => {
                send(stream, BINARY, &[&[OUTPUT], text].concat())?;
            }
            (BINARY, [CLOSED, INPUT]) => {
                send(
                    stream,
                    BINARY,
                    &[&[END], br#"{"status":"Success"}"#.as_slice()].concat(),
                )?;
                send(stream, CLOSE, &1000_u16.to_be_bytes())?;
            }
            _ => {}
        }
    }
}

/// One unfragmented frame of a client, which masks it.
fn read(stream: &mut Stream) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let length = match head[1] & 0x7f {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            u64::from(u16::from_be_bytes(length))
        }
        127 => {
            let mut length = [0; 8];
            stream.read_exact(&mut length)?;
            u64::from_be_bytes(length)
        }
        short => short.into(),
    };
    let mut mask = [0; 4];
    if head[1] & 0x80 != 0 {
        stream.read_exact(&mut mask)?;
    }
    let mut message = Vec::new();
    stream.take(length).read_to_end(&mut message)?;
    for (byte, mask) in message.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok((head[0] & 0x0f, message))
}

fn send(stream: &mut Stream, opcode: u8, message: &[u8]) -> Result<()> {
    let out = stream.get_mut();
    out.write_all(&[0x80 | opcode])?;
    if let Ok(length @ ..126) = u8::try_from(message.len()) {
        out.write_all(&[length])?;
    } else {
        let length = u16::try_from(message.len())?;
        out.write_all(&[126])?;
        out.write_all(&length.to_be_bytes())?;
    }
    out.write_all(message)?;
    Ok(out.flush()?)
}
