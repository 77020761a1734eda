//! One list out of the lists of several sites.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use cheops_glue::{GatherQuery, ListPage, ListShape, Merged, Round, Share, Versions};
use cheops_net::Body;
use cheops_types::{Code, Limit, Outcome, Problem, SiteName, Visit};
use futures_util::{StreamExt as _, stream};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HOST, IF_MATCH,
        IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LINK, RANGE,
    },
    request,
};

use super::{
    accept,
    collect::{Held, collect},
    incomplete, is_down, one_for_all, rank, wants_whole,
};
use crate::{
    attempt::{Answer, Attempt},
    execute::Done,
    head,
    job::Job,
    order::down_visit,
    replicated::{Places, is_json},
};

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Request headers that speak of one site's answer and mean nothing for a merged one.
const ABOUT_ONE: [HeaderName; 7] = [
    RANGE,
    IF_RANGE,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    ACCEPT_ENCODING,
];
/// Answer headers that describe the bytes of one site's answer.
const ABOUT_BYTES: [HeaderName; 6] = [
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    ETAG,
    LAST_MODIFIED,
    ACCEPT_RANGES,
    LINK,
];

/// What one site gave.
struct Given {
    visit: Visit,
    workflow: Vec<Visit>,
    /// The answer's place in memory.
    _held: Option<Held>,
    answer: Answer,
}

pub(super) async fn list(job: &Job, shape: &Arc<ListShape>, sites: &[SiteName], body: &Bytes) -> Done {
    let asking = match Asking::new(job, shape, body) {
        Ok(asking) => asking,
        Err(problem) => return Done::problem(problem),
    };
    let query = match GatherQuery::parse(shape, job.head.uri.query(), job.core.limits()) {
        Ok(query) => query.asked_at(&origin(&job.head.headers, job.is_tls), job.head.uri.path()),
        Err(problem) => return Done::problem(problem),
    };
    let query = match asking.find_foreign(query, sites).await {
        Ok(query) => query,
        Err(given) => return not_a_list(job, given),
    };
    let round = match query.round(sites) {
        Ok(round) => round,
        Err(problem) => return Done::problem(problem),
    };
    let parallel = job.core.limits().gather_parallel_max.max(1);
    if round.fetches().len() > parallel {
        Limit::GatherParallel.hit();
    }
    let asked = round
        .fetches()
        .iter()
        .map(|fetch| asking.ask(&fetch.site, &fetch.query));
    // Later sites are asked at the same time, but not waited for once the page is decided.
    let mut asked = pin!(stream::iter(asked).buffered(parallel));
    let (mut given, mut pages): (_, Vec<Option<ListPage>>) = (Vec::new(), Vec::new());
    while let Some((one, page)) = asked.next().await {
        // What is written in another way than the first cannot stand beside it.
        let first = pages.iter().flatten().next();
        let fits = |page: &ListPage| first.is_none_or(|first| first.is_like(page));
        pages.push(page.filter(fits));
        given.push(one);
        if round.is_settled(&pages) {
            break;
        }
    }
    if pages.iter().any(Option::is_some) {
        merged(job, &round, given, &pages)
    } else {
        not_a_list(job, given)
    }
}

/// How each site is asked.
struct Asking<'a> {
    job: &'a Job,
    shape: &'a ListShape,
    body: &'a Bytes,
    /// The form to ask for; none: as the caller did.
    accept: Option<HeaderValue>,
}

impl<'a> Asking<'a> {
    fn new(job: &'a Job, shape: &'a ListShape, body: &'a Bytes) -> Result<Self, Problem> {
        let accept = shape.is_certain().then(|| accept::for_list(&job.head.headers));
        Ok(Self {
            job,
            shape,
            body,
            accept: accept.transpose()?,
        })
    }

    async fn ask(&self, site: &SiteName, query: &str) -> (Given, Option<ListPage>) {
        let job = self.job;
        if is_down(job, site) {
            let problem = Problem::new(
                Code::PeerDown,
                format!("site `{site}` does not answer heartbeats"),
            )
            .at(site);
            let given = Given {
                visit: down_visit(site),
                workflow: Vec::new(),
                answer: Answer::Problem(problem),
                _held: None,
            };
            return (given, None);
        }
        let mut head = head::copy(&job.head);
        for name in ABOUT_ONE {
            head.headers.remove(name);
        }
        head.headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(accept) = &self.accept {
            head.headers.insert(ACCEPT, accept.clone());
        }
        if head.method == Method::HEAD {
            head.method = Method::GET;
        }
        // Whoever lists again from a version that several sites told.
        let versions = self.shape.versions_asked(query);
        if versions.is_empty() {
            set_query(&mut head, query);
        } else {
            set_query(&mut head, &self.shape.watch_query(query, &versions, site));
        }
        let attempt = job.attempt(site, head, Body::full(self.body.clone())).await;
        read_page(job, self.shape, attempt).await
    }

    /// Where the caller goes on behind an item of its own choice: at the first site that knows the item. What the
    /// sites say if none does is given back.
    async fn find_foreign(&self, query: GatherQuery, sites: &[SiteName]) -> Result<GatherQuery, Vec<Given>> {
        let Some(asked) = query.foreign_query() else {
            return Ok(query);
        };
        let mut given = Vec::new();
        for site in sites {
            let (one, page) = self.ask(site, &asked).await;
            if page.is_some() {
                return Ok(query.going_on_at(site));
            }
            given.push(one);
        }
        Err(given)
    }
}

/// Where the caller reached this agent, as far as that is known: somebody before it may have ended TLS.
fn origin(headers: &HeaderMap, is_tls: bool) -> String {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = text(FORWARDED_PROTO).unwrap_or(if is_tls { "https" } else { "http" });
    text(HOST).map_or_else(String::new, |host| format!("{scheme}://{host}"))
}

pub(super) fn set_query(head: &mut request::Parts, query: &str) {
    let path = head.uri.path();
    let target = if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    };
    if let Ok(uri) = Uri::try_from(target) {
        head.uri = uri;
    }
}

/// Reads an answer as a page of a list if it can be one; anything else stays as it is.
async fn read_page(job: &Job, shape: &ListShape, attempt: Attempt) -> (Given, Option<ListPage>) {
    let Attempt {
        mut visit,
        workflow,
        answer,
        ..
    } = attempt;
    let response = match answer {
        Answer::Response(response) if response.status().is_success() && is_json(response.headers()) => {
            response
        }
        answer => {
            return (
                Given {
                    visit,
                    workflow,
                    answer,
                    _held: None,
                },
                None,
            );
        }
    };
    let (mut head, body) = response.into_parts();
    match collect(body, &job.core.gather_memory, job.core.limits(), &job.core.clock).await {
        Ok((bytes, held)) => {
            let mut page = shape.read(bytes.clone()).ok();
            if let (Some(page), Some(places)) = (&mut page, head.extensions.remove::<Places>()) {
                mark(job, page, &places);
            }
            let answer = Answer::Response(Response::from_parts(head, Body::full(bytes)));
            (
                Given {
                    visit,
                    workflow,
                    answer,
                    _held: Some(held),
                },
                page,
            )
        }
        Err(code) => {
            let detail = format!(
                "the answer of site `{}` cannot be read: {}",
                visit.site,
                code.title()
            );
            let problem = Problem::new(code, detail).at(&visit.site);
            visit.error = Some(code.as_str().to_owned());
            (
                Given {
                    visit,
                    workflow,
                    answer: Answer::Problem(problem),
                    _held: None,
                },
                None,
            )
        }
    }
}

/// Says which items of a site's page are replicas, so that the merged list has each once.
fn mark(job: &Job, page: &mut ListPage, places: &Places) {
    let profile = &job.core.world.profile;
    if let Some(address) = profile.address(&job.service.name, job.head.uri.path()) {
        page.mark(&address, places.iter());
    }
}

/// The versions of the sites' lists, where the list can be watched.
fn versions(job: &Job, round: &Round<'_>, pages: &[Option<ListPage>]) -> Versions {
    let mut versions = Versions::default();
    let Some(shape) = job.list.as_ref().filter(|shape| shape.watch.is_some()) else {
        return versions;
    };
    for (fetch, page) in round.fetches().iter().zip(pages) {
        if let Some(version) = page.as_ref().and_then(|page| shape.version_of(page)) {
            versions.set(&fetch.site, &version);
        }
    }
    versions
}

fn merged(job: &Job, round: &Round<'_>, given: Vec<Given>, pages: &[Option<ListPage>]) -> Done {
    let (mut answers, mut visits, mut workflow) = (Vec::new(), Vec::new(), Vec::new());
    for one in given {
        workflow.extend(one.workflow);
        answers.push(one.answer);
        visits.push(one.visit);
    }
    let versions = versions(job, round, pages);
    let Merged { body, parts, .. } = match round.merge(pages) {
        Ok(merged) => merged,
        Err(error) => {
            return Done {
                visits,
                workflow,
                ..Done::problem(error.into())
            };
        }
    };
    let body = match &job.list {
        Some(shape) => shape.with_versions(&body, &versions).unwrap_or(body),
        None => body,
    };
    let mut complete = true;
    let mut told = Vec::new();
    for (mut visit, part) in visits.into_iter().zip(&parts) {
        match part.share {
            Share::Taken(items) => visit.items = Some(items),
            Share::Missing => {
                complete = false;
                if visit.outcome == Outcome::Executed && visit.error.is_none() {
                    visit.error = Some(Code::BodyUnreadable.as_str().to_owned());
                }
            }
            Share::Later => continue,
        }
        told.push(visit);
    }
    if !complete && wants_whole(&job.head.headers) {
        let missing = parts.iter().filter(|part| part.share == Share::Missing);
        let problem = incomplete(missing.map(|part| &part.site));
        return Done {
            visits: told,
            workflow,
            complete,
            ..Done::problem(problem)
        };
    }
    let first = parts
        .iter()
        .position(|part| matches!(part.share, Share::Taken(_)))
        .unwrap_or(0);
    let mut response = match answers.swap_remove(first) {
        Answer::Response(response) => response,
        Answer::Problem(_) => Response::new(Body::Empty),
    };
    for name in ABOUT_BYTES {
        response.headers_mut().remove(name);
    }
    *response.status_mut() = StatusCode::OK;
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    *response.body_mut() = if job.head.method == Method::HEAD {
        Body::Empty
    } else {
        Body::full(body)
    };
    Done {
        answer: Answer::Response(response),
        visits: told,
        workflow,
        complete,
    }
}

/// No site gave a list: the first in scope order that has something answers.
fn not_a_list(job: &Job, given: Vec<Given>) -> Done {
    let mut visits = Vec::new();
    let mut workflow = Vec::new();
    let mut answers = Vec::new();
    for one in given {
        workflow.extend(one.workflow);
        answers.push((rank(&one.visit, &one.answer), one.answer));
        visits.push(one.visit);
    }
    let best = answers.into_iter().min_by_key(|(rank, _)| *rank);
    one_for_all(job, best.map(|(_, answer)| answer), visits, workflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_the_scheme_that_the_caller_used() {
        let mut headers = HeaderMap::new();
        assert_eq!(origin(&headers, true), "");
        headers.insert(HOST, HeaderValue::from_static("app:8080"));
        assert_eq!(origin(&headers, false), "http://app:8080");
        assert_eq!(origin(&headers, true), "https://app:8080");
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
        assert_eq!(origin(&headers, false), "https://app:8080");
    }
}
