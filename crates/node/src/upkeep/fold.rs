//! What this site holds, as one number per bucket of sets.

use cheops_store::{Error, Read as _, ReadSession, Span};
use cheops_types::SiteName;

use crate::rows::{Head, HeadStanding, Sets, hash};

pub(super) const BUCKETS: usize = 256;
/// Sets that are read at a time.
const PAGE: usize = 2_000;

/// The exclusive or of the hashes of a bucket's sets. It does not depend on their order.
pub(super) type Buckets = [u128; BUCKETS];

pub(super) fn bucket(meta: &str) -> usize {
    // The last byte of one hash and the first of another have nothing to do with each other.
    hash(meta.as_bytes()) as usize % BUCKETS
}

/// What is shared with a site.
pub(super) fn fold(read: &ReadSession, with: &SiteName) -> Result<Box<Buckets>, Error> {
    let mut buckets = Box::new([0; BUCKETS]);
    for_each_shared(read, with, |meta, head| buckets[bucket(meta)] ^= head.held_hash)?;
    Ok(buckets)
}

/// Every set that this site is a member of together with another one, in the order of the keys.
pub(super) fn for_each_shared(
    read: &ReadSession,
    with: &SiteName,
    mut visit: impl FnMut(&str, &Head),
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let span = after
            .as_ref()
            .map_or_else(Span::all, |after| Span::all().after(after));
        let rows = read.scan::<Sets>(&span, PAGE)?;
        let is_end = rows.len() < PAGE;
        for (meta, row) in rows {
            let is_member = row.head.standing != HeadStanding::Out && row.head.sites.contains(with);
            if is_member {
                visit(&meta, &row.head);
            }
            after = Some(meta);
        }
        if is_end {
            return Ok(());
        }
    }
}
