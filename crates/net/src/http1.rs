//! HTTP/1.1 as bytes: heads and bodies are read and written here, without any I/O.
//!
//! ```text
//! bytes ─▶ request, answer ─▶ head with its framing ─▶ Decoder ─▶ pieces, trailers
//! head, pieces, trailers ─▶ encode ─▶ bytes
//! ```
//!
//! Reading is strict where two readers could read differently, see docs/security.md. What is written has one reading.

mod answer;
mod date;
mod decode;
mod encode;
mod head;
mod known;
mod request;
mod spans;

pub(crate) use answer::{AnswerHead, Reason, read_answer};
pub(crate) use date::DateLine;
pub(crate) use decode::{Decoded, Decoder};
pub(crate) use encode::{AnswerForm, Encoder, Length, Output, encode_answer, encode_request};
pub(crate) use head::{Framing, HeadError, HeadLimits};
pub(crate) use request::{RequestHead, read_request};
pub(crate) use spans::Spans;
