//! One list out of the lists of several sites.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use cheops_glue::{GatherQuery, ListShape, Share};
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
    accept, incomplete, is_down,
    merging::{Merging, Written},
    one_for_all,
    page::{Page, Read, Reading},
    rank, wants_whole,
};
use crate::{
    attempt::{Answer, Attempt, down_visit},
    body::is_json,
    done::Done,
    head,
    job::Job,
    memory::kept,
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
    /// Without its body where that is a page of the list.
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
    let fetches = round.fetches().to_vec();
    let parallel = job.core.limits().gather_parallel_max.max(1);
    if fetches.len() > parallel {
        Limit::GatherParallel.hit();
    }
    let asked = fetches.iter().map(|fetch| asking.ask(&fetch.site, &fetch.query));
    // Later sites are asked at the same time, but not waited for once the page is decided.
    let mut asked = pin!(stream::iter(asked).buffered(parallel));
    let mut given = Vec::new();
    let mut merging = Merging::new(job, round);
    while let Some((one, page)) = asked.next().await {
        given.push(one);
        merging.add(page);
        merging = match merging.settled(&job.core).await {
            Ok((merging, false)) => merging,
            Ok((settled, true)) => {
                merging = settled;
                break;
            }
            Err(code) => return busy(code, given),
        };
    }
    if merging.is_empty() {
        not_a_list(job, given)
    } else {
        merged(job, merging, given).await
    }
}

/// There is no room for the work on a list.
fn busy(code: Code, given: Vec<Given>) -> Done {
    let mut visits = Vec::new();
    let mut workflow = Vec::new();
    for one in given {
        workflow.extend(one.workflow);
        visits.push(one.visit);
    }
    let detail = "too many long lists are being merged: ask again, or for smaller pages";
    Done {
        visits,
        workflow,
        ..Done::problem(Problem::new(code, detail))
    }
}

/// How each site is asked.
struct Asking<'a> {
    job: &'a Job,
    shape: &'a Arc<ListShape>,
    body: &'a Bytes,
    /// The form to ask for; none: as the caller did.
    accept: Option<HeaderValue>,
}

impl<'a> Asking<'a> {
    fn new(job: &'a Job, shape: &'a Arc<ListShape>, body: &'a Bytes) -> Result<Self, Problem> {
        let accept = shape.is_certain().then(|| accept::for_list(&job.head.headers));
        Ok(Self {
            job,
            shape,
            body,
            accept: accept.transpose()?,
        })
    }

    async fn ask(&self, site: &SiteName, query: &str) -> (Given, Option<Page>) {
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
async fn read_page(job: &Job, shape: &Arc<ListShape>, attempt: Attempt) -> (Given, Option<Page>) {
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
            let given = Given {
                visit,
                workflow,
                answer,
            };
            return (given, None);
        }
    };
    let (mut head, body) = response.into_parts();
    let read = match job.core.collect(body).await {
        Ok((bytes, held)) => {
            Reading::new(job, shape, &mut head, bytes, held)
                .read(&job.core)
                .await
        }
        Err(code) => Err(code),
    };
    let (answer, page) = match read {
        Ok(Read::Page(page)) => (
            Answer::Response(Response::from_parts(head, Body::Empty)),
            Some(page),
        ),
        Ok(Read::Other(bytes, held)) => {
            let body = kept(bytes, held);
            (Answer::Response(Response::from_parts(head, body)), None)
        }
        Err(code) => {
            let detail = format!(
                "the answer of site `{}` cannot be read: {}",
                visit.site,
                code.title()
            );
            let problem = Problem::new(code, detail).at(&visit.site);
            visit.error = Some(code.as_str().to_owned());
            (Answer::Problem(problem), None)
        }
    };
    let given = Given {
        visit,
        workflow,
        answer,
    };
    (given, page)
}

async fn merged(job: &Job, merging: Merging, given: Vec<Given>) -> Done {
    let merged = match merging.merge(&job.core).await {
        Ok(merged) => merged,
        Err(code) => return busy(code, given),
    };
    let (mut answers, mut visits, mut workflow) = (Vec::new(), Vec::new(), Vec::new());
    for one in given {
        workflow.extend(one.workflow);
        answers.push(one.answer);
        visits.push(one.visit);
    }
    let Written { body, parts, held } = match merged {
        Ok(written) => written,
        Err(problem) => {
            return Done {
                visits,
                workflow,
                ..Done::problem(problem)
            };
        }
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
        kept(body, held)
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
