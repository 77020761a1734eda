//! Payloads for the other sites.

use std::ops::ControlFlow;

use cheops_net::Body;
use cheops_replica::MetaId;
use cheops_store::{Error, PayloadHash, PayloadRef, Read, ReadSession, Span, tables::Payloads};
use cheops_types::{Code, Problem, SiteName};

use super::PayloadSets;
use crate::{core::Core, problems, rows, stream};

/// A payload from `offset` on, for a site of a set that refers to it. To all others it looks as if it were not there.
pub(crate) fn serve_payload(core: &Core, from: &SiteName, hash: &str, offset: u64) -> Result<Body, Problem> {
    let here = &core.site;
    let failed = |error: &Error| problems::store(here, error);
    let unknown = || {
        let detail = format!("site `{here}` has no payload `{hash}` for site `{from}`");
        Problem::new(Code::UnknownOperation, detail).at(here)
    };
    let hash = hash.parse::<PayloadHash>().map_err(|_| unknown())?;
    let read = core.store.read().map_err(|error| failed(&error))?;
    if !is_shared(&read, from, &hash).map_err(|error| failed(&error))? {
        return Err(unknown());
    }
    let row = read.get::<Payloads>(&hash).map_err(|error| failed(&error))?;
    let bytes = row.ok_or_else(unknown)?.bytes;
    let reader = core.spool.reader(&PayloadRef { hash, bytes }, offset);
    Ok(stream::body(reader.map_err(|_| unknown())?, None))
}

/// Whether a set that refers to the payload has the site as a member.
fn is_shared(read: &ReadSession, site: &SiteName, hash: &PayloadHash) -> Result<bool, Error> {
    let mut sets = Vec::new();
    read.for_each::<PayloadSets>(&Span::under(hash), |(_, set), _| {
        sets.push(set);
        ControlFlow::Continue(())
    })?;
    for set in sets {
        let head = rows::head(read, &MetaId::new(&set))?;
        if head.is_some_and(|head| head.sites.contains(site)) {
            return Ok(true);
        }
    }
    Ok(false)
}
