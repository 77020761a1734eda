//! Which items of a list are replicas, as agents tell each other.

use std::fmt::Write as _;

use cheops_types::SiteName;
use http::{HeaderMap, HeaderName, HeaderValue};

const REPLICAS: HeaderName = HeaderName::from_static(cheops_types::headers::PEER_REPLICAS);
/// A longer text would not leave enough of a head for the rest; the items are then merged like any others.
const TEXT_MAX_BYTES: usize = 32 * 1024;

/// Places in a list, ascending, by the sites that have the same replicas. It travels with an answer, as one
/// of its extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places(Vec<Group>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    sites: Vec<SiteName>,
    places: Vec<usize>,
}

impl Places {
    /// Places are added in ascending order.
    pub(super) fn add(&mut self, place: usize, sites: Vec<SiteName>) {
        match self.0.iter_mut().find(|group| group.sites == sites) {
            Some(group) => group.places.push(place),
            None => self.0.push(Group {
                sites,
                places: vec![place],
            }),
        }
    }

    /// Each place, with the sites that have the same replica.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[SiteName])> {
        self.0
            .iter()
            .flat_map(|group| group.places.iter().map(|place| (*place, &*group.sites)))
    }

    /// Writes them as `paris,nantes=0-3,7;paris,lyon=5`.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let mut text = String::new();
        for Group { sites, places } in &self.0 {
            if !text.is_empty() {
                text.push(';');
            }
            let sites: Vec<&str> = sites.iter().map(SiteName::as_str).collect();
            text.push_str(&sites.join(","));
            let mut separator = '=';
            for range in places.chunk_by(|a, b| a + 1 == *b) {
                // Writing to a string does not fail.
                let _ = match range {
                    [] => Ok(()),
                    [only] => write!(text, "{separator}{only}"),
                    [first, .., last] => write!(text, "{separator}{first}-{last}"),
                };
                separator = ',';
            }
        }
        if !text.is_empty()
            && text.len() <= TEXT_MAX_BYTES
            && let Ok(value) = HeaderValue::try_from(text)
        {
            headers.insert(REPLICAS, value);
        }
    }

    /// Takes them off another agent's answer. `places_max` bounds what a few bytes can ask for.
    pub(crate) fn take(headers: &mut HeaderMap, places_max: usize) -> Option<Self> {
        let value = headers.remove(REPLICAS)?;
        let groups = value.to_str().ok()?.split(';');
        groups
            .map(|group| Group::read(group, places_max))
            .collect::<Option<_>>()
            .map(Self)
    }
}

impl Group {
    fn read(text: &str, places_max: usize) -> Option<Self> {
        let (sites, ranges) = text.split_once('=')?;
        let sites: Result<_, _> = sites.split(',').map(SiteName::new).collect();
        let mut places = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            let is_ascending = places.last().is_none_or(|place| *place < first);
            if last < first || last >= places_max || !is_ascending {
                return None;
            }
            places.extend(first..=last);
        }
        Some(Self {
            sites: sites.ok()?,
            places,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(marks: &[(usize, &[&str])], text: &str) {
        let mut places = Places::default();
        for (place, sites) in marks {
            let sites = sites.iter().map(|name| SiteName::new(name).unwrap());
            places.add(*place, sites.collect());
        }
        let mut headers = HeaderMap::new();
        places.put(&mut headers);
        assert_eq!(headers[REPLICAS], text);
        assert_eq!(Places::take(&mut headers, 100), Some(places));
        assert!(headers.is_empty());
    }

    #[test]
    fn written_and_read_back() {
        let (ab, ac): (&[_], &[_]) = (&["a", "b"], &["a", "c"]);
        check(&[(0, ab)], "a,b=0");
        check(
            &[(0, ab), (1, ab), (2, ac), (4, ab), (5, ab), (6, ab), (9, ac)],
            "a,b=0-1,4-6;a,c=2,9",
        );
        let mut headers = HeaderMap::new();
        Places::default().put(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn nonsense_is_no_place() {
        for text in [
            "", "0", "a", "a=", "a=x", "a=3-1", "a=1,1", "a=2,0", "a=0-100", "a b=1", "a=0;", "=1",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(REPLICAS, HeaderValue::from_static(text));
            assert_eq!(Places::take(&mut headers, 100), None, "{text}");
        }
    }
}
