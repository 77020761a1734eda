//! Bodies, taken off the bytes that were read.

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::head::Framing;

/// What the extensions of all chunks of a body may take.
const EXTENSIONS_MAX_BYTES: u32 = 16 * 1024;
/// What trailers may take.
const TRAILERS_MAX_BYTES: usize = 16 * 1024;
const TRAILERS_MAX: usize = 100;
/// No length of a chunk has more.
const SIZE_MAX_DIGITS: u32 = 16;

/// Why a body does not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("a chunk is malformed: {0}")]
    Chunk(&'static str),
    #[error("the trailers are malformed or too long")]
    Trailers,
    #[error("the connection ended before the body")]
    Cut,
}

/// What the bytes that are there give.
#[derive(Debug)]
pub(crate) enum Decoded {
    Piece(Bytes),
    Trailers(HeaderMap),
    /// The body has come to its end; what is left belongs to the next message.
    End,
    More,
}

/// Where one body stands.
#[derive(Debug)]
pub(crate) struct Decoder(State);

#[derive(Debug)]
enum State {
    Length(u64),
    UntilClose,
    Chunk(Chunk),
    /// The first `seen` bytes of the trailers do not have their end.
    Trailers {
        seen: usize,
    },
    End,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    part: Part,
    left_bytes: u64,
    digits: u32,
    extension_bytes: u32,
}

/// Parts of a chunk, byte by byte, as a chunk's frame may come in any pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Size,
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
}

impl Decoder {
    pub(crate) fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Length(0) => State::End,
            Framing::Length(bytes) => State::Length(bytes),
            Framing::UntilClose => State::UntilClose,
            Framing::Chunked => State::Chunk(Chunk {
                part: Part::Size,
                left_bytes: 0,
                digits: 0,
                extension_bytes: 0,
            }),
        })
    }

    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self.0, State::End)
    }

    /// How much is left, where that is known.
    pub(crate) fn left_bytes(&self) -> Option<u64> {
        match self.0 {
            State::Length(bytes) => Some(bytes),
            State::End => Some(0),
            _ => None,
        }
    }

    /// Nothing more will be read.
    pub(crate) fn close(&mut self) -> Result<(), BodyError> {
        match self.0 {
            State::UntilClose | State::End => {
                self.0 = State::End;
                Ok(())
            }
            _ => Err(BodyError::Cut),
        }
    }

    /// Takes what can be taken off the beginning of `buf`.
    pub(crate) fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, BodyError> {
        loop {
            match &mut self.0 {
                State::End => return Ok(Decoded::End),
                _ if buf.is_empty() => return Ok(Decoded::More),
                State::UntilClose => return Ok(Decoded::Piece(buf.split().freeze())),
                State::Length(left_bytes) => {
                    let piece = take(buf, left_bytes);
                    if *left_bytes == 0 {
                        self.0 = State::End;
                    }
                    return Ok(Decoded::Piece(piece));
                }
                State::Chunk(chunk) if chunk.part == Part::Data => {
                    let piece = take(buf, &mut chunk.left_bytes);
                    if chunk.left_bytes == 0 {
                        chunk.part = Part::DataCr;
                    }
                    // Where the end is there as well, nobody has to ask for it once more.
                    if buf.starts_with(b"\r\n0\r\n\r\n") && chunk.part == Part::DataCr {
                        buf.advance(7);
                        self.0 = State::End;
                    }
                    return Ok(Decoded::Piece(piece));
                }
                State::Chunk(chunk) => {
                    if chunk.frame(buf)? {
                        self.0 = State::Trailers { seen: 0 };
                    }
                }
                State::Trailers { seen } => {
                    let Some(trailers) = trailers(buf, seen)? else {
                        return Ok(Decoded::More);
                    };
                    self.0 = State::End;
                    if !trailers.is_empty() {
                        return Ok(Decoded::Trailers(trailers));
                    }
                }
            }
        }
    }
}

fn take(buf: &mut BytesMut, left_bytes: &mut u64) -> Bytes {
    let bytes = usize::try_from(*left_bytes).map_or(buf.len(), |left| left.min(buf.len()));
    *left_bytes -= bytes as u64;
    buf.split_to(bytes).freeze()
}

impl Chunk {
    /// Reads what stands between the data of chunks; whether the last chunk has begun.
    fn frame(&mut self, buf: &mut BytesMut) -> Result<bool, BodyError> {
        let mut read = 0;
        let mut is_last = false;
        for byte in buf.iter().copied() {
            read += 1;
            self.part = self.next(byte)?;
            if self.part == Part::Data {
                is_last = self.left_bytes == 0;
                break;
            }
        }
        buf.advance(read);
        Ok(is_last)
    }

    fn next(&mut self, byte: u8) -> Result<Part, BodyError> {
        let wrong = |what| Err(BodyError::Chunk(what));
        match (self.part, byte) {
            (Part::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.digits += 1;
                if self.digits > SIZE_MAX_DIGITS {
                    return wrong("its length has too many digits");
                }
                self.left_bytes = self.left_bytes << 4 | u64::from(digit);
                Ok(Part::Size)
            }
            (Part::Size, _) if self.digits == 0 => wrong("it has no length"),
            (Part::Size | Part::Blank, b' ' | b'\t') => Ok(Part::Blank),
            (Part::Size | Part::Blank, b';') => Ok(Part::Extension),
            (Part::Size | Part::Blank | Part::Extension, b'\r') => Ok(Part::SizeLf),
            (Part::Size | Part::Blank, _) => wrong("its length"),
            (Part::Extension, b'\n') => wrong("its extension"),
            (Part::Extension, _) => {
                self.extension_bytes += 1;
                if self.extension_bytes >= EXTENSIONS_MAX_BYTES {
                    return wrong("its extension is too long");
                }
                Ok(Part::Extension)
            }
            (Part::SizeLf, b'\n') => Ok(Part::Data),
            (Part::SizeLf, _) => wrong("the end of its length"),
            (Part::DataCr, b'\r') => Ok(Part::DataLf),
            (Part::DataLf, b'\n') => {
                self.digits = 0;
                Ok(Part::Size)
            }
            (Part::Data | Part::DataCr | Part::DataLf, _) => wrong("it is longer than it says"),
        }
    }
}

/// Takes the trailers with the line that ends them; none while they are not whole.
fn trailers(buf: &mut BytesMut, seen: &mut usize) -> Result<Option<HeaderMap>, BodyError> {
    if buf.starts_with(b"\r\n") {
        buf.advance(2);
        return Ok(Some(HeaderMap::new()));
    }
    let begin = seen.saturating_sub(3);
    let end = buf[begin..].windows(4).position(|end| end == b"\r\n\r\n");
    let Some(end) = end.map(|end| begin + end + 4) else {
        *seen = buf.len();
        if buf.len() >= TRAILERS_MAX_BYTES {
            return Err(BodyError::Trailers);
        }
        return Ok(None);
    };
    if end > TRAILERS_MAX_BYTES {
        return Err(BodyError::Trailers);
    }
    let bytes = buf.split_to(end);
    let mut fields = [httparse::EMPTY_HEADER; TRAILERS_MAX];
    let Ok(httparse::Status::Complete((read, fields))) = httparse::parse_headers(&bytes, &mut fields) else {
        return Err(BodyError::Trailers);
    };
    let has_bare_lf = bytes
        .iter()
        .enumerate()
        .any(|(at, byte)| *byte == b'\n' && (at == 0 || bytes[at - 1] != b'\r'));
    if read != bytes.len() || has_bare_lf {
        return Err(BodyError::Trailers);
    }
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| BodyError::Trailers)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| BodyError::Trailers)?;
        trailers.append(name, value);
    }
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of `text`, its trailers and what is left, read in pieces of so many bytes.
    fn read(
        framing: Framing,
        text: &[u8],
        piece: usize,
    ) -> Result<(String, Option<HeaderMap>, String), BodyError> {
        let mut decoder = Decoder::new(framing);
        let (mut buf, mut body, mut trailers) = (BytesMut::new(), Vec::new(), None);
        let mut rest = text.chunks(piece.max(1));
        loop {
            match decoder.decode(&mut buf)? {
                Decoded::Piece(piece) => body.extend_from_slice(&piece),
                Decoded::Trailers(fields) => trailers = Some(fields),
                Decoded::End => break,
                Decoded::More => match rest.next() {
                    Some(more) => buf.extend_from_slice(more),
                    None => decoder.close()?,
                },
            }
        }
        let left: Vec<u8> = buf.iter().chain(rest.flatten()).copied().collect();
        Ok((
            String::from_utf8(body).unwrap(),
            trailers,
            String::from_utf8(left).unwrap(),
        ))
    }

    #[test]
    fn bodies_end_where_they_say_in_whatever_pieces_they_come() {
        for piece in 1..64 {
            let check = |framing, text: &str, body: &str, left: &str| {
                let (got, _, rest) = read(framing, text.as_bytes(), piece).unwrap();
                assert_eq!((got.as_str(), rest.as_str()), (body, left), "{piece}");
            };
            check(Framing::NONE, "next", "", "next");
            check(Framing::Length(5), "hellonext", "hello", "next");
            check(Framing::UntilClose, "hello", "hello", "");
            check(Framing::Chunked, "0\r\n\r\nnext", "", "next");
            check(Framing::Chunked, "5\r\nhello\r\n0\r\n\r\nnext", "hello", "next");
            check(
                Framing::Chunked,
                "3;a=\"b\"\r\nhel\r\n2 \t;x\r\nlo\r\n000\r\n\r\n",
                "hello",
                "",
            );
            check(
                Framing::Chunked,
                "A\r\n0123456789\r\n0;x\r\nX-Sum: 1\r\n\r\nnext",
                "0123456789",
                "next",
            );
        }
    }

    #[test]
    fn trailers_follow_the_last_chunk() {
        let (_, trailers, _) = read(Framing::Chunked, b"0\r\nX-Sum: 1\r\nx-sum:2\r\n\r\n", 3).unwrap();
        let trailers = trailers.unwrap();
        let values: Vec<_> = trailers.get_all("x-sum").iter().collect();
        assert_eq!(values, ["1", "2"]);
        for bad in [
            "0\r\nX Sum: 1\r\n\r\n",
            "0\r\nX: a\r\n b\r\n\r\n",
            "0\r\nX: a\nY: b\r\n\r\n",
            "0\r\nX : a\r\n\r\n",
            "0\r\nnonsense\r\n\r\n",
        ] {
            assert_eq!(
                read(Framing::Chunked, bad.as_bytes(), 4).unwrap_err(),
                BodyError::Trailers,
                "{bad:?}"
            );
        }
        let long = format!("0\r\nX: {}\r\n\r\n", "x".repeat(TRAILERS_MAX_BYTES));
        assert_eq!(
            read(Framing::Chunked, long.as_bytes(), 1000).unwrap_err(),
            BodyError::Trailers
        );
        let many = format!("0\r\n{}\r\n", "a: b\r\n".repeat(TRAILERS_MAX + 1));
        assert_eq!(
            read(Framing::Chunked, many.as_bytes(), 1000).unwrap_err(),
            BodyError::Trailers
        );
    }

    #[test]
    fn what_is_no_chunk_never_ends_a_body() {
        for bad in [
            "zz\r\nhello\r\n0\r\n\r\n",
            "-5\r\nhello\r\n0\r\n\r\n",
            "+5\r\nhello\r\n0\r\n\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "\r\n0\r\n\r\n",
            ";a\r\n0\r\n\r\n",
            "FFFFFFFFFFFFFFFFF\r\nhello",
            "00000000000000005\r\nhello\r\n0\r\n\r\n",
            "5\r\nhelloworld\r\n0\r\n\r\n",
            "5 5\r\nhello\r\n0\r\n\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5\rhello\r\n0\r\n\r\n",
            "5;a\nb\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
        ] {
            for piece in [1, 3, 100] {
                let read = read(Framing::Chunked, bad.as_bytes(), piece);
                assert!(matches!(read, Err(BodyError::Chunk(_))), "{bad:?}: {read:?}");
            }
        }
        let long = format!(
            "5;{}\r\nhello\r\n0\r\n\r\n",
            "x".repeat(EXTENSIONS_MAX_BYTES as usize)
        );
        assert!(matches!(
            read(Framing::Chunked, long.as_bytes(), 999),
            Err(BodyError::Chunk(_))
        ));
    }

    #[test]
    fn a_body_that_is_cut_is_not_whole() {
        for (framing, text) in [
            (Framing::Length(5), "hell"),
            (Framing::Chunked, ""),
            (Framing::Chunked, "5\r\nhello\r\n"),
            (Framing::Chunked, "0\r\n"),
            (Framing::Chunked, "0\r\nX: 1\r\n"),
        ] {
            assert_eq!(
                read(framing, text.as_bytes(), 2).unwrap_err(),
                BodyError::Cut,
                "{text:?}"
            );
        }
    }
}
