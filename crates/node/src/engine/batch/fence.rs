//! A set whose step broke is left as it was before the batch, and nothing happens to it any more.

use std::sync::atomic::Ordering;

use cheops_replica::{MetaId, Set, Token, Work};
use cheops_types::{Code, Problem};

use super::{Batch, LoadedSet, Release};
use crate::rows;

impl Batch<'_> {
    /// Undoes what the batch did to a set, and fences it off with the next commit. The other sets of the batch are not
    /// concerned.
    pub(super) fn fence(&mut self, meta: &MetaId, why: String) {
        self.engine.core.fenced.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            set = %meta, why,
            "a replica set broke a rule of replication and is fenced off; `cheops replicas show` says more"
        );
        self.engine.cache.take(meta);
        let mut tokens = self.take_back(meta);
        match rows::kept(&self.read, meta) {
            Ok(Some(mut kept)) => {
                tokens.extend(waiting(&kept.set));
                kept.run = self.record.run;
                self.before.insert(meta.clone(), true);
                let mut held = LoadedSet::stored(kept);
                // As it is stored, so that the mark is what has changed.
                held.remember(&self.engine.core.site);
                held.kept.set.fence(why, self.now_ms);
                self.engine.cache.put(meta.clone(), held);
            }
            // It would have begun with this: nothing is left of it.
            Ok(None) => drop(self.before.remove(meta)),
            Err(error) => tracing::error!(%error, set = %meta, "a replica set cannot be read"),
        }
        for token in tokens {
            self.fail(token, self.fenced(meta));
        }
    }

    /// Drops all that the batch was to do for a set. What callers were to be told is not true any more.
    fn take_back(&mut self, meta: &MetaId) -> Vec<Token> {
        let ended = &mut self.ended;
        let mut tokens = Vec::new();
        ended.releases.retain(|release| {
            let is_of_it = release.set() == Some(meta.as_str());
            tokens.extend(release.ends().filter(|_| is_of_it));
            !is_of_it
        });
        ended.tokens.retain(|(set, token)| {
            let is_of_it = set == meta;
            tokens.extend(is_of_it.then_some(*token));
            !is_of_it
        });
        // What became of an execution is lost with it: it is found out about when the set goes on.
        ended.results.retain(|(set, _)| set != meta);
        ended.moved.retain(|set| set != meta);
        let is_dropped = |token: &Token| tokens.contains(token);
        ended.promises.retain(|(token, _)| !is_dropped(token));
        self.promised.retain(|(set, _)| set != meta);
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    fn fenced(&self, meta: &MetaId) -> Problem {
        let here = &self.engine.core.site;
        let detail = format!(
            "the replica set `{meta}` broke a rule of replication at `{here}` and is left alone there: look with \
             `cheops replicas show {meta}`; whether the write has executed is not known"
        );
        Problem::new(Code::SetFenced, detail).at(here)
    }
}

/// Those who wait for a write of a set: it will not come to an end.
fn waiting(set: &Set) -> Vec<Token> {
    let accepted = set.job().and_then(|job| match &job.work {
        Work::Accept { op, .. } => Some(op.token),
        _ => None,
    });
    let queued = set.queue().filter(|draft| !draft.promised);
    queued.map(|draft| draft.token).chain(accepted).collect()
}

impl Release {
    /// The set that it is about.
    fn set(&self) -> Option<&str> {
        match self {
            Self::Task(task) => Some(task.set()),
            Self::Answer { told, .. } | Self::Progress { told, .. } => Some(&told.set),
            Self::Proposed { proposed, .. } => Some(proposed.set.as_str()),
            Self::Failed { .. } => None,
        }
    }
}
