//! A stream that tells when the other side of an HTTP/2 connection spoke for the first time, and what it
//! said: its first frame holds its settings.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::oneshot,
};

use crate::stream::writes_pass;

const FRAME_HEAD_BYTES: usize = 9;
const FRAME_SETTINGS: u8 = 4;
const SETTING_BYTES: usize = 6;
const SETTING_MAX_CONCURRENT_STREAMS: u16 = 3;

/// Far more than the settings that exist take.
const FIRST_FRAME_MAX_BYTES: usize = 1024;

/// What the other side said first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// How many requests it takes at once; none where it set no bound.
    pub(crate) streams_max: Option<u32>,
}

pub(crate) struct Heard<S> {
    stream: S,
    /// Gone once the first frame was read; dropped with the stream if it never was.
    first: Option<First>,
}

struct First {
    frame: Vec<u8>,
    tell: oneshot::Sender<Greeting>,
}

impl<S> Heard<S> {
    /// The receiver gets the greeting, or an error if the stream ends without one.
    pub(crate) fn listen(stream: S) -> (Self, oneshot::Receiver<Greeting>) {
        let (tell, heard) = oneshot::channel();
        let first = First {
            frame: Vec::new(),
            tell,
        };
        (
            Self {
                stream,
                first: Some(first),
            },
            heard,
        )
    }

    fn note(&mut self, bytes: &[u8]) {
        let Some(first) = &mut self.first else { return };
        let room = FIRST_FRAME_MAX_BYTES - first.frame.len();
        first.frame.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(greeting) = greeting(&first.frame)
            && let Some(first) = self.first.take()
        {
            // Nobody may be waiting any more.
            let _ = first.tell.send(greeting);
        }
    }
}

/// Reads the first frame; none while it is not whole. What is no settings frame is left to HTTP/2 to
/// complain about.
fn greeting(frame: &[u8]) -> Option<Greeting> {
    let (head, rest) = frame.split_at_checked(FRAME_HEAD_BYTES)?;
    let length = head[..3]
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let silent = Greeting { streams_max: None };
    if head[3] != FRAME_SETTINGS || length > FIRST_FRAME_MAX_BYTES - FRAME_HEAD_BYTES {
        return Some(silent);
    }
    let settings = rest.get(..length)?;
    let streams_max = settings.chunks_exact(SETTING_BYTES).rev().find_map(|setting| {
        let (id, value) = setting.split_at(2);
        let is_wanted = id == SETTING_MAX_CONCURRENT_STREAMS.to_be_bytes();
        is_wanted.then(|| value.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    });
    Some(Greeting { streams_max })
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if self.first.is_some() {
            self.note(&buf.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

writes_pass!(Heard);

#[cfg(test)]
mod tests {
    use super::*;

    /// A settings frame with `settings`, as pairs of id and value.
    fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
        let mut frame = vec![0, 0, (settings.len() * SETTING_BYTES) as u8, FRAME_SETTINGS];
        frame.extend([0; 5]);
        for (id, value) in settings {
            frame.extend(id.to_be_bytes());
            frame.extend(value.to_be_bytes());
        }
        frame
    }

    #[test]
    fn the_first_frame_is_read_as_it_comes() {
        let frame = settings(&[(4, 65_535), (3, 250), (5, 16_384)]);
        for cut in 0..frame.len() {
            assert_eq!(greeting(&frame[..cut]), None, "{cut}");
        }
        let told = |streams_max| Some(Greeting { streams_max });
        assert_eq!(greeting(&frame), told(Some(250)));
        assert_eq!(greeting(&[frame, vec![1; 40]].concat()), told(Some(250)));
        assert_eq!(greeting(&settings(&[])), told(None));
        assert_eq!(greeting(b"HTTP/1.1 400 Bad Request\r\n"), told(None));
    }
}
