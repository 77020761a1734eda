//! The heads of requests.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, Method, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRANSFER_ENCODING},
};

use super::{
    head::{
        Framing, HeadError, HeadLimits, KeepAlive, digits, ends_chunked, lists, may_be_whole, names_nothing,
        reuse, with_room,
    },
    spans::Spans,
};

/// No longer target can be read.
const TARGET_MAX_BYTES: usize = u16::MAX as usize - 1;

/// The head of a request, and what it says of the connection.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
    pub(crate) keeps_alive: bool,
    /// The body comes when it is asked for.
    pub(crate) expects_continue: bool,
    pub(crate) takes_trailers: bool,
}

/// Takes a head off the beginning of `buf`; none while it is not whole. `seen` is how much of `buf` was looked at before;
/// `spans` and `spare` are what the head before has left.
pub(crate) fn read_request(
    buf: &mut BytesMut,
    seen: &mut usize,
    limits: HeadLimits,
    spans: &mut Spans,
    spare: &mut HeaderMap,
) -> Result<Option<RequestHead>, HeadError> {
    if buf.is_empty() {
        return Ok(None);
    }
    if !may_be_whole(buf, *seen) {
        *seen = buf.len();
        return not_yet(buf, limits);
    }
    let Some(found) = find(buf, limits.fields_max, spans)? else {
        *seen = buf.len();
        return not_yet(buf, limits);
    };
    *seen = 0;
    if found.len > limits.bytes_max {
        return Err(HeadError::TooLong);
    }
    let head = buf.split_to(found.len).freeze();
    found.read(&head, spans, spare).map(Some)
}

fn not_yet(buf: &BytesMut, limits: HeadLimits) -> Result<Option<RequestHead>, HeadError> {
    if buf.len() >= limits.bytes_max {
        return Err(HeadError::TooLong);
    }
    Ok(None)
}

/// A whole head, found in the bytes.
struct First {
    len: usize,
    /// Where the fields begin.
    fields: usize,
    method: Method,
    target: (usize, usize),
    is_http_11: bool,
}

impl First {
    fn read(self, head: &Bytes, spans: &mut Spans, spare: &mut HeaderMap) -> Result<RequestHead, HeadError> {
        let Self {
            method,
            target,
            is_http_11,
            fields,
            ..
        } = self;
        if !spans.follow_whole_lines(head, fields) || !head.ends_with(b"\r\n\r\n") {
            return Err(HeadError::Malformed("a line that does not end with CR and LF"));
        }
        let uri = Uri::from_maybe_shared(head.slice(target.0..target.1))
            .map_err(|_| HeadError::Malformed("the target"))?;
        let mut headers = reuse(spare, spans.len());
        let mut keep_alive = KeepAlive::of_version(is_http_11);
        let mut length: Option<u64> = None;
        // Whether there is a coding, and whether the last one is `chunked`.
        let mut coding: Option<bool> = None;
        let (mut expects_continue, mut takes_trailers) = (false, false);
        for field in spans.fields(head, fields) {
            let (name, value) = field?;
            match name {
                CONTENT_LENGTH => {
                    let told = digits(value.as_bytes()).filter(|length| *length <= u64::MAX / 2);
                    let told = told.ok_or(HeadError::Malformed("the length"))?;
                    match length.replace(told) {
                        Some(other) if other != told => return Err(HeadError::Malformed("two lengths")),
                        Some(_) => continue,
                        None => {}
                    }
                }
                TRANSFER_ENCODING => {
                    if !is_http_11 {
                        return Err(HeadError::Malformed("a coding in HTTP/1.0"));
                    }
                    coding = Some(ends_chunked(&value));
                }
                CONNECTION => {
                    keep_alive.note(&value);
                    if names_nothing(&value) {
                        continue;
                    }
                }
                EXPECT => expects_continue = value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
                TE => takes_trailers |= lists(&value, "trailers"),
                _ => {}
            }
            headers.try_append(name, value).map_err(|_| HeadError::TooLong)?;
        }
        spans.remember(head, fields);
        let mut keeps_alive = keep_alive.is_kept;
        let framing = match (coding, length) {
            (Some(false), _) => return Err(HeadError::Malformed("a coding that is not `chunked` at last")),
            (Some(true), None) => Framing::Chunked,
            (Some(true), Some(_)) => {
                // Another reader may have taken the length: nothing behind this request is read.
                headers.remove(CONTENT_LENGTH);
                keeps_alive = false;
                Framing::Chunked
            }
            (None, length) => Framing::Length(length.unwrap_or(0)),
        };
        Ok(RequestHead {
            method,
            uri,
            version: if is_http_11 {
                Version::HTTP_11
            } else {
                Version::HTTP_10
            },
            headers,
            framing,
            keeps_alive,
            expects_continue: expects_continue && is_http_11 && framing != Framing::NONE,
            takes_trailers,
        })
    }
}

fn find(bytes: &[u8], fields_max: usize, spans: &mut Spans) -> Result<Option<First>, HeadError> {
    with_room!(fields_max, room => find_in(bytes, room, spans))
}

fn find_in<'b>(
    bytes: &'b [u8],
    room: &mut [MaybeUninit<httparse::Header<'b>>],
    spans: &mut Spans,
) -> Result<Option<First>, HeadError> {
    let mut request = httparse::Request::new(&mut []);
    let repeated = spans.repeated(bytes);
    let read = repeated.map_or(bytes, |first| &bytes[..first.end]);
    let parsed = request.parse_with_uninit_headers(read, room)?;
    let (len, fields) = match (repeated, parsed) {
        // The parser has the first line and waits for fields, which are known.
        (Some(first), _) => (first.head_len, first.end),
        (None, httparse::Status::Complete(len)) => (len, spans.note(bytes, request.headers)),
        (None, httparse::Status::Partial) => return Ok(None),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        // The whole line is there.
        return Err(HeadError::Malformed("the first line"));
    };
    if target.len() > TARGET_MAX_BYTES {
        return Err(HeadError::TargetTooLong);
    }
    let begin = bytes.as_ptr() as usize;
    let target_begin = target.as_ptr() as usize - begin;
    Ok(Some(First {
        len,
        fields,
        method: Method::from_bytes(method.as_bytes()).map_err(|_| HeadError::Malformed("the method"))?,
        target: (target_begin, target_begin + target.len()),
        is_http_11: version == 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes_max: 8192,
        fields_max: 100,
    };

    fn read(text: &str) -> Result<Option<RequestHead>, HeadError> {
        read_request(
            &mut BytesMut::from(text),
            &mut 0,
            LIMITS,
            &mut Spans::default(),
            &mut HeaderMap::new(),
        )
    }

    fn framing(fields: &str) -> Result<(Framing, bool), HeadError> {
        let head = read(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))?.unwrap();
        Ok((head.framing, head.keeps_alive))
    }

    #[test]
    fn a_head_is_taken_and_what_follows_stays() {
        let mut buf =
            BytesMut::from("\r\nPUT /a?b=c HTTP/1.1\r\nHost: a\r\nX-Y:  z \r\nContent-Length: 3\r\n\r\nabc");
        let head = read_request(
            &mut buf,
            &mut 0,
            LIMITS,
            &mut Spans::default(),
            &mut HeaderMap::new(),
        )
        .unwrap()
        .unwrap();
        assert_eq!(
            (head.method.as_str(), head.uri.path(), head.uri.query()),
            ("PUT", "/a", Some("b=c"))
        );
        assert!(head.headers["host"] == "a" && head.headers["x-y"] == "z");
        assert_eq!((head.framing, head.keeps_alive), (Framing::Length(3), true));
        assert_eq!(&buf[..], b"abc");
    }

    #[test]
    fn a_head_is_waited_for_up_to_a_bound() {
        let whole = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let (mut buf, mut seen) = (BytesMut::new(), 0);
        for (at, byte) in whole.bytes().enumerate() {
            buf.extend_from_slice(&[byte]);
            let read = read_request(
                &mut buf,
                &mut seen,
                LIMITS,
                &mut Spans::default(),
                &mut HeaderMap::new(),
            )
            .unwrap();
            assert_eq!(read.is_some(), at + 1 == whole.len(), "{at}");
        }
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(8192));
        assert_eq!(read(&endless).unwrap_err(), HeadError::TooLong);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101));
        assert_eq!(read(&many).unwrap_err(), HeadError::TooLong);
        let most = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert!(read(&most).unwrap().is_some());
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000));
        let limits = HeadLimits {
            bytes_max: 1 << 20,
            fields_max: 200,
        };
        let read = |text: &str| {
            read_request(
                &mut BytesMut::from(text),
                &mut 0,
                limits,
                &mut Spans::default(),
                &mut HeaderMap::new(),
            )
        };
        assert_eq!(read(&long).unwrap_err(), HeadError::TargetTooLong);
        assert_eq!(read(&many).unwrap().unwrap().headers.len(), 101);
    }

    #[test]
    fn a_body_is_framed_in_one_way() {
        assert_eq!(framing(""), Ok((Framing::NONE, true)));
        assert_eq!(framing("Content-Length: 5\r\n"), Ok((Framing::Length(5), true)));
        assert_eq!(
            framing("Content-Length: 5\r\nContent-Length: 5\r\n"),
            Ok((Framing::Length(5), true))
        );
        assert_eq!(
            framing("Transfer-Encoding: Chunked\r\n"),
            Ok((Framing::Chunked, true))
        );
        for both in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        ] {
            assert_eq!(framing(both), Ok((Framing::Chunked, false)), "{both}");
        }
        for bad in [
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length: 3, 3\r\n",
            "Content-Length: +3\r\n",
            "Content-Length:\r\n",
            "Content-Length: 18446744073709551615\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: x\r\n",
        ] {
            assert!(framing(bad).is_err(), "{bad}");
        }
        assert!(read("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn lines_end_in_one_way() {
        for bad in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
            "GET / HTTP/1.1\r\nX : a\r\n\r\n",
            "GET / HTTP/1.1\r\n: a\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.2\r\n\r\n",
            "GET /\r\n\r\n",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(read("GET / HTTP/1.0\r\n\r\n").unwrap().is_some());
        assert!(
            read("\r\n\r\nGET / HTTP/1.1\r\nX:\r\nY: \t \r\n\r\n")
                .unwrap()
                .is_some()
        );
    }

    /// What is remembered of one head changes nothing about the next one.
    #[test]
    fn a_head_is_the_same_behind_any_other() {
        let heads = [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /other?a=b HTTP/1.1\r\nHost: a\r\n\r\n",
            "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            "POST /y HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
            "POST /y HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST /y HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Id: 1\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Id: 2\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nHost: a\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / H\r\nHost: a\r\n\r\n",
            "GET /\r\nHost: a\r\n\r\n",
            "GET\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r",
        ];
        let shown = |head: Result<Option<RequestHead>, HeadError>| {
            head.map(|head| format!("{head:?}"))
                .map_err(|error| matches!(error, HeadError::Malformed(_)))
        };
        let take = |spans: &mut Spans, text: &str| {
            let mut buf = BytesMut::from(text);
            let head = read_request(&mut buf, &mut 0, LIMITS, spans, &mut HeaderMap::new());
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
    fn a_body_is_waited_for_only_where_there_is_one() {
        let expects = |fields: &str| {
            let text = format!("PUT / HTTP/1.1\r\nExpect: 100-Continue\r\n{fields}\r\n");
            read(&text).unwrap().unwrap().expects_continue
        };
        assert!(expects("Content-Length: 1\r\n") && expects("Transfer-Encoding: chunked\r\n"));
        assert!(!expects("") && !expects("Content-Length: 0\r\n"));
    }
}
