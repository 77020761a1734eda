//! What was meant beside what was seen.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::strict::Request;

/// What the agent adds by itself.
const ADDED: [&str; 9] = [
    "host",
    "via",
    "content-length",
    "transfer-encoding",
    "connection",
    "traceparent",
    "tracestate",
    "te",
    "x-scope",
];
/// Headers that only agents may write: a client's must not arrive.
const INTERNAL: &str = "x-cheops-";

/// The streams that are under way or were shortly, and the first thing that went wrong.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    next: u64,
    streams: BTreeMap<u64, Stream>,
    finding: Option<String>,
}

struct Stream {
    meant: Vec<Request>,
    /// How many of them the service has seen, or can no longer see.
    passed: usize,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a stream contains, before it is sent.
    pub(super) fn mean(&self, meant: Vec<Request>) -> u64 {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        inner.streams.insert(number, Stream { meant, passed: 0 });
        number
    }

    /// Streams that are over for so long that nothing of them can still come.
    pub(super) fn forget_before(&self, number: u64) {
        let mut inner = self.lock();
        inner.streams = inner.streams.split_off(&number);
    }

    pub(super) fn take_finding(&self) -> Option<String> {
        self.lock().finding.take()
    }

    /// A request that the service has read.
    pub(super) fn see(&self, seen: &Request) {
        let mut inner = self.lock();
        let mut reason = "nobody sent such a request".to_owned();
        // The latest first: an earlier one may have been given up.
        for stream in inner.streams.values_mut().rev() {
            let same = |meant: &Request| (&meant.method, &meant.target) == (&seen.method, &seen.target);
            for (place, meant) in stream.meant.iter().enumerate().filter(|(_, meant)| same(meant)) {
                match differs(meant, seen) {
                    _ if place < stream.passed => {
                        "it was seen before, or one behind it was".clone_into(&mut reason);
                    }
                    Some(difference) => reason = difference,
                    None => {
                        stream.passed = place + 1;
                        return;
                    }
                }
            }
        }
        let Request { method, target, .. } = seen;
        inner
            .finding
            .get_or_insert(format!("the service saw `{method} {target}`: {reason}"));
    }

    /// Bytes that are no request.
    pub(super) fn see_nonsense(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let finding = format!("the service got what is no request: {text:?}");
        self.lock().finding.get_or_insert(finding);
    }
}

/// In what a request is not as it was meant.
fn differs(meant: &Request, seen: &Request) -> Option<String> {
    if !meant.may_pass() {
        return Some("it has a coding that cannot be passed on".to_owned());
    }
    if seen.is_complete && !meant.is_complete {
        return Some("its body was completed, which its client did not do".to_owned());
    }
    let is_body = if seen.is_complete {
        seen.body == meant.body
    } else {
        meant.body.starts_with(&seen.body)
    };
    if !is_body {
        let [seen, meant] = [&seen.body, &meant.body].map(|body| String::from_utf8_lossy(body));
        return Some(format!("its body is {seen:?} and was {meant:?}"));
    }
    let foreign = seen.headers.iter().find(|(name, value)| {
        let is_meant = || {
            meant
                .headers
                .iter()
                .any(|(other, sent)| other == name && sent == value)
        };
        let is_left = || name == "trailer" && is_left_of(value, meant);
        name.starts_with(INTERNAL) || !ADDED.contains(&name.as_str()) && !is_meant() && !is_left()
    });
    foreign.map(|(name, value)| {
        format!(
            "it has `{name}: {}`, which its client did not send",
            String::from_utf8_lossy(value)
        )
    })
}

/// Whether a list of trailers has only names that the client has declared: some of them the agent takes off.
fn is_left_of(seen: &[u8], meant: &Request) -> bool {
    let names = |list: &[u8]| -> Vec<Vec<u8>> {
        let names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.map(<[u8]>::to_vec).collect()
    };
    let declared = meant.headers.iter().filter(|(name, _)| name == "trailer");
    let declared: Vec<_> = declared.flat_map(|(_, value)| names(value)).collect();
    names(seen).iter().all(|name| declared.contains(name))
}

#[cfg(test)]
mod tests {
    use super::{super::strict::read, *};

    fn check(meant: &str, seen: &str) -> Option<String> {
        let ledger = Ledger::default();
        ledger.mean(read(meant.as_bytes()).0);
        for request in read(seen.as_bytes()).0 {
            ledger.see(&request);
        }
        ledger.take_finding()
    }

    #[test]
    fn knows_what_was_not_meant() {
        let two = "GET /a HTTP/1.1\r\nX: y\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!(check(two, two), None);
        assert_eq!(
            check(two, "POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"),
            None
        );
        for (seen, reason) in [
            ("GET /c HTTP/1.1\r\n\r\n", "nobody"),
            ("GET /a HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n", "before"),
            (
                "POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET /a HTTP/1.1\r\n\r\n",
                "before",
            ),
            ("POST /b HTTP/1.1\r\nContent-Length: 1\r\n\r\na", "its body is"),
            ("GET /a HTTP/1.1\r\nX: z\r\n\r\n", "`x: z`"),
            ("GET /a HTTP/1.1\r\nX-Cheops-Caller: z\r\n\r\n", "x-cheops-caller"),
        ] {
            let finding = check(two, seen).unwrap_or_default();
            assert!(finding.contains(reason), "{seen:?}: {finding}");
        }
        let declared = "GET /a HTTP/1.1\r\nTrailer: x,content-length\r\nTrailer: y\r\n\r\n";
        assert_eq!(check(declared, "GET /a HTTP/1.1\r\nTrailer: x, y\r\n\r\n"), None);
        let foreign = check(declared, "GET /a HTTP/1.1\r\nTrailer: x, z\r\n\r\n").unwrap_or_default();
        assert!(foreign.contains("trailer"), "{foreign}");
        let cut = "POST /b HTTP/1.1\r\nContent-Length: 9\r\n\r\nab";
        assert_eq!(check(cut, cut), None);
        let completed = check(cut, "POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nab").unwrap();
        assert!(completed.contains("completed"), "{completed}");
    }
}
