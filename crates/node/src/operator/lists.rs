//! Pages of sets, operations and conflicts. Each looks at so many sets at most: what it costs does not depend
//! on how many there are.

use std::ops::ControlFlow;

use cheops_replica::{MetaId, Rank};
use cheops_store::{Error, Read as _, ReadSession, Span, tables::OperationKey};
use cheops_types::{Problem, SiteName};

use super::{
    find,
    page_end::PageEnd,
    view::{Item, View},
};
use crate::{
    core::Core,
    model::{
        ConflictFilter, ConflictList, ConflictSummary, OperationFilter, OperationList, SetFilter, SetHint,
        SetList,
    },
    problems,
    rows::{self, Conflicts, Records, Sets, UnsettledRecords},
};

const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;
/// How many sets are looked at for one page.
const SETS_MAX: usize = 10_000;

fn page(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE).clamp(1, PAGE_MAX)
}

pub(super) fn sets(core: &Core, read: &ReadSession, filter: &SetFilter) -> Result<SetList, Problem> {
    let failed = |error: Error| problems::store(&core.site, &error);
    let limit = page(filter.limit);
    let span = match &filter.after {
        Some(after) => Span::all().after(after),
        None => Span::all(),
    };
    let has_site = |sites: &[SiteName]| filter.site.as_ref().is_none_or(|site| sites.contains(site));
    let mut candidates = Vec::new();
    let mut looked = 0;
    let mut last = None;
    // Heads are small; records are read of what may be shown.
    read.for_each::<Sets>(&span, |meta, row| {
        looked += 1;
        let is_meant = is_or_any(filter.service.as_ref(), row.service.as_str())
            && is_or_any(filter.kind.as_ref(), &row.kind)
            && has_site(&row.head.sites)
            && (!filter.cross || row.head.span.is_some());
        last = Some(meta.clone());
        if is_meant {
            candidates.push(meta);
        }
        // With a state in mind many of them may be left out again.
        let enough = filter.state.is_none() && candidates.len() >= limit;
        if looked >= SETS_MAX || enough {
            ControlFlow::Break(())
        } else {
            last = None;
            ControlFlow::Continue(())
        }
    })
    .map_err(failed)?;
    let mut list = SetList {
        sets: Vec::new(),
        next: last,
    };
    for meta in candidates {
        let Some(row) = read.get::<Records>(&meta).map_err(failed)? else {
            continue;
        };
        let mut set = row.record.set;
        if row.unsettled {
            // Only its log tells what it waits for.
            set = rows::set(read, &MetaId::new(&meta))
                .map_err(failed)?
                .unwrap_or(set);
        }
        let mut summary = View::new(&core.site, &set).summary();
        find::complete(read, &set, &mut summary);
        if filter.state.is_none_or(|state| summary.state == state) {
            list.sets.push(summary);
            if list.sets.len() == limit {
                list.next = Some(meta);
                break;
            }
        }
    }
    Ok(list)
}

pub(super) fn operations(
    core: &Core,
    read: &ReadSession,
    filter: &OperationFilter,
) -> Result<OperationList, Problem> {
    let failed = |error: Error| problems::store(&core.site, &error);
    let after = PageEnd::parse(filter.after.as_deref())?;
    let limit = page(filter.limit);
    let mut list = OperationList {
        operations: Vec::new(),
        next: None,
    };
    let (metas, behind) = match &filter.set {
        Some(id) => (vec![find::meta(core, read, id, &SetHint::default())?], None),
        None => unsettled(read, after.as_ref()).map_err(failed)?,
    };
    for meta in metas {
        let Some(set) = rows::set(read, &meta).map_err(failed)? else {
            continue;
        };
        if !is_or_any(filter.service.as_ref(), set.record().service.as_str()) {
            continue;
        }
        let view = View::new(&core.site, &set);
        let from = after.as_ref().filter(|place| place.set == meta.as_str());
        let from = from.and_then(|place| place.rank.as_ref());
        let mut last = PageEnd::before(meta.as_str());
        for item in view.items().filter(|item| is_behind(item, from)) {
            if list.operations.len() == limit {
                list.next = Some(last.to_string());
                return Ok(list);
            }
            if let Item::Logged(entry) = item {
                last = PageEnd::at(meta.as_str(), entry.op.rank());
            }
            let operation = view.operation(item);
            let is_meant = match filter.state {
                Some(state) => operation.state == state,
                None => filter.set.is_some() || operation.state.is_open(),
            };
            if is_meant {
                list.operations.push(operation);
            }
        }
    }
    list.next = behind.map(|place| place.to_string());
    Ok(list)
}

/// What has no number comes first in its set, on the page where the set begins.
fn is_behind(item: &Item<'_>, from: Option<&Rank>) -> bool {
    match (item, from) {
        (_, None) => true,
        (Item::Logged(entry), Some(from)) => entry.op.rank() > *from,
        _ => false,
    }
}

/// Sets with something left to do, and where to go on after them.
fn unsettled(read: &ReadSession, after: Option<&PageEnd>) -> Result<(Vec<MetaId>, Option<PageEnd>), Error> {
    let span = match after {
        Some(place) => Span::all().from(&((), place.set.clone())),
        None => Span::all(),
    };
    let mut keys = read.keys_by::<UnsettledRecords>(&span, SETS_MAX + 1)?;
    let more = (keys.len() > SETS_MAX)
        .then(|| keys.pop())
        .flatten()
        .map(|((), meta)| PageEnd::before(&meta));
    let metas = keys.into_iter().map(|((), meta)| MetaId::new(&meta)).collect();
    Ok((metas, more))
}

pub(super) fn conflicts(
    core: &Core,
    read: &ReadSession,
    filter: &ConflictFilter,
) -> Result<ConflictList, Problem> {
    let failed = |error: Error| problems::store(&core.site, &error);
    let limit = page(filter.limit);
    let mut span = match &filter.set {
        Some(id) => Span::under(&find::meta(core, read, id, &SetHint::default())?.to_string()),
        None => Span::all(),
    };
    if let Some(PageEnd {
        set,
        rank: Some(rank),
    }) = PageEnd::parse(filter.after.as_deref())?
    {
        span = span.after(&(set, rows::operation_key(&rank)));
    }
    let mut keys = read.scan::<Conflicts>(&span, SETS_MAX).map_err(failed)?;
    let mut more = keys.len() == SETS_MAX;
    let mut list = ConflictList {
        conflicts: Vec::new(),
        next: None,
    };
    let mut last = None;
    let mut known: Option<(String, Vec<(OperationKey, ConflictSummary)>)> = None;
    for ((meta, place), ()) in keys.drain(..) {
        if list.conflicts.len() == limit {
            more = true;
            break;
        }
        if known.as_ref().is_none_or(|(known, _)| *known != meta) {
            known = Some((meta.clone(), of_set(core, read, &meta).map_err(failed)?));
        }
        let of_set = known.as_ref().map(|(_, of_set)| &of_set[..]).unwrap_or_default();
        if let Some((_, summary)) = of_set.iter().find(|(key, _)| *key == place)
            && is_or_any(filter.service.as_ref(), summary.service.as_str())
        {
            list.conflicts.push(summary.clone());
        }
        last = Some((meta, place));
    }
    if more && let Some((meta, key)) = last {
        list.next = Some(PageEnd::at(&meta, rank(key)).to_string());
    }
    Ok(list)
}

/// The conflicts of one set, with the places that they have in the store.
fn of_set(
    core: &Core,
    read: &ReadSession,
    meta: &str,
) -> Result<Vec<(OperationKey, ConflictSummary)>, Error> {
    let Some(row) = read.get::<Records>(&meta.to_owned())? else {
        return Ok(Vec::new());
    };
    let set = row.record.set;
    let view = View::new(&core.site, &set);
    let conflicts = set.conflicts().map(|conflict| {
        (
            rows::operation_key(&conflict.loser.rank()),
            view.conflict(conflict),
        )
    });
    Ok(conflicts.collect())
}

fn rank(key: OperationKey) -> Rank {
    Rank {
        time: key.clock,
        id: cheops_replica::OpId {
            author: cheops_replica::Author {
                site: key.origin,
                incarnation: key.incarnation.0,
                stay: key.stay,
            },
            seq: key.sequence,
        },
    }
}

fn is_or_any(wanted: Option<&String>, found: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == found)
}
