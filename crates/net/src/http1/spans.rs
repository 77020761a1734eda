//! Where the fields of a head stand, and what the heads before have left on the same connection.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::{head::HeadError, known::KnownFields};

/// Where a field stands in the bytes of its head.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    name: (u32, u32),
    value: (u32, u32),
}

/// A longer block of fields is read anew each time.
const BLOCK_MAX_BYTES: usize = 1024;

/// The fields of one head, and what the heads before have left.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Where each field stands behind the head's first line.
    fields: Vec<Span>,
    /// All that stood there in the head before, to its last byte. Empty where it is not known.
    block: Vec<u8>,
    known: KnownFields,
}

impl Spans {
    /// Where the first line of a head ends, if what stands behind it is what stood there before: then only the first line has
    /// to be read, because the same bytes are the same fields, and end where they ended.
    pub(super) fn repeated(&self, bytes: &[u8]) -> Option<FirstLine> {
        if self.block.is_empty() {
            return None;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let is_whole = end > 2 && bytes[end - 2] == b'\r';
        (is_whole && bytes[end..].starts_with(&self.block)).then_some(FirstLine {
            end,
            head_len: end + self.block.len(),
        })
    }

    /// Notes where `fields` stand in `bytes`, and tells where the first one begins.
    pub(super) fn note(&mut self, bytes: &[u8], fields: &[httparse::Header<'_>]) -> usize {
        self.block.clear();
        self.fields.clear();
        let offset = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
        let Some(first) = fields.first() else { return 0 };
        let begin = offset(first.name.as_bytes());
        let range = |part: &[u8]| {
            let start = offset(part) - begin;
            (start as u32, (start + part.len()) as u32)
        };
        self.fields.extend(fields.iter().map(|field| Span {
            name: range(field.name.as_bytes()),
            value: range(field.value),
        }));
        begin
    }

    /// The head was taken; its fields begin at `begin`.
    pub(super) fn remember(&mut self, head: &[u8], begin: usize) {
        let block = &head[begin..];
        if self.block.is_empty() && !self.fields.is_empty() && block.len() <= BLOCK_MAX_BYTES {
            self.block.extend_from_slice(block);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether the line before each field ends with CR and LF.
    pub(super) fn follow_whole_lines(&self, head: &[u8], begin: usize) -> bool {
        self.fields.iter().all(|span| {
            let begin = begin + span.name.0 as usize;
            begin >= 2 && head[begin - 2..begin] == *b"\r\n"
        })
    }

    /// The fields, as parts of `head`.
    pub(super) fn fields(
        &mut self,
        head: &Bytes,
        begin: usize,
    ) -> impl Iterator<Item = Result<(HeaderName, HeaderValue), HeadError>> {
        // The block is kept until another one is noted.
        let is_repeated = !self.block.is_empty();
        let Self { fields, known, .. } = self;
        let range = move |(start, end)| (begin + start as usize, begin + end as usize);
        let spans = fields.iter().enumerate();
        spans.map(move |(place, span)| {
            if is_repeated && let Some(field) = known.again(place) {
                return Ok(field);
            }
            known.field(place, head, range(span.name), range(span.value))
        })
    }
}

/// The first line of a head whose fields are those of the head before.
#[derive(Clone, Copy)]
pub(super) struct FirstLine {
    /// Where it ends and the fields begin.
    pub(super) end: usize,
    pub(super) head_len: usize,
}
