//! Payloads for the other sites.

use std::{io, io::Read as _, ops::ControlFlow};

use bytes::Bytes;
use cheops_plan::Chunks;
use cheops_replica::MetaId;
use cheops_store::{
    Error, Payload, PayloadHash, PayloadReader, PayloadRef, Read, ReadSession, Span, tables::Payloads,
};
use cheops_types::{Code, Problem, SiteName};

use super::PayloadSets;
use crate::{core::Core, problems, rows};

const CHUNK_BYTES: usize = 256 * 1024;

/// A payload from `offset` on, for a site of a set that refers to it, or for this site itself while the body
/// belongs to a write that another site is to take over. To all others it looks as if it were not there.
pub(crate) fn serve_payload(
    core: &Core,
    from: &SiteName,
    hash: &str,
    offset: u64,
) -> Result<Box<dyn Chunks>, Problem> {
    let here = &core.site;
    let failed = |error: &Error| problems::store(here, error);
    let unknown = || {
        let detail = format!("site `{here}` has no payload `{hash}` for site `{from}`");
        Problem::new(Code::UnknownOperation, detail).at(here)
    };
    let hash = hash.parse::<PayloadHash>().map_err(|_| unknown())?;
    if from == here
        && let Some(kept) = core.spooled.take_named(&hash)
    {
        let reader = core.spool.reader(&kept, offset).map_err(|_| unknown())?;
        return Ok(Box::new(Reading {
            reader,
            _kept: Some(kept),
        }));
    }
    let read = core.store.read().map_err(|error| failed(&error))?;
    if !is_shared(&read, from, &hash).map_err(|error| failed(&error))? {
        return Err(unknown());
    }
    let row = read.get::<Payloads>(&hash).map_err(|error| failed(&error))?;
    let bytes = row.ok_or_else(unknown)?.bytes;
    let reader = core.spool.reader(&PayloadRef { hash, bytes }, offset);
    let reader = reader.map_err(|_| unknown())?;
    Ok(Box::new(Reading { reader, _kept: None }))
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

struct Reading {
    reader: PayloadReader,
    /// What no record refers to stays in the spool until it is read.
    _kept: Option<Payload>,
}

impl Chunks for Reading {
    fn remaining(&self) -> u64 {
        self.reader.left()
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let wanted = usize::try_from(self.reader.left()).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        if wanted == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; wanted];
        self.reader.read_exact(&mut chunk)?;
        Ok(Some(chunk.into()))
    }
}
