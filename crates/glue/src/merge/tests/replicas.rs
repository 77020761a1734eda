use super::*;
use crate::Profile;

/// A world in which items with equal numbers are replicas of one resource.
struct Replicated {
    world: World,
    scope: Vec<SiteName>,
    profile: Profile,
    /// Whether it is known which other sites have a replica.
    tells_sites: bool,
    shape: Arc<ListShape>,
}

impl Replicated {
    /// The letter of a site and the ids of its items: numbers below 50 are replicas.
    fn new(lists: &[(&str, &[u32], usize)], sort: Option<&str>, tells_sites: bool) -> Self {
        let id_is_n =
            "application = \"x\"\n[[services.A.resources]]\nkind = \"k\"\ncollection = \"/c\"\nid = \"/n\"";
        let profile = Profile::parse("x.toml", id_is_n).unwrap();
        Self {
            world: world(lists),
            scope: lists.iter().map(|(name, ..)| site(name)).collect(),
            profile,
            tells_sites,
            shape: shape(sort),
        }
    }

    fn has(&self, name: &SiteName, number: u64) -> bool {
        let items = self.world.get(name).map(|application| &*application.items);
        items.unwrap_or_default().iter().any(|item| item["n"] == number)
    }

    /// One site's page with its replicas marked.
    fn page(&self, name: &SiteName, query: &str) -> Option<ListPage> {
        let mut page = self.shape.read(self.world.get(name)?.get(query)).unwrap();
        let address = self.profile.address("A", "/c").unwrap();
        let items: Vec<Value> = page
            .items()
            .map(|item| serde_json::from_str(item).unwrap())
            .collect();
        for (place, item) in items.iter().enumerate() {
            let number = item["n"].as_u64().unwrap();
            let others = self
                .scope
                .iter()
                .filter(|other| *other != name && self.has(other, number));
            let others: Arc<[_]> = others.filter(|_| self.tells_sites).cloned().collect();
            if number < 50 {
                page.mark(&address, [(place, &others)]);
            }
        }
        Some(page)
    }

    fn all_pages(&self, limit: Option<usize>) -> Vec<Vec<Value>> {
        let limits = Limits {
            gather_prefetch_max: 2,
            ..Limits::default()
        };
        let mut pages = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let limit = limit.iter().map(|limit| format!("limit={limit}"));
            let query = limit.chain(token.iter().map(|token| format!("page_token={token}")));
            let query = query.collect::<Vec<_>>().join("&");
            let query = GatherQuery::parse(&self.shape, Some(&query), &limits).unwrap();
            let round = query.round(&self.scope).unwrap();
            let fetches = round.fetches().iter();
            let answers: Vec<_> = fetches
                .map(|fetch| self.page(&fetch.site, &fetch.query))
                .collect();
            let Ok(merged) = round.merge(&answers) else {
                return pages;
            };
            let mut body: Value = serde_json::from_slice(&merged.body).unwrap();
            // The pages that settle a round show what all of them show.
            let settled = (1..answers.len()).find(|count| round.is_settled(&answers[..*count]));
            if let Some(count) = settled {
                let early = round.merge(&answers[..count]).unwrap().body;
                let early: Value = serde_json::from_slice(&early).unwrap();
                assert_eq!(early["items"], body["items"]);
            }
            let items = body["items"].as_array_mut().map(std::mem::take).unwrap();
            let taken = merged.parts.iter().map(|part| match part.share {
                Share::Taken(items) => items as usize,
                Share::Missing | Share::Later => 0,
            });
            assert_eq!(taken.sum::<usize>(), items.len());
            pages.push(items);
            match body.get("next") {
                Some(next) => token = Some(next.as_str().unwrap().to_owned()),
                None => return pages,
            }
            assert!(pages.len() < 1000, "paging does not end");
        }
    }
}

#[test]
fn replicas_are_shown_once() {
    let check = |lists: &[(&str, &[u32], usize)], sort, tells_sites, limit, expect| {
        let replicated = Replicated::new(lists, sort, tells_sites);
        assert_eq!(show(&replicated.all_pages(limit)), expect);
    };
    // What only looks the same, as 70 does, is not the same resource.
    let lists: &[(&str, &[u32], usize)] =
        &[("a", &[1, 70, 3], 9), ("b", &[3, 2, 70, 1], 9), ("c", &[2, 4], 9)];
    check(lists, None, false, None, "a1 a70 a3 b2 b70 c4");
    check(lists, None, true, None, "a1 a70 a3 b2 b70 c4");
    check(lists, None, true, Some(4), "a1 a70 a3 | b2 b70 c4");
    // Across pages it must be known who has what.
    let lists: &[(&str, &[u32], usize)] = &[("a", &[1, 3], 1), ("b", &[1, 2, 3], 9)];
    check(lists, None, true, None, "a1 | a3 b2");
    check(lists, None, false, None, "a1 | a3 b1 b2");

    let lists: &[(&str, &[u32], usize)] = &[("a", &[1, 3, 70], 9), ("b", &[1, 2, 3, 70], 9)];
    for tells_sites in [false, true] {
        check(lists, Some("/n"), tells_sites, None, "a1 b2 a3 a70 b70");
        check(lists, Some("/n"), tells_sites, Some(4), "a1 b2 a3 a70 | b70");
    }
}

#[test]
fn a_site_that_is_missed_hides_no_replica() {
    let mut replicated = Replicated::new(&[("a", &[1, 2], 1), ("b", &[1, 2, 3], 1)], None, true);
    assert_eq!(show(&replicated.all_pages(None)), "a1 | a2 |  | b3");
    replicated.world.remove(&site("a"));
    assert_eq!(show(&replicated.all_pages(None)), "b1 | b2 | b3");
}

proptest! {
    #[test]
    fn every_replica_once(
        lists in proptest::collection::vec((proptest::collection::btree_set(40_u32..60, 0..12), 1_usize..6), 1..5),
        limit in proptest::option::of(1_usize..15),
        missing in proptest::option::of(0_usize..5),
        sort: bool,
    ) {
        let names: Vec<_> = (0..lists.len()).map(|place| format!("s{place}")).collect();
        let lists: Vec<(&str, Vec<u32>, usize)> = names
            .iter()
            .zip(&lists)
            .map(|(name, (numbers, page_max))| (&**name, numbers.iter().copied().collect(), *page_max))
            .collect();
        let lists: Vec<_> = lists.iter().map(|(name, numbers, max)| (*name, &**numbers, *max)).collect();
        let mut replicated = Replicated::new(&lists, sort.then_some("/n"), true);
        let missing = missing.filter(|place| *place < names.len() && names.len() > 1);
        let mut expected: Vec<u32> = Vec::new();
        for (place, (_, numbers, _)) in lists.iter().enumerate() {
            if missing != Some(place) {
                expected.extend(*numbers);
            }
        }
        expected.sort_unstable();
        let mut last = None;
        expected.retain(|number| *number >= 50 || last.replace(*number) != Some(*number));
        if let Some(place) = missing {
            replicated.world.remove(&site(&names[place]));
        }
        let pages = replicated.all_pages(limit);
        for page in &pages {
            prop_assert!(limit.is_none_or(|limit| page.len() <= limit));
        }
        let mut seen: Vec<u32> = pages.concat().iter().map(|item| item["n"].as_u64().unwrap() as u32).collect();
        if sort {
            prop_assert!(seen.is_sorted());
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, expected);
    }
}
