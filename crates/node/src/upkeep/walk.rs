//! Comparisons that nobody asked for: all sets in the order of their keys, some per second.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use cheops_replica::{Event, MetaId};
use cheops_store::{Error, Read as _, ReadSession, Span};
use cheops_types::{Limit, SiteName};
use tokio::{task::spawn_blocking, time::Instant};
use tracing::warn;

use super::FIRST_AFTER;
use crate::{
    core::Core,
    rows::{self, Head, HeadStanding, Sets},
};

/// Sets that are looked at per step, whether or not they are compared.
const LOOKED_AT_MAX: usize = 2_000;

/// Where the walk is.
pub(super) struct Walk {
    /// The last set that was looked at.
    after: Option<String>,
    /// When it began, or when the next one may.
    begun: Option<Instant>,
    next_at: Instant,
}

/// Some sets further on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) chosen: Vec<MetaId>,
    /// Deleted, and long ago.
    pub(super) expired: Vec<MetaId>,
    /// None at the end.
    pub(super) after: Option<String>,
}

impl Walk {
    /// The first one begins anywhere, so that an agent that is started often does not always compare the same.
    pub(super) fn new(core: &Core, start: Instant) -> Self {
        let mut random = [0; 1];
        core.surroundings.fill(&mut random);
        Self {
            after: Some(format!("{:02x}", random[0])),
            begun: None,
            next_at: start + FIRST_AFTER.min(pause(core)),
        }
    }

    /// One step: as many comparisons as the limit lets one second have.
    pub(super) async fn go_on(&mut self, core: &Arc<Core>, up: &BTreeSet<SiteName>) {
        let rate = core.surroundings.limits().compare_sets_per_s;
        let now = Instant::now();
        if rate == 0 || self.begun.is_none() && now < self.next_at {
            return;
        }
        let begun = *self.begun.get_or_insert(now);
        let (after, up, here) = (self.after.clone(), up.clone(), Arc::clone(core));
        let page = spawn_blocking(move || {
            let read = here.store.read()?;
            let keep_ms = here.surroundings.limits().tombstone_keep_s.saturating_mul(1_000);
            let before_ms = here.surroundings.now_ms().saturating_sub(keep_ms);
            let page = page(&read, after, &here.site, &up, rate, before_ms)?;
            Ok::<_, Error>((page, before_ms))
        });
        let (page, before_ms) = match page.await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => return warn!(%error, "sets cannot be read to be compared"),
            Err(_) => return,
        };
        if page.chosen.len() == rate {
            Limit::CompareRate.hit();
        }
        let chosen = page.chosen.len() as u64;
        core.comparisons.compared.fetch_add(chosen, Ordering::Relaxed);
        core.engine.tell_each(page.chosen, &Event::Check).await;
        expire(core, page.expired, before_ms).await;
        self.after = page.after;
        if self.after.is_none() {
            core.comparisons.walks.fetch_add(1, Ordering::Relaxed);
            self.begun = None;
            self.next_at = begun + pause(core);
        }
    }
}

/// Lets sets that were deleted long ago be forgotten. Where something is left of one, such as a conflict, it stays.
async fn expire(core: &Arc<Core>, expired: Vec<MetaId>, before_ms: u64) {
    if expired.is_empty() {
        return;
    }
    let event = Event::Expire { before_ms };
    core.engine.tell_each(expired.clone(), &event).await;
    let here = Arc::clone(core);
    let gone = spawn_blocking(move || {
        let read = here.store.read()?;
        let is_gone = |meta: &&MetaId| rows::row(&read, meta).is_ok_and(|row| row.is_none());
        Ok::<_, Error>(expired.iter().filter(is_gone).count())
    });
    if let Ok(Ok(gone)) = gone.await {
        core.comparisons.expired.fetch_add(gone as u64, Ordering::Relaxed);
        (0..gone).for_each(|_| Limit::TombstoneKeep.hit());
    }
}

fn pause(core: &Core) -> Duration {
    Duration::from_secs(core.surroundings.limits().compare_every_s.max(1))
}

/// The next sets whose comparison this site begins, and where to go on.
pub(super) fn page(
    read: &ReadSession,
    after: Option<String>,
    here: &SiteName,
    up: &BTreeSet<SiteName>,
    rate: usize,
    before_ms: u64,
) -> Result<Page, Error> {
    let span = after.map_or_else(Span::all, |after| Span::all().after(&after));
    let rows = read.scan::<Sets>(&span, LOOKED_AT_MAX)?;
    let is_end = rows.len() < LOOKED_AT_MAX;
    let mut page = Page {
        chosen: Vec::new(),
        expired: Vec::new(),
        after: None,
    };
    for (key, row) in rows {
        if page.chosen.len() == rate {
            return Ok(page);
        }
        let meta = MetaId::new(&key);
        let is_old = |deleted_ms| deleted_ms < before_ms;
        if row.name.is_none() && row.head.deleted_ms.is_some_and(is_old) {
            page.expired.push(meta.clone());
        }
        // What has something left to do is looked after already.
        if begins(&row.head, up) == Some(here) && !rows::is_unsettled(read, &meta)? {
            page.chosen.push(meta);
        }
        page.after = Some(key);
    }
    page.after = page.after.filter(|_| !is_end);
    Ok(page)
}

/// The member that begins the comparison of a set: the first by name that is up. Members may differ about who is
/// up; then two begin, which is one too many and does no harm.
pub(super) fn begins<'h>(head: &'h Head, up: &BTreeSet<SiteName>) -> Option<&'h SiteName> {
    let is_compared = head.standing == HeadStanding::Member && head.sites.len() > 1;
    let sites = head.sites.iter().filter(|site| up.contains(*site));
    sites.min().filter(|_| is_compared)
}
