//! HTTP, read strictly: what two readers could read in two ways goes no further.
//!
//! The table is in docs/security.md.

use cheops_net::Trailers;
use cheops_types::{Code, Problem};
use http::{
    HeaderMap, HeaderValue, Method,
    header::{CONTENT_LENGTH, TRAILER},
    request,
};

use super::Facts;

/// Refuses a head that somebody behind this agent could read otherwise.
pub(super) fn check(head: &request::Parts, facts: Facts) -> Result<(), Problem> {
    check_method(&head.method)?;
    if facts.framing_alias {
        return Err(bad(
            "a header that reads like `Content-Length` or `Transfer-Encoding` with `_` for `-` has two readings",
        ));
    }
    if facts.length {
        check_length(&head.headers)?;
    }
    Ok(())
}

pub(crate) fn check_method(method: &Method) -> Result<(), Problem> {
    if *method == Method::TRACE {
        return Err(Problem::new(
            Code::MethodRefused,
            "TRACE would send back what the agent adds to a request; it is not passed on",
        ));
    }
    Ok(())
}

/// One length, in digits, without anything that is taken for octal or left out.
fn check_length(headers: &HeaderMap) -> Result<(), Problem> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let is_plain = |value: &HeaderValue| match value.as_bytes() {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    match (lengths.next(), lengths.next()) {
        (Some(only), None) if is_plain(only) => Ok(()),
        _ => Err(bad(
            "`Content-Length` must be there once, as a number without sign and leading zeros",
        )),
    }
}

/// Whether some read this name as one by which a message is framed.
pub(super) fn is_framing_alias(name: &str) -> bool {
    let reads_like = |other: &str| name != other && name.replace('_', "-") == other;
    name.contains('_') && (reads_like("content-length") || reads_like("transfer-encoding"))
}

/// The bytes of a host's name. A table, because every request has a host.
static OF_NAMES: [bool; 256] = {
    let mut of_names = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        of_names[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%');
        byte += 1;
    }
    of_names
};

/// A host and perhaps a port: no user, no list, nothing that ends it early for another reader.
pub(super) fn check_host(host: &[u8]) -> Result<(), Problem> {
    let is_name = |b: &u8| OF_NAMES[usize::from(*b)];
    let is_port = |port: &[u8]| port.iter().all(u8::is_ascii_digit);
    let is_good = if let [b'[', rest @ ..] = host {
        let mut parts = rest.splitn(2, |b| *b == b']');
        let (inside, after) = (parts.next().unwrap_or_default(), parts.next());
        let is_address = |b: &u8| is_name(b) || *b == b':';
        let ends_well = |after: &[u8]| match after {
            [] => true,
            [b':', port @ ..] => is_port(port),
            _ => false,
        };
        !inside.is_empty() && inside.iter().all(is_address) && after.is_some_and(ends_well)
    } else {
        let mut parts = host.splitn(2, |b| *b == b':');
        let (name, port) = (parts.next().unwrap_or_default(), parts.next());
        !name.is_empty() && name.iter().all(is_name) && port.is_none_or(is_port)
    };
    if is_good {
        return Ok(());
    }
    Err(bad(
        "the host of a request is a name or an address, and perhaps a port; nothing else may stand there",
    ))
}

/// Takes the names off `Trailer` that do not follow. Where all of them do, it stays as it was sent.
pub(super) fn clean_declared(headers: &mut HeaderMap, trailers: &Trailers) {
    let texts: Option<Vec<&str>> = headers
        .get_all(TRAILER)
        .iter()
        .map(|value| value.to_str().ok())
        .collect();
    let is_text = texts.is_some();
    let (stay, go): (Vec<&str>, Vec<&str>) = texts
        .iter()
        .flatten()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .partition(|name| trailers.lets_in(name));
    if is_text && go.is_empty() {
        return;
    }
    let values: Vec<String> = stay.into_iter().map(str::to_owned).collect();
    headers.remove(TRAILER);
    if !values.is_empty()
        && let Ok(value) = HeaderValue::try_from(values.join(", "))
    {
        headers.insert(TRAILER, value);
    }
}

fn bad(detail: &str) -> Problem {
    Problem::new(Code::BadRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_trailers_stay_as_they_were_sent_unless_one_may_not_follow() {
        let rules = Trailers::without(["x-cheops-"]);
        let check = |sent: &[&'static str], left: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(TRAILER, HeaderValue::from_static(value));
            }
            clean_declared(&mut headers, &rules);
            let seen: Vec<_> = headers
                .get_all(TRAILER)
                .iter()
                .map(|value| value.to_str().unwrap())
                .collect();
            assert_eq!(seen, left, "{sent:?}");
        };
        check(&["x-sum,", "x-b"], &["x-sum,", "x-b"]);
        check(&[""], &[""]);
        check(&["x-sum,content-length", "x-b"], &["x-sum, x-b"]);
        check(&["X-Cheops-Scope"], &[]);
    }

    #[test]
    fn a_host_is_a_host() {
        for good in [
            "app",
            "app:80",
            "app.example",
            "my_app",
            "127.0.0.1:8080",
            "[::1]",
            "[fe80::1%25eth0]:80",
            "app:",
        ] {
            assert!(check_host(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "",
            ":80",
            "user@app",
            "app,other",
            "app other",
            "app/x",
            "app#",
            "app?x",
            "app\\x",
            "app:80:81",
            "app:8a",
            "[::1",
            "[]",
            "[::1]x",
            "a\u{e9}",
            "app\"",
        ] {
            assert!(check_host(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_length_has_one_reading() {
        let check = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_LENGTH, HeaderValue::from_static(value));
            }
            check_length(&headers).is_ok()
        };
        for good in ["0", "5", "10", "18446744073709551615"] {
            assert!(check(&[good]), "{good}");
        }
        for bad in ["", "05", "00", "+5", "-5", "5 ", "5,5", "0x5", "5.0"] {
            assert!(!check(&[bad]), "{bad}");
        }
        assert!(!check(&["5", "5"]));
        assert!(!check(&["5", "6"]));
    }

    #[test]
    fn names_that_read_like_framing() {
        for alias in ["content_length", "transfer_encoding"] {
            assert!(is_framing_alias(alias), "{alias}");
        }
        for other in [
            "content-length",
            "content_type",
            "x_content_length",
            "content_lengths",
        ] {
            assert!(!is_framing_alias(other), "{other}");
        }
    }
}
