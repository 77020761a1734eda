//! HTTP/1.1 as the agent reads it, beside hyper.
//!
//! What hyper refuses is refused, and what both take is the same to both. The agent is stricter in a few places, on
//! purpose: [`is_stricter`] and docs/security.md name them.

mod hyper;

use cheops_net::fuzzing::{Message, Stop, answer, requests};
use http::{Method, header::CONNECTION};

pub(super) const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\n",
    b"HTTP/1.0",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"204 No Content",
    b"304",
    b"101",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Trailer: x-sum\r\n",
    b"5\r\nhello\r\n",
    b";a=b",
    b"f",
    b", ",
    b":",
    b"\x80",
    b"%",
    b"*",
    b"http://a/",
];

/// A byte for what it is, and the bytes of a connection.
pub(super) fn run(input: &[u8]) -> bool {
    let Some((what, bytes)) = input.split_first() else {
        return false;
    };
    match what {
        b'a' => check_answer(bytes, &Method::GET),
        b'h' => check_answer(bytes, &Method::HEAD),
        _ => check_requests(bytes),
    }
}

pub(crate) fn check_requests(bytes: &[u8]) -> bool {
    let (ours, stop) = requests(bytes, usize::MAX);
    assert_eq!(requests(bytes, 7).0, ours, "in pieces it is something else");
    let theirs = hyper::requests(bytes);
    assert!(
        ours.len() <= theirs.len(),
        "hyper refuses what is taken: {ours:?}, {theirs:?} of {:?}",
        String::from_utf8_lossy(bytes)
    );
    for (ours, theirs) in ours.iter().zip(&theirs) {
        check_same(ours, theirs, bytes);
    }
    let is_less = theirs.len() > ours.len();
    assert!(
        !is_less || (stop == Stop::Refuses && is_stricter(bytes)),
        "what hyper takes is not taken: {stop:?}, {ours:?}, {theirs:?} of {:?}",
        String::from_utf8_lossy(bytes)
    );
    ours.iter().any(|message| message.is_whole)
}

fn check_answer(bytes: &[u8], method: &Method) -> bool {
    let ours = answer(bytes, usize::MAX, method);
    assert_eq!(answer(bytes, 7, method), ours, "in pieces it is something else");
    match (&ours, hyper::answer(bytes, method)) {
        (Some(ours), Some(theirs)) => check_same(ours, &theirs, bytes),
        (Some(ours), None) => panic!("hyper refuses what is taken: {ours:?}"),
        (None, Some(theirs)) => assert!(is_stricter(bytes), "what hyper takes is not taken: {theirs:?}"),
        (None, None) => {}
    }
    ours.is_some_and(|message| message.is_whole)
}

/// One message as both read it. A body that is not taken to its end is the same as far as it goes.
fn check_same(ours: &Message, theirs: &Message, bytes: &[u8]) {
    let theirs = &without_connection(theirs);
    assert_eq!((&ours.first, &ours.headers), (&theirs.first, &theirs.headers));
    if ours.is_whole {
        assert_eq!(ours, theirs);
        return;
    }
    assert!(theirs.body.starts_with(&ours.body) || ours.body.starts_with(&theirs.body));
    assert!(
        !theirs.is_whole || is_stricter(bytes),
        "what hyper takes whole is not taken: {ours:?}, {theirs:?}"
    );
}

/// A message without what only says whether its connection goes on: ours keeps that for itself.
fn without_connection(message: &Message) -> Message {
    let mut message = message.clone();
    let kept: Vec<_> = message.headers.get_all(CONNECTION).iter().cloned().collect();
    message.headers.remove(CONNECTION);
    for value in kept {
        let is_for_itself = |word: &[u8]| value.as_bytes().eq_ignore_ascii_case(word);
        if !is_for_itself(b"keep-alive") && !is_for_itself(b"close") {
            message.headers.append(CONNECTION, value);
        }
    }
    message
}

/// Whether there is something in it that is refused on purpose: a line that ends with LF alone, a chunk's length of more
/// than 16 digits, a length beyond 63 bits, or one that is none beside a coding.
fn is_stricter(bytes: &[u8]) -> bool {
    let has_bare_lf = (0..bytes.len()).any(|at| bytes[at] == b'\n' && (at == 0 || bytes[at - 1] != b'\r'));
    let mut words = bytes.split(|byte| !byte.is_ascii_hexdigit());
    let has_long_number = words.any(|word| word.len() > 16);
    let lower = bytes.to_ascii_lowercase();
    let has = |name: &[u8]| lower.windows(name.len()).any(|part| part == name);
    has_bare_lf || has_long_number || (has(b"content-length:") && has(b"transfer-encoding:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stricter_on_purpose() {
        let taken = |text: &str| {
            requests(text.as_bytes(), usize::MAX)
                .0
                .iter()
                .filter(|m| m.is_whole)
                .count()
        };
        let by_hyper = |text: &str| {
            hyper::requests(text.as_bytes())
                .iter()
                .filter(|m| m.is_whole)
                .count()
        };
        for text in [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n",
        ] {
            assert_eq!((taken(text), by_hyper(text)), (0, 1), "{text:?}");
        }
        let plain = "GET /a HTTP/1.1\r\nHost: a\r\n\r\nPUT /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!((taken(plain), by_hyper(plain)), (2, 2));
    }
}
