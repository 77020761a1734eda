//! Two sites find the sets about whose operations they disagree.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use cheops_replica::{Event, MetaId};
use cheops_store::{Error, ReadSession};
use cheops_types::{Code, Problem, SiteName};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use super::fold::{BUCKETS, Buckets, bucket, fold, for_each_shared};
use crate::{
    core::Core,
    pack::{pack, unpack},
    problems, rows,
};

/// Sets that one answer lists; further buckets come with the next exchange.
const LISTED_MAX: usize = 20_000;
/// Sets that one exchange speaks about again.
const WOKEN_MAX: usize = 256;

/// What a site holds in the buckets that differ, as far as it fits.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// The buckets that are listed whole.
    buckets: Vec<u8>,
    sets: Vec<(String, u128)>,
}

/// Compares what this site holds with what another one does. Sets that differ, and have nothing left to do here,
/// begin anew with what they know of the other site.
pub(super) async fn exchange(core: &Arc<Core>, site: &SiteName) {
    core.comparisons.exchanges.fetch_add(1, Ordering::Relaxed);
    let with = site.clone();
    let Some(mine) = scan(core, move |read| fold(read, &with)).await else {
        return;
    };
    let Some(question) = pack(&mine.to_vec()) else {
        return;
    };
    let answer = match core.asks.ranges(site, question.into()).await {
        Ok(answer) => answer,
        // It may have gone, or be an older agent. The next exchange asks again.
        Err(problem) => return debug!(%site, problem = %problem.detail, "what a site holds is not known"),
    };
    let Ok(theirs) = unpack::<Listed>(&answer) else {
        return warn!(%site, "what a site says that it holds cannot be read");
    };
    if theirs.buckets.is_empty() {
        return;
    }
    let with = site.clone();
    // What was deleted so long ago is about to be forgotten: whoever has done that already is not told again.
    let keep_ms = core.surroundings.limits().tombstone_keep_s.saturating_mul(1_000);
    let quiet_ms = core.surroundings.now_ms().saturating_sub(keep_ms / 2);
    let Some(differing) = scan(core, move |read| differing(read, &with, &theirs, quiet_ms)).await else {
        return;
    };
    if !differing.is_empty() {
        debug!(%site, sets = differing.len(), "a site holds something else than this one");
    }
    let disagreed = differing.len() as u64;
    core.comparisons.disagreed.fetch_add(disagreed, Ordering::Relaxed);
    core.engine
        .tell_each(differing, &Event::PeerUnsure(site.clone()))
        .await;
}

/// What this site holds where another one holds something else.
pub(crate) async fn answer(core: Arc<Core>, from: SiteName, body: Bytes) -> Result<Bytes, Problem> {
    let refused = |detail: String| Problem::new(Code::BadRequest, detail).at(&core.site);
    let theirs: Vec<u128> =
        unpack(&body).map_err(|_| refused(format!("what site `{from}` holds cannot be read")))?;
    let theirs: Box<Buckets> = theirs
        .try_into()
        .map_err(|_| refused(format!("site `{from}` does not tell {BUCKETS} buckets")))?;
    let listed = scan(&core, move |read| listed(read, &from, &theirs)).await;
    let listed = listed.unwrap_or_default();
    Ok(pack(&listed).unwrap_or_default().into())
}

/// Reads many sets where that holds up nothing else, one such reading at a time.
async fn scan<T: Send + 'static>(
    core: &Arc<Core>,
    work: impl FnOnce(&ReadSession) -> Result<T, Error> + Send + 'static,
) -> Option<T> {
    let _place = core.comparisons.scans.acquire().await.ok()?;
    let here = Arc::clone(core);
    let scanned = spawn_blocking(move || here.store.read().and_then(|read| work(&read)));
    match scanned.await.ok()? {
        Ok(found) => Some(found),
        Err(error) => {
            let problem = problems::store(&core.site, &error);
            warn!(problem = %problem.detail, "sets cannot be read to be compared");
            None
        }
    }
}

/// The sets of the buckets that differ, as many whole buckets as fit, the smallest first.
pub(super) fn listed(read: &ReadSession, with: &SiteName, theirs: &Buckets) -> Result<Listed, Error> {
    let mut mine = [0_u128; BUCKETS];
    let mut sizes = [0_usize; BUCKETS];
    for_each_shared(read, with, |meta, head| {
        let at = bucket(meta);
        mine[at] ^= head.held_hash;
        sizes[at] += 1;
    })?;
    let mut differing: Vec<usize> = (0..BUCKETS).filter(|at| mine[*at] != theirs[*at]).collect();
    differing.sort_by_key(|at| sizes[*at]);
    let mut room = LISTED_MAX;
    differing.retain(|at| {
        let fits = sizes[*at] <= room;
        room = room.saturating_sub(sizes[*at]);
        fits
    });
    if differing.is_empty() {
        return Ok(Listed::default());
    }
    let mut sets = Vec::new();
    for_each_shared(read, with, |meta, head| {
        if differing.contains(&bucket(meta)) {
            sets.push((meta.to_owned(), head.held_hash));
        }
    })?;
    Ok(Listed {
        buckets: differing.into_iter().map(|at| at as u8).collect(),
        sets,
    })
}

/// The sets of this site that another one holds otherwise, or not at all, and that are at rest here.
pub(super) fn differing(
    read: &ReadSession,
    with: &SiteName,
    theirs: &Listed,
    quiet_ms: u64,
) -> Result<Vec<MetaId>, Error> {
    let held: HashMap<&str, u128> = theirs
        .sets
        .iter()
        .map(|(meta, hash)| (meta.as_str(), *hash))
        .collect();
    let mut differing = Vec::new();
    for_each_shared(read, with, |meta, head| {
        let is_listed = theirs.buckets.contains(&(bucket(meta) as u8));
        let is_old = head.deleted_ms.is_some_and(|deleted_ms| deleted_ms < quiet_ms);
        if is_listed && !is_old && held.get(meta) != Some(&head.held_hash) {
            differing.push(MetaId::new(meta));
        }
    })?;
    let mut at_rest = Vec::new();
    for meta in differing {
        if at_rest.len() == WOKEN_MAX {
            break;
        }
        if !rows::is_unsettled(read, &meta)? {
            at_rest.push(meta);
        }
    }
    Ok(at_rest)
}
