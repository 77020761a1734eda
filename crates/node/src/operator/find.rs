//! A set by any id that it is called by.

use cheops_replica::{MetaId, Set};
use cheops_store::{Index, Read, ReadSession, Span};
use cheops_types::{Code, Problem, ServiceName};

use crate::{
    core::Core,
    model::{SetHint, SetState, SetSummary},
    problems,
    rows::{self, HeadStanding, Sets, SetsByLocalKey, SetsByName},
};

/// Greater than every id.
const BEHIND_ALL: &str = "\u{10ffff}";
/// How many kinds are looked through for an id without a hint.
const KINDS_MAX: usize = 10_000;

/// The set that `id` means: its meta-id, its name, or the local id of its replica here.
pub(super) fn set(core: &Core, read: &ReadSession, id: &str, hint: &SetHint) -> Result<Set, Problem> {
    let meta = meta(core, read, id, hint)?;
    rows::set(read, &meta)
        .map_err(|error| problems::store(&core.site, &error))?
        .ok_or_else(|| problems::unknown_set(&core.site, &meta))
}

pub(super) fn meta(core: &Core, read: &ReadSession, id: &str, hint: &SetHint) -> Result<MetaId, Problem> {
    let failed = |error| problems::store(&core.site, &error);
    if read.contains::<Sets>(&id.to_owned()).map_err(failed)? {
        return Ok(MetaId::new(id));
    }
    let mut found = metas::<SetsByLocalKey>(read, id, hint).map_err(failed)?;
    found.extend(metas::<SetsByName>(read, id, hint).map_err(failed)?);
    found.sort();
    found.dedup();
    // A name may have had several sets in turn: the one that lives is meant.
    let mut rows = Vec::new();
    for meta in found {
        if let Some(row) = read.get::<Sets>(&meta).map_err(failed)? {
            rows.push((meta, row));
        }
    }
    if rows
        .iter()
        .any(|(_, row)| row.head.standing == HeadStanding::Member)
    {
        rows.retain(|(_, row)| row.head.standing == HeadStanding::Member);
    }
    match &rows[..] {
        [] => Err(problems::unknown_set(&core.site, &MetaId::new(id))),
        [(meta, _)] => Ok(MetaId::new(meta)),
        several => {
            let each: Vec<_> = several
                .iter()
                .map(|(meta, row)| format!("`{meta}` ({} {})", row.service, row.kind))
                .collect();
            let detail = format!(
                "`{id}` is the id of several replicas at `{}`: {}; name the set by its meta-id, or say service and kind",
                core.site,
                each.join(", ")
            );
            Err(Problem::new(Code::BadRequest, detail).at(&core.site))
        }
    }
}

/// What only the other sets of this site tell about one: its name behind those of its parents, since a name alone does
/// not tell it from others of its kind, and whether it went with a parent.
pub(super) fn complete(read: &ReadSession, set: &Set, summary: &mut SetSummary) {
    let record = set.record();
    if record.parents.is_empty() {
        return;
    }
    let key = record
        .name
        .as_deref()
        .map(|name| rows::local_key(read, &record.parents, name));
    if let Some(Ok(Some(key))) = key {
        summary.id = key;
    }
    if rows::has_lost_parent(read, &record.parents).unwrap_or_default() {
        summary.state = SetState::Deleted;
    }
}

/// The sets that an index of `(service, kind, id)` has under an id, whatever their kind.
fn metas<I>(read: &ReadSession, id: &str, hint: &SetHint) -> Result<Vec<String>, cheops_store::Error>
where
    I: Index<Table = Sets, Key = (ServiceName, String, String)>,
{
    let mut found = Vec::new();
    let mut span = Span::all();
    for _ in 0..KINDS_MAX {
        // From one kind to the next, without reading what is between.
        let Some(((service, kind, _), _)) = read.keys_by::<I>(&span, 1)?.pop() else {
            break;
        };
        let is_meant = hint
            .service
            .as_deref()
            .is_none_or(|name| service.as_str() == name)
            && hint.kind.as_ref().is_none_or(|name| kind == *name);
        if is_meant {
            let key = (service.clone(), kind.clone(), id.to_owned());
            let metas = read.keys_by::<I>(&Span::under(&key), usize::MAX)?;
            found.extend(metas.into_iter().map(|(_, meta)| meta));
        }
        span = Span::all().after(&(service, kind, BEHIND_ALL.to_owned()));
    }
    Ok(found)
}
