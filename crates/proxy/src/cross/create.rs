//! Something new in a container: its name is reserved first, kept if it was made, given back if it was not.

use std::time::Duration;

use bytes::Bytes;
use cheops_net::Body;
use cheops_plan::{Container, Place, Plan, Remainder};
use cheops_types::{
    Code, Limit, NameAsk, NameRequest, NameVerdict, Outcome, Problem, SiteName, Unreserved, Visit,
};
use http::{
    HeaderValue, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
};

use super::{
    names,
    owner::{self, Found, again, is_success},
};
use crate::{attempt::Answer, body, done::Done, head, job::Job, remainder, write};

/// Times that a name is asked for: others may ask at the same time.
const ASKS_MAX: usize = 10;
/// How long to wait for another create of the same name to end, at first; it doubles. About a second in all.
const PAUSE_MS: u64 = 5;
const PAUSE_MAX_MS: u64 = 500;

/// One name that a create wants.
struct Wanted<'c> {
    container: &'c Container,
    /// The kind and the key, as the prime site knows it.
    name: String,
    kind: String,
    key: String,
    /// Where it would be.
    path: String,
    owner: SiteName,
    attempt: String,
}

enum Reserved {
    Granted,
    /// The prime site could not be asked, and the container lets it be made all the same.
    Unasked,
    Taken,
    Failed(Problem),
}

pub(super) async fn create(job: &mut Job, place: &Place, body: Body) -> Done {
    let container = job.concern.as_mut().and_then(|concern| concern.container.take());
    let (mut body, mut readable) = match read(job, place, body).await {
        Ok(read) => read,
        Err(done) => return *done,
    };
    if let Some(named) = completed(job, &readable).filter(|_| body::is_readable(&job.head.headers)) {
        (body, readable) = (named.clone(), named);
    }
    // What was YAML is JSON now, and a name may have been completed.
    job.head
        .headers
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let wanted = container
        .as_ref()
        .and_then(|container| wanted(job, container, place, &readable));
    let Some(wanted) = wanted else {
        // The application names it: no two sites give the same id, or nobody chose it.
        return make(job, place, body).await;
    };
    let container = wanted.container;
    let reserved = wanted.reserve(job).await;
    match reserved {
        Reserved::Granted | Reserved::Unasked => {}
        Reserved::Taken => return wanted.taken(job),
        Reserved::Failed(problem) => return Done::refused(job.here(), problem),
    }
    let done = make(job, place, body).await;
    // A name that its owner has already is kept too: a look frees it if that was wrong.
    let ask = if is_success(&done) || is_conflict(&done) {
        Some(NameAsk::Keep {
            attempt: wanted.attempt.clone(),
        })
    } else if is_refused(&done) {
        Some(NameAsk::Release {
            attempt: Some(wanted.attempt.clone()),
        })
    } else {
        // Nobody knows: whoever asks for the name has to look.
        None
    };
    let site = match reserved {
        Reserved::Unasked => job.here(),
        _ => container.prime(),
    };
    // What was not asked for is told by itself.
    if let Some(ask) = ask.filter(|ask| site == container.prime() || !matches!(ask, NameAsk::Keep { .. })) {
        names::tell(&job.core, site, &container.known.meta, &wanted.name, ask);
    }
    done
}

/// The body, and what it says in JSON. One that cannot be read is tried first, where the application lets it be: the answer
/// says what it would make.
async fn read(job: &Job, place: &Place, body: Body) -> Result<(Bytes, Bytes), Box<Done>> {
    let refused = |problem| Box::new(Done::refused(job.here(), problem));
    let profile = &job.core.world.profile;
    let address = profile.address(&job.service.name, job.head.uri.path());
    let rules = address.as_ref().map(cheops_glue::Address::rules);
    let rehearsal = rules.as_ref().and_then(|rules| rules.rehearsal());
    let (Some(rehearsal), Place::Site(site), false) =
        (rehearsal, place, body::is_readable(&job.head.headers))
    else {
        let body = body::json_if_needed(job, body).await.map_err(refused)?;
        return Ok((body.clone(), body));
    };
    let body = body::whole(job, body).await.map_err(refused)?;
    let mut head = head::copy(&job.head);
    head.headers
        .insert(ACCEPT, HeaderValue::from_static("application/json"));
    let query = match head.uri.query() {
        Some(query) => format!("{query}&{rehearsal}"),
        None => rehearsal.to_owned(),
    };
    head.uri = Uri::try_from(format!("{}?{query}", head.uri.path()))
        .map_err(|_| refused(Problem::new(Code::Internal, "a rehearsed path is no path")))?;
    let attempt = job.attempt_as_is(site, head, Body::full(body.clone())).await;
    let response = match attempt.answer {
        Answer::Response(response) if response.status().is_success() => response,
        answer => {
            // The application would not have it either; nothing executed.
            return Err(Box::new(Done {
                answer,
                visits: vec![attempt.visit],
                workflow: attempt.workflow,
                complete: true,
            }));
        }
    };
    let core = &job.core;
    let said = core.collect(response.into_body()).await;
    let (said, _held) = said.map_err(|code| refused(Problem::new(code, code.title())))?;
    // It is what the request would make, and no longer than a request may be.
    if said.len() > core.limits().replay_body_max_bytes {
        Limit::ReplayBody.hit();
        return Err(refused(Problem::new(
            Code::BodyTooLarge,
            Code::BodyTooLarge.title(),
        )));
    }
    Ok((body, said))
}

/// The body of a create that tells only the beginning of a name, with a whole one: what the application would choose, another
/// site's might too.
fn completed(job: &Job, body: &[u8]) -> Option<Bytes> {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const ADDED: usize = 5;
    let profile = &job.core.world.profile;
    let address = profile.address(&job.service.name, job.head.uri.path())?;
    let rules = address.rules();
    let mut name = rules.name_to_complete(body).filter(|_| address.id.is_none())?;
    let dice = job.core.shared.correlation.mint_attempt();
    let dice = dice.as_bytes().chunks(2).take(ADDED);
    name.extend(dice.map(|pair| {
        let sum = pair.iter().fold(0, |sum, byte| sum * 31 + usize::from(*byte));
        char::from(LETTERS[sum % LETTERS.len()])
    }));
    rules.with_id(body, &name).ok().map(Bytes::from)
}

/// The name that a create asks for; none where the application chooses it.
fn wanted<'c>(job: &Job, container: &'c Container, place: &Place, body: &[u8]) -> Option<Wanted<'c>> {
    let profile = &job.core.world.profile;
    let address = profile.address(&job.service.name, job.head.uri.path())?;
    let rules = address.rules();
    let key = match &address.key {
        Some(key) => key.to_string(),
        None => address.key_of(&rules.name_in_request(body).filter(|name| !name.is_empty())?),
    };
    let owner = match place {
        Place::Site(site) => site.clone(),
        Place::Sites(target) => {
            let sites = target.sites();
            let is_here = sites.contains(job.here());
            if is_here {
                job.here().clone()
            } else {
                sites.first()?.clone()
            }
        }
    };
    Some(Wanted {
        container,
        name: format!("{} {key}", address.kind),
        kind: address.kind.to_string(),
        path: rules.item_path(&key),
        key,
        owner,
        attempt: job.core.shared.correlation.mint_attempt(),
    })
}

impl Wanted<'_> {
    async fn reserve(&self, job: &Job) -> Reserved {
        let (mut instead_of, mut is_nowhere) = (None, false);
        let mut pause_ms = PAUSE_MS;
        let limits = job.core.limits();
        for ask in 1..=ASKS_MAX {
            let request = self.request(NameAsk::Reserve {
                owner: self.owner.clone(),
                attempt: self.attempt.clone(),
                instead_of: instead_of.take(),
                is_nowhere,
                lasts_ms: limits.upstream_timeout_ms + limits.peer_timeout_ms,
            });
            let verdict = match names::ask(&job.core, self.container.prime(), &request).await {
                Ok(verdict) => verdict,
                Err(problem) => {
                    // It may have been given away, and nobody makes it now.
                    let release = NameAsk::Release {
                        attempt: Some(self.attempt.clone()),
                    };
                    let (prime, meta) = (self.container.prime(), &self.container.known.meta);
                    names::tell(&job.core, prime, meta, &self.name, release);
                    return self.unasked(job, &problem).await;
                }
            };
            match verdict {
                NameVerdict::Granted => return Reserved::Granted,
                NameVerdict::Held {
                    is_settled: false, ..
                } if ask == ASKS_MAX || pause_ms > PAUSE_MAX_MS => return Reserved::Taken,
                // Another create of this name is under way: whether it succeeds decides.
                NameVerdict::Held {
                    is_settled: false, ..
                } => {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                    pause_ms *= 2;
                }
                NameVerdict::Held { attempt, .. } => {
                    // Its holder may have gone without a word, as children of what was deleted do; another one of the name,
                    // or another replica of it, may be elsewhere.
                    match owner::find_at(job, &self.path, &self.container.sites).await {
                        Found::Nowhere => instead_of = Some(attempt),
                        Found::At(_) | Found::Unclear(_) => return Reserved::Taken,
                    }
                }
                NameVerdict::Look => match owner::find_at(job, &self.path, &self.container.sites).await {
                    Found::Nowhere => is_nowhere = true,
                    Found::At(_) => return Reserved::Taken,
                    Found::Unclear(missing) => return Reserved::Failed(owner::unclear(&missing)),
                },
                NameVerdict::Wait => {
                    let prime = self.container.prime();
                    let detail = format!(
                        "site `{prime}` has just begun to give names in the container away, or has lost its store, and waits for creates that were let go before; try again in a minute; nothing executed"
                    );
                    return Reserved::Failed(Problem::new(Code::NameUnreserved, detail).at(prime));
                }
                NameVerdict::NotPrime | NameVerdict::Rival { .. } | NameVerdict::Noted => {
                    let prime = self.container.prime();
                    let detail = format!(
                        "site `{prime}` does not give names in the container away, or not yet: the sites do not agree who does; try again; nothing executed"
                    );
                    return Reserved::Failed(Problem::new(Code::NameUnreserved, detail).at(prime));
                }
            }
        }
        let detail = "others ask for the same name again and again: try again; nothing executed";
        Reserved::Failed(Problem::new(Code::NameUnreserved, detail))
    }

    /// The prime site cannot be asked: the container's rule applies.
    async fn unasked(&self, job: &Job, why: &Problem) -> Reserved {
        let prime = self.container.prime();
        let span = self.container.known.span.as_ref();
        if span.is_none_or(|span| span.unreserved == Unreserved::Refuse) {
            let detail = format!(
                "the name cannot be reserved: {}. Site `{prime}` gives names in this container away; try again when it can be reached; nothing executed",
                why.detail
            );
            return Reserved::Failed(Problem::new(Code::NameUnreserved, detail).at(prime));
        }
        let request = self.request(NameAsk::Unasked {
            owner: self.owner.clone(),
            attempt: self.attempt.clone(),
        });
        match names::ask(&job.core, job.here(), &request).await {
            Ok(NameVerdict::Noted) => Reserved::Unasked,
            Ok(_) => Reserved::Taken,
            Err(problem) => Reserved::Failed(problem),
        }
    }

    fn request(&self, ask: NameAsk) -> NameRequest {
        NameRequest {
            container: self.container.known.meta.to_string(),
            name: self.name.clone(),
            ask,
        }
    }

    /// The refusal as the application itself would give it.
    fn taken(&self, job: &Job) -> Done {
        let rules = job.core.world.profile.kind(&job.service.name, &self.kind);
        let visit = Visit::failed(job.here(), Outcome::NotExecuted, Code::NameTaken.as_str());
        let Some(refusal) = rules.refusal_of_taken(&self.key) else {
            let detail = format!(
                "`{}` exists already in this container, at another of its sites or here; nothing executed",
                self.path
            );
            return Done {
                visits: vec![visit],
                ..Done::problem(Problem::new(Code::NameTaken, detail))
            };
        };
        let mut response = Response::new(Body::full(Bytes::from(refusal.body)));
        *response.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::CONFLICT);
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Done {
            answer: Answer::Response(response),
            visits: vec![visit],
            workflow: Vec::new(),
            complete: true,
        }
    }
}

/// Makes it where it belongs.
async fn make(job: &mut Job, place: &Place, body: Bytes) -> Done {
    match place {
        Place::Site(site) => {
            if site != job.here() {
                remainder::put(&mut job.head, &Remainder::default().named());
            }
            again(job, &Plan::at(site.clone(), job.here()), body).await
        }
        Place::Sites(target) => write::make(job, target.clone(), body).await,
    }
}

/// Whether it certainly was not made.
fn is_refused(done: &Done) -> bool {
    let is_refusal =
        matches!(&done.answer, Answer::Response(response) if response.status().is_client_error());
    let answered = |visit: &Visit| visit.outcome == Outcome::Executed;
    done.certainly_not_executed() || (is_refusal && done.visits.iter().all(answered))
}

fn is_conflict(done: &Done) -> bool {
    matches!(&done.answer, Answer::Response(response) if response.status() == StatusCode::CONFLICT)
}

/// Gives the name of something back that was deleted, once it is gone. Nobody waits for it.
pub(super) fn release(job: &Job, owner: &SiteName) {
    let Some(container) = job
        .concern
        .as_ref()
        .and_then(|concern| concern.container.as_ref())
    else {
        return;
    };
    let profile = &job.core.world.profile;
    let Some(address) = profile.address(&job.service.name, job.head.uri.path()) else {
        return;
    };
    let Some(key) = address.key.as_deref().filter(|_| address.below.is_empty()) else {
        return;
    };
    let request = |ask| NameRequest {
        container: container.known.meta.to_string(),
        name: format!("{} {key}", address.kind),
        ask,
    };
    let (path, prime, owner) = (
        address.rules().item_path(key),
        container.prime().clone(),
        owner.clone(),
    );
    let (peek, released) = (
        request(NameAsk::Peek),
        request(NameAsk::Release { attempt: None }),
    );
    let job = job.look_alike();
    tokio::task::spawn_local(async move {
        let Ok(NameVerdict::Held {
            attempt,
            is_settled: true,
            owner: holder,
        }) = names::ask(&job.core, &prime, &peek).await
        else {
            return;
        };
        // Looked at after the prime site was asked: what has the name now is what was looked for.
        let Found::Nowhere = owner::find_at(&job, &path, std::slice::from_ref(&owner)).await else {
            return;
        };
        let ask = if holder == owner {
            NameAsk::Release {
                attempt: Some(attempt),
            }
        } else {
            NameAsk::Gone { owner }
        };
        let release = NameRequest { ask, ..released };
        if let Err(problem) = names::ask(&job.core, &prime, &release).await {
            tracing::debug!(%prime, problem = %problem.detail, "a name could not be given back");
        }
    });
}
