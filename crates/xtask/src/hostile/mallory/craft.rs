//! Messages and operations as a hostile site makes them: the bytes are right, what they say need not be.
//!
//! This is a second writing of the wire's format, as somebody else would write it. The suite's control attack sends an
//! ordinary operation and sees it executed, so that a refusal of the others means something.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use cheops_replica::{
    Age, Author, Carried, Content, Footprint, Message, MetaId, OpId, Operation, Recognise, Report, Token,
    Vector, Verb,
};
use cheops_types::{KeptBody, Stamp};
use serde_json::json;

use super::Mallory;
use crate::hostile::{client, stage::Stage};

const WIRE_VERSION: u8 = 4;
const CONTEXT: &str = "cheops operation 1";
/// The life of the hostile site's store, as it says.
pub(super) const INCARNATION: u64 = 7;

/// A replica set that the hostile site is a member of, and what it heard of it.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) set: MetaId,
    /// As callers at the honest site name it.
    pub(crate) id: String,
    /// The last message with the write in it.
    pub(crate) heard: Message,
    pub(crate) create: Operation,
    /// A merge patch that the honest site accepted.
    pub(crate) write: Operation,
}

/// Many messages as one body.
pub(crate) fn join(messages: &[Message]) -> Result<Bytes> {
    let mut body = vec![WIRE_VERSION];
    for message in messages {
        let message = rmp_serde::to_vec(message)?;
        body.extend(u32::try_from(message.len())?.to_be_bytes());
        body.extend(message);
    }
    Ok(body.into())
}

/// A merge patch in the form in which sites record them, with another body.
pub(crate) fn write_to(like: &Operation, body: &str) -> cheops_replica::Request {
    let mut request = like.request.clone();
    request.body = KeptBody::Inline(body.as_bytes().to_vec().into());
    request
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

fn token() -> Token {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    Token(u128::from(now_ms()) << 64 | u128::from(COUNT.fetch_add(1, Ordering::Relaxed)))
}

impl Mallory {
    /// Lets an ordinary caller make a replica set of an honest site and this one, and change it once.
    pub(crate) fn share(&self, stage: &Stage, at: usize) -> Result<Shared> {
        let agent = &stage.agents[at];
        let name = format!("shared-{:x}", token().0);
        let scope = format!("B: {} & {}", agent.site, self.site);
        let id = create(agent.b.addr, &scope, &name)?;
        let path = format!("/items/{id}");
        let patched = client::call(agent.b.addr, ("PATCH", &path), &[], Some(&json!({"price": 2})))?;
        if patched.status >= 300 {
            bail!(
                "the shared item cannot be changed: {} {}",
                patched.status,
                patched.text()
            );
        }
        let (create, _) = self.hear(&name, |messages| operation_in(messages, |op| has_name(op, &name)))?;
        let set = self.hear(&name, |messages| set_of(messages, &create.id, &name))?;
        let is_write = |op: &Operation| matches!(op.verb, Verb::Merge | Verb::Replace | Verb::Action { .. });
        let own = |messages: &[Message]| {
            let own: Vec<_> = messages
                .iter()
                .filter(|message| message.set == set)
                .cloned()
                .collect();
            operation_in(&own, is_write)
        };
        let (write, heard) = self.hear("a write to the shared item", own)?;
        let shared = Shared {
            set,
            id,
            heard,
            create,
            write,
        };
        // As an honest member would, so that nothing of it is sent again and again.
        self.send(agent, &[self.message(&shared, Content::Report)])?;
        Ok(shared)
    }

    /// A message about a shared set, with an honest report.
    pub(crate) fn message(&self, shared: &Shared, content: Content) -> Message {
        let mut held = shared.heard.report.held.clone();
        for id in [&shared.create.id, &shared.write.id] {
            held.raise(id);
        }
        Message {
            set: shared.set.clone(),
            from: self.site.clone(),
            incarnation: shared.heard.report.incarnation,
            epoch: shared.heard.epoch,
            now_ms: now_ms(),
            report: Report {
                incarnation: INCARNATION,
                age: age(now_ms()),
                stay: 0,
                done: held.clone(),
                held,
                local: Some(cheops_replica::LocalId::new("1")),
                degraded: None,
                left: false,
                ask: false,
                waits: Vec::new(),
                bare: Vec::new(),
            },
            content,
        }
    }

    /// A message with operations.
    pub(crate) fn carry(&self, shared: &Shared, ops: impl IntoIterator<Item = Operation>) -> Message {
        let carried = ops.into_iter().map(|op| Carried { op, credential: None });
        self.message(shared, Content::Operations(carried.collect()))
    }

    /// An operation of this site on a shared set, signed.
    pub(crate) fn operation(
        &self,
        shared: &Shared,
        seq: u64,
        verb: Verb,
        request: cheops_replica::Request,
    ) -> Result<Operation> {
        let mut after = shared.write.after.clone();
        for id in [&shared.create.id, &shared.write.id] {
            after.raise(id);
        }
        let id = self.id(seq);
        if seq > 1 && seq < u64::MAX {
            after.raise(&self.id(seq - 1));
        }
        let mut op = Operation {
            id,
            token: token(),
            time: shared.write.time.next().max(Stamp {
                millis: now_ms(),
                count: 0,
            }),
            age: age(now_ms()),
            after,
            births: shared.write.births.clone(),
            epoch: shared.heard.epoch,
            verb,
            touches: Footprint::Whole,
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request,
            signature: Vec::new(),
        };
        self.sign(&shared.set, &mut op)?;
        Ok(op)
    }

    pub(crate) fn id(&self, seq: u64) -> OpId {
        OpId {
            author: Author {
                site: self.site.clone(),
                incarnation: INCARNATION,
                stay: 0,
            },
            seq,
        }
    }

    /// Signs an operation with this site's key, whoever it says that it is of.
    pub(crate) fn sign(&self, set: &MetaId, op: &mut Operation) -> Result<()> {
        let what = (
            &op.id,
            &op.token,
            &op.time,
            &op.age,
            &op.after,
            &op.births,
            &op.epoch,
            &op.verb,
            &op.touches,
            &op.recognise,
            &op.needs,
            &op.request,
        );
        let text = rmp_serde::to_vec(&(CONTEXT, set, what))?;
        op.signature = self.identity.sign(&text)?;
        Ok(())
    }
}

fn age(steps: u64) -> Age {
    Age {
        incarnation: INCARNATION,
        steps,
        start: 1,
    }
}

/// Makes an item under a scope and gives its id.
fn create(to: SocketAddr, scope: &str, name: &str) -> Result<String> {
    let body = json!({"name": name, "price": 1});
    let made = client::call(to, ("POST", "/items"), &[("X-Scope", scope)], Some(&body))?;
    if made.status >= 300 {
        bail!(
            "an item under `{scope}` cannot be made: {} {}",
            made.status,
            made.text()
        );
    }
    let id = made.json()?["id"].as_u64();
    Ok(id
        .with_context(|| format!("no id in {}", made.text()))?
        .to_string())
}

fn has_name(op: &Operation, name: &str) -> bool {
    let KeptBody::Inline(bytes) = &op.request.body else {
        return false;
    };
    matches!(op.verb, Verb::Create(_)) && String::from_utf8_lossy(bytes).contains(name)
}

fn operations(message: &Message) -> &[Carried] {
    match &message.content {
        Content::Operations(carried) => carried,
        _ => &[],
    }
}

fn operation_in(messages: &[Message], is_it: impl Fn(&Operation) -> bool) -> Option<(Operation, Message)> {
    messages.iter().rev().find_map(|message| {
        let found = operations(message).iter().find(|carried| is_it(&carried.op))?;
        Some((found.op.clone(), message.clone()))
    })
}

fn set_of(messages: &[Message], id: &OpId, name: &str) -> Option<MetaId> {
    let has_it = |message: &&Message| {
        operations(message)
            .iter()
            .any(|carried| carried.op.id == *id && has_name(&carried.op, name))
    };
    messages.iter().find(has_it).map(|message| message.set.clone())
}

/// A vector that claims the most that a number can say.
pub(crate) fn boundless(author: &Author) -> Vector {
    let mut vector = Vector::new();
    vector.raise(&OpId {
        author: author.clone(),
        seq: u64::MAX,
    });
    vector
}
