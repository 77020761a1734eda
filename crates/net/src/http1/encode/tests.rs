use super::*;

const FORM: AnswerForm = AnswerForm {
    is_http_11: true,
    is_head: false,
    takes_trailers: false,
    keeps_alive: true,
};

fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
    let fields = list
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name, value);
    }
    headers
}

/// Everything that waits, written in steps of so many bytes.
fn drain(out: &mut Output, step: usize) -> String {
    let mut all = Vec::new();
    while !out.is_empty() {
        let mut left = step;
        for slice in out.slices() {
            let bytes = slice.len().min(left);
            all.extend_from_slice(&slice[..bytes]);
            left -= bytes;
        }
        out.advance(step - left);
    }
    String::from_utf8(all).unwrap()
}

fn answer(
    status: u16,
    list: &[(&'static str, &'static str)],
    length: Length,
    form: AnswerForm,
) -> (String, bool) {
    let mut out = Output::default();
    let status = StatusCode::from_u16(status).unwrap();
    let (_, keeps_alive) = encode_answer(&mut out, status, None, &headers(list), length, form, |out| {
        out.push(b"date: D\r\n");
    });
    (drain(&mut out, usize::MAX), keeps_alive)
}

#[test]
fn a_request_is_framed_by_what_is_known_of_its_body() {
    let check = |list: &[(&'static str, &'static str)], length, fields: &str| {
        let mut out = Output::default();
        let uri = "/a?b".parse().unwrap();
        encode_request(&mut out, &Method::PUT, &uri, &headers(list), length);
        assert_eq!(drain(&mut out, 7), format!("PUT /a?b HTTP/1.1\r\n{fields}\r\n"));
    };
    check(&[("host", "a")], Length::Empty, "host: a\r\n");
    check(&[("content-length", "0")], Length::Empty, "content-length: 0\r\n");
    // A body that is not there is not announced.
    check(&[("content-length", "5")], Length::Empty, "content-length: 0\r\n");
    check(&[], Length::Exact(5), "content-length: 5\r\n");
    check(
        &[("content-length", "5")],
        Length::Exact(5),
        "content-length: 5\r\n",
    );
    check(
        &[("content-length", "5")],
        Length::Unknown,
        "content-length: 5\r\n",
    );
    check(
        &[("transfer-encoding", "chunked")],
        Length::Unknown,
        "transfer-encoding: chunked\r\n",
    );
}

#[test]
fn an_answer_is_framed_by_what_is_known_of_its_body() {
    let check = |status, list: &[(&'static str, &'static str)], length, form, head: &str, kept| {
        let (got, keeps_alive) = answer(status, list, length, form);
        assert_eq!((got.as_str(), keeps_alive), (head, kept));
    };
    let http_10 = AnswerForm {
        is_http_11: false,
        ..FORM
    };
    let head = AnswerForm {
        is_head: true,
        ..FORM
    };
    let last = AnswerForm {
        keeps_alive: false,
        ..FORM
    };
    let length = &[("content-length", "3")][..];
    check(
        200,
        length,
        Length::Exact(3),
        FORM,
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        200,
        &[("date", "X")],
        Length::Empty,
        FORM,
        "HTTP/1.1 200 OK\r\ndate: X\r\ncontent-length: 0\r\n\r\n",
        true,
    );
    check(
        404,
        &[],
        Length::Unknown,
        FORM,
        "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        200,
        length,
        Length::Unknown,
        FORM,
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        204,
        length,
        Length::Empty,
        FORM,
        "HTTP/1.1 204 No Content\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        304,
        length,
        Length::Unknown,
        FORM,
        "HTTP/1.1 304 Not Modified\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        200,
        length,
        Length::Empty,
        head,
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        200,
        &[],
        Length::Empty,
        head,
        "HTTP/1.1 200 OK\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        200,
        length,
        Length::Exact(3),
        last,
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\ndate: D\r\n\r\n",
        false,
    );
    check(
        200,
        &[],
        Length::Unknown,
        http_10,
        "HTTP/1.0 200 OK\r\ndate: D\r\n\r\n",
        false,
    );
    check(
        200,
        length,
        Length::Exact(3),
        http_10,
        "HTTP/1.0 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        200,
        &[("connection", "close")],
        Length::Empty,
        FORM,
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\ndate: D\r\n\r\n",
        false,
    );
    check(
        101,
        &[("connection", "upgrade"), ("upgrade", "x")],
        Length::Empty,
        FORM,
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\ndate: D\r\n\r\n",
        true,
    );
    check(
        299,
        &[],
        Length::Empty,
        head,
        "HTTP/1.1 299 Unknown\r\ndate: D\r\n\r\n",
        true,
    );
}

#[test]
fn pieces_become_chunks_however_they_are_written() {
    for step in [1, 5, 1000, usize::MAX] {
        for bytes in [1, 15, 16, FLAT_MAX_BYTES, FLAT_MAX_BYTES + 1, 70_000] {
            let mut out = Output::default();
            let mut encoder = Encoder::Chunked(Vec::new());
            let piece = "x".repeat(bytes);
            assert!(encoder.piece(&mut out, Bytes::from(piece.clone())));
            assert_eq!(out.is_full(), bytes > FLAT_MAX_BYTES);
            assert!(encoder.end(&mut out, None));
            assert_eq!(
                drain(&mut out, step),
                format!("{bytes:x}\r\n{piece}\r\n0\r\n\r\n")
            );
        }
    }
}

#[test]
fn only_announced_trailers_follow() {
    let trailers = headers(&[
        ("x-sum", "1"),
        ("x-other", "2"),
        ("content-length", "3"),
        ("x-sum", "4"),
    ]);
    for piece in ["short".to_owned(), "x".repeat(FLAT_MAX_BYTES + 1)] {
        let mut out = Output::default();
        let announced = announced(&headers(&[("trailer", "X-Sum, content-length")]));
        let mut encoder = Encoder::Chunked(announced);
        assert!(encoder.piece(&mut out, Bytes::from(piece)));
        assert!(encoder.end(&mut out, Some(&trailers)));
        let written = drain(&mut out, 100);
        assert!(
            written.ends_with("\r\n0\r\nx-sum: 1\r\nx-sum: 4\r\n\r\n"),
            "{written}"
        );
    }
}

#[test]
fn a_length_is_kept() {
    let mut out = Output::default();
    let mut encoder = Encoder::Length(5);
    assert!(encoder.piece(&mut out, Bytes::from_static(b"hel")));
    assert!(!encoder.end(&mut out, None), "too short");
    assert!(!encoder.piece(&mut out, Bytes::from_static(b"lo!")), "too long");
    assert!(encoder.piece(&mut out, Bytes::from_static(b"lo")));
    assert!(encoder.is_at_end() && encoder.end(&mut out, None));
    assert_eq!(drain(&mut out, 2), "hello");
}
