//! The sorted union of lists that are each sorted by the same key.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::{Once, Selection};
use crate::{
    ListPage, Pointer, Round, Share,
    json::{self, Found},
    token::{Cursor, Position},
};

/// Repeatedly takes the least head; equal keys in the order of the scope. It ends where a site that
/// has further pages runs out, because its next item is not known and may be the least. So each page
/// takes some site's page to its end or fills the caller's limit, and a list that is not sorted as the
/// glue says comes out in a strange order but whole.
///
/// What is left out is passed over as soon as it is reached, also behind the last item of a page: on the next
/// one it might not be known any more that another site has shown it.
pub(super) fn select(round: &Round, pages: &[Option<ListPage>], key: &Pointer, once: &Once) -> Selection {
    let limit = round.query.limit.unwrap_or(usize::MAX);
    let mut sites: Vec<Option<Site<'_>>> = round
        .cursors
        .iter()
        .zip(pages)
        .enumerate()
        .map(|(place, (cursor, page))| Some(Site::new(page.as_ref()?, cursor.skip, place, once)))
        .collect();
    let mut heads = BinaryHeap::new();
    let mut has_run_out = false;
    for (place, site) in sites.iter().enumerate() {
        let Some(site) = site else { continue };
        match site.head(key) {
            Some(head) => heads.push(Reverse((head, place))),
            None => has_run_out |= site.page.next().is_some(),
        }
    }
    let mut items = Vec::new();
    while !has_run_out
        && items.len() < limit
        && let Some(Reverse((_, place))) = heads.pop()
        && let Some(site) = &mut sites[place]
    {
        items.push((place, site.at));
        site.take();
        match site.head(key) {
            Some(head) => heads.push(Reverse((head, place))),
            None => has_run_out = site.page.next().is_some(),
        }
    }
    let shares = sites.iter().map(|site| match site {
        Some(site) => Share::Taken(site.taken),
        None => Share::Missing,
    });
    let further: Vec<_> = round
        .cursors
        .iter()
        .zip(&sites)
        .filter_map(|(cursor, site)| site.as_ref()?.cursor(cursor))
        .collect();
    Selection {
        shares: shares.collect(),
        items,
        next: (!further.is_empty()).then_some(Position::Sorted(further)),
    }
}

/// One site's page and how far it was taken.
struct Site<'p> {
    page: &'p ListPage,
    /// Among the round's pages.
    place: usize,
    once: &'p Once,
    at: usize,
    taken: u32,
}

impl<'p> Site<'p> {
    fn new(page: &'p ListPage, skip: usize, place: usize, once: &'p Once) -> Self {
        let mut site = Self {
            page,
            place,
            once,
            // The page may have become shorter since the token was made.
            at: skip.min(page.len()),
            taken: 0,
        };
        site.pass_over();
        site
    }

    fn take(&mut self) {
        self.at += 1;
        self.taken += 1;
        self.pass_over();
    }

    fn pass_over(&mut self) {
        while self.once.leaves_out(self.place, self.at) {
            self.at += 1;
        }
    }

    fn head(&self, key: &Pointer) -> Option<Key> {
        let is_there = self.at < self.page.len();
        is_there.then(|| Key::of(self.page.document(self.at).unwrap_or("null"), key))
    }

    /// Where the site goes on; none when it is done.
    fn cursor(&self, asked: &Cursor) -> Option<Cursor> {
        let site = asked.site.clone();
        if self.at < self.page.len() {
            let token = asked.token.clone();
            let skip = self.at;
            return Some(Cursor { site, token, skip });
        }
        let token = Some(self.page.next()?.to_owned());
        Some(Cursor { site, token, skip: 0 })
    }
}

/// A sort key: items without one come first, then numbers, then texts by their characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Absent,
    Number(Number),
    Text(String),
}

impl Key {
    fn of(item: &str, pointer: &Pointer) -> Self {
        let found = json::read(item).and_then(|item| json::find(item, pointer));
        let Ok(Found::Value(value)) = found else {
            return Self::Absent;
        };
        let text = value.get();
        match text.as_bytes()[0] {
            b'"' => serde_json::from_str(text).map_or(Self::Absent, Self::Text),
            b'-' | b'0'..=b'9' => text.parse().map_or(Self::Absent, |approximate| {
                Self::Number(Number {
                    approximate,
                    exact: text.parse().ok(),
                })
            }),
            _ => Self::Absent,
        }
    }
}

/// Integers compare exactly where their nearest floating point numbers are equal.
#[derive(Debug, Clone, Copy)]
struct Number {
    approximate: f64,
    exact: Option<i128>,
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.approximate
            .total_cmp(&other.approximate)
            .then(self.exact.cmp(&other.exact))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_an_order() {
        let pointer = Pointer::parse("/k").unwrap();
        let key = |value: &str| Key::of(&format!(r#"{{"k":{value}}}"#), &pointer);
        let rising = [
            "null",
            "-1e3",
            "-2",
            "0.5",
            "9007199254740992",
            "9007199254740993",
            "1e300",
            r#""""#,
            r#""2026-01-01""#,
            r#""2026-01-02""#,
            "\"\\u00e9\"",
        ];
        for pair in rising.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        assert_eq!(key("\"\\u00e9\""), key("\"é\""));
        assert_eq!(Key::of("3", &pointer), Key::Absent);
    }
}
