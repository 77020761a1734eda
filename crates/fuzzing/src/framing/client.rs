//! A client that sends bytes and sees what comes back.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::Dice;

/// How long nothing has to come before the client says that nothing follows from it either.
const QUIET: Duration = Duration::from_millis(40);
/// When a client gives up. The agent may wait for a head that does not come for much longer.
const GIVE_UP: Duration = Duration::from_secs(2);

pub(super) struct Client {
    to: SocketAddr,
    cleans: AtomicU64,
}

impl Client {
    pub(super) fn new(to: SocketAddr) -> Self {
        let cleans = AtomicU64::new(0);
        Self { to, cleans }
    }

    /// Sends a stream in pieces on a connection of its own, and waits for `wanted` answers or for the end. How many
    /// good answers came.
    pub(super) fn exchange(&self, input: &[u8], wanted: usize, is_whole: bool) -> usize {
        let Ok(mut stream) = self.connect(QUIET) else {
            return 0;
        };
        // The bytes decide where they are cut, so that a file is all that a replay needs.
        let mut dice = Dice::of(input.iter().fold(7, |sum: u64, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        }));
        let mut rest = input;
        while !rest.is_empty() {
            let here = if dice.once_in(2) {
                rest.len()
            } else {
                1 + dice.below(rest.len())
            };
            if stream.write_all(&rest[..here]).is_err() {
                break;
            }
            rest = &rest[here..];
        }
        if !is_whole {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let begin = Instant::now();
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        while count(&got, b"HTTP/1.1 ") < wanted.max(1) && begin.elapsed() < GIVE_UP {
            match stream.read(&mut buffer) {
                Ok(read @ 1..) => got.extend_from_slice(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    // The agent waits for the rest of what can be read in two ways.
                    let _ = stream.shutdown(Shutdown::Write);
                }
                _ => break,
            }
        }
        count(&got, b"HTTP/1.1 200")
    }

    /// A request that nobody can misread, on a connection of its own.
    pub(super) fn clean(&self, within: Duration) -> Result<(), String> {
        let number = self.cleans.fetch_add(1, Ordering::Relaxed);
        let mut stream = self.connect(within).map_err(|error| error.to_string())?;
        let request = format!("GET /clean/{number} HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n");
        let sent = stream.write_all(request.as_bytes());
        let mut got = Vec::new();
        let read = sent.and_then(|()| stream.read_to_end(&mut got));
        let text = String::from_utf8_lossy(&got);
        match read {
            Ok(_) if text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\nok") => Ok(()),
            read => Err(format!("{read:?} {text:?}")),
        }
    }

    fn connect(&self, timeout: Duration) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(GIVE_UP))?;
        Ok(stream)
    }
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part).count()
}
