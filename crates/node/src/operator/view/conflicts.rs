//! Conflicts as operators see them.

use cheops_replica::{Conflict, Operation};

use super::{View, operations::body};
use crate::model::{Cause, ConflictDetail, ConflictSummary, Side, differences};

impl View<'_> {
    pub(in crate::operator) fn conflicts(self) -> impl Iterator<Item = ConflictSummary> {
        self.set.conflicts().map(move |conflict| self.conflict(conflict))
    }

    pub(in crate::operator) fn conflict(self, conflict: &Conflict) -> ConflictSummary {
        let record = self.set.record();
        let loser = &conflict.loser;
        ConflictSummary {
            id: self.number(&loser.id),
            set: record.meta.to_string(),
            service: record.service.clone(),
            kind: record.kind.clone(),
            method: loser.request.method.clone(),
            path: self.path(&loser.request.path),
            origin: loser.id.author.site.clone(),
            time_ms: loser.time.millis,
            cause: match conflict.cause {
                cheops_replica::Cause::Winner(_) => Cause::Overwritten,
                cheops_replica::Cause::TooLate => Cause::TooLate,
                cheops_replica::Cause::Expelled => Cause::Expelled,
                cheops_replica::Cause::Forgone => Cause::Forgone,
                cheops_replica::Cause::Bound => Cause::Bound,
            },
            winner: conflict.winner().map(|id| self.number(id)),
        }
    }

    pub(in crate::operator) fn conflict_detail(self, conflict: &Conflict) -> ConflictDetail {
        let side = |op: &Operation| Side {
            operation: self.number(&op.id),
            origin: op.id.author.site.clone(),
            time_ms: op.time.millis,
            method: op.request.method.clone(),
            path: self.path(&op.request.path),
            headers: op.request.headers.clone(),
            body: body(&op.request),
        };
        let loser = side(&conflict.loser);
        let winner = match &conflict.cause {
            cheops_replica::Cause::Winner(op) => Some(side(op)),
            _ => None,
        };
        let winners = winner.as_ref().and_then(|side| side.body.json());
        let differences = match (loser.body.json(), winners) {
            (Some(left), Some(right)) => differences(left, right),
            _ => Vec::new(),
        };
        ConflictDetail {
            conflict: self.conflict(conflict),
            loser,
            winner,
            differences,
        }
    }
}
