//! What operators may do about operations that do not get on.

use cheops_replica::{Event, LocalId, OpId, Phase, Set, Work};
use cheops_types::{Code, Problem};

use super::{
    Operator, lists,
    view::{Item, View},
};
use crate::{
    model::{Afterwards, Credential, OperationDetail, OperationFilter, OperationList, Settle},
    operation_ref::{OperationRef, Which},
};

impl Operator {
    /// A page of operations: those without an outcome here, or all that is kept of one set.
    pub async fn operations(&self, filter: OperationFilter) -> Result<OperationList, Problem> {
        self.read(move |core, read| lists::operations(core, read, &filter))
            .await
    }

    pub async fn operation(&self, id: &str) -> Result<OperationDetail, Problem> {
        let (set, named) = self.named(id).await?;
        let view = View::new(&self.core.site, &set);
        let item = view
            .find(&named.which)
            .ok_or_else(|| self.unknown(id, &set, &named))?;
        let mut detail = view.operation_detail(item);
        self.without_credentials(set.record(), &mut detail.headers);
        Ok(detail)
    }

    /// Tries an operation again now, and everything else of its set that waits for its next try. With a
    /// credential it executes with that one.
    pub async fn retry(&self, id: &str, credential: &Credential) -> Result<Afterwards, Problem> {
        let (set, named) = self.named(id).await?;
        let item = View::new(&self.core.site, &set)
            .find(&named.which)
            .ok_or_else(|| self.unknown(id, &set, &named))?;
        let record = set.record();
        if let Some(credential) = self.seal(record.service.as_str(), &record.kind, credential)? {
            let operation = match item {
                Item::Logged(entry) => entry.op.id.clone(),
                Item::Install(_) => self.way_in(&set, id)?,
                Item::Accepted(_) => {
                    return Err(self.refused(format!("`{id}` executes with its caller's credential")));
                }
            };
            let event = Event::Credential {
                operation,
                credential,
            };
            self.tell(&record.meta, event).await?;
        }
        self.tell(&record.meta, Event::Retry).await?;
        self.afterwards(&record.meta).await
    }

    /// Says what became of the execution in doubt.
    pub async fn settle(&self, id: &str, settle: &Settle) -> Result<Afterwards, Problem> {
        let (set, named) = self.named(id).await?;
        let view = View::new(&self.core.site, &set);
        let item = view
            .find(&named.which)
            .ok_or_else(|| self.unknown(id, &set, &named))?;
        let is_in_doubt = set.job().is_some_and(|job| {
            job.phase == Phase::Stuck
                && match (&job.work, item) {
                    (Work::Accept { .. }, Item::Accepted(_)) | (Work::Install, Item::Install(_)) => true,
                    (Work::Replay { id }, Item::Logged(entry)) => entry.op.id == *id,
                    _ => false,
                }
        });
        if !is_in_doubt {
            return Err(self.refused(format!(
                "`{id}` is not in doubt at this site: there is nothing to settle"
            )));
        }
        if settle.local_id.as_deref() == Some("") {
            return Err(Problem::new(Code::BadRequest, "the local id is empty"));
        }
        let event = Event::Settle {
            executed: settle.executed,
            local: settle.local_id.as_deref().map(LocalId::new),
        };
        let meta = &set.record().meta;
        self.tell(meta, event).await?;
        self.afterwards(meta).await
    }

    /// Gives up an operation that waits at this site. The replica here is degraded until it is repaired.
    pub async fn abandon(&self, id: &str) -> Result<Afterwards, Problem> {
        let (set, named) = self.named(id).await?;
        let view = View::new(&self.core.site, &set);
        let item = view
            .find(&named.which)
            .ok_or_else(|| self.unknown(id, &set, &named))?;
        let Item::Logged(entry) = item else {
            return Err(self.refused(format!(
                "`{id}` is no recorded operation yet: only those can be given up"
            )));
        };
        let operation = entry.op.id.clone();
        let state = view.operation(item).state;
        if !state.is_open() {
            return Err(self.refused(format!("`{id}` has its outcome at this site: {state}")));
        }
        if set.job().is_some() {
            let detail = format!(
                "the set of `{id}` is executing something at this site: settle it, or try again later"
            );
            return Err(self.refused(detail));
        }
        let meta = &set.record().meta;
        self.tell(
            meta,
            Event::Abandon {
                operation: operation.clone(),
            },
        )
        .await?;
        let after = self.load_meta(meta).await?;
        let still_open = after.as_ref().is_some_and(|set| {
            let view = View::new(&self.core.site, set);
            let which = Which::Number(operation);
            view.find(&which)
                .is_some_and(|item| view.operation(item).state.is_open())
        });
        if still_open {
            let detail =
                format!("`{id}` waits for earlier operations of its set at this site: give those up first");
            return Err(self.refused(detail));
        }
        self.afterwards(meta).await
    }

    /// The set of an operation or a conflict, and which of them is meant.
    pub(super) async fn named(&self, id: &str) -> Result<(Set, OperationRef), Problem> {
        let nothing = || {
            let detail = format!("`{id}` names no operation; one looks like `<meta-id>:<site>.<n>.<n>.<n>`");
            Problem::new(Code::UnknownOperation, detail).at(&self.core.site)
        };
        let named: OperationRef = id.parse().map_err(|_| nothing())?;
        let set = self.load_meta(&named.set).await?.ok_or_else(|| {
            let detail = format!(
                "`{}` knows no replica set `{}`: ask a site of the set",
                self.core.site, named.set
            );
            Problem::new(Code::UnknownOperation, detail).at(&self.core.site)
        })?;
        Ok((set, named))
    }

    fn unknown(&self, id: &str, set: &Set, named: &OperationRef) -> Problem {
        let here = &self.core.site;
        let is_over = match &named.which {
            Which::Number(number) => set.pruned().includes(number),
            Which::Token(_) => false,
        };
        let detail = if is_over {
            format!("`{id}` has its outcome at all sites and is no longer kept")
        } else {
            format!("`{here}` knows no operation `{id}`: check the id, or ask the site that accepted it")
        };
        Problem::new(Code::UnknownOperation, detail).at(here)
    }

    pub(super) fn refused(&self, detail: String) -> Problem {
        Problem::new(Code::SetRefused, detail).at(&self.core.site)
    }

    /// The operation by which this site came into the set.
    fn way_in(&self, set: &Set, id: &str) -> Result<OpId, Problem> {
        set.members()
            .get(&self.core.site)
            .and_then(|member| member.joined.clone())
            .or_else(|| set.log().map(|entry| entry.op.id.clone()).next())
            .ok_or_else(|| self.refused(format!("`{id}` takes no credential")))
    }
}
