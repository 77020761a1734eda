//! Linearizable reads, at any member.
//!
//! ```text
//! 1  take the gate of the set: no intent of it is being executed here, none will be
//! 2  ask the leader how far the group is; it asks a majority whether it still leads
//! 3  wait until so much is applied here, hence concluded
//! 4  has this site executed an intent of the set whose outcome it does not know?
//!    then let the gate go, wait for that, and begin anew
//! 5  wait until the application has executed what is concluded
//! ```
//!
//! Why 4: site A led, executed `w`, and was cut off before the outcome. B leads now and `w` is open.
//! The register of A shows `w` already, that of C does not: a read at A followed by one at C would see
//! `w` come and go. And why it lets the gate go: if A is elected again, whoever decides `w` needs it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use openraft::{
    AsyncRuntime, ReadPolicy,
    errors::{LinearizableReadError, RaftError},
};
use tokio::{
    sync::{OwnedRwLockReadGuard, RwLock, oneshot},
    time::{Instant, sleep_until, timeout_at},
};

use super::{Group, Leadership, Missing};
use crate::{
    codec::{ReadIndexError, Reply, Request},
    error::ReadError,
    runtime::Runtime,
    site::ms,
};

/// While it lives, this site begins no intent of the set; what it reads at its application is as the
/// group had decided at some moment after the read was asked for.
#[derive(Debug)]
pub struct ReadGuard {
    _gate: OwnedRwLockReadGuard<()>,
}

type Answer = Result<u64, ReadIndexError>;

/// Reads that ask the same question together. One that comes while it is being asked waits for the
/// next round: the answer under way may be older than a write that it must see.
#[derive(Default)]
pub(super) struct Rounds {
    waiting: RefCell<Vec<oneshot::Sender<Answer>>>,
    is_asking: Cell<bool>,
}

impl Group {
    pub(crate) async fn read(self: &Rc<Self>, set: &str) -> Result<ReadGuard, ReadError> {
        if self.is_stopped() {
            return Err(ReadError::Stopped);
        }
        self.used();
        let deadline = Instant::now() + ms(self.site.tuning.read_timeout_ms);
        let nobody = |missing: Missing| ReadError::NoMajority {
            missing: missing.sites,
        };
        self.found().await.map_err(nobody)?;
        self.wake();
        timeout_at(deadline, self.read_at_last(set, deadline))
            .await
            .unwrap_or(Err(ReadError::Timeout))
    }

    async fn read_at_last(self: &Rc<Self>, set: &str, deadline: Instant) -> Result<ReadGuard, ReadError> {
        loop {
            let gate: Arc<RwLock<()>> = self.gate(set);
            let gate = gate.read_owned().await;
            if !self.site.flaws.read_without_index {
                let index = self.group_index(deadline).await?;
                self.applied_to(index).await;
            }
            let changed = self.machine.changed();
            if self.machine.is_touched(set) && !self.site.flaws.read_undecided {
                drop(gate);
                changed.await;
                continue;
            }
            self.site.sets.executed(&self.id, set).await;
            return Ok(ReadGuard { _gate: gate });
        }
    }

    /// Waits until the entry at `index` is applied here.
    async fn applied_to(&self, index: u64) {
        loop {
            let changed = self.machine.changed();
            if self
                .machine
                .applied()
                .is_some_and(|applied| applied.index >= index)
            {
                return;
            }
            changed.await;
        }
    }

    /// How far the group is, from whoever leads, repeated while nobody does.
    async fn group_index(self: &Rc<Self>, deadline: Instant) -> Result<u64, ReadError> {
        let patience = deadline.min(Instant::now() + ms(self.site.tuning.leader_wait_ms));
        loop {
            if let Some(missing) = self.missing() {
                return Err(ReadError::NoMajority {
                    missing: missing.sites,
                });
            }
            let answer = self.ask_together().await;
            let error = match answer {
                Ok(index) => return Ok(index),
                Err(ReadIndexError::NotLeader(_)) => ReadError::UnknownLeader,
                Err(ReadIndexError::NoMajority) => ReadError::NoMajority {
                    missing: self.unanswered().sites,
                },
            };
            if self.is_stopped() {
                return Err(ReadError::Stopped);
            }
            let again = Instant::now() + ms(self.site.tuning.heartbeat_ms);
            if again >= patience {
                return Err(error);
            }
            sleep_until(again).await;
        }
    }

    /// One round for all reads that wait when it begins.
    pub(super) async fn ask_together(self: &Rc<Self>) -> Answer {
        let (promise, answer) = oneshot::channel();
        self.rounds.waiting.borrow_mut().push(promise);
        if !self.rounds.is_asking.replace(true) {
            Runtime::spawn(Rc::clone(self).ask_in_rounds());
        }
        answer.await.unwrap_or(Err(ReadIndexError::NotLeader(None)))
    }

    async fn ask_in_rounds(self: Rc<Self>) {
        loop {
            let waiting = self.rounds.waiting.take();
            if waiting.is_empty() {
                self.rounds.is_asking.set(false);
                return;
            }
            let answer = self.ask_index().await;
            for promise in waiting {
                // Whoever waited may have given up.
                let _ = promise.send(answer.clone());
            }
        }
    }

    async fn ask_index(self: &Rc<Self>) -> Answer {
        match self.leadership() {
            Leadership::Here(_) => self.confirm().await,
            Leadership::There(leader) => {
                let asked = self
                    .links
                    .ask(&leader, Request::ReadIndex, self.links.request_timeout)
                    .await;
                match asked {
                    Ok(Reply::ReadIndex(answer)) => answer,
                    _ => Err(ReadIndexError::NotLeader(None)),
                }
            }
            Leadership::Nobody => Err(ReadIndexError::NotLeader(None)),
        }
    }

    /// Asks a majority whether this member still leads; how far the group was when it was asked.
    pub(super) async fn confirm(&self) -> Answer {
        match self.raft.get_read_log_id(ReadPolicy::ReadIndex).await {
            Ok((read, _)) => Ok(read.index()),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                Err(ReadIndexError::NoMajority)
            }
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => Err(
                ReadIndexError::NotLeader(forward.leader_id.map(|member| member.site)),
            ),
            Err(RaftError::Fatal(_)) => Err(ReadIndexError::NotLeader(None)),
        }
    }
}
