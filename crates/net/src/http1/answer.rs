//! The heads of answers.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING},
};

use super::{
    head::{
        Framing, HeadError, HeadLimits, KeepAlive, digits, ends_chunked, may_be_whole, names_nothing, reuse,
        with_room,
    },
    spans::Spans,
};

/// What a service says beside its status, where that is not the usual.
#[derive(Debug, Clone)]
pub(crate) struct Reason(pub(crate) Bytes);

/// The head of an answer, and what it says of the connection.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    pub(crate) reason: Option<Reason>,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
    pub(crate) keeps_alive: bool,
}

/// Takes the head of the answer to a request, `is_to_head` to a `HEAD`, off the beginning of `buf`; none while it is not whole. Answers that only say
/// that there will be another one are left out, except for a switch of protocols.
pub(crate) fn read_answer(
    buf: &mut BytesMut,
    seen: &mut usize,
    limits: HeadLimits,
    spans: &mut Spans,
    spare: &mut HeaderMap,
    is_to_head: bool,
) -> Result<Option<AnswerHead>, HeadError> {
    loop {
        if buf.is_empty() {
            return Ok(None);
        }
        let found = if may_be_whole(buf, *seen) {
            find(buf, limits.fields_max, spans)?
        } else {
            None
        };
        let Some(found) = found else {
            *seen = buf.len();
            if buf.len() >= limits.bytes_max {
                return Err(HeadError::TooLong);
            }
            return Ok(None);
        };
        *seen = 0;
        if found.len > limits.bytes_max {
            return Err(HeadError::TooLong);
        }
        let head = buf.split_to(found.len).freeze();
        let is_preliminary =
            found.status.is_informational() && found.status != StatusCode::SWITCHING_PROTOCOLS;
        if !is_preliminary {
            return found.read(&head, spans, spare, is_to_head).map(Some);
        }
    }
}

/// A whole head, found in the bytes.
struct Found {
    len: usize,
    /// Where the fields begin.
    fields: usize,
    status: StatusCode,
    reason: Option<(usize, usize)>,
    is_http_11: bool,
}

fn find(bytes: &[u8], fields_max: usize, spans: &mut Spans) -> Result<Option<Found>, HeadError> {
    with_room!(fields_max, room => find_in(bytes, room, spans))
}

fn find_in<'b>(
    bytes: &'b [u8],
    room: &mut [MaybeUninit<httparse::Header<'b>>],
    spans: &mut Spans,
) -> Result<Option<Found>, HeadError> {
    let mut answer = httparse::Response::new(&mut []);
    let repeated = spans.repeated(bytes);
    let read = repeated.map_or(bytes, |first| &bytes[..first.end]);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut answer, read, room)?;
    let (len, fields) = match (repeated, parsed) {
        // The parser has the first line and waits for fields, which are known.
        (Some(first), _) => (first.head_len, first.end),
        (None, httparse::Status::Complete(len)) => (len, spans.note(bytes, answer.headers)),
        (None, httparse::Status::Partial) => return Ok(None),
    };
    let (Some(code), Some(version)) = (answer.code, answer.version) else {
        // The whole line is there.
        return Err(HeadError::Malformed("the status"));
    };
    let status = StatusCode::from_u16(code).map_err(|_| HeadError::Malformed("the status"))?;
    let reason = answer.reason.filter(|reason| {
        let usual = status.canonical_reason();
        !reason.is_empty() && usual != Some(reason)
    });
    let begin = bytes.as_ptr() as usize;
    Ok(Some(Found {
        len,
        fields,
        status,
        reason: reason.map(|reason| {
            let start = reason.as_ptr() as usize - begin;
            (start, start + reason.len())
        }),
        is_http_11: version == 1,
    }))
}

impl Found {
    fn read(
        self,
        head: &Bytes,
        spans: &mut Spans,
        spare: &mut HeaderMap,
        is_to_head: bool,
    ) -> Result<AnswerHead, HeadError> {
        let Self {
            status,
            reason,
            is_http_11,
            fields,
            ..
        } = self;
        let mut headers = reuse(spare, spans.len());
        let mut keep_alive = KeepAlive::of_version(is_http_11);
        let mut length: Option<Result<u64, HeadError>> = None;
        let mut coding: Option<bool> = None;
        for field in spans.fields(head, fields) {
            let (name, value) = field?;
            match name {
                // What is wrong with it counts only where it frames a body.
                CONTENT_LENGTH => length = Some(agreed(length, value.as_bytes())),
                TRANSFER_ENCODING => coding = Some(ends_chunked(&value)),
                CONNECTION => {
                    keep_alive.note(&value);
                    if names_nothing(&value) {
                        continue;
                    }
                }
                _ => {}
            }
            headers.try_append(name, value).map_err(|_| HeadError::TooLong)?;
        }
        spans.remember(head, fields);
        let has_no_body = is_to_head
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let framing = match (coding, length) {
            _ if has_no_body => Framing::NONE,
            (Some(_), _) if !is_http_11 => return Err(HeadError::Malformed("a coding in HTTP/1.0")),
            (Some(true), _) => Framing::Chunked,
            (None, Some(length)) => Framing::Length(length?),
            (Some(false), _) | (None, None) => Framing::UntilClose,
        };
        // Beside a coding, a length says that somebody reads this answer otherwise.
        let has_two_readings = coding.is_some() && length.is_some();
        Ok(AnswerHead {
            status,
            reason: reason.map(|(start, end)| Reason(head.slice(start..end))),
            headers,
            framing,
            keeps_alive: keep_alive.is_kept && framing != Framing::UntilClose && !has_two_readings,
        })
    }
}

/// A length, possibly a list of the same, beside those that were told before.
fn agreed(before: Option<Result<u64, HeadError>>, value: &[u8]) -> Result<u64, HeadError> {
    let mut agreed = before.transpose()?;
    for told in value.split(|byte| *byte == b',') {
        let told = digits(told.trim_ascii()).filter(|length| *length <= u64::MAX / 2);
        let told = told.ok_or(HeadError::Malformed("the length"))?;
        if agreed.is_some_and(|agreed| agreed != told) {
            return Err(HeadError::Malformed("two lengths"));
        }
        agreed = Some(told);
    }
    agreed.ok_or(HeadError::Malformed("the length"))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes_max: 8192,
        fields_max: 100,
    };

    fn read_to(method: &Method, text: &str) -> Result<Option<AnswerHead>, HeadError> {
        read_answer(
            &mut BytesMut::from(text),
            &mut 0,
            LIMITS,
            &mut Spans::default(),
            &mut HeaderMap::new(),
            *method == Method::HEAD,
        )
    }

    fn read(text: &str) -> Result<AnswerHead, HeadError> {
        Ok(read_to(&Method::GET, text)?.expect("a whole head"))
    }

    fn framing(text: &str) -> Result<(Framing, bool), HeadError> {
        read(text).map(|head| (head.framing, head.keeps_alive))
    }

    /// What is remembered of one head changes nothing about the next one.
    #[test]
    fn a_head_is_the_same_behind_any_other() {
        let heads = [
            "HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 2\r\n\r\nab",
            "HTTP/1.1 200 Fine\r\nServer: a\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 404\r\nServer: a\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.0 200 OK\r\nServer: a\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nServer: a\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\nServer: a\nContent-Length: 2\n\n",
            "HTTP/1.1 103 Early Hints\r\nServer: a\r\n\r\nHTTP/1.1 200 OK\r\nServer: a\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nServer: a\r\n\r\n",
            "HTTP/1.1 200 OK\r\nServer: a\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 20\r\nServer: a\r\n\r\n",
            "HTTP/1\r\nServer: a\r\n\r\n",
        ];
        let shown = |head: Result<Option<AnswerHead>, HeadError>| {
            head.map(|head| format!("{head:?}"))
                .map_err(|error| matches!(error, HeadError::Malformed(_)))
        };
        let take = |spans: &mut Spans, text: &str| {
            let mut buf = BytesMut::from(text);
            let head = read_answer(&mut buf, &mut 0, LIMITS, spans, &mut HeaderMap::new(), false);
            (shown(head), buf)
        };
        for before in heads {
            for head in heads {
                let mut spans = Spans::default();
                if take(&mut spans, before).0.is_err() {
                    continue;
                }
                let alone = take(&mut Spans::default(), head);
                for _ in 0..2 {
                    assert_eq!(take(&mut spans, head), alone, "{head:?} behind {before:?}");
                }
            }
        }
    }

    #[test]
    fn preliminary_answers_are_left_out() {
        let mut buf = BytesMut::from(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        );
        let head = read_answer(
            &mut buf,
            &mut 0,
            LIMITS,
            &mut Spans::default(),
            &mut HeaderMap::new(),
            false,
        )
        .unwrap()
        .unwrap();
        assert_eq!((head.status, head.framing), (StatusCode::OK, Framing::Length(2)));
        assert!(!head.headers.contains_key("link"));
        assert_eq!(&buf[..], b"ab");
        assert!(
            read_to(&Method::GET, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2")
                .unwrap()
                .is_none()
        );
        let switched = read("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").unwrap();
        assert_eq!((switched.status.as_u16(), switched.framing), (101, Framing::NONE));
    }

    #[test]
    fn a_body_is_framed_in_one_way() {
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\n\r\n"),
            Ok((Framing::UntilClose, false))
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n"),
            Ok((Framing::Length(3), true))
        );
        assert_eq!(
            framing("HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n"),
            Ok((Framing::Length(3), true))
        );
        assert_eq!(
            framing("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n"),
            Ok((Framing::Length(3), false))
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Ok((Framing::Chunked, true))
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Ok((Framing::Chunked, false))
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
            Ok((Framing::UntilClose, false))
        );
        for bad in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3,4\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
        ] {
            assert!(framing(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn some_answers_have_no_body_whatever_they_say() {
        for (method, status) in [
            (Method::HEAD, "200 OK"),
            (Method::GET, "204 No Content"),
            (Method::GET, "304 x"),
        ] {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
            let head = read_to(&method, &text).unwrap().unwrap();
            assert_eq!(
                (head.framing, head.keeps_alive),
                (Framing::NONE, true),
                "{status}"
            );
            assert_eq!(head.headers[CONTENT_LENGTH], "5");
        }
    }

    #[test]
    fn an_unusual_reason_is_kept() {
        let reason = |text: &str| read(text).unwrap().reason.map(|reason| reason.0);
        assert_eq!(reason("HTTP/1.1 200 OK\r\n\r\n"), None);
        assert_eq!(reason("HTTP/1.1 200\r\n\r\n"), None);
        assert_eq!(reason("HTTP/1.1 200 Fine\r\n\r\n").as_deref(), Some(&b"Fine"[..]));
    }
}
