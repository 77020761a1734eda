//! The one thread that changes the store: it takes what waits, runs it in one batch, commits once,
//! and only then tells everyone.

use std::sync::{
    Arc,
    mpsc::{Receiver, TryRecvError},
};

use super::pending::Promise;
use crate::{
    engine::{Engine, EngineError},
    error::Error,
    format,
    seen::{Mark, Seen},
    session::WriteSession,
};

/// A session that waits for the writer.
pub(super) trait Job: Send {
    /// Runs the session. An error has been told already; the job is then over.
    fn run(self: Box<Self>, session: &mut WriteSession<'_>) -> Option<Box<dyn Done>>;

    /// Ends it before it ran.
    fn refuse(self: Box<Self>, error: Error);
}

/// A session that ran and waits for the commit.
pub(super) trait Done: Send {
    fn complete(self: Box<Self>, outcome: Result<(), Error>);
}

pub(super) struct Change<T, F> {
    pub(super) change: F,
    pub(super) promise: Promise<T>,
}

struct Ran<T> {
    value: T,
    promise: Promise<T>,
}

impl<T, F> Job for Change<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut WriteSession<'_>) -> Result<T, Error> + Send,
{
    fn run(self: Box<Self>, session: &mut WriteSession<'_>) -> Option<Box<dyn Done>> {
        let Self { change, promise } = *self;
        match change(session) {
            Ok(value) => Some(Box::new(Ran { value, promise })),
            Err(error) => {
                promise.complete(Err(error));
                None
            }
        }
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.promise.complete(Err(error));
    }
}

impl<T: Send> Done for Ran<T> {
    fn complete(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { value, promise } = *self;
        promise.complete(outcome.map(|()| value));
    }
}

pub(super) struct Writer {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) queue: Receiver<Box<dyn Job>>,
    pub(super) group_max: usize,
    /// The last commit, also in the store.
    pub(super) last: Mark,
    pub(super) seen: Option<Seen>,
}

impl Writer {
    /// Ends when every handle of the store is gone and everything queued is done.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.queue.recv() {
            let mut group = vec![first];
            while group.len() < self.group_max {
                match self.queue.try_recv() {
                    Ok(job) => group.push(job),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, group: Vec<Box<dyn Job>>) {
        let mut done = Vec::with_capacity(group.len());
        let outcome = self.try_commit(group, &mut done);
        for job in done {
            job.complete(outcome.clone());
        }
    }

    fn try_commit(&mut self, group: Vec<Box<dyn Job>>, done: &mut Vec<Box<dyn Done>>) -> Result<(), Error> {
        let mut batch = match self.engine.batch() {
            Ok(batch) => batch,
            Err(error) => {
                let error = Error::from(error);
                for job in group {
                    job.refuse(error.clone());
                }
                return Err(error);
            }
        };
        let mut changed_any = false;
        let mut outcome = Ok(());
        for job in group {
            let mut session = WriteSession::new(&*batch);
            let ran = job.run(&mut session);
            let changed = session.end();
            let Some(ran) = ran else { continue };
            done.push(ran);
            changed_any |= !changed.is_empty();
            if outcome.is_ok() {
                outcome = changed.apply(&mut *batch);
            }
        }
        if outcome.is_ok() && !changed_any {
            return Ok(());
        }
        let number = self.last.commits + 1;
        let outcome = outcome.and_then(|()| format::write_commits(&mut *batch, number));
        match outcome {
            Ok(()) => match batch.commit() {
                Ok(()) => {
                    self.last.commits = number;
                    if let Some(seen) = &self.seen {
                        // An older mark only makes an old copy harder to tell.
                        let _ = seen.note(self.last);
                    }
                    Ok(())
                }
                Err(error) => Err(self.find_out(number, error)),
            },
            Err(error) => {
                drop(batch);
                // The next group tries again where this did not help.
                let _ = self.engine.reopen();
                Err(error.into())
            }
        }
    }

    /// After a failed commit: what the engine finds when it starts anew. A commit that is there may
    /// be so in the kernel's memory only, hence not known to be durable.
    fn find_out(&mut self, number: u64, error: EngineError) -> Error {
        let found = self
            .engine
            .reopen()
            .and_then(|()| self.engine.snapshot())
            .and_then(|snapshot| format::read_commits(&*snapshot));
        match found {
            Ok(found) if found < number => error.into(),
            _ => {
                // Never the same number twice, whichever way it went.
                self.last.commits = number;
                Error::Unknown(error)
            }
        }
    }
}
