//! What operators may do about conflicts.

use cheops_replica::{Answer, Conflict, Event, Set, Verb};
use cheops_types::{Code, Problem};

use super::{Operator, lists, view::View};
use crate::{
    model::{Afterwards, ConflictDetail, ConflictFilter, ConflictList, Credential, Reapplied},
    operation_ref::{OperationRef, Which},
};

impl Operator {
    /// A page of conflicts.
    pub async fn conflicts(&self, filter: ConflictFilter) -> Result<ConflictList, Problem> {
        self.read(move |core, read| lists::conflicts(core, read, &filter))
            .await
    }

    pub async fn conflict(&self, id: &str) -> Result<ConflictDetail, Problem> {
        let (set, conflict) = self.lost(id).await?;
        let mut detail = View::new(&self.core.site, &set).conflict_detail(&conflict);
        for side in std::iter::once(&mut detail.loser).chain(&mut detail.winner) {
            self.without_credentials(set.record(), &mut side.headers);
        }
        Ok(detail)
    }

    /// Executes what lost as a new write. The conflict is dismissed when this site's application has accepted
    /// it.
    pub async fn reapply(&self, id: &str, credential: &Credential) -> Result<Reapplied, Problem> {
        let (set, conflict) = self.lost(id).await?;
        let record = set.record();
        if !record.consistency.is_eventual() {
            let detail = format!(
                "the sites of `{}` decide together what is written to it: look at what lost with `cheops conflicts show`, and \
                 write it as any other",
                record.meta
            );
            return Err(Problem::new(Code::SetRefused, detail).at(&self.core.site));
        }
        // One of a name that a client chose is set over what has the name now.
        if matches!(conflict.loser.verb, Verb::Create(_)) && record.name.is_none() {
            let detail =
                format!("`{id}` is a create, and the resource is there: write what is missing as an update");
            return Err(Problem::new(Code::SetRefused, detail).at(&self.core.site));
        }
        let credential = self.seal(record.service.as_str(), &record.kind, credential)?;
        let (token, waiter) = self.register();
        let loser = conflict.loser.id.clone();
        let event = Event::Reapply {
            loser: loser.clone(),
            token,
            credential,
        };
        self.tell(&record.meta, event).await?;
        let stage = self.answered(&record.meta, waiter).await?;
        match stage.answer {
            Some(Answer::Accepted { operation, status }) => {
                self.change(&record.meta, Verb::Dismiss { loser }, None).await?;
                Ok(Reapplied {
                    operation: OperationRef::number(&record.meta, &operation).to_string(),
                    status,
                })
            }
            answer => Err(self.refusal(&record.meta, answer.as_ref())),
        }
    }

    /// Forgets what lost, at all sites.
    pub async fn dismiss(&self, id: &str) -> Result<Afterwards, Problem> {
        let (set, conflict) = self.lost(id).await?;
        let meta = &set.record().meta;
        let loser = conflict.loser.id;
        self.change(meta, Verb::Dismiss { loser }, None).await?;
        self.afterwards(meta).await
    }

    async fn lost(&self, id: &str) -> Result<(Set, Conflict), Problem> {
        let unknown = || {
            let detail = format!(
                "`{}` knows no conflict `{id}`: it is named by the operation that lost, and gone once it is dismissed",
                self.core.site
            );
            Problem::new(Code::UnknownConflict, detail).at(&self.core.site)
        };
        let (set, named) = self.named(id).await.map_err(|problem| match problem.code {
            Code::UnknownOperation => unknown(),
            _ => problem,
        })?;
        let conflict = set.conflicts().find(|conflict| match &named.which {
            Which::Number(id) => conflict.loser.id == *id,
            Which::Token(token) => conflict.loser.token == *token,
        });
        let conflict = conflict.cloned().ok_or_else(unknown)?;
        Ok((set, conflict))
    }
}
