//! Streams of requests that are a little wrong.

use crate::{Dice, Mutator};

const METHODS: [&str; 9] = [
    "GET", "POST", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "get",
];
/// Headers about framing, most of them wrong in one way.
const FRAMING: [&str; 44] = [
    "Content-Length: {n}",
    "Content-Length: {n}",
    "Content-Length: {n}",
    "Content-Length: 0",
    "Content-Length: +{n}",
    "Content-Length: {n}, {n}",
    "Content-Length: 0{n}",
    "Content-Length: -1",
    "Content-Length: 0x5",
    "Content-Length:{n}\x0b",
    "Content-Length : {n}",
    " Content-Length: {n}",
    "Content_Length: {n}",
    "Content-Length: 18446744073709551616",
    "Content-Length:\t{n}\t",
    "Content-Length: {n}\r",
    "Content-Length: {n} {n}",
    "Content-Length:",
    "content-length: 3",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked",
    "transfer-encoding: CHUNKED",
    "Transfer-Encoding:\tchunked",
    "Transfer-Encoding : chunked",
    " Transfer-Encoding: chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding: chun\0ked",
    "Transfer-Encoding\0: chunked",
    "X: y\rTransfer-Encoding: chunked",
    "X: y\nTransfer-Encoding: chunked",
    "Transfer_Encoding: chunked",
    "Connection: Transfer-Encoding",
    "Connection: Content-Length",
    "Transfer-Encoding:",
    "Transfer-Encoding: chunked\x0b",
    "TE: trailers",
    "Trailer: Content-Length",
];
const OTHER: [&str; 22] = [
    "Connection: close",
    "Connection: keep-alive",
    "Connection: keep-alive, x-a",
    "Expect: 100-continue",
    "Upgrade: h2c",
    "Connection: Upgrade",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
    "Host: other",
    "X-A: one\r\n two",
    "X-A: {junk}",
    "X-A\r\n",
    ": b",
    "X-Scope: site1",
    "X-Scope: nowhere",
    "x-cheops-caller: {\"user\":\"root\"}",
    "X-Cheops-Site: site2",
    "X A: b",
    "X-A: \x01",
    "traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: x",
    "Content-Type: application/json",
];
const LINE_ENDS: [&str; 6] = ["\n", "\r\r\n", "\n\r", "\r", "\r\n ", "\0\r\n"];
const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b"\x0b",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"GET / ",
    b"0",
    b"f",
    b";",
    b"Host: app\r\n",
    b"\x80",
    b"\xff",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// Makes up streams; the same seed makes up the same.
pub(super) struct Composer<'c> {
    mutator: Mutator<'static>,
    seeds: &'c [Vec<u8>],
    /// Every request has a target of its own.
    marks: u64,
    seed: u64,
}

impl<'c> Composer<'c> {
    pub(super) fn new(seed: u64, seeds: &'c [Vec<u8>]) -> Self {
        let mutator = Mutator::new(seed, TOKENS);
        Self {
            mutator,
            seeds,
            marks: 0,
            seed,
        }
    }

    fn dice(&mut self) -> &mut Dice {
        &mut self.mutator.dice
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        self.dice().pick(from).copied().unwrap_or_default()
    }

    /// One to four requests; one stream in three is damaged on top of that, one in eight comes from the corpus.
    pub(super) fn stream(&mut self) -> Vec<u8> {
        let mut stream = Vec::new();
        if self.mutator.dice.once_in(8)
            && let Some(seed) = self.mutator.dice.pick(self.seeds)
        {
            let mark = self.mark();
            stream = replace(seed, b"{mark}", mark.as_bytes());
        } else {
            for _ in 0..=self.dice().below(4) {
                let request = self.request(2);
                stream.extend(request);
            }
        }
        if self.dice().once_in(3) {
            stream = self.mutator.input(&[stream]);
        }
        stream
    }

    fn mark(&mut self) -> String {
        self.marks += 1;
        format!("m{:x}-{:x}", self.seed, self.marks)
    }

    fn request(&mut self, depth: usize) -> Vec<u8> {
        let (method, mark) = (self.pick(&METHODS), self.mark());
        let target = match self.dice().below(12) {
            0 => format!("http://app/{mark}"),
            1 => format!("/{mark}?a=b#c"),
            2 => format!("/{mark}%0d%0aX:y"),
            3 => format!("//{mark}"),
            _ => format!("/{mark}"),
        };
        let version = if self.dice().once_in(12) {
            "HTTP/1.0"
        } else {
            "HTTP/1.1"
        };
        let body = self.body(depth);
        let mut lines = vec![format!("{method} {target} {version}")];
        if !self.dice().once_in(20) {
            lines.push("Host: app".to_owned());
        }
        let mut is_chunked = false;
        for _ in 0..self.framings() {
            let line = self.pick(&FRAMING);
            is_chunked |= line.to_ascii_lowercase().contains("chunked");
            lines.push(line.to_owned());
        }
        for _ in 0..self.dice().below(3) {
            lines.push(self.pick(&OTHER).to_owned());
        }
        let body = if is_chunked { self.chunks(&body) } else { body };
        // Now and then one byte less or more than there is.
        let length = match self.dice().below(10) {
            0 => body.len().saturating_sub(1),
            1 => body.len() + 1,
            _ => body.len(),
        };
        let mut request = Vec::new();
        for line in lines {
            let junk = "x".repeat(self.dice().below(64));
            request.extend(
                line.replace("{n}", &length.to_string())
                    .replace("{junk}", &junk)
                    .into_bytes(),
            );
            let end = if self.dice().once_in(40) {
                self.pick(&LINE_ENDS)
            } else {
                "\r\n"
            };
            request.extend(end.bytes());
        }
        request.extend(b"\r\n");
        request.extend(body);
        request
    }

    /// None, one or two headers about framing.
    fn framings(&mut self) -> usize {
        match self.dice().below(8) {
            0 | 1 => 0,
            2 => 2,
            3 => 3,
            _ => 1,
        }
    }

    /// Nothing, a text, or a request that must not be taken for one.
    fn body(&mut self, depth: usize) -> Vec<u8> {
        match self.dice().below(4) {
            0 => Vec::new(),
            1 | 2 if depth > 0 => self.request(depth - 1),
            _ => b"hello".to_vec(),
        }
    }

    fn chunks(&mut self, body: &[u8]) -> Vec<u8> {
        let mut chunks = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let here = 1 + self.dice().below(rest.len());
            let size = match self.dice().below(30) {
                0 => format!("0{here:X}"),
                1 => format!("{here:x};a=b"),
                2 => format!("{here:x} "),
                3 => format!("0x{here:x}"),
                4 => format!("{:x}", here + 1),
                5 => format!("{:x}", here - 1),
                6 => format!("fffffffffffffff{here:x}"),
                7 => format!("{here:x};a=\"\n\""),
                8 => format!("{here:x}\n"),
                9 => format!("-{here:x}"),
                _ => format!("{here:x}"),
            };
            chunks.extend(size.bytes());
            chunks.extend(b"\r\n");
            chunks.extend(&rest[..here]);
            let end = if self.dice().once_in(30) {
                self.pick(&["\n", "", "\r", "\r\n\r\n"])
            } else {
                "\r\n"
            };
            chunks.extend(end.bytes());
            rest = &rest[here..];
        }
        let last = match self.dice().below(12) {
            0 => "",
            1 => "0\r\n",
            2 => "0\r\nX-T: y\r\nContent-Length: 9\r\n\r\n",
            3 => "00\r\n\r\n",
            4 => "0\n\n",
            5 => "0;a\r\n\r\n",
            6 => "0\r\nx-scope: site2\r\n\r\n",
            _ => "0\r\n\r\n",
        };
        chunks.extend(last.bytes());
        chunks
    }
}

fn replace(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(what.len()).position(|part| part == what) {
        out.extend(&rest[..at]);
        out.extend(with);
        rest = &rest[at + what.len()..];
    }
    out.extend(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::{super::strict::read, *};

    #[test]
    fn streams_have_requests_that_can_be_read_and_others() {
        let mut composer = Composer::new(1, &[]);
        let streams: Vec<_> = (0..500).map(|_| composer.stream()).collect();
        let readable = streams.iter().filter(|stream| !read(stream).0.is_empty()).count();
        assert!((150..450).contains(&readable), "{readable}");
        let most = streams.iter().map(|stream| read(stream).0.len()).max();
        assert!(most > Some(2), "{most:?}");
    }

    #[test]
    fn streams_are_read_as_hyper_reads_them() {
        let mut composer = Composer::new(7, &[]);
        let read = (0..5000)
            .filter(|_| crate::targets::http1::check_requests(&composer.stream()))
            .count();
        assert!((1000..4900).contains(&read), "{read}");
    }
}
