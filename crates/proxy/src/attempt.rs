//! One request at one site, with ids as that site knows them.

mod ids;
mod places;
mod rewrite;
mod shown;
mod stream;

use std::pin::pin;

use cheops_net::{Body, Bulk, Expired, SendError, SendErrorKind};
use cheops_ports::Told;
use cheops_types::{Code, Limit, Outcome, Problem, Receipt, ServiceName, SiteName, Visit, headers};
use http::{HeaderName, HeaderValue, Request, Response, request};
use http_body::Body as _;

use crate::{Counted, answer, answer::unlinked, carry, head, job::Job, operation, service::identity};
pub(crate) use places::Places;
pub(crate) use rewrite::{ask_for_readable, local_path, map_head, show};

/// What came back.
pub(crate) enum Answer {
    Response(Response<Body>),
    Problem(Problem),
}

/// Services that a scope names in vain, as another agent has told; it travels with that one's answer.
#[derive(Clone)]
pub(crate) struct Unused(pub(crate) Vec<ServiceName>);

/// One site's answer to one request.
pub(crate) struct Attempt {
    pub(crate) visit: Visit,
    /// What the site's own services reached in turn.
    pub(crate) workflow: Vec<Visit>,
    pub(crate) answer: Answer,
    /// The connection ended before an answer came, instead of being silent.
    pub(crate) is_broken: bool,
}

impl Attempt {
    pub(crate) fn failed(site: &SiteName, outcome: Outcome, problem: Problem) -> Self {
        let visit = Visit::failed(site, outcome, problem.code.as_str());
        Self {
            visit,
            workflow: Vec::new(),
            answer: Answer::Problem(problem),
            is_broken: false,
        }
    }
}

impl Job {
    pub(crate) async fn attempt(&self, site: &SiteName, head: request::Parts, body: Body) -> Attempt {
        if !self.may_ask(site) {
            return self.asked_too_often(site);
        }
        if self.concern.is_some() {
            return Box::pin(rewrite::attempt(self, site, head, body)).await;
        }
        self.attempt_as_is(site, head, body).await
    }

    /// Like [`Job::attempt`], with ids as they are.
    pub(crate) async fn attempt_as_is(&self, site: &SiteName, head: request::Parts, body: Body) -> Attempt {
        if site == self.here() {
            let mut head = head;
            Box::pin(self.attempt_here(&mut head, body)).await
        } else {
            Box::pin(self.attempt_at(site, head, body)).await
        }
    }

    fn asked_too_often(&self, site: &SiteName) -> Attempt {
        let max = self.core.limits().site_asks_max;
        let detail = format!(
            "the scope asks site `{site}` more than {max} times for one request; name it less often, or raise \
             `site_asks_max`"
        );
        Attempt::failed(
            site,
            Outcome::NotExecuted,
            Problem::new(Code::NoSiteLeft, detail).at(site),
        )
    }

    /// Hands a request to the service of this site, as it is. `head` is left empty.
    pub(crate) async fn attempt_here(&self, head: &mut request::Parts, body: Body) -> Attempt {
        let response = match self.send_here(head, body).await {
            Ok(response) => response,
            Err(failed) => return failed,
        };
        Attempt {
            visit: Visit::executed(self.here(), response.status().as_u16()),
            workflow: Vec::new(),
            answer: Answer::Response(response),
            is_broken: false,
        }
    }

    /// The same with the service's answer as it is.
    pub(crate) async fn send_here(
        &self,
        head: &mut request::Parts,
        body: Body,
    ) -> Result<Response<Body>, Attempt> {
        if let Err(problem) = self.enter_workflow(head) {
            return Err(Attempt::failed(self.here(), Outcome::NotExecuted, problem));
        }
        let timeout_ms = self.core.limits().upstream_timeout_ms;
        let (body, progress) = body.watch_request(&self.service.trailers);
        let upstream = self.service.upstream_for(&mut head.headers);
        let sending = pin!(upstream.send(head::take_as_request(head, body)));
        match self.core.clock.timeout_idle(timeout_ms, progress, sending).await {
            Ok(Ok(mut response)) => {
                head::clean_response(response.headers_mut());
                Ok(response)
            }
            Ok(Err(error)) => Err(self.unanswered_here(&error)),
            Err(Expired) => {
                Limit::UpstreamTimeout.hit();
                Err(self.unanswered_here(&SendError::timeout(timeout_ms)))
            }
        }
    }

    /// Puts the workflow's key where the application passes it on.
    pub(crate) fn enter_workflow(&self, head: &mut request::Parts) -> Result<(), Problem> {
        if let Some(workflow) = self.workflow()? {
            let carriers = self.core.world.profile.correlation();
            carry::write(
                &mut head.headers,
                workflow,
                carriers,
                &self.core.shared.correlation,
            );
        }
        Ok(())
    }

    pub(crate) fn unanswered_here(&self, error: &SendError) -> Attempt {
        let problem = answer::upstream_problem(error, self.here(), &self.service.name, self.verb);
        Attempt {
            is_broken: error.kind == SendErrorKind::Broken,
            ..Attempt::failed(self.here(), error.outcome, problem)
        }
    }

    async fn attempt_at(&self, site: &SiteName, mut head: request::Parts, body: Body) -> Attempt {
        let Some(link) = self.core.peer(site) else {
            return no_link(site);
        };
        self.core.counters.add(Counted::ToPeers);
        self.address_peer(site, &mut head);
        let limits = self.core.limits();
        let bulk = match body.size_hint().exact() {
            Some(bytes) if bytes < limits.bulk_min_bytes => Bulk::No,
            _ => Bulk::Yes,
        };
        let (body, progress) = body.watch_request(&self.service.trailers);
        let sending = pin!(link.send_for(self.client, Request::from_parts(head, body), bulk));
        match self
            .core
            .clock
            .timeout_idle(limits.peer_timeout_ms, progress, sending)
            .await
        {
            Ok(Ok(response)) => answered_at(site, response),
            Ok(Err(error)) => self.unanswered_at(site, &error),
            Err(Expired) => {
                Limit::PeerTimeout.hit();
                self.unanswered_at(site, &SendError::timeout(limits.peer_timeout_ms))
            }
        }
    }

    /// Between agents the scope and the service travel in headers that no client can write. What the configuration keeps
    /// from the site stays here.
    pub(crate) fn address_peer(&self, site: &SiteName, head: &mut request::Parts) {
        for name in self.core.world.withheld_from(site) {
            head.headers.remove(name);
        }
        head.headers.remove(headers::SCOPE);
        identity::hand_on(&mut head.headers, &self.service);
        if let Ok(value) = HeaderValue::from_str(&self.service.name) {
            head.headers
                .insert(HeaderName::from_static(headers::PEER_SERVICE), value);
        }
        if let Some(carried) = self.carried()
            && let Ok(value) = HeaderValue::from_str(&carried.text)
        {
            head.headers
                .insert(HeaderName::from_static(headers::PEER_SCOPE), value);
        }
    }

    pub(crate) fn unanswered_at(&self, site: &SiteName, error: &SendError) -> Attempt {
        let problem = answer::peer_problem(error, site, self.verb).of(&self.service.name);
        Attempt::failed(site, error.outcome, problem)
    }
}

pub(crate) fn no_link(site: &SiteName) -> Attempt {
    Attempt::failed(site, Outcome::NotExecuted, unlinked(site))
}

pub(crate) fn answered_at(site: &SiteName, mut response: Response<Body>) -> Attempt {
    let receipt = answer::take_receipt(&mut response);
    if let Some(places) = Places::take(response.headers_mut()) {
        response.extensions_mut().insert(places);
    }
    head::clean_response(response.headers_mut());
    operation::relay_location(&mut response, site);
    let (visit, workflow) = match receipt {
        Some(receipt) => {
            if let Some(told) = told_by(&receipt) {
                response.extensions_mut().insert(told);
            }
            if !receipt.unused.is_empty() {
                response.extensions_mut().insert(Unused(receipt.unused));
            }
            let visit = receipt.sites.into_iter().find(|visit| visit.site == *site);
            (visit, receipt.workflow)
        }
        None => (None, Vec::new()),
    };
    // An agent always sends a receipt that says what happened at its site. Without one, nobody knows.
    let visit = visit.unwrap_or_else(|| Visit {
        outcome: Outcome::Unknown,
        ..Visit::executed(site, response.status().as_u16())
    });
    Attempt {
        visit,
        workflow,
        answer: Answer::Response(response),
        is_broken: false,
    }
}

/// What another agent's receipt says about a replicated write.
fn told_by(receipt: &Receipt) -> Option<Told> {
    Some(Told {
        set: receipt.set.as_deref()?.into(),
        operation: receipt.operation.clone(),
        held: receipt.held.unwrap_or_default(),
        sites: receipt.sites.clone(),
        complete: receipt.complete,
    })
}

/// A site that was not asked because it does not answer heartbeats.
pub(crate) fn down_visit(site: &SiteName) -> Visit {
    Visit::failed(site, Outcome::NotExecuted, Code::PeerDown.as_str())
}
