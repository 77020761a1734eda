//! The query of a request for a merged list.

use std::sync::Arc;

use cheops_types::{Code, Limit, Limits, Problem, SiteName};

use crate::{
    ListShape, NextStyle,
    link::Asked,
    percent,
    token::{BadToken, PageToken, Position},
};

/// A request's query with its paging understood. Every parameter but the page token goes to the sites
/// as the caller wrote it, byte for byte and in the same order.
#[derive(Debug, Clone)]
pub struct GatherQuery {
    pub(crate) shape: Arc<ListShape>,
    /// The query without the page token.
    kept: String,
    pub(crate) asked: Asked,
    /// The most items the caller wants on a page.
    pub(crate) limit: Option<usize>,
    pub(crate) position: Option<PageToken>,
    /// A token that no agent made: where the next page is told by a URL, callers make such tokens themselves.
    foreign: Option<String>,
    pub(crate) prefetch_max: usize,
    pub(crate) token_max_bytes: usize,
}

impl GatherQuery {
    /// Reads the query of a request, without its `?`; none and an empty one are the same.
    pub fn parse(shape: &Arc<ListShape>, query: Option<&str>, limits: &Limits) -> Result<Self, Problem> {
        let query = query.unwrap_or_default();
        let mut gather = Self {
            shape: Arc::clone(shape),
            kept: query.to_owned(),
            asked: Asked::default(),
            limit: None,
            position: None,
            foreign: None,
            prefetch_max: limits.gather_prefetch_max,
            token_max_bytes: limits.page_token_max_bytes,
        };
        let Some(paging) = &shape.paging else {
            return Ok(gather);
        };
        let mut kept = Vec::new();
        let mut token = None;
        for parameter in query.split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let name = percent::decode(name);
            if *name == *paging.token.as_bytes() {
                let twice = token.replace(percent::decode(value)).is_some();
                if twice {
                    return Err(refuse(&paging.token, "it is there twice"));
                }
                continue;
            }
            if paging
                .limit
                .as_ref()
                .is_some_and(|limit| *name == *limit.as_bytes())
            {
                gather.limit = read_limit(value);
            }
            kept.push(parameter);
        }
        gather.kept = kept.join("&");
        // An empty token asks for the first page.
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            let may_be_foreign = paging.style != NextStyle::Token && shape.sort.is_none();
            let position = match PageToken::decode(&token, limits.page_token_max_bytes) {
                Ok(position) => position,
                Err(BadToken::Foreign) if may_be_foreign => {
                    gather.foreign = String::from_utf8(token.into_owned()).ok();
                    return Ok(gather);
                }
                Err(error) => {
                    if matches!(error, BadToken::TooLong { .. }) {
                        Limit::PageToken.hit();
                    }
                    return Err(refuse(&paging.token, &error.to_string()));
                }
            };
            if matches!(position.position, Position::Sorted(_)) != shape.sort.is_some() {
                return Err(refuse(&paging.token, "the list is no longer sorted as it was"));
            }
            gather.position = Some(position);
        }
        Ok(gather)
    }

    /// Says what the caller asked, for applications that tell the next page by its URL. `origin` is
    /// `https://host`; empty where it is not known.
    #[must_use]
    pub fn asked_at(mut self, origin: &str, path: &str) -> Self {
        self.asked = Asked {
            origin: origin.to_owned(),
            path: path.to_owned(),
        };
        self
    }

    /// Where the caller goes on behind an item of its own choice: the query to ask each site with, in the order of
    /// the scope. The first that knows the item goes on, see [`GatherQuery::going_on_at`].
    pub fn foreign_query(&self) -> Option<String> {
        Some(self.site_query(Some(self.foreign.as_ref()?)))
    }

    /// The same list, going on at the site that knows the caller's item.
    #[must_use]
    pub fn going_on_at(mut self, site: &SiteName) -> Self {
        let position = Position::InOrder {
            site: site.clone(),
            token: self.foreign.take(),
        };
        let missed = Vec::new();
        self.position = Some(PageToken { position, missed });
        self
    }

    /// The query without the page token.
    pub(crate) fn kept(&self) -> &str {
        &self.kept
    }

    /// The query that asks a site for its page of `token`; empty when there is none.
    pub(crate) fn site_query(&self, token: Option<&str>) -> String {
        let mut query = self.kept.clone();
        if let (Some(token), Some(paging)) = (token, &self.shape.paging) {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(&paging.token);
            query.push('=');
            percent::encode_into(&mut query, token);
        }
        query
    }

    /// The complaint about a token that names a site that the scope does not.
    pub(crate) fn refuse_site(&self, site: &SiteName) -> Problem {
        let parameter = self.shape.paging.as_ref().map_or("", |paging| &*paging.token);
        refuse(
            parameter,
            &format!("it goes on at the site `{site}`, which the scope does not name"),
        )
        .at(site)
    }
}

/// A limit that is not a positive number is the application's to judge.
fn read_limit(value: &str) -> Option<usize> {
    let decoded = percent::decode(value);
    let limit: usize = std::str::from_utf8(&decoded).ok()?.parse().ok()?;
    (limit > 0).then_some(limit)
}

fn refuse(parameter: &str, reason: &str) -> Problem {
    Problem::new(
        Code::PageToken,
        format!(
            "`{parameter}` cannot be used: {reason}; send the token of the last page with the same scope, or none to start again"
        ),
    )
}

#[cfg(test)]
mod tests {
    use cheops_types::Code;

    use super::*;
    use crate::{Items, Paging, Pointer, token::Cursor};

    fn shape(sort: bool) -> Arc<ListShape> {
        Arc::new(ListShape {
            paging: Some(Paging {
                style: NextStyle::Token,
                limit: Some("limit".to_owned()),
                token: "page_token".to_owned(),
                next: Pointer::parse("/next").unwrap(),
            }),
            sort: sort.then(|| Pointer::parse("/n").unwrap()),
            ..ListShape::plain(Items::At(Pointer::parse("/items").unwrap()))
        })
    }

    fn parse(query: &str) -> Result<GatherQuery, Problem> {
        GatherQuery::parse(&shape(false), Some(query), &Limits::default())
    }

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn token(position: Position) -> String {
        let missed = Vec::new();
        PageToken { position, missed }.encode()
    }

    fn at(name: &str) -> String {
        let site = site(name);
        token(Position::InOrder { site, token: None })
    }

    #[test]
    fn other_parameters_stay_as_they_are() {
        let token = at("a");
        for (query, kept) in [
            (
                format!("b=%20x+y&page_token={token}&a&&limit=5&b=2"),
                "b=%20x+y&a&&limit=5&b=2",
            ),
            (format!("page%5Ftoken={token}"), ""),
            (format!("q=page_token={token}"), &*format!("q=page_token={token}")),
            ("limit=5&page_token=".to_owned(), "limit=5"),
            (String::new(), ""),
        ] {
            let parsed = parse(&query).unwrap();
            assert_eq!(parsed.site_query(None), kept);
        }
        let asked = parse("x=1").unwrap().site_query(Some("a/b=&é"));
        assert_eq!(asked, "x=1&page_token=a%2Fb%3D%26%C3%A9");
        assert_eq!(parse("").unwrap().site_query(Some("t")), "page_token=t");
    }

    #[test]
    fn limits_are_read_and_strange_ones_left_to_the_application() {
        for (query, limit) in [
            ("limit=12", Some(12)),
            ("limit=0", None),
            ("limit=-1", None),
            ("limit=x", None),
            ("", None),
        ] {
            let parsed = parse(query).unwrap();
            assert_eq!(parsed.limit, limit, "{query}");
            assert_eq!(parsed.site_query(None), query);
        }
    }

    fn check_refused(problem: &Problem, reason: &str) {
        assert_eq!(problem.code, Code::PageToken);
        assert!(problem.detail.contains(reason), "{}", problem.detail);
    }

    #[test]
    fn bad_tokens_are_refused_with_the_reason() {
        let refused = |query: &str, reason| check_refused(&parse(query).unwrap_err(), reason);
        refused("page_token=17", "not the token of a merged list");
        refused(&format!("page_token={}", "A".repeat(5000)), "5000 bytes");
        refused(&format!("page_token={0}&page_token={0}", at("a")), "twice");
        let cursor = Cursor {
            site: site("a"),
            token: None,
            skip: 1,
        };
        let sorted = format!("page_token={}", token(Position::Sorted(vec![cursor])));
        refused(&sorted, "no longer sorted");

        let query = parse(&format!("page_token={}", at("b"))).unwrap();
        let problem = query.round(&[site("a"), site("c")]).unwrap_err();
        check_refused(&problem, "`b`, which the scope does not name");
        assert_eq!(problem.site, Some(site("b")));
        let query = GatherQuery::parse(&shape(true), Some(&sorted), &Limits::default()).unwrap();
        check_refused(
            &query.round(&[site("b")]).unwrap_err(),
            "`a`, which the scope does not name",
        );
    }

    #[test]
    fn sites_are_asked_ahead_within_bounds() {
        let scope: Vec<_> = (0..20).map(|place| site(&format!("s{place}"))).collect();
        let asked = |query: &str| {
            let query = parse(query).unwrap();
            let round = query.round(&scope).unwrap();
            let names = round.fetches().iter().map(|fetch| fetch.site.to_string());
            (
                names.collect::<Vec<_>>(),
                round.later.as_ref().map(ToString::to_string),
            )
        };
        assert_eq!(asked("").0.len(), 20);
        assert_eq!(asked("limit=3").0.len(), 9);
        assert_eq!(asked("limit=3").1.as_deref(), Some("s9"));
        let (names, later) = asked(&format!("limit=3&page_token={}", at("s18")));
        assert_eq!((names, later), (vec!["s18".to_owned(), "s19".to_owned()], None));
    }
}
