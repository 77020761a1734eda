//! A stream that is cut into lines as it comes.

use bytes::{Bytes, BytesMut};

/// What has come of a stream and is not given out yet. Each byte is looked at once, however small the pieces are in
/// which a line comes.
pub(super) struct Lines {
    text: BytesMut,
    /// How much of it is known to have no end of a line.
    seen: usize,
    max_bytes: usize,
    #[cfg(test)]
    looked_at: usize,
}

/// A line is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            text: BytesMut::new(),
            seen: 0,
            max_bytes,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.text.extend_from_slice(data);
    }

    /// How much is kept.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The next line with its end; none where it has not ended yet.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        let end = self.text[self.seen..].iter().position(|byte| *byte == b'\n');
        let length = end.map_or(self.text.len(), |end| self.seen + end + 1);
        #[cfg(test)]
        {
            self.looked_at += length - self.seen;
        }
        if length > self.max_bytes {
            return Err(TooLong);
        }
        if end.is_none() {
            self.seen = length;
            return Ok(None);
        }
        self.seen = 0;
        Ok(Some(self.text.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_as_they_went_in() {
        let mut lines = Lines::new(6);
        let mut out = Vec::new();
        for piece in ["a\nb", "", "c\n\n", "123", "45", "\n", "x"] {
            lines.push(piece.as_bytes());
            while let Some(line) = lines.next().unwrap() {
                out.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        assert_eq!(out, ["a\n", "bc\n", "\n", "12345\n"]);
        assert_eq!(lines.len(), 1);
        lines.push(b"123456");
        assert_eq!(lines.next(), Err(TooLong));
        let mut lines = Lines::new(3);
        lines.push(b"123\nx\n");
        assert_eq!(lines.next(), Err(TooLong), "also one that has ended");
    }

    /// A line without an end was looked at from its beginning with every piece of it: 16 MB took 8 seconds.
    #[test]
    fn a_line_without_an_end_is_looked_at_once() {
        let (mut lines, pieces) = (Lines::new(1 << 20), 1000);
        for _ in 0..pieces {
            lines.push(&[b'x'; 1000]);
            assert_eq!(lines.next(), Ok(None));
        }
        assert_eq!(lines.looked_at, pieces * 1000);
    }
}
