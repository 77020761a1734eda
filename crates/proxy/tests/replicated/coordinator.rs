//! A replication that knows what a test told it, and keeps what it was asked to do.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, mpsc},
};

use bytes::Bytes;
use cheops_net::Body;
use cheops_plan::{Known, Presence, Standing};
use cheops_ports::{Coordinator, Held, Latest, Pending, Reply, Spooling, Told, Write};
use cheops_types::{
    Code, Consistency, KeptBody, NameRequest, NameVerdict, Problem, SiteName, Span, SpanForm, Unreserved,
    Visit, headers,
};
use http::Response;

use super::sites::site;

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) presence: Arc<Presence>,
    state: Arc<Mutex<State>>,
    gate: Mutex<Option<Gate>>,
}

/// Where whoever looks for this id waits.
struct Gate {
    id: String,
    reached: mpsc::Sender<()>,
    open: mpsc::Receiver<()>,
}

#[derive(Default)]
struct State {
    sets: Vec<(String, String, Known)>,
    writes: Vec<Write>,
    /// What is answered where no reply is left.
    usual: Option<fn() -> Reply>,
    replies: VecDeque<Reply>,
    spooled: Vec<Bytes>,
}

impl Fake {
    /// Makes a set known: its meta-id, which is also shown, this site's local id, and its sites.
    pub(crate) fn know(&self, service: &str, kind: &str, meta: &str, local: Option<&str>, sites: &[&str]) {
        for id in [Some(meta), local].into_iter().flatten() {
            self.presence.add(service, kind, id);
        }
        let known = Known {
            meta: meta.into(),
            shown: meta.into(),
            local: local.map(Into::into),
            sites: sites.iter().map(|name| site(name)).collect(),
            standing: Standing::Member,
            consistency: Consistency::Eventual,
            span: None,
            shares: [].into(),
        };
        let set = (service.to_owned(), kind.to_owned(), known);
        self.state.lock().unwrap().sets.push(set);
    }

    /// The same for a set that spans its sites.
    pub(crate) fn know_span(&self, service: &str, kind: &str, meta: &str, sites: &[&str], form: SpanForm) {
        self.know(service, kind, meta, Some(meta), sites);
        let span = Span {
            form,
            order: sites.iter().map(|name| site(name)).collect(),
            unreserved: Unreserved::Refuse,
        };
        if let Some((_, _, known)) = self.state.lock().unwrap().sets.last_mut() {
            known.span = Some(span.into());
        }
    }

    /// Every write is answered like this, unless a reply was given for it.
    pub(crate) fn reply_always(&self, reply: fn() -> Reply) {
        self.state.lock().unwrap().usual = Some(reply);
    }

    /// Makes the next look for this id wait: it is told when somebody does, and the other end lets it go on.
    pub(crate) fn hold(&self, id: &str) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (reached, is_reached) = mpsc::channel();
        let (opener, open) = mpsc::channel();
        let id = id.to_owned();
        *self.gate.lock().unwrap() = Some(Gate { id, reached, open });
        (is_reached, opener)
    }

    pub(crate) fn reply(&self, reply: Reply) {
        self.state.lock().unwrap().replies.push_back(reply);
    }

    /// Everything that was written since the last call.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.state.lock().unwrap().writes)
    }
}

pub(crate) fn told(sites: Vec<Visit>) -> Told {
    Told {
        set: "m".into(),
        operation: Some("m:1".into()),
        held: 1,
        sites,
        complete: true,
    }
}

pub(crate) fn answered(
    status: u16,
    headers: &[(&str, &'static str)],
    body: &'static str,
    told: Told,
) -> Reply {
    let json = [("content-type", "application/json")];
    let mut response = Response::builder().status(status);
    for (name, value) in json.iter().chain(headers) {
        response = response.header(*name, *value);
    }
    let response = response.body(Bytes::from_static(body.as_bytes())).unwrap();
    Reply::Answered { response, told }
}

impl Coordinator for Fake {
    fn incarnation(&self) -> u64 {
        1
    }

    fn find(&self, service: &str, kind: &str, id: &str, _: &str) -> Result<Option<Known>, Problem> {
        let gate = self.gate.lock().unwrap().take_if(|gate| gate.id == id);
        if let Some(Gate { reached, open, .. }) = gate {
            let _ = reached.send(());
            let _ = open.recv();
        }
        let state = self.state.lock().unwrap();
        let found = state.sets.iter().find(|(in_service, of_kind, known)| {
            let is_it = &*known.meta == id || known.local.as_deref() == Some(id);
            in_service == service && of_kind == kind && is_it
        });
        Ok(found.map(|(_, _, known)| known.clone()))
    }

    fn write(&self, write: Write) -> Pending<Reply> {
        let mut state = self.state.lock().unwrap();
        state.writes.push(write);
        let usual = state.usual.map(|usual| usual());
        let reply = state.replies.pop_front().or(usual);
        let reply = reply.expect("the test gives a reply");
        Box::pin(std::future::ready(reply))
    }

    fn latest(&self, of: Latest) -> Pending<Result<Held, Problem>> {
        let held = match of.sites.len() {
            // A majority of many cannot be reached.
            0..=3 => Ok(Box::new(()) as Held),
            _ => Err(Problem::new(Code::NoMajority, "two of four sites are away")),
        };
        Box::pin(std::future::ready(held))
    }

    fn spool(&self) -> Result<Box<dyn Spooling>, Problem> {
        Ok(Box::new(Spool(Vec::new(), self.state.clone())))
    }

    fn operation(&self, id: &str) -> Result<Option<Bytes>, Problem> {
        Ok((id == "m:1").then(|| Bytes::from_static(b"{\"id\":\"m:1\"}")))
    }

    fn again(&self, body: KeptBody) -> Result<Body, Problem> {
        match body {
            KeptBody::Inline(bytes) => Ok(Body::full(bytes)),
            KeptBody::Spooled { hash, .. } => self.state.lock().unwrap().payload(hash[0].into()),
        }
    }

    fn name(&self, _: NameRequest) -> Pending<Result<NameVerdict, Problem>> {
        Box::pin(std::future::ready(Ok(NameVerdict::Granted)))
    }

    fn receive(&self, from: &SiteName, path: &str, body: Bytes) -> Pending<Result<Bytes, Problem>> {
        let answer = match path {
            "echo" => Ok(Bytes::from([from.as_bytes(), b": ", &body].concat())),
            "messages" => Ok(Bytes::new()),
            headers::NAMES => Ok(serde_json::to_vec(&NameVerdict::Granted).unwrap().into()),
            _ => Err(Problem::new(Code::BadRequest, "no such path")),
        };
        Box::pin(std::future::ready(answer))
    }

    fn payload(&self, _: &SiteName, hash: &str, offset: u64) -> Result<Body, Problem> {
        let place = usize::from_str_radix(&hash[..2], 16).unwrap_or(usize::MAX);
        match self.state.lock().unwrap().payload(place)? {
            Body::Full(Some(bytes)) => Ok(Body::full(bytes.slice(offset as usize..))),
            body => Ok(body),
        }
    }
}

impl State {
    fn payload(&self, place: usize) -> Result<Body, Problem> {
        let bytes = self.spooled.get(place).cloned();
        bytes
            .map(Body::full)
            .ok_or_else(|| Problem::new(Code::UnknownReplicaSet, "no such payload"))
    }
}

/// What is spooled is called by its place.
struct Spool(Vec<u8>, Arc<Mutex<State>>);

impl Spooling for Spool {
    fn write(&mut self, data: &[u8]) -> Result<(), Problem> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Pending<Result<KeptBody, Problem>> {
        let mut state = self.1.lock().unwrap();
        let mut hash = [0; 32];
        hash[0] = state.spooled.len() as u8;
        let bytes = self.0.len() as u64;
        state.spooled.push(self.0.into());
        Box::pin(std::future::ready(Ok(KeptBody::Spooled { hash, bytes })))
    }
}
