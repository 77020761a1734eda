//! Messages on their way to the other sites.

#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cheops_net::Body;
use cheops_ports::Peers;
use cheops_replica::{Content, Message, MetaId};
use cheops_types::{Limit, Outcome, SiteName};
use http::{Method, Request, header::CONTENT_TYPE};
use tokio::task::spawn_local;
use tracing::{debug, warn};

use super::{batch, messages_path, outgoing};
use crate::core::Core;

/// Bodies under way to one peer at the same time. The messages of one set always take the same lane, so that
/// none overtakes another.
const LANES: usize = 4;

/// What one body holds at most, unless a single message is longer. With the lanes, a link of 300 ms there and
/// back carries more than 10 MB/s per set.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// How often a body is sent before its messages are left to the engine, which sends them again much later.
const TRIES: u32 = 3;

const PAUSE: Duration = Duration::from_millis(50);

/// One outbox per peer. Nothing here is certain: what is lost, does not fit or is for a site that is down is
/// dropped, and the engine sends it again: when the site can be reached again at the latest.
pub(crate) struct Outboxes {
    core: Arc<Core>,
    peers: Rc<dyn Peers>,
    boxes: RefCell<HashMap<SiteName, Rc<Outbox>>>,
}

struct Outbox {
    site: SiteName,
    /// Of all messages that wait or are under way.
    bytes: Cell<usize>,
    lanes: [Lane; LANES],
}

/// An encoded message, and the set that it is about.
struct Queued {
    set: MetaId,
    bytes: Bytes,
    /// It says how far this site is and asks for nothing: every later report about the set says so too, and more.
    is_bare_report: bool,
}

#[derive(Default)]
struct Lane {
    queue: RefCell<VecDeque<Queued>>,
    /// Something is under way, and goes on with what is queued.
    busy: Cell<bool>,
}

impl Outboxes {
    pub(crate) fn new(core: Arc<Core>, peers: Rc<dyn Peers>) -> Self {
        Self {
            core,
            peers,
            boxes: RefCell::default(),
        }
    }

    pub(crate) fn send(&self, to: &SiteName, message: Message) {
        let set = message.set.clone();
        if !self.peers.is_up(to) {
            return self.core.note_missed(to, set);
        }
        let outbox = self.of(to);
        let max_bytes = self.core.surroundings.limits().ship_outbox_max_bytes;
        if outbox.bytes.get() >= max_bytes {
            Limit::ShipOutbox.hit();
            return self.core.note_missed(to, set);
        }
        let lane = lane_of(&set);
        let is_report = matches!(message.content, Content::Report);
        let is_bare_report = is_report && !message.report.ask;
        let Some(bytes) = outgoing::encode(&self.core, to, message) else {
            return;
        };
        // A message that is longer than all that may wait goes alone, or it would never go.
        let waiting = outbox.bytes.get();
        if waiting > 0 && waiting + bytes.len() > max_bytes {
            Limit::ShipOutbox.hit();
            return self.core.note_missed(to, set);
        }
        let mut queue = outbox.lanes[lane].queue.borrow_mut();
        let mut waiting = waiting + bytes.len();
        let is_outdated = |queued: &Queued| is_report && queued.is_bare_report && queued.set == set;
        if let Some(outdated) = queue
            .iter()
            .rposition(is_outdated)
            .and_then(|at| queue.remove(at))
        {
            waiting -= outdated.bytes.len();
        }
        queue.push_back(Queued {
            set,
            bytes,
            is_bare_report,
        });
        drop(queue);
        outbox.bytes.set(waiting);
        if !outbox.lanes[lane].busy.replace(true) {
            let post = Post {
                core: Arc::clone(&self.core),
                peers: Rc::clone(&self.peers),
                outbox,
                lane,
            };
            spawn_local(post.drain());
        }
    }

    fn of(&self, site: &SiteName) -> Rc<Outbox> {
        let mut boxes = self.boxes.borrow_mut();
        let outbox = boxes.entry(site.clone()).or_insert_with(|| {
            Rc::new(Outbox {
                site: site.clone(),
                bytes: Cell::new(0),
                lanes: Default::default(),
            })
        });
        Rc::clone(outbox)
    }
}

fn lane_of(set: &MetaId) -> usize {
    let mut hasher = DefaultHasher::new();
    set.hash(&mut hasher);
    hasher.finish() as usize % LANES
}

/// One lane at work.
struct Post {
    core: Arc<Core>,
    peers: Rc<dyn Peers>,
    outbox: Rc<Outbox>,
    lane: usize,
}

impl Post {
    /// Sends what is queued, one body after the other, until nothing is left.
    async fn drain(self) {
        loop {
            let messages = self.take();
            if messages.is_empty() {
                return self.lane().busy.set(false);
            }
            let bodies: Vec<_> = messages.iter().map(|message| message.bytes.clone()).collect();
            if self.deliver(&batch::join(&bodies)).await {
                self.forget(&messages);
                continue;
            }
            self.miss(messages);
            if !self.peers.is_up(&self.outbox.site) {
                let dropped = std::mem::take(&mut *self.lane().queue.borrow_mut());
                self.miss(dropped.into());
            }
        }
    }

    fn lane(&self) -> &Lane {
        &self.outbox.lanes[self.lane]
    }

    /// The messages of the next body.
    fn take(&self) -> Vec<Queued> {
        let mut queue = self.lane().queue.borrow_mut();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(next) = queue.front() {
            bytes += next.bytes.len();
            if bytes > BODY_MAX_BYTES && !taken.is_empty() {
                break;
            }
            taken.extend(queue.pop_front());
        }
        taken
    }

    /// These messages do not arrive.
    fn miss(&self, messages: Vec<Queued>) {
        self.forget(&messages);
        for message in messages {
            self.core.note_missed(&self.outbox.site, message.set);
        }
    }

    fn forget(&self, messages: &[Queued]) {
        let bytes = messages.iter().map(|message| message.bytes.len()).sum();
        self.outbox
            .bytes
            .set(self.outbox.bytes.get().saturating_sub(bytes));
    }

    async fn deliver(&self, body: &Bytes) -> bool {
        let site = &self.outbox.site;
        let is_long = body.len() as u64 >= self.core.surroundings.limits().bulk_min_bytes;
        for tries in 0..TRIES {
            if tries > 0 {
                tokio::time::sleep(PAUSE * tries).await;
            }
            if !self.peers.is_up(site) {
                return false;
            }
            let request = Request::builder()
                .method(Method::POST)
                .uri(messages_path())
                .header(CONTENT_TYPE, "application/octet-stream")
                .body(Body::full(body.clone()));
            let Ok(request) = request else {
                return false;
            };
            match self.peers.ask(site, request, is_long).await {
                Ok(answer) if answer.status().is_success() => return true,
                // It was heard, and would be answered the same again.
                Ok(answer) if answer.status().is_client_error() => {
                    warn!(%site, status = %answer.status(), "a peer refuses messages; its log says why");
                    return false;
                }
                Ok(answer) => {
                    debug!(%site, tries, status = %answer.status(), "a peer could not take messages");
                }
                Err(failed) => {
                    let is_lost = failed.outcome == Outcome::Unknown;
                    debug!(%site, tries, is_lost, problem = %failed.problem.detail, "messages did not arrive");
                }
            }
        }
        false
    }
}
