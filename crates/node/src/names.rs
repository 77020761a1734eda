//! The names in containers that span sites, as their prime site gives them away.
//!
//! A name is a row of the store, and a decision about it is one commit: durable before it is answered.

use std::ops::ControlFlow;

use cheops_replica::{
    MetaId,
    names::{Holding, HoldingState, Moment, decide},
};
use cheops_store::{Error, Incarnation, Read as _, Span, WriteSession};
use cheops_types::{Code, NameAsk, NameRequest, NameVerdict, Problem, SiteName, SpanForm};

use crate::{
    core::Core,
    problems,
    rows::{self, Head, HeadStanding, Names},
};

/// Beyond what a create may take at two agents: for clocks that read a little later.
const SLACK_MS: u64 = 5_000;
/// Claims that are told at once.
const CLAIMS_MAX: usize = 1000;

/// Answers what a site asks, this one among them.
pub(crate) async fn answer(
    core: &Core,
    from: &SiteName,
    request: NameRequest,
) -> Result<NameVerdict, Problem> {
    let container = MetaId::new(&request.container);
    let failed = |error| problems::store(&core.site, &error);
    let head = core
        .store
        .read_with(|read| rows::head(read, &container))
        .map_err(failed)?;
    let head = head.filter(|head| *from == core.site || head.sites.contains(from));
    let Some(head) = head.filter(is_container) else {
        let detail = format!(
            "site `{}` shares no container `{container}` that spans sites with site `{from}`",
            core.site
        );
        return Err(Problem::new(Code::UnknownReplicaSet, detail).at(&core.site));
    };
    if is_prime(core, &head) || is_note(core, from, &request.ask) {
        take(core, &head, request).await
    } else {
        Ok(NameVerdict::NotPrime)
    }
}

pub(crate) fn is_container(head: &Head) -> bool {
    let span = head.span.as_ref();
    head.standing == HeadStanding::Member && span.is_some_and(|span| span.form == SpanForm::Container)
}

fn is_prime(core: &Core, head: &Head) -> bool {
    let span = head.span.as_ref();
    span.and_then(|span| span.prime(&head.sites)).as_ref() == Some(&core.site)
}

/// Whether this site takes note of the ask although it is not the prime site. Keeping or freeing a name that is stored
/// here needs no prime site: it may have been one when it gave the name away.
fn is_note(core: &Core, from: &SiteName, ask: &NameAsk) -> bool {
    match ask {
        NameAsk::Peek | NameAsk::Keep { .. } | NameAsk::Release { .. } | NameAsk::Gone { .. } => true,
        NameAsk::Unasked { .. } => *from == core.site,
        NameAsk::Reserve { .. } | NameAsk::Claim { .. } => false,
    }
}

async fn take(core: &Core, head: &Head, request: NameRequest) -> Result<NameVerdict, Problem> {
    let limits = core.surroundings.limits();
    let first = head.span.as_ref().and_then(|span| span.order.first());
    let moment = Moment {
        now_ms: core.surroundings.now_ms(),
        pending_ms: limits.upstream_timeout_ms + limits.peer_timeout_ms + SLACK_MS,
        successor_since_ms: None,
    };
    let Incarnation(life) = core.store.incarnation();
    // Names may be given away already that this store does not have: by an earlier prime site, or by this one before it
    // lost its store. Then creates that were let go before must end first.
    let is_successor = first != Some(&core.site) || head.has_moved || head.begun != Some(life);
    let failed = |error| problems::store(&core.site, &error);
    let here = core.site.clone();
    let written = core.store.write(move |session| {
        let since_ms = if is_successor && matches!(request.ask, NameAsk::Reserve { .. }) {
            Some(taken_over(
                session,
                &here,
                life,
                &request.container,
                moment.now_ms,
            )?)
        } else {
            None
        };
        let moment = Moment {
            successor_since_ms: since_ms,
            ..moment
        };
        let place = (request.container, request.name);
        let before = session.get::<Names>(&place)?;
        let (after, verdict) = decide(before.clone(), request.ask, moment);
        match after {
            after if after == before => {}
            Some(after) => session.put::<Names>(&place, &after)?,
            None => {
                session.delete::<Names>(&place)?;
            }
        }
        Ok(verdict)
    });
    written.map_err(failed)?.await.map_err(failed)
}

/// Since when this site gives away the names of a container that had another prime site before, or the same one with
/// another store. It is the time of the first question, kept in the row whose name is empty, with the life of the store.
fn taken_over(
    session: &mut WriteSession<'_>,
    here: &SiteName,
    life: u64,
    container: &str,
    now_ms: u64,
) -> Result<u64, Error> {
    let place = (container.to_owned(), String::new());
    let life = life.to_string();
    if let Some(row) = session.get::<Names>(&place)?.filter(|row| row.attempt == life) {
        return Ok(row.since_ms);
    }
    let row = Holding {
        owner: here.clone(),
        attempt: life,
        since_ms: now_ms,
        lasts_ms: 0,
        state: HoldingState::Kept,
        rivals: Vec::new(),
    };
    session.put::<Names>(&place, &row)?;
    Ok(now_ms)
}

/// Tells the prime sites of all containers which names this site has taken without asking.
pub(crate) async fn tell_unasked(core: &Core) {
    for (place, holding) in unasked(core) {
        if let Err(problem) = tell(core, &place, &holding).await {
            tracing::debug!(container = place.0, name = place.1, problem = %problem.detail, "a name could not be told yet");
        }
    }
}

fn unasked(core: &Core) -> Vec<((String, String), Holding)> {
    let mut unasked = Vec::new();
    let Ok(read) = core.store.read() else {
        return unasked;
    };
    let read = read.for_each::<Names>(&Span::all(), |place, row| {
        if row.state == HoldingState::Unasked {
            unasked.push((place, row));
        }
        if unasked.len() < CLAIMS_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    if let Err(error) = read {
        tracing::warn!(%error, "names that were taken without asking cannot be read");
    }
    unasked
}

async fn tell(core: &Core, place: &(String, String), holding: &Holding) -> Result<(), Problem> {
    let failed = |error| problems::store(&core.site, &error);
    let container = MetaId::new(&place.0);
    let head = core
        .store
        .read_with(|read| rows::head(read, &container))
        .map_err(failed)?;
    let Some(head) = head.filter(is_container) else {
        return Ok(());
    };
    let Some(prime) = head.span.as_ref().and_then(|span| span.prime(&head.sites)) else {
        return Ok(());
    };
    let request = NameRequest {
        container: place.0.clone(),
        name: place.1.clone(),
        ask: NameAsk::Claim {
            owner: holding.owner.clone(),
            attempt: holding.attempt.clone(),
            since_ms: holding.since_ms,
        },
    };
    let verdict = if prime == core.site {
        take(core, &head, request).await?
    } else {
        core.asks.name(&prime, &request).await?
    };
    let state = match verdict {
        NameVerdict::Granted => HoldingState::Kept,
        NameVerdict::Rival { owner } => {
            tracing::warn!(
                container = place.0, name = place.1, %owner,
                "a name that was taken while the prime site could not be asked is another one's"
            );
            HoldingState::Flagged
        }
        _ => return Ok(()),
    };
    // At the prime site itself the decision stands already.
    if prime == core.site {
        return Ok(());
    }
    let (place, attempt) = (place.clone(), holding.attempt.clone());
    let written = core.store.write(move |session| {
        let Some(mut row) = session.get::<Names>(&place)?.filter(|row| row.attempt == attempt) else {
            return Ok(());
        };
        row.state = state;
        match state {
            // It is the prime site's business now.
            HoldingState::Kept => session.delete::<Names>(&place).map(drop),
            _ => session.put::<Names>(&place, &row),
        }
    });
    written.map_err(failed)?.await.map_err(failed)
}

/// The names of a container that more than one resource has, as far as this site knows.
pub(crate) fn flagged(core: &Core, container: &MetaId) -> Vec<(String, Holding)> {
    let key = container.as_str().to_owned();
    let rows = core
        .store
        .read_with(|read| read.scan::<Names>(&Span::under(&key), usize::MAX));
    let rows = rows.unwrap_or_default().into_iter();
    rows.filter(|(_, row)| !row.rivals.is_empty() || row.state == HoldingState::Flagged)
        .map(|((_, name), row)| (name, row))
        .collect()
}
