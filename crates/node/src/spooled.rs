//! Bodies that are spooled and not yet part of an operation.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cheops_net as net;
use cheops_ports::{Pending, Spooling};
use cheops_store::{Payload, PayloadRef, Spool, SpoolWriter};
use cheops_types::{Code, KeptBody, Problem, SiteName};

use crate::{problems, stream};

/// Bodies that may wait for their write. Of more, the oldest are given up: nobody will come for them.
const BODIES_MAX: usize = 1024;

/// A body that nobody came for in this time is of a write that was given up.
const KEPT: Duration = Duration::from_secs(60);

/// Keeps payloads from being swept between their last byte and the commit of their operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spooled(Arc<Mutex<VecDeque<(Instant, Payload)>>>);

impl Spooled {
    /// Begins with a body.
    pub(crate) fn begin(&self, spool: &Spool, site: &SiteName) -> Result<Box<dyn Spooling>, Problem> {
        let writer = spool.begin().map_err(|error| problems::spool(site, &error))?;
        Ok(Box::new(Body {
            site: site.clone(),
            spooled: self.clone(),
            writer,
        }))
    }

    /// Keeps a body for whoever comes for it soon.
    pub(crate) fn put(&self, payload: Payload) {
        let mut payloads = self.lock();
        if payloads.len() >= BODIES_MAX {
            payloads.pop_front();
        }
        payloads.push_back((Instant::now(), payload));
    }

    /// The payload, which stays as long as what is given.
    pub(crate) fn take(&self, payload: &PayloadRef) -> Option<Payload> {
        let mut payloads = self.lock();
        let at = payloads.iter().position(|(_, held)| **held == *payload)?;
        payloads.remove(at).map(|(_, payload)| payload)
    }

    /// The body of a write that another site is to take over.
    pub(crate) fn again(&self, spool: &Spool, site: &SiteName, body: KeptBody) -> Result<net::Body, Problem> {
        let payload = match body {
            KeptBody::Inline(bytes) => return Ok(net::Body::full(bytes)),
            KeptBody::Spooled { hash, bytes } => PayloadRef {
                hash: hash.into(),
                bytes,
            },
        };
        let kept = self.take(&payload).ok_or_else(|| gone(site))?;
        let reader = spool.reader(&payload, 0).map_err(|_| gone(site))?;
        Ok(stream::body(reader, Some(kept)))
    }

    /// Lets go of what nobody came for.
    pub(crate) fn sweep(&self) {
        self.lock().retain(|(since, _)| since.elapsed() < KEPT);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, Payload)>> {
        // Every change is one call: a panic elsewhere leaves the queue whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that waited for too long.
pub(crate) fn gone(site: &SiteName) -> Problem {
    let detail = format!("the body is no longer in the spool of `{site}`: send it again");
    Problem::new(Code::StoreFull, detail).at(site)
}

/// A body on its way into the spool.
pub(crate) struct Body {
    site: SiteName,
    spooled: Spooled,
    writer: SpoolWriter,
}

impl Spooling for Body {
    fn write(&mut self, data: &[u8]) -> Result<(), Problem> {
        self.writer
            .append(data)
            .map_err(|error| problems::spool(&self.site, &error))
    }

    fn finish(self: Box<Self>) -> Pending<Result<KeptBody, Problem>> {
        Box::pin(async move {
            let Self {
                site,
                spooled,
                writer,
            } = *self;
            // A sync of a long file takes its time: not on a thread that serves others.
            let finished = blocking(move || writer.finish()).await;
            let payload = finished
                .ok_or_else(|| problems::stopping(&site))?
                .map_err(|error| problems::spool(&site, &error))?;
            let body = KeptBody::Spooled {
                hash: payload.hash.into(),
                bytes: payload.bytes,
            };
            spooled.put(payload);
            Ok(body)
        })
    }
}

/// Runs something that blocks; none when its thread ended by a defect.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
