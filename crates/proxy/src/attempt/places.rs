//! Which items of a list are replicas, as agents tell each other.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    ops::RangeInclusive,
    sync::Arc,
};

use cheops_types::SiteName;
use http::{HeaderMap, HeaderName, HeaderValue};

const REPLICAS: HeaderName = HeaderName::from_static(cheops_types::headers::PEER_REPLICAS);
/// A longer text would not leave enough of a head for the rest; the items are then merged like any others.
const TEXT_MAX_BYTES: usize = 32 * 1024;

/// Places in a list by the sites that have the same replicas. It travels with an answer, as one of its extensions.
///
/// Ranges stay ranges: 20 bytes of a hostile answer can name 16 million places, and cost no more than these 20 bytes
/// until a list is there that has so many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places(Vec<Group>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    sites: Arc<[SiteName]>,
    /// Ascending, and apart from each other.
    ranges: Vec<RangeInclusive<usize>>,
}

/// Places that are being found. Groups are looked up: a list can have as many of them as items.
#[derive(Debug, Default)]
pub(super) struct Placing {
    places: Places,
    groups: HashMap<Arc<[SiteName]>, usize>,
}

impl Placing {
    /// Places are added in ascending order.
    pub(super) fn add(&mut self, place: usize, sites: Vec<SiteName>) {
        let groups = &mut self.places.0;
        if let Some(group) = self.groups.get(&*sites) {
            groups[*group].add(place);
            return;
        }
        let sites: Arc<[SiteName]> = sites.into();
        self.groups.insert(Arc::clone(&sites), groups.len());
        let ranges = vec![place..=place];
        groups.push(Group { sites, ranges });
    }

    pub(super) fn finish(self) -> Places {
        self.places
    }
}

impl Places {
    /// Each place of a list of `items`, with the sites that have the same replica. A place is one replica's: no
    /// more are told than the list has items, whatever was said of them.
    pub(crate) fn of_list(&self, items: usize) -> impl Iterator<Item = (usize, &Arc<[SiteName]>)> {
        let within =
            move |range: &RangeInclusive<usize>| *range.start()..range.end().saturating_add(1).min(items);
        let places = self.0.iter().flat_map(move |group| {
            let places = group.ranges.iter().flat_map(within);
            places.map(|place| (place, &group.sites))
        });
        places.take(items)
    }

    /// Without the sites that are not listed here: no scope can name them, and each is looked at for each item.
    pub(crate) fn only(mut self, is_listed: impl Fn(&SiteName) -> bool) -> Self {
        for group in &mut self.0 {
            let listed: BTreeSet<_> = group.sites.iter().filter(|site| is_listed(site)).collect();
            group.sites = listed.into_iter().cloned().collect();
        }
        self
    }

    /// Writes them as `paris,nantes=0-3,7;paris,lyon=5`.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let mut text = String::new();
        for Group { sites, ranges } in &self.0 {
            if !text.is_empty() {
                text.push(';');
            }
            let sites: Vec<&str> = sites.iter().map(SiteName::as_str).collect();
            text.push_str(&sites.join(","));
            let mut separator = '=';
            for range in ranges {
                // Writing to a string does not fail.
                let _ = match (range.start(), range.end()) {
                    (first, last) if first == last => write!(text, "{separator}{first}"),
                    (first, last) => write!(text, "{separator}{first}-{last}"),
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

    /// Takes them off another agent's answer.
    pub(crate) fn take(headers: &mut HeaderMap) -> Option<Self> {
        let value = headers.remove(REPLICAS)?;
        let groups = value.to_str().ok()?.split(';');
        groups.map(Group::read).collect::<Option<_>>().map(Self)
    }
}

impl Group {
    fn add(&mut self, place: usize) {
        match self.ranges.last_mut() {
            Some(last) if last.end() + 1 == place => *last = *last.start()..=place,
            _ => self.ranges.push(place..=place),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (sites, texts) = text.split_once('=')?;
        let sites: Result<Vec<_>, _> = sites.split(',').map(SiteName::new).collect();
        let mut ranges: Vec<RangeInclusive<usize>> = Vec::new();
        for range in texts.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            let is_ascending = ranges.last().is_none_or(|before| *before.end() < first);
            if last < first || !is_ascending {
                return None;
            }
            ranges.push(first..=last);
        }
        Some(Self {
            sites: sites.ok()?.into(),
            ranges,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(marks: &[(usize, &[&str])], text: &str) {
        let mut places = Placing::default();
        for (place, sites) in marks {
            let sites = sites.iter().map(|name| SiteName::new(name).unwrap());
            places.add(*place, sites.collect());
        }
        let places = places.finish();
        let mut headers = HeaderMap::new();
        places.put(&mut headers);
        assert_eq!(headers[REPLICAS], text);
        let read = Places::take(&mut headers).unwrap();
        assert_eq!(read, places);
        let told: BTreeSet<_> = read.of_list(100).map(|(place, _)| place).collect();
        assert_eq!(told, marks.iter().map(|(place, _)| *place).collect());
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
            "", "0", "a", "a=", "a=x", "a=3-1", "a=1,1", "a=2,0", "a b=1", "a=0;", "=1",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(REPLICAS, HeaderValue::from_static(text));
            assert_eq!(Places::take(&mut headers), None, "{text}");
        }
    }

    /// What 512 bytes of an answer can claim costs what 512 bytes cost: expanded, it was 4 GB.
    #[test]
    fn a_short_text_stays_small() {
        let group = "s0=0-16777214";
        let mut headers = HeaderMap::new();
        let text = [group; 36].join(";");
        headers.insert(REPLICAS, HeaderValue::try_from(text).unwrap());
        let places = Places::take(&mut headers).unwrap();
        let ranges: usize = places.0.iter().map(|group| group.ranges.len()).sum();
        assert_eq!(ranges, 36);
        assert_eq!(places.of_list(3).count(), 3);
        headers.insert(
            REPLICAS,
            HeaderValue::try_from(format!("s0=5-{}", usize::MAX)).unwrap(),
        );
        assert_eq!(Places::take(&mut headers).unwrap().of_list(7).count(), 2);
    }

    #[test]
    fn sites_that_nobody_lists_are_dropped() {
        let mut headers = HeaderMap::new();
        headers.insert(REPLICAS, HeaderValue::from_static("b,x,a,b=0"));
        let places = Places::take(&mut headers).unwrap();
        let places = places.only(|site| site.as_str() != "x");
        let sites: Vec<_> = places.0[0].sites.iter().map(SiteName::as_str).collect();
        assert_eq!(sites, ["a", "b"]);
    }
}
