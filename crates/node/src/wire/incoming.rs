//! What the agents of other sites send and ask. Who sends is what its certificate says, never the message.

use std::sync::Arc;

use bytes::Bytes;
use cheops_ports::Pending;
use cheops_replica::{Content, Event, Message, MetaId, Operation, Vector, Verb};
use cheops_types::{Code, Problem, ServiceName, SiteName, headers};
use tracing::warn;

use super::{batch, parts};
use crate::{
    asks::{CHECK, GROUPS, HELD, HELLO, MESSAGES, RANGES, READ},
    core::Core,
    hello, named, names,
    pack::pack,
    problems, rows, secret, sign, upkeep,
};

/// Everything below [`headers::PEER_REPLICATION_PATH`]. Each message is taken whole or not at all, and the
/// answer comes when they are durable.
pub(crate) fn receive(
    core: &Arc<Core>,
    from: &SiteName,
    path: &str,
    body: Bytes,
) -> Pending<Result<Bytes, Problem>> {
    let (core, from, path) = (Arc::clone(core), from.clone(), path.to_owned());
    Box::pin(async move {
        if path == MESSAGES {
            take(core, from, body).await.map(|()| Bytes::new())
        } else if path == headers::NAMES {
            name(&core, &from, &body).await
        } else if path == HELLO {
            hello::answer(core, from, body).await
        } else if path == RANGES {
            upkeep::answer(core, from, body).await
        } else if let Some(meta) = path.strip_prefix(READ) {
            let set = for_members(&core, &from, meta)?;
            let state = core.asks.replica(&set).await?;
            Ok(serde_json::to_vec(&state).unwrap_or_default().into())
        } else if path == GROUPS {
            group(&core, from, body).await
        } else if let Some(meta) = path.strip_prefix(HELD) {
            held(&core, &from, meta)
        } else if let Some(meta) = path.strip_prefix(CHECK) {
            let set = for_members(&core, &from, meta)?;
            let told = core.engine.tell(&set, Event::Check).await;
            told.map(|()| Bytes::new())
        } else {
            let detail = format!(
                "site `{}` knows nothing of `{}{path}`: upgrade the older agent",
                core.site,
                headers::PEER_REPLICATION_PATH
            );
            Err(Problem::new(Code::BadRequest, detail).at(&core.site))
        }
    })
}

async fn group(core: &Core, from: SiteName, body: Bytes) -> Result<Bytes, Problem> {
    let answer = core.groups.receive(from.clone(), body).await;
    answer.map_err(|refused| {
        let detail = format!(
            "site `{}` does not take what site `{from}` says in a group: {refused}",
            core.site
        );
        Problem::new(Code::PeerRefused, detail).at(&core.site)
    })
}

/// What this site holds of a set that it shares with another one; nothing of one that it does not know.
fn held(core: &Core, from: &SiteName, meta: &str) -> Result<Bytes, Problem> {
    let failed = |error| problems::store(&core.site, &error);
    let read = core.store.read().map_err(failed)?;
    let kept = rows::kept(&read, &MetaId::new(meta)).map_err(failed)?;
    let held = match kept {
        None => Vector::new(),
        Some(kept) => {
            for_members(core, from, meta)?;
            kept.set.held().clone()
        }
    };
    Ok(pack(&held).unwrap_or_default().into())
}

async fn name(core: &Core, from: &SiteName, body: &[u8]) -> Result<Bytes, Problem> {
    let request = serde_json::from_slice(body).map_err(|error| {
        let detail = format!("site `{from}` asks for a name in a way that cannot be read: {error}");
        Problem::new(Code::BadRequest, detail).at(&core.site)
    })?;
    let verdict = names::answer(core, from, request).await?;
    Ok(serde_json::to_vec(&verdict).unwrap_or_default().into())
}

async fn take(core: Arc<Core>, from: SiteName, body: Bytes) -> Result<(), Problem> {
    let checking = Arc::clone(&core);
    // Signatures take long enough to be noticed by the requests of a core.
    let messages = tokio::task::spawn_blocking(move || admit(&checking, &from, &body)).await;
    let messages = messages.map_err(|_| {
        let detail = format!(
            "site `{}` could not check the messages: send them again",
            core.site
        );
        Problem::new(Code::StoreBusy, detail).at(&core.site)
    })??;
    if messages.is_empty() {
        return Ok(());
    }
    core.engine.receive(messages).await
}

/// Reads, checks and seals what a site sent.
pub(super) fn admit(core: &Core, from: &SiteName, body: &[u8]) -> Result<Vec<Message>, Problem> {
    let mut messages = batch::decode(body).map_err(|error| {
        let detail = format!("site `{from}` sent messages that cannot be read: {error}");
        Problem::new(Code::BadRequest, detail).at(&core.site)
    })?;
    let mut refused = None;
    messages.retain_mut(|message| {
        let Err(reason) = verify(core, from, message) else {
            return true;
        };
        // What is in it stays out of the log.
        warn!(site = %from, set = %message.set, reason, "a message of a peer is refused");
        refused = Some(reason);
        false
    });
    // One message that is not accepted must not hold up the other sets that it travels with.
    if let Some(reason) = refused.filter(|_| messages.is_empty()) {
        let detail = format!("site `{}` refuses what site `{from}` sent: {reason}", core.site);
        return Err(Problem::new(Code::PeerRefused, detail).at(&core.site));
    }
    for message in &mut messages {
        for credential in message.credentials_mut() {
            // One that cannot be kept is asked for again where the operation executes.
            *credential = credential
                .take()
                .and_then(|clear| secret::seal_clear(&core.key, &*core.surroundings, &clear.0).ok());
        }
    }
    Ok(messages)
}

fn verify(core: &Core, from: &SiteName, message: &mut Message) -> Result<(), String> {
    if message.from != *from {
        return Err(format!("a message says that it is from site `{}`", message.from));
    }
    // Before any signature: nonsense may be large.
    if let Some(nonsense) = message.objection() {
        return Err(format!("a message says what cannot be: {nonsense}"));
    }
    let identity = core
        .surroundings
        .identity()
        .ok_or("this site has no identity in the mesh to check signatures with")?;
    check_offered(core, &message.content)?;
    let moment = sign::Moment {
        now_ms: core.surroundings.now_ms(),
        grace_s: core.surroundings.limits().certificate_grace_s,
    };
    let set = message.set.clone();
    if let Content::Operations(carried) = &message.content {
        let is_foreign = |op: &Operation| match &op.verb {
            Verb::Create(birth) => !named::is_rightful(&set, birth),
            _ => false,
        };
        if carried.iter().any(|carried| is_foreign(&carried.op)) {
            return Err(format!("the name of a create has another meta-id than `{set}`"));
        }
    }
    parts::operations(message)
        .into_iter()
        .try_for_each(|op| sign::check(&identity, &set, op, moment))
        .map_err(|error| error.to_string())
}

/// Whether other sites may begin sets of the services that a message begins sets of. What lies in a set that is there
/// already was shared by a caller of this site, or while the service was offered: it goes on.
fn check_offered(core: &Core, content: &Content) -> Result<(), String> {
    let is_offered = |service: &ServiceName| core.surroundings.access(service).is_offered;
    let withheld = match content {
        Content::Operations(carried) => carried.iter().find_map(|carried| match &carried.op.verb {
            Verb::Create(birth) => Some(&birth.service).filter(|service| !is_offered(service)),
            _ => None,
        }),
        Content::Snapshot(snapshot) => Some(&snapshot.record.service).filter(|service| !is_offered(service)),
        _ => None,
    };
    match withheld {
        Some(service) => Err(format!(
            "service `{service}` is not offered to other sites: leave this site out of the scope for `{service}`, or set \
             `peers = true` under [services.{service}] here"
        )),
        None => Ok(()),
    }
}

/// The set of this meta-id, if the site that asks is one of its members.
fn for_members(core: &Core, from: &SiteName, meta: &str) -> Result<MetaId, Problem> {
    let failed = |error| problems::store(&core.site, &error);
    let set = MetaId::new(meta);
    let read = core.store.read().map_err(failed)?;
    let head = rows::head(&read, &set).map_err(failed)?;
    if head.is_some_and(|head| head.sites.contains(from)) {
        return Ok(set);
    }
    // To others a set that is not theirs looks like one that is not there.
    let detail = format!(
        "site `{}` shares no replica set `{meta}` with site `{from}`",
        core.site
    );
    Err(Problem::new(Code::UnknownReplicaSet, detail).at(&core.site))
}
