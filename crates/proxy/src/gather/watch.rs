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

use bytes::{Bytes, BytesMut};
use cheops_glue::{ListShape, Versions};
use cheops_net::Body;
use cheops_types::{Outcome, SiteName, Visit};
use http::{
    HeaderValue, Response,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH},
    request,
};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::{accept, is_down};
use crate::{
    attempt::Answer,
    execute::Done,
    head,
    job::Job,
    order::down_visit,
    replicated::{is_json, map_head},
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
    job: Job,
    shape: Arc<ListShape>,
    /// What each site is asked, with the ids that it knows.
    heads: BTreeMap<SiteName, request::Parts>,
    versions: RefCell<Versions>,
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
    async fn follow(self: Rc<Self>, site: SiteName, mut body: Option<Body>, events: mpsc::Sender<Bytes>) {
        loop {
            if let Some(body) = body.take() {
                match self.pass_on(&site, body, &events).await {
                    Ended::Lost => {}
                    Ended::Gone => return,
                    Ended::Over => {
                        // What the others have said by now is passed on; then an empty piece ends it for all.
                        tokio::time::sleep(ENDING).await;
                        let _ = events.send(Bytes::new()).await;
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

    async fn pass_on(&self, site: &SiteName, mut body: Body, events: &mpsc::Sender<Bytes>) -> Ended {
        let max = self.job.core.limits().replicated_answer_max_bytes;
        let mut line = BytesMut::new();
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
            line.extend_from_slice(&data);
            while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                let one = line.split_to(end + 1);
                let marked = self
                    .shape
                    .mark_event(&one, site, &mut self.versions.borrow_mut())
                    .map(|mut marked| {
                        marked.push(b'\n');
                        Bytes::from(marked)
                    });
                // What is no event passes as it is.
                if events.send(marked.unwrap_or_else(|| one.freeze())).await.is_err() {
                    return Ended::Gone;
                }
            }
            if line.len() > max {
                tracing::warn!(%site, max, "a site's event is too long to be passed on");
                return Ended::Over;
            }
        }
    }
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
    reading: mpsc::Receiver<Bytes>,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.reading.poll_recv(context).map(|event| {
            let event = event.filter(|event| !event.is_empty())?;
            Some(Ok(Frame::data(event)))
        })
    }
}
