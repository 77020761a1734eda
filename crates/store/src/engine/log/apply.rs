//! The thread that brings what is in a log to the engine behind.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::{APPLIED_KEY, Shared, TABLE, overlay::Overlay, view::Behind};
use crate::engine::EngineError;

/// How long commits stay in the log and in memory where it does not become full.
const IDLE: Duration = Duration::from_secs(5);

/// Ends when the engine is dropped, after a last attempt to apply everything.
pub(super) fn run(shared: &Shared) {
    loop {
        let (is_over, is_idle) = wait(shared);
        if let Some(frozen) = shared.state().frozen {
            let is_applied = told(shared, apply(shared, &frozen));
            if !is_applied && is_over {
                return;
            }
            if !is_applied {
                continue;
            }
        }
        if !is_over && !is_idle {
            continue;
        }
        // Whoever has it may be waiting for this thread.
        let Some(mut logs) = shared.try_logs() else {
            continue;
        };
        let is_empty = shared.state().active.last() == 0;
        // What cannot be frozen now stays in its log.
        let has_more = !is_empty && shared.freeze(&mut logs).unwrap_or(false);
        drop(logs);
        if is_over && !has_more {
            return;
        }
    }
}

/// Until there is something to apply, everything is over, or nothing was full for a while: whether it is over, and whether
/// nothing was.
fn wait(shared: &Shared) -> (bool, bool) {
    let mut turn = shared.turn();
    loop {
        let is_due = shared.state().frozen.is_some() && turn.failed.is_none();
        if is_due || turn.is_over {
            return (turn.is_over, false);
        }
        let (next, waited) = shared
            .turned
            .wait_timeout(turn, IDLE)
            .unwrap_or_else(PoisonError::into_inner);
        turn = next;
        if waited.timed_out() {
            return (turn.is_over, true);
        }
    }
}

/// Whether it could be applied.
fn told(shared: &Shared, outcome: Result<(), EngineError>) -> bool {
    let outcome = outcome.and_then(|()| {
        let behind = Behind::of(&*shared.behind)?;
        let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
        // Together: what leaves the memory is in the snapshot.
        state.behind = behind;
        state.frozen = None;
        Ok(())
    });
    let is_applied = outcome.is_ok();
    shared.turn().failed = outcome.err();
    shared.turned.notify_all();
    is_applied
}

/// In one batch with how far it goes. Once more does no harm: it is the same rows.
fn apply(shared: &Shared, frozen: &Arc<Overlay>) -> Result<(), EngineError> {
    let outcome = try_apply(shared, frozen);
    if outcome.is_err() {
        // Whatever is open there may fail; the next attempt begins anew where this does not help.
        let _ = shared.behind.reopen();
    }
    outcome
}

fn try_apply(shared: &Shared, frozen: &Overlay) -> Result<(), EngineError> {
    let mut batch = shared.behind.batch()?;
    frozen.for_each(|table, key, value| match value {
        Some(value) => batch.put(table, key, value),
        None => batch.delete(table, key),
    })?;
    batch.put(TABLE, APPLIED_KEY, &frozen.last().to_be_bytes())?;
    batch.commit()
}
