//! Sets that were fenced off.

use cheops_replica::Event;
use cheops_types::Problem;

use super::Operator;
use crate::model::{Afterwards, SetHint};

impl Operator {
    /// Lets a set go on that broke a rule of the engine, or forgets what this site knows of it. The application's
    /// resource stays in either case.
    pub async fn unfence(&self, id: &str, hint: &SetHint, drop: bool) -> Result<Afterwards, Problem> {
        let set = self.load(id, hint).await?;
        if set.fenced().is_none() {
            return Err(self.refused(format!(
                "the set `{id}` is not fenced off at this site: there is nothing to let go on or to drop"
            )));
        }
        let event = if drop { Event::Drop } else { Event::Unfence };
        let meta = &set.record().meta;
        self.tell(meta, event).await?;
        self.afterwards(meta).await
    }
}
