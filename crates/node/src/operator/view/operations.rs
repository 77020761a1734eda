//! Operations as operators see them.

use cheops_replica::{Entry, Install, Job, Operation, Outcome, Phase, Request, State, Verb, Why, Work};
use cheops_types::SiteName;

use super::View;
use crate::{
    model::{Body, OperationDetail, OperationState, OperationSummary, SiteProgress, SiteState},
    operation_ref::{OperationRef, Which},
};

/// Something that executes, or is to: a recorded operation, a write that has no number yet, or the state of
/// another replica.
#[derive(Clone, Copy)]
pub(in crate::operator) enum Item<'s> {
    Logged(&'s Entry),
    Accepted(&'s Operation),
    Install(&'s Install),
}

impl<'s> View<'s> {
    /// What executes or waits for it, first what has no place in the order yet.
    pub(in crate::operator) fn items(self) -> impl Iterator<Item = Item<'s>> {
        let accepted = self.set.job().and_then(|job| match &job.work {
            Work::Accept { op, .. } => Some(Item::Accepted(op)),
            _ => None,
        });
        let install = self.set.install().map(Item::Install);
        let logged = self.set.log().map(Item::Logged);
        accepted.into_iter().chain(install).chain(logged)
    }

    pub(in crate::operator) fn find(self, which: &Which) -> Option<Item<'s>> {
        self.items().find(|item| match (item, which) {
            (Item::Logged(entry), Which::Number(id)) => entry.op.id == *id,
            (Item::Logged(entry), Which::Token(token)) => entry.op.token == *token,
            (Item::Accepted(op), Which::Token(token)) => op.token == *token,
            (Item::Install(install), Which::Token(token)) => install.token == *token,
            _ => false,
        })
    }

    pub(super) fn state_of(self, item: Item<'_>) -> (OperationState, Option<u16>) {
        let job = self.set.job().filter(|job| match (&job.work, item) {
            (Work::Accept { .. }, Item::Accepted(_)) | (Work::Install, Item::Install(_)) => true,
            (Work::Replay { id }, Item::Logged(entry)) => *id == entry.op.id,
            _ => false,
        });
        if let Some(Job { phase, .. }) = job {
            let state = match phase {
                // What was proposed has executed here, and the other sites have yet to decide.
                Phase::Running | Phase::Proposed { .. } => OperationState::Running,
                Phase::Doubt { .. } | Phase::Looking | Phase::Confirming { .. } => OperationState::Resolving,
                Phase::Stuck => OperationState::InDoubt,
            };
            return (state, None);
        }
        match item {
            Item::Accepted(_) => (OperationState::Waiting, None),
            Item::Install(install) => {
                let state = match install.status {
                    None => OperationState::Waiting,
                    Some(401) => OperationState::NeedsCredentials,
                    Some(403 | 404) => OperationState::Blocked,
                    Some(_) => OperationState::Retry,
                };
                (state, install.status)
            }
            Item::Logged(entry) => logged_state(entry),
        }
    }

    pub(in crate::operator) fn operation(self, item: Item<'_>) -> OperationSummary {
        let record = self.set.record();
        let (state, status) = self.state_of(item);
        let mut summary = OperationSummary {
            id: self.id(item),
            set: record.meta.to_string(),
            service: record.service.clone(),
            kind: record.kind.clone(),
            verb: "install".to_owned(),
            method: String::new(),
            path: String::new(),
            origin: self.here.clone(),
            time_ms: 0,
            state,
            status,
            tries: 0,
            next_try_ms: None,
        };
        if let Some(op) = operation(item) {
            word(&op.verb).clone_into(&mut summary.verb);
            summary.method.clone_from(&op.request.method);
            summary.path = self.path(&op.request.path);
            summary.origin = op.id.author.site.clone();
            summary.time_ms = op.time.millis;
        }
        let tries = match item {
            Item::Logged(entry) => Some((entry.tries, entry.until_ms)),
            Item::Install(install) => Some((install.tries, install.until_ms)),
            Item::Accepted(_) => None,
        };
        if let Some((tries, until_ms)) = tries {
            summary.tries = tries;
            let is_paused = matches!(state, OperationState::Retry | OperationState::Blocked);
            summary.next_try_ms = Some(until_ms).filter(|until_ms| is_paused && *until_ms > 0);
        }
        if let (
            OperationState::Resolving,
            Some(Job {
                phase: Phase::Doubt { until_ms },
                ..
            }),
        ) = (state, self.set.job())
        {
            summary.next_try_ms = Some(*until_ms);
        }
        summary
    }

    pub(in crate::operator) fn operation_detail(self, item: Item<'_>) -> OperationDetail {
        let summary = self.operation(item);
        let op = operation(item);
        let request = op.map(|op| &op.request);
        let has_credential = match item {
            Item::Logged(entry) => entry.credential.is_some(),
            Item::Install(install) => install.credential.is_some(),
            Item::Accepted(_) => self.set.job().is_some_and(
                |job| matches!(&job.work, Work::Accept { credential, .. } if credential.is_some()),
            ),
        };
        let said = match item {
            Item::Logged(entry) => entry.said.as_deref(),
            Item::Install(install) => install.said.as_deref(),
            Item::Accepted(_) => None,
        };
        OperationDetail {
            why: self.why(&summary, said),
            sites: self.progress(item),
            needs: op.map_or_else(Vec::new, |op| {
                op.needs.iter().map(|need| need.set.to_string()).collect()
            }),
            scope: request.map(|request| request.scope.clone()).unwrap_or_default(),
            caller: request.and_then(|request| request.caller.as_ref().map(ToString::to_string)),
            headers: request.map(|request| request.headers.clone()).unwrap_or_default(),
            body: request.map_or(Body::Empty, body),
            has_credential,
            operation: summary,
        }
    }

    fn why(self, operation: &OperationSummary, said: Option<&str>) -> Option<String> {
        let why = self.why_of(operation)?;
        Some(match said.filter(|_| operation.state.is_open()) {
            Some(said) => match why.split_once("; ") {
                Some((what, then)) => format!("{what}: {said}; {then}"),
                None => format!("{why}: {said}"),
            },
            None => why,
        })
    }

    fn why_of(self, operation: &OperationSummary) -> Option<String> {
        let here = self.here;
        let status = operation.status;
        Some(match operation.state {
            OperationState::Waiting => {
                format!("`{here}` has yet to execute what it follows, or a resource that it refers to")
            }
            OperationState::Retry => match status {
                Some(status) => format!("the service at `{here}` answered {status}; it is asked again"),
                None => format!("the service at `{here}` could not be reached; it is asked again"),
            },
            OperationState::Blocked => match status {
                Some(status) => {
                    format!("the service at `{here}` answered {status}; it is asked again slowly")
                }
                None => format!(
                    "the service at `{here}` may not survive it; it is not sent again: look at the service, then retry or abandon it"
                ),
            },
            OperationState::NeedsCredentials => {
                format!("the service at `{here}` does not take its credential; retry it with another one")
            }
            OperationState::Quarantined => format!(
                "its time is too far ahead of the clock of `{here}`; compare the clocks of `{here}` and `{}`",
                operation.origin
            ),
            OperationState::Resolving => {
                format!(
                    "it may have executed at `{here}`; that is found out when the service is done with it"
                )
            }
            OperationState::InDoubt => {
                format!("it may have executed at `{here}`; look at the service and settle it")
            }
            OperationState::Refused => match status {
                Some(status) => format!("the service at `{here}` refused it with {status}"),
                None => format!("the service at `{here}` refused it"),
            },
            _ => return None,
        })
    }

    fn progress(self, item: Item<'_>) -> Vec<SiteProgress> {
        let Item::Logged(entry) = item else {
            let held = |site| SiteProgress {
                site,
                state: SiteState::Held,
            };
            return vec![held(self.here.clone())];
        };
        let known = self.set.operation(&entry.op.id, self.here);
        let why = |site: &SiteName| {
            if site == self.here {
                self.set.why(entry)
            } else {
                self.set.why_at(site, &entry.op.id)
            }
        };
        let state = |site: &SiteName| match () {
            () if known.done.contains(site) => SiteState::Done,
            () if known.held.contains(site) => why(site).map_or(SiteState::Held, held),
            () => SiteState::Unconfirmed,
        };
        self.members()
            .map(|(site, _)| SiteProgress {
                site: site.clone(),
                state: state(site),
            })
            .collect()
    }

    fn id(self, item: Item<'_>) -> String {
        let meta = &self.set.record().meta;
        match item {
            Item::Logged(entry) => OperationRef::number(meta, &entry.op.id),
            Item::Accepted(op) => OperationRef::token(meta, op.token),
            Item::Install(install) => OperationRef::token(meta, install.token),
        }
        .to_string()
    }
}

fn operation(item: Item<'_>) -> Option<&Operation> {
    match item {
        Item::Logged(entry) => Some(&entry.op),
        Item::Accepted(op) => Some(op),
        Item::Install(_) => None,
    }
}

fn logged_state(entry: &Entry) -> (OperationState, Option<u16>) {
    match entry.state {
        State::Done(_) if entry.redo => (OperationState::Waiting, None),
        State::Waiting(why) => waiting(why),
        State::Done(outcome) => match outcome {
            Outcome::Executed => (OperationState::Executed, None),
            Outcome::Covered => (OperationState::Covered, None),
            Outcome::Superseded => (OperationState::Superseded, None),
            Outcome::Lost => (OperationState::Lost, None),
            Outcome::Refused { status } => (OperationState::Refused, Some(status)),
            Outcome::Abandoned => (OperationState::Abandoned, None),
            Outcome::NoReplica => (OperationState::NoReplica, None),
            Outcome::Installed => (OperationState::Installed, None),
            Outcome::Noted => (OperationState::Noted, None),
        },
    }
}

pub(super) fn waiting(why: Why) -> (OperationState, Option<u16>) {
    match why {
        Why::Turn => (OperationState::Waiting, None),
        Why::Retry { status } => (OperationState::Retry, status),
        Why::SPENT => (OperationState::Blocked, None),
        Why::Blocked { status } => (OperationState::Blocked, Some(status)),
        Why::NeedsCredentials => (OperationState::NeedsCredentials, None),
        Why::Quarantined => (OperationState::Quarantined, None),
        Why::InDoubt => (OperationState::InDoubt, None),
    }
}

fn held(why: Why) -> SiteState {
    match why {
        Why::Turn => SiteState::Held,
        Why::Retry { .. } => SiteState::Retry,
        Why::Blocked { .. } => SiteState::Blocked,
        Why::NeedsCredentials => SiteState::NeedsCredentials,
        Why::Quarantined => SiteState::Quarantined,
        Why::InDoubt => SiteState::InDoubt,
    }
}

fn word(verb: &Verb) -> &'static str {
    match verb {
        Verb::Create(_) => "create",
        Verb::Replace => "replace",
        Verb::Merge => "merge",
        Verb::Action { .. } => "action",
        Verb::Delete => "delete",
        Verb::Join { .. } => "join",
        Verb::Leave { .. } => "leave",
        Verb::Expel { .. } => "expel",
        Verb::Dismiss { .. } => "dismiss",
        Verb::Forgo { .. } => "forgo",
    }
}

pub(super) fn body(request: &Request) -> Body {
    match &request.body {
        cheops_types::KeptBody::Inline(bytes) => Body::of(bytes),
        cheops_types::KeptBody::Spooled { hash, bytes } => Body::Spooled {
            sha256: hex(hash),
            bytes: *bytes,
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
