//! Payloads between sites: fetched before an operation executes, by content, so that whoever has them will
//! do.

mod references;
mod serve;
#[cfg(test)]
mod tests;
mod writing;

use std::{cell::RefCell, collections::HashMap, ops::ControlFlow, rc::Rc, sync::Arc};

use cheops_net::Body;
use cheops_ports::Peers;
use cheops_store::{
    PartialId, Payload, PayloadHash, PayloadRef, Read as _, Span, SpoolError,
    tables::{Payloads, Receiving, ReceivingRow},
};
use cheops_types::{SiteName, headers};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Mutex;
use tracing::{debug, warn};

pub(crate) use references::{PayloadSets, release, retain};
pub(crate) use serve::serve_payload;

use crate::core::Core;
use writing::Writing;

/// What partial files of this module are listed as.
const PURPOSE: &str = "fetch";

/// Why a payload is not here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfetched {
    #[error("no site that is up gave the payload {0}")]
    Nowhere(PayloadRef),
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

/// Fetches payloads into the spool, each one once however many executions want it, and goes on where an
/// earlier attempt ended, also after a restart.
pub(crate) struct Fetcher {
    core: Arc<Core>,
    peers: Rc<dyn Peers>,
    /// Held while a payload is fetched.
    under_way: RefCell<HashMap<PayloadHash, Rc<Mutex<()>>>>,
    /// What earlier attempts left.
    partial: RefCell<HashMap<PayloadHash, PartialId>>,
}

/// How a transfer from one site ended.
enum Ended {
    Whole,
    /// It broke, or the site does not have it; what came stays.
    Broken,
    /// It is longer than it should be: whatever it is, it is not the payload.
    Wrong,
}

impl Fetcher {
    pub(crate) fn new(core: Arc<Core>, peers: Rc<dyn Peers>) -> Self {
        let mut partial = HashMap::new();
        let listed = core.store.read().and_then(|read| {
            read.for_each::<Receiving>(&Span::all(), |id, row| {
                if let Some(payload) = row.expected.filter(|_| row.purpose == PURPOSE) {
                    partial.insert(payload.hash, id);
                }
                ControlFlow::Continue(())
            })
        });
        if let Err(error) = listed {
            warn!(%error, "what was being fetched is not known; it is fetched from its beginning");
        }
        Self {
            core,
            peers,
            under_way: RefCell::default(),
            partial: RefCell::new(partial),
        }
    }

    /// A payload, kept in the spool at least as long as the value lives: from the spool itself, or from the
    /// first of `sites` that gives it.
    pub(crate) async fn get(&self, payload: &PayloadRef, sites: &[SiteName]) -> Result<Payload, Unfetched> {
        if let Some(found) = self.core.spool.pin(payload) {
            return Ok(found);
        }
        let turn = Rc::clone(self.under_way.borrow_mut().entry(payload.hash).or_default());
        let fetched = {
            let _turn = turn.lock().await;
            match self.core.spool.pin(payload) {
                Some(found) => Ok(found),
                None => self.fetch(payload, sites).await,
            }
        };
        // The map and this one: nobody else waits.
        if Rc::strong_count(&turn) <= 2 {
            self.under_way.borrow_mut().remove(&payload.hash);
        }
        fetched
    }

    async fn fetch(&self, payload: &PayloadRef, sites: &[SiteName]) -> Result<Payload, Unfetched> {
        let mut writing = self.begin(payload).await?;
        for site in sites.iter().filter(|site| self.peers.is_up(site)) {
            match self.transfer(site, payload, &mut writing).await {
                Ok(Ended::Broken) => continue,
                Ok(Ended::Whole) => match writing.finish(payload).await {
                    Ok(found) => {
                        self.unlist(payload);
                        return Ok(found);
                    }
                    Err(SpoolError::Mismatch { .. }) => {}
                    Err(error) => return Err(self.give_up(payload, error)),
                },
                Ok(Ended::Wrong) => writing.discard(),
                Err(error) => return Err(self.give_up(payload, error)),
            }
            warn!(%site, %payload, "a site sent something else than the payload; it is thrown away");
            self.unlist(payload);
            writing = self.begin(payload).await?;
        }
        if writing.bytes() > 0 {
            let id = writing.suspend().await?;
            self.partial.borrow_mut().insert(payload.hash, id);
        } else {
            writing.discard();
            self.unlist(payload);
        }
        Err(Unfetched::Nowhere(*payload))
    }

    /// Goes on with what is there, or begins. It is listed, so that a restart leaves it.
    async fn begin(&self, payload: &PayloadRef) -> Result<Writing, Unfetched> {
        let left = self.partial.borrow_mut().remove(&payload.hash);
        if let Some(id) = left
            && let Ok(writing) = Writing::resume(&self.core.spool, id).await
        {
            return Ok(writing);
        }
        let writing = Writing::begin(&self.core.spool).await?;
        let (id, row) = (
            writing.id(),
            ReceivingRow {
                expected: Some(*payload),
                purpose: PURPOSE.to_owned(),
            },
        );
        // Not waited for: if the row is lost in a crash, so is the partial file.
        drop(
            self.core
                .store
                .write(move |session| session.put::<Receiving>(&id, &row)),
        );
        Ok(writing)
    }

    /// Removes what was fetched of payloads that no record refers to any more.
    pub(crate) async fn tidy(&self) {
        let is_unused = |hash: &PayloadHash| {
            let row = self.core.store.read().and_then(|read| read.get::<Payloads>(hash));
            row.is_ok_and(|row| row.is_none_or(|row| row.references == 0))
        };
        let unused: Vec<_> = {
            let mut partial = self.partial.borrow_mut();
            partial.extract_if(|hash, _| is_unused(hash)).collect()
        };
        for (_, id) in unused {
            if let Ok(writing) = Writing::resume(&self.core.spool, id).await {
                writing.discard();
            }
            drop(
                self.core
                    .store
                    .write(move |session| session.delete::<Receiving>(&id)),
            );
        }
    }

    /// The writer is gone, and its file with it.
    fn give_up(&self, payload: &PayloadRef, error: SpoolError) -> Unfetched {
        self.unlist(payload);
        error.into()
    }

    /// No partial file of this payload is wanted any more.
    fn unlist(&self, payload: &PayloadRef) {
        let payload = *payload;
        let unlisted = self.core.store.write(move |session| {
            let mut rows = Vec::new();
            session.for_each::<Receiving>(&Span::all(), |id, row| {
                if row.purpose == PURPOSE && row.expected == Some(payload) {
                    rows.push(id);
                }
                ControlFlow::Continue(())
            })?;
            for id in rows {
                session.delete::<Receiving>(&id)?;
            }
            Ok(())
        });
        // A row that stays keeps nothing: its file is gone.
        drop(unlisted);
    }

    /// Takes from one site what is missing.
    async fn transfer(
        &self,
        site: &SiteName,
        payload: &PayloadRef,
        writing: &mut Writing,
    ) -> Result<Ended, SpoolError> {
        let offset = writing.bytes();
        if offset == payload.bytes {
            return Ok(Ended::Whole);
        }
        let path = format!("{}{}?offset={offset}", headers::PEER_PAYLOAD_PATH, payload.hash);
        let Ok(request) = Request::builder().method(Method::GET).uri(path).body(Body::Empty) else {
            return Ok(Ended::Broken);
        };
        let mut answer = match self.peers.ask(site, request, true).await {
            Ok(answer) if answer.status() == StatusCode::OK => answer,
            Ok(answer) => {
                debug!(%site, %payload, status = %answer.status(), "a site does not give a payload");
                return Ok(Ended::Broken);
            }
            Err(failed) => {
                debug!(%site, %payload, problem = %failed.problem.detail, "a site cannot be asked for a payload");
                return Ok(Ended::Broken);
            }
        };
        while let Some(frame) = answer.body_mut().frame().await {
            let Ok(frame) = frame else {
                break;
            };
            if let Ok(data) = frame.into_data() {
                if writing.bytes() + data.len() as u64 > payload.bytes {
                    return Ok(Ended::Wrong);
                }
                writing.append(data).await?;
            }
        }
        writing.flush().await?;
        Ok(if writing.bytes() == payload.bytes {
            Ended::Whole
        } else {
            Ended::Broken
        })
    }
}
