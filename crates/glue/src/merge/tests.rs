mod replicas;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use cheops_types::{Limits, SiteName};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::MergeError;
use crate::{
    GatherQuery, Items, ListPage, ListShape, Merged, NextStyle, Paging, Pointer, Share,
    token::{PageToken, Position},
};

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

fn sites(names: &[&str]) -> Vec<SiteName> {
    names.iter().map(|name| site(name)).collect()
}

fn page_token(name: &str, token: &str) -> String {
    let position = Position::InOrder {
        site: site(name),
        token: Some(token.to_owned()),
    };
    let missed = Vec::new();
    PageToken { position, missed }.encode()
}

fn shape(sort: Option<&str>) -> Arc<ListShape> {
    let pointer = |text| Pointer::parse(text).unwrap();
    Arc::new(ListShape {
        items: Items::At(pointer("/items")),
        document: pointer(""),
        forms: Vec::new(),
        paging: Some(Paging {
            style: NextStyle::Token,
            limit: Some("limit".to_owned()),
            token: "page_token".to_owned(),
            next: pointer("/next"),
        }),
        sort: sort.map(pointer),
        provenance: Some(Pointer::to_member("@site")),
        watch: None,
    })
}

/// An application that pages its list by offsets, at most `page_max` items at a time.
struct Application {
    items: Vec<Value>,
    page_max: usize,
}

impl Application {
    fn get(&self, query: &str) -> Bytes {
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.parse::<usize>().unwrap())
        };
        let limit = parameter("limit").unwrap_or(usize::MAX).min(self.page_max);
        let begin = parameter("page_token").unwrap_or(0);
        let end = begin.saturating_add(limit).min(self.items.len());
        let mut answer = json!({"items": self.items[begin..end]});
        if end < self.items.len() {
            answer["next"] = json!(end.to_string());
        }
        answer.to_string().into()
    }
}

type World = BTreeMap<SiteName, Application>;

/// Asks the sites of a round; a site that is not there fails.
fn one_page(
    world: &World,
    shape: &Arc<ListShape>,
    query: &str,
    scope: &[SiteName],
    limits: &Limits,
) -> Result<Merged, MergeError> {
    let query = GatherQuery::parse(shape, Some(query), limits).unwrap();
    let round = query.round(scope).unwrap();
    let answer = |site: &SiteName, query: &str| Some(shape.read(world.get(site)?.get(query)).unwrap());
    let pages: Vec<Option<ListPage>> = round
        .fetches()
        .iter()
        .map(|fetch| answer(&fetch.site, &fetch.query))
        .collect();
    round.merge(&pages)
}

/// Pages through the whole merged list.
fn all_pages(
    world: &World,
    shape: &Arc<ListShape>,
    limit: Option<usize>,
    scope: &[SiteName],
) -> Vec<Vec<Value>> {
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
        let Ok(merged) = one_page(world, shape, &query, scope, &limits) else {
            return pages;
        };
        let mut body: Value = serde_json::from_slice(&merged.body).unwrap();
        let items = body["items"].as_array_mut().map(std::mem::take).unwrap();
        let taken = merged.parts.iter().map(|part| match part.share {
            Share::Taken(items) => items as usize,
            Share::Missing | Share::Later => 0,
        });
        assert_eq!(taken.sum::<usize>(), items.len());
        assert_eq!(merged.is_last, body.get("next").is_none());
        pages.push(items);
        match body.get("next") {
            Some(next) => token = Some(next.as_str().unwrap().to_owned()),
            None => return pages,
        }
        assert!(pages.len() < 1000, "paging does not end");
    }
}

fn world(lists: &[(&str, &[u32], usize)]) -> World {
    let application = |(name, numbers, page_max): &(&str, &[u32], usize)| {
        let items = numbers.iter().map(|number| json!({"n": number})).collect();
        let page_max = *page_max;
        (site(name), Application { items, page_max })
    };
    lists.iter().map(application).collect()
}

/// `[[site1, site3], [2]]` as `"a1 b3 | 2"`: an item is its site and its number.
fn show(pages: &[Vec<Value>]) -> String {
    let item = |item: &Value| format!("{}{}", item["@site"].as_str().unwrap(), item["n"]);
    let page = |page: &Vec<Value>| page.iter().map(item).collect::<Vec<_>>().join(" ");
    pages.iter().map(page).collect::<Vec<_>>().join(" | ")
}

#[test]
fn pages_follow_the_scope_and_are_never_cut() {
    let world = world(&[
        ("a", &[1, 2, 3], 2),
        ("b", &[4], 9),
        ("c", &[5, 6], 9),
        ("d", &[], 9),
    ]);
    let (shape, scope) = (shape(None), sites(&["a", "b", "c", "d"]));
    let check = |limit, expect| assert_eq!(show(&all_pages(&world, &shape, limit, &scope)), expect);
    check(None, "a1 a2 | a3 b4 c5 c6");
    check(Some(1), "a1 | a2 | a3 | b4 | c5 | c6");
    check(Some(2), "a1 a2 | a3 b4 | c5 c6");
    check(Some(3), "a1 a2 | a3 b4 | c5 c6");
    // Two sites are asked ahead, so that d, which is empty, has its turn on a page of its own.
    check(Some(9), "a1 a2 | a3 b4 c5 c6 | ");
    assert_eq!(
        show(&all_pages(&world, &shape, Some(3), &sites(&["c", "a", "c"]))),
        "c5 c6 | a1 a2 | a3"
    );
}

#[test]
fn a_failed_site_is_missing_and_hides_nothing() {
    let world = world(&[("a", &[1, 2], 1), ("c", &[3], 9)]);
    let scope = sites(&["a", "b", "c"]);
    assert_eq!(
        show(&all_pages(&world, &shape(None), Some(2), &scope)),
        "a1 | a2 c3"
    );

    let share = |query: &str| {
        let merged = one_page(&world, &shape(None), query, &scope, &Limits::default()).unwrap();
        merged
            .parts
            .into_iter()
            .map(|part| part.share)
            .collect::<Vec<_>>()
    };
    // The page ends within a: whether b answers is a matter of a later page.
    assert_eq!(share("limit=1"), [Share::Taken(1), Share::Later, Share::Later]);
    let token = page_token("a", "1");
    assert_eq!(
        share(&format!("limit=5&page_token={token}")),
        [Share::Taken(1), Share::Missing, Share::Taken(1)]
    );
    let nobody = one_page(&World::new(), &shape(None), "", &scope, &Limits::default());
    assert_eq!(nobody, Err(MergeError::NothingAnswered));
}

#[test]
fn a_sort_key_makes_a_sorted_union() {
    let world = world(&[("a", &[1, 4, 4, 9], 2), ("b", &[2, 4, 5], 9), ("c", &[], 9)]);
    let (shape, scope) = (shape(Some("/n")), sites(&["a", "b", "c"]));
    let check = |limit, expect| assert_eq!(show(&all_pages(&world, &shape, limit, &scope)), expect);
    check(None, "a1 b2 a4 | a4 b4 b5 a9");
    check(Some(2), "a1 b2 | a4 | a4 b4 | b5 a9");
    check(Some(1), "a1 | b2 | a4 | a4 | b4 | b5 | a9");
}

#[test]
fn the_answer_around_the_items_is_the_first_sites() {
    let shape = shape(None);
    let query = GatherQuery::parse(&shape, None, &Limits::default()).unwrap();
    let scope = sites(&["a", "b"]);
    let round = query.round(&scope).unwrap();
    let page = |text: &'static str| Some(shape.read(Bytes::from_static(text.as_bytes())).unwrap());
    let first = page(
        r#"{ "total": 1.000000000000000000001, "items": [ {"id": 10000000000000000000000} ], "next": null }"#,
    );
    let merged = round
        .merge(&[first.clone(), page(r#"{"items":["x"],"more":1}"#)])
        .unwrap();
    assert_eq!(
        String::from_utf8(merged.body).unwrap(),
        r#"{ "total": 1.000000000000000000001, "items": [{"id": 10000000000000000000000,"@site":"a"},"x"], "next": null }"#
    );
    let merged = round
        .merge(&[first, page(r#"{"items":null,"next":"t"}"#)])
        .unwrap();
    let tail = format!(r#", "next": "{}" }}"#, page_token("b", "t"));
    assert!(String::from_utf8(merged.body).unwrap().ends_with(&tail));
    assert!(!merged.is_last);
}

#[test]
fn arrays_without_paging_are_joined() {
    let shape = Arc::new(ListShape::plain(Items::Presumed));
    let limits = Limits {
        gather_prefetch_max: 0,
        ..Limits::default()
    };
    let query = GatherQuery::parse(&shape, Some("limit=1&page_token=x"), &limits).unwrap();
    let scope = sites(&["a", "b"]);
    let round = query.round(&scope).unwrap();
    assert!(
        round
            .fetches()
            .iter()
            .all(|fetch| fetch.query == "limit=1&page_token=x")
    );
    let page = |text: &'static str| Some(shape.read(Bytes::from_static(text.as_bytes())).unwrap());
    let merged = round.merge(&[page("[1, 2]"), page("[ {} ]\n")]).unwrap();
    assert_eq!(merged.body, br#"[1,2,{"@site":"b"}]"#);
    assert!(merged.is_last);
}

#[test]
fn site_tokens_that_do_not_fit_are_refused() {
    let shape = shape(None);
    let query = GatherQuery::parse(&shape, None, &Limits::default()).unwrap();
    let scope = sites(&["a"]);
    let body = json!({"items": [], "next": "x".repeat(4096)}).to_string();
    let page = shape.read(body.into()).unwrap();
    let merged = query.round(&scope).unwrap().merge(&[Some(page)]);
    assert_eq!(merged, Err(MergeError::TokenTooLong { max: 4096 }));
}

fn lists() -> impl Strategy<Value = Vec<(Vec<u8>, usize)>> {
    let list = (proptest::collection::vec(0_u8..20, 0..12), 1_usize..6);
    proptest::collection::vec(list, 1..6)
}

fn build(lists: &[(Vec<u8>, usize)]) -> (World, Vec<SiteName>) {
    let scope: Vec<_> = (0..lists.len()).map(|place| site(&format!("s{place}"))).collect();
    let application = |(name, (numbers, page_max)): (&SiteName, &(Vec<u8>, usize))| {
        let items = numbers
            .iter()
            .enumerate()
            .map(|(place, n)| json!({"n": n, "place": place}));
        let (items, page_max) = (items.collect(), *page_max);
        (name.clone(), Application { items, page_max })
    };
    (scope.iter().zip(lists).map(application).collect(), scope)
}

fn expected(world: &World, scope: &[SiteName]) -> Vec<Value> {
    let of = |name: &SiteName| {
        let mut items = world[name].items.clone();
        for item in &mut items {
            item["@site"] = json!(name);
        }
        items
    };
    scope.iter().flat_map(of).collect()
}

proptest! {
    #[test]
    fn every_item_once_in_order(lists in lists(), limit in proptest::option::of(1_usize..15)) {
        let (world, scope) = build(&lists);
        let pages = all_pages(&world, &shape(None), limit, &scope);
        for page in &pages {
            prop_assert!(limit.is_none_or(|limit| page.len() <= limit));
        }
        prop_assert_eq!(pages.concat(), expected(&world, &scope));
    }

    #[test]
    fn every_item_once_sorted(mut lists in lists(), limit in proptest::option::of(1_usize..15)) {
        for (numbers, _) in &mut lists {
            numbers.sort_unstable();
        }
        let (world, scope) = build(&lists);
        let pages = all_pages(&world, &shape(Some("/n")), limit, &scope);
        let mut expected = expected(&world, &scope);
        expected.sort_by_key(|item| item["n"].as_u64());
        prop_assert_eq!(pages.concat(), expected);
    }

    #[test]
    fn a_list_that_is_not_sorted_loses_nothing(lists in lists(), limit in proptest::option::of(1_usize..15)) {
        let (world, scope) = build(&lists);
        let text = |item: &Value| item.to_string();
        let mut seen: Vec<_> = all_pages(&world, &shape(Some("/n")), limit, &scope).concat().iter().map(text).collect();
        let mut expected: Vec<_> = expected(&world, &scope).iter().map(text).collect();
        seen.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn bodies_never_panic(body: Vec<u8>, text in "[\\[\\]{}\",:0-9a-z ]{0,40}") {
        for items in [Items::Presumed, Items::Unlikely, Items::At(Pointer::parse("/a").unwrap())] {
            let shape = ListShape { items, ..(*shape(None)).clone() };
            let _ = shape.read(body.clone().into());
            let _ = shape.read(text.clone().into());
        }
    }
}
