//! How an operation stands at the sites of its set, as receipts tell it.

use std::sync::Arc;

use cheops_ports::Told;
use cheops_replica::{MetaId, OpId, Outcome as Ended, Set, State, Token};
use cheops_types::{Code, Outcome, SiteName, Visit};

use crate::{operation_ref::OperationRef, rows::why_word};

/// The operation has not been sent to the site, or the site has not said that it holds it.
const ON_ITS_WAY: &str = "delivery";
/// The site holds the operation; it has neither said what came of it nor what holds it up.
const HELD: &str = "waiting";

/// What an accepted operation has come to, as far as this site knows. `status` is what this site's
/// application answered, where that is known.
pub(crate) fn accepted(set: &Set, here: &SiteName, id: &OpId, status: Option<u16>) -> Told {
    let view = set.operation(id, here);
    let mut sites = vec![at_home(set, here, id, status)];
    for site in others(set, here) {
        let refused = set
            .peer_view(site)
            .and_then(|peer| peer.degraded.as_ref())
            .filter(|degraded| degraded.operation.as_ref() == Some(id));
        sites.push(match refused {
            Some(degraded) => refusal(site, Some(degraded.status)),
            None if view.done.contains(site) => visit(site, Outcome::Executed, None, None),
            None if view.held.contains(site) => {
                let why = set.why_at(site, id).map_or(HELD, why_word);
                visit(site, Outcome::Pending, None, Some(why))
            }
            None => visit(site, Outcome::Pending, None, Some(ON_ITS_WAY)),
        });
    }
    let is_pruned = set.pruned().includes(id);
    let held = if is_pruned { sites.len() } else { view.held.len() };
    Told {
        set: meta(set),
        operation: Some(OperationRef::number(&set.record().meta, id).to_string()),
        held: held as u32,
        complete: sites.iter().all(|visit| visit.outcome == Outcome::Executed),
        sites,
    }
}

/// A write that is durable here and has no number yet.
pub(crate) fn recorded(set: &Set, here: &SiteName, token: Token) -> Told {
    let all = std::iter::once(here).chain(others(set, here));
    Told {
        set: meta(set),
        operation: Some(OperationRef::token(&set.record().meta, token).to_string()),
        held: 1,
        sites: all
            .map(|site| visit(site, Outcome::Pending, None, Some(HELD)))
            .collect(),
        complete: false,
    }
}

/// A write that left nothing behind: this site's application said so, or never saw it, or may have done
/// it all the same. Sites that have a replica come first among the others.
pub(crate) fn dropped(set: &Set, here: &SiteName, outcome: Outcome, status: Option<u16>) -> Told {
    let mut others: Vec<_> = others(set, here).cloned().collect();
    others.sort_by_key(|site| set.remote(site).is_none());
    dropped_at(&set.record().meta, here, &others, outcome, status)
}

/// The same of a set that may be gone.
pub(crate) fn dropped_at(
    meta: &MetaId,
    here: &SiteName,
    others: &[SiteName],
    outcome: Outcome,
    status: Option<u16>,
) -> Told {
    let mut sites = vec![visit(here, outcome, status, None)];
    sites.extend(
        others
            .iter()
            .map(|site| visit(site, Outcome::NotExecuted, None, None)),
    );
    Told {
        set: Arc::from(meta.as_str()),
        operation: None,
        held: 0,
        sites,
        complete: true,
    }
}

/// A set that does not exist here.
pub(crate) fn nothing(set: &MetaId) -> Told {
    Told {
        set: Arc::from(set.as_str()),
        operation: None,
        held: 0,
        sites: Vec::new(),
        complete: true,
    }
}

fn at_home(set: &Set, here: &SiteName, id: &OpId, status: Option<u16>) -> Visit {
    let Some(entry) = set.operation(id, here).entry else {
        return visit(here, Outcome::Executed, status, None);
    };
    match entry.state {
        State::Done(Ended::Refused { status }) => refusal(here, Some(status)),
        State::Done(Ended::Abandoned | Ended::NoReplica) => refusal(here, None),
        State::Done(_) => visit(here, Outcome::Executed, status, None),
        State::Waiting(_) => {
            let why = set.why(entry).map_or(HELD, why_word);
            visit(here, Outcome::Pending, None, Some(why))
        }
    }
}

/// The site has its outcome, and it is not what the others have.
fn refusal(site: &SiteName, status: Option<u16>) -> Visit {
    visit(
        site,
        Outcome::Executed,
        status,
        Some(Code::ReplicaRefused.as_str()),
    )
}

/// Whether a site refused what the others accepted.
pub(crate) fn is_refusal(visit: &Visit) -> bool {
    visit.error.as_deref() == Some(Code::ReplicaRefused.as_str())
}

fn visit(site: &SiteName, outcome: Outcome, status: Option<u16>, error: Option<&str>) -> Visit {
    Visit {
        site: site.clone(),
        service: None,
        outcome,
        status,
        error: error.map(str::to_owned),
        items: None,
    }
}

fn others<'s>(set: &'s Set, here: &'s SiteName) -> impl Iterator<Item = &'s SiteName> {
    set.members().keys().filter(move |site| *site != here)
}

fn meta(set: &Set) -> Arc<str> {
    Arc::from(set.record().meta.as_str())
}
