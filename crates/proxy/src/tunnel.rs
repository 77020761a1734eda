//! Requests that switch protocols: after the switch, bytes go both ways until one side ends.

use cheops_net::{Body, Connection, Hold, OnSwitch, Received, SendError, Switched};
use cheops_plan::Plan;
use cheops_types::{Code, Health, Outcome, Problem, SiteName, Visit, headers::RECEIPT};
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONNECTION, UPGRADE},
    request,
};
use http_body::Body as _;

use crate::{
    Counted,
    attempt::{Answer, Attempt, answered_at, map_head, no_link},
    core::Core,
    cross,
    done::{Done, finish},
    head::{self, Facts},
    job::Job,
    service::Service,
};

/// What a client asked to switch to, taken off its request before the head is cleaned.
pub(crate) struct Wish {
    protocol: HeaderValue,
    client: OnSwitch,
}

impl Wish {
    /// None for a request with a body, which is answered as an ordinary one, and for one that names `h2c` or
    /// another HTTP, alone or among others: that is offered by the way, and would carry requests past this agent.
    pub(crate) fn take<T>(
        head: &request::Parts,
        facts: Facts,
        body: &Received,
        connection: &Connection<T>,
    ) -> Option<Self> {
        if !head::wants_upgrade(head, facts) || !body.is_end_stream() {
            return None;
        }
        let mut protocols = head.headers.get_all(UPGRADE).iter();
        let protocol = protocols.next()?.clone();
        // In several lines, what is asked for depends on who reads them.
        if protocols.next().is_some() || names_http(&protocol) {
            return None;
        }
        Some(Self {
            protocol,
            client: connection.on_switch(),
        })
    }

    /// Puts the wish on a cleaned head again.
    fn put(&self, head: &mut request::Parts) {
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, self.protocol.clone());
    }

    /// Answers the client; if the other side switched, joins both from then on.
    fn join(
        self,
        core: &Core,
        mut response: Response<Body>,
        other: Option<Switched>,
        hold: Hold,
    ) -> Response<Body> {
        let switched = response.headers().get(UPGRADE).cloned();
        head::clean_response(response.headers_mut());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        core.counters.add(Counted::Upgrades);
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response
            .headers_mut()
            .insert(UPGRADE, switched.unwrap_or(self.protocol));
        *response.body_mut() = Body::Empty;
        let client = self.client;
        tokio::task::spawn_local(hold.run(async move {
            let (Some(mut client), Some(mut other)) = (client.switched().await, other) else {
                return;
            };
            // Either end may break off; there is nobody left to tell.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut other).await;
        }));
        response
    }
}

/// Whether a list of protocols has one that is HTTP itself.
fn names_http(protocols: &HeaderValue) -> bool {
    protocols.as_bytes().split(|b| *b == b',').any(|protocol| {
        let is_of_a_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let name = protocol.trim_ascii().split(|b| !is_of_a_name(b)).next();
        let name = name.unwrap_or_default().to_ascii_lowercase();
        matches!(name.as_slice(), b"h2c" | b"h2" | b"http" | b"tls")
    })
}

/// An upgrade without a scope.
pub(crate) async fn plain(
    core: &Core,
    service: &Service,
    mut head: request::Parts,
    wish: Wish,
    hold: Hold,
) -> Result<Response<Body>, SendError> {
    wish.put(&mut head);
    let upstream = service.upstream_for(&mut head.headers);
    let (response, other) = upstream
        .send_upgrade(Request::from_parts(head, Body::Empty))
        .await?;
    Ok(wish.join(core, response, other, hold))
}

/// An upgrade under a scope: it goes to one site, the first of the plan that takes it.
pub(crate) async fn scoped(job: Box<Job>, mut plan: Plan, wish: Wish, hold: Hold) -> Response<Body> {
    let kind = plan.kind();
    if let Plan::Owner(sites) = &plan {
        plan = match cross::plan_for_one(&job, sites).await {
            Ok(plan) => plan,
            Err(problem) => return finish(&job, kind, Done::refused(job.here(), problem)),
        };
    }
    let sites = plan.in_turn(job.here()).unwrap_or_default();
    let (up, down): (Vec<_>, Vec<_>) = sites
        .into_iter()
        .cloned()
        .partition(|site| job.core.shared.distances.load().health(site) != Health::Down);
    let mut visits = Vec::new();
    let mut failed = None;
    for site in up.into_iter().chain(down) {
        match attempt(&job, &site, &wish).await {
            Ok((attempt, other)) => {
                visits.push(attempt.visit.clone());
                let done = Done {
                    visits,
                    ..attempt.into()
                };
                let mut response = finish(&job, kind, done);
                let receipt = response.headers_mut().remove(RECEIPT);
                let mut response = wish.join(&job.core, response, other, hold);
                if let Some(receipt) = receipt {
                    response.headers_mut().insert(RECEIPT, receipt);
                }
                return response;
            }
            Err(attempt) => {
                visits.push(attempt.visit.clone());
                let is_certain = attempt.visit.outcome == Outcome::NotExecuted;
                failed = Some(attempt);
                if !is_certain {
                    break;
                }
            }
        }
    }
    let done = match failed {
        Some(attempt) => Done {
            visits,
            ..attempt.into()
        },
        None => Done::problem(Problem::new(Code::NoSiteLeft, "the plan names no site")),
    };
    finish(&job, kind, done)
}

async fn attempt(job: &Job, site: &SiteName, wish: &Wish) -> Result<(Attempt, Option<Switched>), Attempt> {
    let mut head = head::copy(&job.head);
    map_head(job, site, &mut head).map_err(|problem| Attempt::failed(site, Outcome::NotExecuted, problem))?;
    if site == job.here() {
        job.enter_workflow(&mut head)
            .map_err(|problem| Attempt::failed(site, Outcome::NotExecuted, problem))?;
        wish.put(&mut head);
        let upstream = job.service.upstream_for(&mut head.headers);
        let sending = upstream.send_upgrade(Request::from_parts(head, Body::Empty));
        let sent = within(job, job.core.limits().upstream_timeout_ms, sending).await;
        let (response, other) = sent.map_err(|error| job.unanswered_here(&error))?;
        let visit = Visit::executed(site, response.status().as_u16());
        let answer = Answer::Response(response);
        return Ok((
            Attempt {
                visit,
                workflow: Vec::new(),
                answer,
                is_broken: false,
            },
            other,
        ));
    }
    let Some(link) = job.core.peer(site) else {
        return Err(no_link(site));
    };
    job.core.counters.add(Counted::ToPeers);
    job.address_peer(site, &mut head);
    wish.put(&mut head);
    let sending = link.send_upgrade(Request::from_parts(head, Body::Empty));
    let sent = within(job, job.core.limits().peer_timeout_ms, sending).await;
    let (response, other) = sent.map_err(|error| job.unanswered_at(site, &error))?;
    let protocol = response.headers().get(UPGRADE).cloned();
    let mut attempt = answered_at(site, response);
    // Cleaned as for any answer; the switch itself is told to the client by `join`.
    if let (Answer::Response(response), Some(protocol)) = (&mut attempt.answer, protocol) {
        response.headers_mut().insert(UPGRADE, protocol);
    }
    if attempt.visit.outcome == Outcome::NotExecuted {
        Err(attempt)
    } else {
        Ok((attempt, other))
    }
}

async fn within<T>(
    job: &Job,
    timeout_ms: u64,
    sending: impl Future<Output = Result<T, SendError>>,
) -> Result<T, SendError> {
    let sent = job.core.clock.timeout(timeout_ms, Box::pin(sending)).await;
    sent.unwrap_or_else(|_| Err(SendError::timeout(timeout_ms)))
}
