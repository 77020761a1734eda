//! What users are told when this site cannot do its part.

use cheops_replica::MetaId;
use cheops_store::{Error, SpoolError};
use cheops_types::{Code, Problem, SiteName};

/// The store did not do what was asked of it. Nothing happened.
pub(crate) fn store(site: &SiteName, error: &Error) -> Problem {
    let code = match error {
        Error::Busy { .. } => Code::StoreBusy,
        Error::Closed => Code::ShuttingDown,
        Error::BadRow { .. } => Code::Internal,
        _ => Code::StoreFull,
    };
    Problem::new(code, format!("the store of `{site}` cannot be used: {error}")).at(site)
}

pub(crate) fn spool(site: &SiteName, error: &SpoolError) -> Problem {
    Problem::new(
        Code::StoreFull,
        format!("the body cannot be kept at `{site}`: {error}"),
    )
    .at(site)
}

pub(crate) fn unknown_set(site: &SiteName, set: &MetaId) -> Problem {
    let detail = format!("`{site}` knows no replica set `{set}`: check the id, or ask a site of the set");
    Problem::new(Code::UnknownReplicaSet, detail).at(site)
}

pub(crate) fn deleted(site: &SiteName, set: &str) -> Problem {
    let detail = format!("the resource of the replica set `{set}` was deleted: create a new one");
    Problem::new(Code::ResourceDeleted, detail).at(site)
}

/// State is documents: what would be made of it alone lacks its parts. `what` says what cannot be, `instead` what to do.
pub(crate) fn without_parts(
    site: &SiteName,
    (service, kind): (&str, &str),
    what: &str,
    instead: &str,
) -> Problem {
    let detail = format!(
        "{what}: a `{kind}` of `{service}` has data beside its document (`parts` in the glue), which travels with writes \
         only, not with the state of a replica; {instead}"
    );
    Problem::new(Code::SetRefused, detail).at(site)
}

pub(crate) fn stopping(site: &SiteName) -> Problem {
    let detail = format!("the agent of `{site}` stops: try again later, or through another site");
    Problem::new(Code::ShuttingDown, detail).at(site)
}
