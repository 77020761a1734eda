//! What may differ between two runs of the same command, and nothing else.

use crate::real::Output;

/// Replaces, by a word that says what stood there:
///
/// - uids: 36 characters in the form of a UUID;
/// - the times of day of RFC 3339, and ages such as `5s` or `2m10s`, with the spaces behind them, which
///   fill a column up to the longest;
/// - resource versions, which count all writes of a cluster, and the random names that only uids have;
/// - the address of the server, which kubectl shows as it was given;
/// - the names and times of the files that `kubectl diff` compares.
pub(super) struct Normal {
    servers: [String; 2],
}

impl Normal {
    pub(super) fn new(servers: [String; 2]) -> Self {
        Self { servers }
    }

    pub(super) fn output(&self, output: Output) -> Output {
        Output {
            stdout: self.text(&output.stdout),
            stderr: self.text(&output.stderr),
            ..output
        }
    }

    fn text(&self, text: &str) -> String {
        let text = self.servers.iter().fold(text.to_owned(), |text, server| {
            text.replace(server.as_str(), "SERVER")
        });
        text.split_inclusive('\n').map(line).collect()
    }
}

fn line(line: &str) -> String {
    let (line, end) = match line.split_once('\t') {
        Some((file, _)) if file.starts_with("--- ") || file.starts_with("+++ ") => (file, "\n"),
        _ => (line, ""),
    };
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if word == 0 {
            let other = rest.find(is_word).unwrap_or(rest.len());
            out.push_str(&rest[..other]);
            rest = &rest[other..];
            continue;
        }
        let (text, after) = rest.split_at(word);
        rest = after;
        if is_uid(text) {
            out.push_str("UID");
        } else if is_time(text) {
            out.push_str("TIME");
        } else if is_age(text) {
            out.push_str("AGE");
            rest = rest.trim_start_matches(' ');
            if !rest.is_empty() && !rest.starts_with('\n') {
                out.push(' ');
            }
        } else if text.starts_with("LIVE-") || text.starts_with("MERGED-") {
            out.push_str("FILES");
        } else if is_resource_version(text, &out) {
            out.push_str("VERSION");
        } else {
            out.push_str(text);
        }
    }
    out + end
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.')
}

fn is_uid(word: &str) -> bool {
    let groups: Vec<_> = word.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// `2026-01-01T00:00:00Z`.
fn is_time(word: &str) -> bool {
    let shape = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
    shape.eq("0000-00-00T00:00:00Z".chars())
}

fn is_age(word: &str) -> bool {
    let mut digits = 0;
    let mut units = 0;
    for c in word.chars() {
        match c {
            '0'..='9' => digits += 1,
            's' | 'm' | 'h' | 'd' if digits > 0 => (digits, units) = (0, units + 1),
            _ => return false,
        }
    }
    units > 0 && digits == 0
}

fn is_resource_version(word: &str, before: &str) -> bool {
    let name = before.trim_end_matches([' ', '"', ':']);
    name.ends_with("resourceVersion") && word.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_never_the_same_twice_is_replaced() {
        let normal = Normal::new(["https://127.0.0.1:1".to_owned(), "https://127.0.0.1:2".to_owned()]);
        for (text, expected) in [
            ("at https://127.0.0.1:2\n", "at SERVER\n"),
            ("uid: 0b6a1f54-5dd8-4c58-8b51-7a6b3c1d2e3f\n", "uid: UID\n"),
            (
                "\"creationTimestamp\": \"2026-01-01T10:00:00Z\",",
                "\"creationTimestamp\": \"TIME\",",
            ),
            (
                "  resourceVersion: \"1234\"\n",
                "  resourceVersion: \"VERSION\"\n",
            ),
            (
                "one   0/1  Pending  0  2m10s   <none>\n",
                "one   0/1  Pending  0  AGE <none>\n",
            ),
            ("one   12s\n", "one   AGE\n"),
            (
                "generation: 12\nport: 80 5 mm\n",
                "generation: 12\nport: 80 5 mm\n",
            ),
        ] {
            assert_eq!(normal.text(text), expected);
        }
    }
}
