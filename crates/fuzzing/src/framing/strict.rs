//! Which requests a stream of bytes contains, without a doubt.
//!
//! Everything that RFC 9112 leaves open ends the reading: what follows belongs to nobody. Two liberties that every server
//! takes are taken: a line of the head may end with a bare line feed, and empty lines may stand in front of a request.

/// A request as its client meant it, or as a service read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// In origin form, without a fragment.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end.
    pub(crate) is_complete: bool,
}

impl Request {
    /// Whether a service may see it: another coding beside `chunked` would be taken off without being undone.
    pub(crate) fn may_pass(&self) -> bool {
        let mut codings = self.values("transfer-encoding");
        codings
            .next()
            .is_none_or(|only| only.eq_ignore_ascii_case(b"chunked"))
            && codings.next().is_none()
    }

    pub(crate) fn values<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r [u8]> {
        let named = self.headers.iter().filter(move |(other, _)| other == name);
        named.map(|(_, value)| value.as_slice())
    }
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Bytes(usize),
    Chunks,
    /// There are chunks and a length: the chunks count, and nothing that follows does.
    ChunksThenNothing,
}

/// The requests of a stream, and what is left where it can no longer be read.
pub(crate) fn read(mut bytes: &[u8]) -> (Vec<Request>, &[u8]) {
    let mut requests = Vec::new();
    while let Some((mut request, rest)) = head(bytes) {
        let Some(length) = length(&request) else { break };
        let (body, rest) = match length {
            Length::Bytes(length) => {
                let (body, rest) = rest.split_at(length.min(rest.len()));
                request.is_complete = body.len() == length;
                (body.to_vec(), rest)
            }
            Length::Chunks | Length::ChunksThenNothing => {
                let (body, end) = chunks(rest);
                request.is_complete = end != End::Cut;
                match end {
                    End::At(rest) | End::Odd(rest) => (body, rest),
                    End::Cut => (body, &[][..]),
                }
            }
        };
        request.body = body;
        let is_last =
            !request.is_complete || length == Length::ChunksThenNothing || request.method == "CONNECT";
        requests.push(request);
        bytes = rest;
        if is_last {
            break;
        }
    }
    (requests, bytes)
}

/// The head at the beginning, and what follows it.
pub(crate) fn head(mut bytes: &[u8]) -> Option<(Request, &[u8])> {
    let first = loop {
        let line;
        (line, bytes) = self::line(bytes)?;
        if !line.is_empty() {
            break line;
        }
    };
    let mut words = first.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_method = !method.is_empty() && method.iter().all(|byte| is_token(*byte));
    let is_target = !target.is_empty() && target.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let is_version = version == b"HTTP/1.1" || version == b"HTTP/1.0";
    if words.next().is_some() || !is_method || !is_target || !is_version {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let line;
        (line, bytes) = self::line(bytes)?;
        if line.is_empty() {
            break;
        }
        headers.push(field(line)?);
    }
    let request = Request {
        method: String::from_utf8_lossy(method).into_owned(),
        target: origin_form(&String::from_utf8_lossy(target)),
        headers,
        body: Vec::new(),
        is_complete: false,
    };
    Some((request, bytes))
}

/// A line without its end, and what follows it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..]))
}

pub(crate) fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_name = !name.is_empty() && name.iter().all(|byte| is_token(*byte));
    let is_value = value
        .iter()
        .all(|byte| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f);
    (is_name && is_value).then(|| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        (name, value.trim_ascii().to_vec())
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// None where it can be read in two ways.
pub(crate) fn length(request: &Request) -> Option<Length> {
    let mut lengths = request.values("content-length");
    let length = lengths.next();
    if let Some(last) = request.values("transfer-encoding").last() {
        // The last coding says where the body ends; a length beside it says nothing, also if it is no number.
        let last = last.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        return last
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
            .then_some(match length {
                None => Length::Chunks,
                Some(_) => Length::ChunksThenNothing,
            });
    }
    let Some(length) = length else {
        return Some(Length::Bytes(0));
    };
    // Zeros in front do not make it another number.
    let number = number(length)?;
    let is_alike = lengths.all(|other| self::number(other) == Some(number));
    is_alike.then_some(Length::Bytes(number))
}

fn number(text: &[u8]) -> Option<usize> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Where a chunked body ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End<'b> {
    /// It does not, or not in a way that is one.
    Cut,
    /// In front of this.
    At(&'b [u8]),
    /// The same, but among its trailers are lines that are none. Clients may; an agent may not.
    Odd(&'b [u8]),
}

pub(crate) fn chunks(mut bytes: &[u8]) -> (Vec<u8>, End<'_>) {
    let mut body = Vec::new();
    loop {
        let Some((size, rest)) = chunk_size(bytes) else {
            return (body, End::Cut);
        };
        if size == 0 {
            return (body, trailers(rest));
        }
        let here = size.min(rest.len());
        body.extend_from_slice(&rest[..here]);
        let Some(rest) = rest[here..].strip_prefix(b"\r\n").filter(|_| here == size) else {
            return (body, End::Cut);
        };
        bytes = rest;
    }
}

/// Extensions are skipped.
fn chunk_size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &bytes[..end];
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extension = line[digits..].trim_ascii_start();
    let is_extension =
        extension.is_empty() || extension[0] == b';' && !extension.iter().any(|byte| b"\r\n".contains(byte));
    let text = std::str::from_utf8(&line[..digits]).ok()?;
    let size = usize::from_str_radix(text, 16).ok().filter(|_| is_extension)?;
    Some((size, &bytes[end + 2..]))
}

fn trailers(mut bytes: &[u8]) -> End<'_> {
    let mut is_odd = false;
    loop {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            return End::Cut;
        };
        let line = &bytes[..end];
        bytes = &bytes[end + 2..];
        match line {
            b"" if is_odd => return End::Odd(bytes),
            b"" => return End::At(bytes),
            line => is_odd |= field(line).is_none(),
        }
    }
}

/// As a service gets it: without scheme, authority and fragment.
fn origin_form(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target.to_owned();
    };
    match rest.find(['/', '?']) {
        Some(at) if rest[at..].starts_with('?') => format!("/{}", &rest[at..]),
        Some(at) => rest[at..].to_owned(),
        None => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(bytes: &str) -> Vec<(String, String, bool)> {
        let requests = read(bytes.as_bytes()).0.into_iter();
        let told = requests.map(|it| (it.target, String::from_utf8(it.body).unwrap(), it.is_complete));
        told.collect()
    }

    fn one(target: &str, body: &str, is_complete: bool) -> (String, String, bool) {
        (target.to_owned(), body.to_owned(), is_complete)
    }

    #[test]
    fn requests_follow_each_other() {
        let stream = "GET http://h/a?b#c HTTP/1.1\r\nHost: h\r\n\r\n\r\nPOST /b HTTP/1.1\nContent-Length: 3\n\nabc\
                      PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nde\r\n0\r\nX: y\r\n\r\nGET /d HTTP/1.0\r\n\r\n";
        let expect = [
            one("/a?b", "", true),
            one("/b", "abc", true),
            one("/c", "de", true),
            one("/d", "", true),
        ];
        assert_eq!(meant(stream), expect);
    }

    #[test]
    fn what_has_two_readings_ends_the_stream() {
        let next = "GET /next HTTP/1.1\r\n\r\n";
        for head in [
            "Content-Length: 0\r\nContent-Length: 5\r\n",
            "Content-Length: +0\r\n",
            "Content-Length: 0, 0\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding : chunked\r\n",
            "X: a\r\n b\r\n",
            "X: a\rb\r\n",
        ] {
            assert_eq!(
                meant(&format!("GET /a HTTP/1.1\r\n{head}\r\n{next}")),
                [],
                "{head:?}"
            );
        }
        for (head, body, expect) in [
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                "0\r\n\r\n",
                one("/a", "", true),
            ),
            (
                "Transfer-Encoding: chunked\r\n",
                "5\r\nab",
                one("/a", "abGET", false),
            ),
            (
                "Transfer-Encoding: chunked\r\n",
                "2\nab\r\n0\r\n\r\n",
                one("/a", "", false),
            ),
            (
                "Transfer-Encoding: chunked\r\n",
                "2\r\nabc\r\n0\r\n\r\n",
                one("/a", "ab", false),
            ),
            (
                "Content-Length: 99\r\n",
                "ab",
                one("/a", &format!("ab{next}"), false),
            ),
        ] {
            assert_eq!(
                meant(&format!("GET /a HTTP/1.1\r\n{head}\r\n{body}{next}")),
                [expect],
                "{body:?}"
            );
        }
    }
}
