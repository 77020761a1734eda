//! The changes of one list at several sites, as one stream.
//!
//! Each site is watched by a task of its own for as long as the caller reads. A site that cannot be reached, or is lost,
//! is tried again and goes on where it was; the stream ends when a site ends it, as the application would.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use cheops_glue::{ListShape, Versions};
use cheops_net::Body;
use cheops_types::{Code, Limit, Outcome, SiteName, Visit};
use http::{
    HeaderValue, Response,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH},
    request,
};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{
    accept, is_down,
    lines::{Lines, TooLong},
};
use crate::{
    attempt::{Answer, down_visit, map_head},
    body::is_json,
    done::Done,
    head,
    job::Job,
    memory::Lease,
};

/// Events that wait for the caller; the sites wait with more.
const EVENTS_MAX: usize = 64;
/// Pause before a site is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How long the others' streams go on when a site has ended its own: they end at about the same time.
const ENDING: Duration = Duration::from_millis(500);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What all sites' tasks share.
struct Watching {
    job: Box<Job>,
    shape: Arc<ListShape>,
    /// What each site is asked, with the ids that it knows.
    heads: BTreeMap<SiteName, request::Parts>,
    versions: RefCell<Versions>,
    /// How much of events may wait for the caller, in bytes: few long ones or many short ones.
    room: Arc<Semaphore>,
}

/// An event on its way to the caller, with its place in memory.
struct Event {
    line: Bytes,
    /// None: it is over for all sites.
    _place: Option<(Lease, OwnedSemaphorePermit)>,
}

pub(super) async fn watch(job: &Job, shape: &Arc<ListShape>, sites: &[SiteName]) -> Done {
    let accept = match accept::for_list(&job.head.headers) {
        Ok(accept) => accept,
        Err(problem) => return Done::problem(problem),
    };
    let mut heads = BTreeMap::new();
    for site in sites {
        let mut head = head::copy(&job.head);
        if let Err(problem) = map_head(job, site, &mut head) {
            return Done::refused(job.here(), problem);
        }
        head.headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        head.headers.insert(ACCEPT, accept.clone());
        heads.insert(site.clone(), head);
    }
    let query = job.head.uri.query().unwrap_or_default();
    let watching = Rc::new(Watching {
        versions: RefCell::new(shape.versions_asked(query)),
        job: job.look_alike(),
        shape: Arc::clone(shape),
        heads,
        room: Arc::new(Semaphore::new(room_bytes(job))),
    });
    let begun = futures_util::future::join_all(sites.iter().map(|site| watching.begin(site))).await;
    let mut visits = Vec::new();
    let mut first = None;
    let mut answers = Vec::new();
    let (events, reading) = mpsc::channel(EVENTS_MAX);
    let mut is_any = false;
    let mut streams = Vec::new();
    for (site, (visit, answer)) in sites.iter().zip(begun) {
        let is_event_stream = visit.outcome == Outcome::Executed
            && matches!(&answer, Answer::Response(response) if response.status() == 200 && is_json(response.headers()));
        visits.push(visit);
        match answer {
            Answer::Response(response) if is_event_stream => {
                let (head, body) = response.into_parts();
                first.get_or_insert(head);
                streams.push((site.clone(), Some(body)));
                is_any = true;
            }
            answer => {
                answers.push(answer);
                streams.push((site.clone(), None));
            }
        }
    }
    let complete = answers.is_empty();
    let Some(mut head) = first.filter(|_| is_any) else {
        let is_response = |answer: &Answer| matches!(answer, Answer::Response(_));
        let best = answers.iter().position(is_response).unwrap_or(0);
        let answer = (!answers.is_empty()).then(|| answers.swap_remove(best));
        return Done {
            answer: answer.unwrap_or_else(super::nobody),
            visits,
            workflow: Vec::new(),
            complete: false,
        };
    };
    for (site, body) in streams {
        tokio::task::spawn_local(Rc::clone(&watching).follow(site, body, events.clone()));
    }
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(CONTENT_ENCODING);
    let body = Body::other(Events { reading });
    Done {
        answer: Answer::Response(Response::from_parts(head, body)),
        visits,
        workflow: Vec::new(),
        complete,
    }
}

/// As much as the longest event.
fn room_bytes(job: &Job) -> usize {
    let max = job.core.limits().watch_event_max_bytes;
    max.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize))
}

impl Watching {
    /// Asks a site for its changes.
    async fn begin(&self, site: &SiteName) -> (Visit, Answer) {
        let job = &self.job;
        if is_down(job, site) {
            return (down_visit(site), super::nobody());
        }
        let mut head = head::copy(self.heads.get(site).unwrap_or(&job.head));
        let query = head.uri.query().unwrap_or_default();
        let query = self.shape.watch_query(query, &self.versions.borrow(), site);
        super::list::set_query(&mut head, &query);
        let attempt = job.attempt_as_is(site, head, Body::Empty).await;
        (attempt.visit, attempt.answer)
    }

    /// Passes a site's events on until the caller has gone or the site has ended the stream.
    async fn follow(self: Rc<Self>, site: SiteName, mut body: Option<Body>, events: mpsc::Sender<Event>) {
        loop {
            if let Some(body) = body.take() {
                match self.pass_on(&site, body, &events).await {
                    Ended::Lost => {}
                    Ended::Gone => return,
                    Ended::Over => {
                        // What the others have said by now is passed on; then an empty piece ends it for all.
                        tokio::time::sleep(ENDING).await;
                        let end = Event {
                            line: Bytes::new(),
                            _place: None,
                        };
                        let _ = events.send(end).await;
                        return;
                    }
                }
            }
            tokio::select! {
                () = events.closed() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
            if let (_, Answer::Response(response)) = self.begin(&site).await
                && response.status() == 200
            {
                body = Some(response.into_body());
            }
        }
    }

    async fn pass_on(&self, site: &SiteName, mut body: Body, events: &mpsc::Sender<Event>) -> Ended {
        let core = &self.job.core;
        let mut lines = Lines::new(core.limits().watch_event_max_bytes);
        let mut held = Lease::none(&core.shared.memory);
        loop {
            let frame = tokio::select! {
                () = events.closed() => return Ended::Gone,
                frame = body.frame() => frame,
            };
            let data = match frame {
                None => return Ended::Over,
                Some(Err(error)) => {
                    tracing::debug!(%site, %error, "a watched site was lost");
                    return Ended::Lost;
                }
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            lines.push(&data);
            loop {
                if let Err(code) = held.resize(lines.len(), core.limits()) {
                    return cannot(site, code);
                }
                let line = match lines.next() {
                    Ok(Some(line)) => line,
                    Ok(None) => break,
                    Err(TooLong) => {
                        Limit::WatchEvent.hit();
                        return cannot(site, Code::BodyTooLarge);
                    }
                };
                let event = match self.event(site, line).await {
                    Ok(event) => event,
                    Err(code) => return cannot(site, code),
                };
                tokio::select! {
                    () = events.closed() => return Ended::Gone,
                    sent = self.send(event, events) => match sent {
                        Ok(()) => {}
                        Err(code) => return cannot(site, code),
                    },
                }
            }
        }
    }

    /// A site's line as it is passed on.
    async fn event(&self, site: &SiteName, line: Bytes) -> Result<Bytes, Code> {
        let (shape, from, own) = (self.shape.clone(), site.clone(), line.clone());
        // Only what this site says changes: the others go on meanwhile.
        let mut versions = self.versions.borrow().clone();
        let max_bytes = self.job.core.limits().watch_version_max_bytes;
        let work = move || {
            let marked = shape.mark_event(&own, &from, &mut versions, max_bytes);
            (marked, versions)
        };
        let (marked, versions) = self.job.core.work(line.len(), work).await?;
        if let Some(version) = versions.of(site) {
            self.versions.borrow_mut().set(site, version);
        }
        // What is no event passes as it is.
        Ok(marked.map_or(line, |mut marked| {
            marked.push(b'\n');
            Bytes::from(marked)
        }))
    }

    /// Hands an event to the caller, once there is room for it. That the caller has gone is noticed elsewhere.
    async fn send(&self, line: Bytes, events: &mpsc::Sender<Event>) -> Result<(), Code> {
        let mut held = Lease::none(&self.job.core.shared.memory);
        held.grow(line.len(), self.job.core.limits())?;
        let bytes = line.len().min(room_bytes(&self.job)) as u32;
        let room = self.room.clone().acquire_many_owned(bytes).await;
        let place = room.ok().map(|room| (held, room));
        let _ = events.send(Event { line, _place: place }).await;
        Ok(())
    }
}

/// The stream ends, because there is no room for what a site says.
fn cannot(site: &SiteName, code: Code) -> Ended {
    tracing::warn!(%site, code = code.as_str(), "a site's event cannot be passed on; the stream ends");
    Ended::Over
}

enum Ended {
    /// The site cannot be heard any more.
    Lost,
    /// The site has ended it.
    Over,
    /// Nobody reads.
    Gone,
}

/// The events of all sites, in the order in which they come.
struct Events {
    reading: mpsc::Receiver<Event>,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.reading.poll_recv(context).map(|event| {
            let line = event.map(|event| event.line).filter(|line| !line.is_empty())?;
            Some(Ok(Frame::data(line)))
        })
    }
}
