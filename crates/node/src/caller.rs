//! Who asked for a write, and in whose name this site asks its application.
//!
//! A write that a caller waits for is sent as it came. Everything else is sent in the name of the caller that
//! the operation records, or with the credential that came with it, and never with more rights than that
//! caller had.

mod rights;
mod verify;

use cheops_replica::{Execution, Form, Secret, Work};
use cheops_types::SiteName;

use crate::rows::{Kept, Vouched};
pub(crate) use rights::{Rights, only_recorded, rights};
pub(crate) use verify::{sponsor, verified};

/// In whose name something is asked of the application. Empty: in nobody's.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnBehalf {
    pub(crate) caller: Option<Vouched>,
    pub(crate) credential: Option<Secret>,
    /// A site that wants something done here in the name of others, and may not vouch for anyone.
    pub(crate) unbelieved: Option<SiteName>,
    /// The credential is of somebody who has not asked for this: another site's state is set with it.
    pub(crate) is_borrowed: bool,
}

impl OnBehalf {
    /// Who stands in where the work has no caller of its own: whoever wrote last, with the newest credential
    /// that is kept.
    pub(crate) fn last_of(kept: &Kept) -> Self {
        let newest = kept
            .set
            .log()
            .filter_map(|entry| entry.credential.as_ref())
            .last();
        Self {
            caller: last_writer(kept),
            credential: newest.cloned(),
            ..Self::default()
        }
    }

    /// Whoever asked for what is under way, and whose trace is searched for or read. A first write is in no log
    /// yet. What nobody asked for, such as a comparison, is asked for by whoever wrote last.
    pub(crate) fn under_way(kept: &Kept) -> Self {
        let asked = match kept.set.job().map(|job| &job.work) {
            Some(Work::Accept { op, credential, .. }) => Some((&**op, credential.as_ref())),
            Some(Work::Install) => return Self::installing(kept),
            Some(Work::Replay { id }) => {
                let mut log = kept.set.log();
                let entry = log.find(|entry| entry.op.id == *id);
                entry.map(|entry| (&entry.op, entry.credential.as_ref()))
            }
            _ => None,
        };
        let Some((op, credential)) = asked else {
            return Self::last_of(kept);
        };
        let caller = op.request.caller.clone();
        Self {
            caller: caller.map(|caller| Vouched {
                by: op.id.author.site.clone(),
                caller,
            }),
            credential: credential.cloned(),
            ..Self::default()
        }
    }

    /// The state of another replica is set with the credential of whoever let this site in, if there is one.
    fn installing(kept: &Kept) -> Self {
        let brought = kept.set.install().and_then(|install| install.credential.clone());
        let last = Self::last_of(kept);
        Self {
            credential: brought.or(last.credential),
            ..last
        }
    }

    /// The caller of an operation. One that had no caller and brought nothing has nobody's rights at any site;
    /// for what no caller asked for, such as setting another replica's state, somebody stands in.
    ///
    /// A state is signed by nobody: that it is what the caller wanted is the word of the site that it comes from, whoever
    /// accepted the caller's last write. So that site has to be one that may vouch for callers (`is_believed`). The
    /// state of any other executes with a credential that came with it, or was brought for it, or not at all.
    pub(crate) fn of(
        execution: &Execution,
        stand_in: &Self,
        is_believed: impl Fn(&SiteName) -> bool,
    ) -> Self {
        let request = match &execution.form {
            Form::Create { request } | Form::Remake { request, .. } | Form::Repeat { request, .. } => {
                Some(request)
            }
            Form::Delete { request, .. } => request.as_ref(),
            Form::CreateFrom { .. } | Form::Overwrite { .. } => None,
        };
        let caller = request.and_then(|request| request.caller.clone());
        let caller = caller.zip(execution.origin.clone());
        let own = Self {
            caller: caller.map(|(caller, by)| Vouched { by, caller }),
            credential: execution.credential.clone(),
            ..Self::default()
        };
        if let Some(source) = &execution.source {
            return own.with_state_of(source, stand_in, is_believed);
        }
        match (&own.caller, &own.credential) {
            (None, None) if request.is_none() => stand_in.clone(),
            // It may still bring a credential.
            (None, Some(_)) if request.is_none() => Self {
                caller: stand_in.caller.clone(),
                ..own
            },
            _ => own,
        }
    }

    fn with_state_of(
        self,
        source: &SiteName,
        stand_in: &Self,
        is_believed: impl Fn(&SiteName) -> bool,
    ) -> Self {
        if !is_believed(source) {
            let borrows = self.credential.is_none() && stand_in.is_somebody();
            return Self {
                unbelieved: borrows.then(|| source.clone()),
                ..self
            };
        }
        // Whoever accepted the caller's last write has to be believed too, and the names that a peer may not vouch for
        // are those that the source may not.
        let caller = stand_in.caller.clone().map(|vouched| {
            let by = if is_believed(&vouched.by) {
                source.clone()
            } else {
                vouched.by
            };
            Vouched { by, ..vouched }
        });
        Self {
            caller,
            is_borrowed: self.credential.is_none(),
            credential: self.credential.or_else(|| stand_in.credential.clone()),
            unbelieved: None,
        }
    }

    pub(crate) fn is_somebody(&self) -> bool {
        self.caller.is_some() || self.credential.is_some()
    }
}

/// Whoever wrote last, also when the operation is no longer kept.
pub(crate) fn last_writer(kept: &Kept) -> Option<Vouched> {
    let logged = kept.set.log().filter_map(|entry| {
        let caller = entry.op.request.caller.clone()?;
        let by = entry.op.id.author.site.clone();
        Some(Vouched { by, caller })
    });
    logged.last().or_else(|| kept.writer.clone())
}
