//! What may differ between two runs of the same command, and nothing else.

use crate::real::openstack::service::{Addresses, Door, Service};

/// Replaces, by letters of the same number, so that tables keep their widths:
///
/// - ids that services choose: 36 characters in the form of a UUID, or 32 hexadecimal digits;
/// - times, as ISO 8601 writes them, with or without a zone and a fraction;
/// - MAC addresses, which neutron draws;
/// - the names that nova counts, `instance-0000000a`, and the reservations that it draws, `r-4nqgmbwa`.
///
/// An agent's address, which the client shows with some errors, becomes that of the service behind it.
pub(super) struct Normal {
    addresses: Vec<[String; 2]>,
}

impl Normal {
    pub(super) fn new(addresses: Addresses, site: usize) -> Self {
        let pair =
            |service| [Door::Public, Door::Itself].map(|door| addresses.of(site, service, door).to_string());
        Self {
            addresses: Service::ALL.map(pair).into(),
        }
    }

    pub(super) fn text(&self, text: &str) -> String {
        let by_address =
            |text: String, [agent, service]: &[String; 2]| match text.find("Client Error for url: ") {
                Some(_) => text.replace(agent, service),
                None => text,
            };
        let text = self.addresses.iter().fold(text.to_owned(), by_address);
        text.split_inclusive('\n').map(line).collect()
    }
}

fn line(line: &str) -> String {
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
        match kind(text) {
            Some(kind) => out.extend(std::iter::repeat_n(kind, text.len())),
            None => out.push_str(text),
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.' | '+')
}

fn kind(word: &str) -> Option<char> {
    if is_uuid(word) || is_hex(word) {
        Some('I')
    } else if is_time(word) {
        Some('T')
    } else if is_mac(word) {
        Some('M')
    } else if is_counted(word) {
        Some('N')
    } else {
        None
    }
}

fn is_uuid(word: &str) -> bool {
    let groups: Vec<_> = word.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

fn is_hex(word: &str) -> bool {
    word.len() == 32 && word.chars().all(|c| c.is_ascii_hexdigit())
}

/// `2026-01-01T00:00:00`, and whatever follows within the word.
fn is_time(word: &str) -> bool {
    let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let begin: String = word.chars().take(19).map(shape).collect();
    begin == "0000-00-00T00:00:00"
}

fn is_mac(word: &str) -> bool {
    let groups: Vec<_> = word.split(':').collect();
    groups.len() == 6
        && groups
            .iter()
            .all(|group| group.len() == 2 && group.chars().all(|c| c.is_ascii_hexdigit()))
}

fn is_counted(word: &str) -> bool {
    let rest = word.strip_prefix("instance-").or_else(|| word.strip_prefix("r-"));
    rest.is_some_and(|rest| {
        rest.len() == 8 && rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_what_is_never_the_same_twice_and_keeps_widths() {
        let check = |text: &str, expected: &str| assert_eq!(line(text), expected);
        check(
            "| id | 0debdeb0-0000-4000-8000-00000000debd |",
            "| id | IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII |",
        );
        check(
            "| 4547d87b4c3342f2b33f99199f9673be |",
            "| IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII |",
        );
        check("2026-11-16T03:31:55Z", "TTTTTTTTTTTTTTTTTTTT");
        check("instance-0000000a r-4nqgmbwa", "NNNNNNNNNNNNNNNNN NNNNNNNNNN");
        check("fa:16:3e:01:02:03", "MMMMMMMMMMMMMMMMM");
        check(
            "| ram | 64 | 192.0.2.1-192.0.2.9 |",
            "| ram | 64 | 192.0.2.1-192.0.2.9 |",
        );
    }
}
