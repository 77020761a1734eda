//! Writes, at the leader's site.
//!
//! ```text
//! caller     gate of the set     log                         this site's application
//!   write ──▶ wait for it
//!             take it ─────────▶ intent, a majority holds it
//!                                                       ───▶ all before is executed, then this: verdict
//!                                outcome, committed    ◀───
//!   verdict ◀──────────────────── concluded here
//!             let it go
//! ```
//!
//! From the proposal on it goes by itself, whether or not the caller still waits. A leader that is
//! deposed on the way lets the gate go; its successor takes the intent over.

use std::{rc::Rc, sync::Arc};

use openraft::{
    AsyncRuntime,
    errors::{ClientWriteError, ForwardReason, ForwardToLeader, RaftError},
};
use tokio::{
    sync::{OwnedRwLockWriteGuard, RwLock, oneshot},
    time::{Instant, sleep, timeout_at},
};

use super::{Group, Leadership};
use crate::{
    command::{Command, Intent, Token, Verdict},
    error::WriteError,
    runtime::Runtime,
    sets::{Decision, Undecided},
    site::ms,
    types::{Applied, Types},
};

/// The status of an intent that no site could execute.
const UNAVAILABLE: u16 = 503;

/// Counts a write that is under way.
struct Place(Rc<Group>);

impl Place {
    fn take(group: &Rc<Group>) -> Result<Self, WriteError> {
        if group.writes.get() >= group.site.tuning.writes_max {
            return Err(WriteError::Full);
        }
        group.writes.set(group.writes.get() + 1);
        Ok(Self(Rc::clone(group)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.writes.set(self.0.writes.get() - 1);
    }
}

impl Group {
    pub(crate) async fn write(self: &Rc<Self>, intent: Intent) -> Result<Verdict, WriteError> {
        if self.is_stopped() {
            return Err(WriteError::Stopped);
        }
        let deadline = Instant::now() + ms(self.site.tuning.write_timeout_ms);
        let place = Place::take(self)?;
        self.used();
        self.lead().await?;
        // Nothing is proposed before the gate is taken, so that giving up here leaves nothing behind.
        let gate: Arc<RwLock<()>> = self.gate(&intent.set);
        let gate = timeout_at(deadline, gate.write_owned())
            .await
            .map_err(|_| WriteError::Full)?;
        if let Some(missing) = self.missing() {
            return Err(missing.into());
        }
        let outcome = self.machine.outcome(intent.token);
        let (failure, failed) = oneshot::channel();
        Runtime::spawn(Rc::clone(self).drive_new(intent, gate, failure, place));
        let answer = async {
            tokio::select! {
                biased;
                Ok(verdict) = outcome => Ok(verdict),
                Ok(result) = failed => result,
                // Taken over by another leader, of which this site hears nothing any more.
                else => Err(WriteError::Unknown),
            }
        };
        timeout_at(deadline, answer)
            .await
            .unwrap_or(Err(WriteError::Unknown))
    }

    /// Makes sure that this site leads and can count on a majority.
    async fn lead(self: &Rc<Self>) -> Result<(), WriteError> {
        if let Some(site) = self.handing_over.borrow().clone() {
            return Err(WriteError::NotLeader { leader: Some(site) });
        }
        self.found().await?;
        let was_awake = self.is_awake.get();
        self.wake();
        let patience = Instant::now() + ms(self.site.tuning.leader_wait_ms);
        loop {
            // A majority that is not there elects nobody and commits nothing.
            if let Some(missing) = self.missing() {
                return Err(missing.into());
            }
            let look = Instant::now() + ms(self.site.tuning.heartbeat_ms);
            match timeout_at(look.min(patience), self.led()).await {
                Ok(Leadership::Here(_)) => break,
                Ok(Leadership::There(member)) => {
                    return Err(WriteError::NotLeader {
                        leader: Some(member.site),
                    });
                }
                Ok(Leadership::Nobody) => return Err(WriteError::Stopped),
                Err(_) if Instant::now() >= patience => return Err(WriteError::NotLeader { leader: None }),
                Err(_) => {}
            }
        }
        // Whoever slept does not know whether it still leads.
        if !was_awake && self.confirm().await.is_err() {
            return Err(self.unanswered().into());
        }
        Ok(())
    }

    /// Proposes an intent and sees to its end. `failure` is for what the log does not tell.
    async fn drive_new(
        self: Rc<Self>,
        intent: Intent,
        gate: OwnedRwLockWriteGuard<()>,
        failure: oneshot::Sender<Result<Verdict, WriteError>>,
        _place: Place,
    ) {
        // Nobody listens when the caller has gone; the write goes on all the same.
        let fail = |failure: oneshot::Sender<_>, error| drop(failure.send(Err(error)));
        // What a former leader left open comes first.
        self.drive(&intent.set).await;
        let is_ready = self.ready_term().is_some() && self.machine.first_open(&intent.set).is_none();
        if !is_ready {
            let leader = self.leader_site().filter(|site| *site != self.me.site);
            return fail(failure, WriteError::NotLeader { leader });
        }
        let mut early = None;
        if self.site.flaws.execute_before_commit {
            self.machine.touch(&intent);
            early = self.try_decide(&intent).await.ok();
        }
        match self.raft.client_write(Command::Intent(intent.clone())).await {
            Ok(response) => match response.data {
                Applied::AlreadyDecided => return fail(failure, WriteError::Decided),
                _ => drop(early),
            },
            Err(error) => return fail(failure, self.not_proposed(error)),
        }
        if self.site.flaws.answer_before_outcome {
            let Ok(verdict) = self.try_decide(&intent).await else {
                return;
            };
            let _ = failure.send(Ok(verdict));
        }
        self.drive(&intent.set).await;
        drop(gate);
        self.nudge.notify_one();
    }

    /// What an intent that was refused by the log means for its caller.
    fn not_proposed(&self, error: RaftError<Types, ClientWriteError<Types>>) -> WriteError {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(ForwardToLeader {
                reason: ForwardReason::LeaseExpired,
                ..
            })) => self.unanswered().into(),
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => WriteError::NotLeader {
                leader: forward.leader_id.map(|member| member.site),
            },
            // It was in the log, and may be in that of others.
            _ => WriteError::Unknown,
        }
    }

    /// Decides all open intents of a set, in the order of the log. The caller has the set's gate.
    /// Ends early when this site does not lead any more.
    pub(super) async fn drive(&self, set: &str) {
        while let Some(term) = self.ready_term()
            && let Some(intent) = self.machine.first_open(set)
        {
            let Some(verdict) = self.decide(&intent, term).await else {
                return;
            };
            if !self.propose_outcome(intent.token, verdict, term).await {
                return;
            }
        }
    }

    async fn try_decide(&self, intent: &Intent) -> Result<Verdict, Undecided> {
        self.machine.touch(intent);
        match self.site.sets.decide(&self.id, intent).await {
            Decision::Verdict(verdict) => Ok(verdict),
            Decision::Undecided(why) => Err(why),
        }
    }

    /// Has an intent executed here. `None` when that is another leader's business now.
    async fn decide(&self, intent: &Intent, term: u64) -> Option<Verdict> {
        let tuning = &self.site.tuning;
        let mut pause_ms = tuning.decide_retry_ms;
        for tries in 1u32.. {
            // An intent is decided on top of all outcomes before it, also those of other sites' leading.
            let patience = Instant::now() + ms(tuning.write_timeout_ms);
            let executed = self.site.sets.executed(&self.id, &intent.set);
            let has_executed = timeout_at(patience, executed).await.is_ok();
            if self.ready_term() != Some(term) || !self.machine.is_open(intent.token) {
                return None;
            }
            if !has_executed {
                // Something decided before does not execute at this site's application: another site decides, if it can.
                if self.pass_on().await {
                    return None;
                }
                continue;
            }
            let why = match self.try_decide(intent).await {
                Ok(verdict) => return Some(verdict),
                Err(why) => why,
            };
            if tries >= tuning.decide_tries_max {
                if self.pass_on().await {
                    return None;
                }
                if why == Undecided::NotExecuted && self.ready_term() == Some(term) {
                    return Some(Verdict::Refused { status: UNAVAILABLE });
                }
            }
            sleep(ms(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(tuning.decide_retry_max_ms);
        }
        None
    }

    /// Proposes an outcome until it is in the log, as long as this site leads. Whether it counts is the
    /// log's to say. Returns whether an outcome of the intent was applied here.
    async fn propose_outcome(&self, token: Token, verdict: Verdict, term: u64) -> bool {
        while self.ready_term() == Some(term) {
            let outcome = Command::Outcome {
                token,
                verdict: verdict.clone(),
            };
            match self.raft.client_write(outcome.clone()).await {
                Ok(_) => return true,
                // The majority is away. The intent stays open, and this site or another ends it.
                Err(RaftError::APIError(ClientWriteError::ForwardToLeader(ForwardToLeader {
                    reason: ForwardReason::LeaseExpired | ForwardReason::LeadershipTransfer,
                    ..
                }))) => sleep(ms(self.site.tuning.heartbeat_ms)).await,
                Err(_) => {
                    self.propose_stale(outcome);
                    return false;
                }
            }
        }
        let outcome = Command::Outcome { token, verdict };
        self.propose_stale(outcome);
        false
    }

    /// A planted bug: proposes again and again what another leader decides now.
    fn propose_stale(&self, outcome: Command) {
        const TRIES: u32 = 300;
        if self.site.flaws.propose_stale_outcomes {
            let raft = self.raft.clone();
            Runtime::spawn(async move {
                for _ in 0..TRIES {
                    sleep(ms(100)).await;
                    if raft.client_write(outcome.clone()).await.is_ok() {
                        return;
                    }
                }
            });
        }
    }

    /// Has somebody else lead whose application may answer. Returns whether somebody does.
    async fn pass_on(&self) -> bool {
        let voters = self.voters().into_iter().flatten();
        let mut candidates: Vec<_> = voters
            .filter(|member| *member != self.me && self.is_up(member))
            .collect();
        candidates.sort();
        for member in candidates {
            if self.transfer_to(&member).await.is_ok() {
                return true;
            }
        }
        false
    }
}
