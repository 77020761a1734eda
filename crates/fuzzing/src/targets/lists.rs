//! Lists of several sites, and the tokens of their pages.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use cheops_glue::{GatherQuery, ListPage, ListShape, Merged, Profile, Share};
use cheops_types::Limits;

use super::{PROFILES, parts, site};

/// Lists of each shape that the built-in glues and the conventions know.
const PLACES: [(usize, &str, &str); 8] = [
    (0, "B", "/items"),
    (0, "B", "/rooms/r/boxes"),
    (1, "kubernetes", "/api/v1/namespaces/n/configmaps"),
    (2, "compute", "/v2.1/servers/detail"),
    (2, "image", "/v2/images"),
    (3, "any", "/orders"),
    (3, "any", "/orders/7"),
    (2, "network", "/v2.0/networks"),
];

fn shape(number: u8) -> Option<Arc<ListShape>> {
    let (profile, service, path) = PLACES[usize::from(number) % PLACES.len()];
    let profile: &Profile = &PROFILES[profile];
    profile.identify(service, "GET", path).list.cloned()
}

/// A byte for the shape, a query, and the pages of up to four sites.
pub(super) fn merge(input: &[u8]) -> bool {
    let Some((number, rest)) = input.split_first() else {
        return false;
    };
    let Some(shape) = shape(*number) else {
        return false;
    };
    let mut parts = parts(rest);
    let query = parts.next().unwrap_or_default();
    // As it comes from a request line: nothing else can be in one.
    if query.contains(|c: char| !c.is_ascii_graphic() || c == '#') {
        return false;
    }
    let pages: Vec<_> = parts.take(4).collect();
    page(&shape, query, &pages).is_some()
}

/// A byte for the shape, and a token: as text where it begins with `=`, else its JSON.
pub(super) fn token(input: &[u8]) -> bool {
    let Some((number, token)) = input.split_first() else {
        return false;
    };
    let Some(shape) = shape(*number) else {
        return false;
    };
    let Some(paging) = &shape.paging else {
        return false;
    };
    let text = match token.strip_prefix(b"=") {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => URL_SAFE_NO_PAD.encode(token),
    };
    let query = format!("limit=2&{}={text}", paging.token);
    let list = r#"{"items":[{"id":1,"name":"a"},{"id":2,"name":"b"}],"next":"t"}"#;
    page(&shape, &query, &[list, list, list]).is_some()
}

/// One page of the merged list, and what must hold of it.
fn page(shape: &Arc<ListShape>, query: &str, bodies: &[&str]) -> Option<Merged> {
    let limits = Limits::default();
    let sites = ["s1", "s2", "s3", "s4"].map(site);
    let query = GatherQuery::parse(shape, Some(query), &limits).ok()?;
    let query = query.asked_at("http://host", "/list");
    query.foreign_query();
    let round = query.round(&sites).ok()?;
    let mut pages: Vec<Option<ListPage>> = Vec::new();
    for body in bodies.iter().take(round.fetches().len()) {
        let first = pages.iter().flatten().next();
        let page = shape.read(Bytes::copy_from_slice(body.as_bytes())).ok();
        // As the proxy does: what is written in another way than the first cannot stand beside it.
        pages.push(page.filter(|page| first.is_none_or(|first| first.is_like(page))));
    }
    round.is_settled(&pages);
    let merged = round.merge(&pages).ok()?;
    assert_eq!(merged.parts.len(), pages.len());
    let taken = merged.parts.iter().map(|part| match part.share {
        Share::Taken(items) => items as usize,
        Share::Missing | Share::Later => 0,
    });
    let again = shape.read(Bytes::from(merged.body.clone()));
    let again = again.unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&merged.body));
    });
    assert_eq!(
        again.len(),
        taken.sum::<usize>(),
        "{}",
        String::from_utf8_lossy(&merged.body)
    );
    shape.version_of(&again, 1024);
    if let (false, Some(next), Some(paging)) = (merged.is_last, again.next(), &shape.paging) {
        let next = format!("{}={next}", paging.token);
        let query = GatherQuery::parse(shape, Some(&next), &limits);
        let query = query.unwrap_or_else(|problem| panic!("{next}: {}", problem.detail));
        query
            .round(&sites)
            .unwrap_or_else(|problem| panic!("{next}: {}", problem.detail));
    }
    Some(merged)
}
