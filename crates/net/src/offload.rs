//! Threads beside the cores, for work that would make a core stand still.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use cheops_types::{Limit, Limits};
use tokio::sync::oneshot;

/// How much less of a processor these threads get than the cores when both want one. Nobody waits for a core
/// because of a long list; whoever asked for the list waits.
const NICE: i32 = 10;

/// Takes work from all cores. A thread is started when it is needed for the first time, so an agent that never has
/// such work has none.
#[derive(Default)]
pub struct Offload {
    shared: Arc<Queued>,
}

/// The work was not taken: too much of it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    #[error("too much work waits already")]
    Full,
    #[error("the thread that did the work has failed")]
    Failed,
}

#[derive(Default)]
struct Queued {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<dyn Task>>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

trait Task: Send {
    /// Whether nobody waits for it any more.
    fn is_given_up(&self) -> bool;
    fn run(self: Box<Self>);
}

struct Work<T, F> {
    work: F,
    answer: oneshot::Sender<T>,
}

impl<T: Send, F: FnOnce() -> T + Send> Task for Work<T, F> {
    fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }

    fn run(self: Box<Self>) {
        let Self { work, answer } = *self;
        // Whoever waited may have gone meanwhile.
        let _ = answer.send(work());
    }
}

impl Offload {
    /// Has `work` done by one of `work_threads_max` threads, in the order in which it came. It is dropped undone if
    /// this future is dropped before its turn.
    pub async fn run<T: Send + 'static>(
        &self,
        limits: &Limits,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let (answer, done) = oneshot::channel();
        self.push(Box::new(Work { work, answer }), limits)?;
        done.await.map_err(|_| NotDone::Failed)
    }

    fn push(&self, task: Box<dyn Task>, limits: &Limits) -> Result<(), NotDone> {
        let mut state = self.shared.state();
        if state.waiting.len() >= limits.work_queue_max {
            state.waiting.retain(|task| !task.is_given_up());
        }
        if state.waiting.len() >= limits.work_queue_max {
            drop(state);
            Limit::WorkQueue.hit();
            return Err(NotDone::Full);
        }
        state.waiting.push_back(task);
        if state.waiting.len() <= state.idle {
            self.shared.wake.notify_one();
        } else if state.threads < limits.work_threads_max.max(1) {
            state.threads += 1;
            drop(state);
            self.start();
        } else {
            drop(state);
            Limit::WorkThreads.hit();
        }
        Ok(())
    }

    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("cheops-work".to_owned())
            .spawn(move || serve(&shared));
        if let Err(error) = started {
            tracing::error!(%error, "no thread for work on long bodies can be started");
            let mut state = self.shared.state();
            state.threads -= 1;
            if state.threads == 0 {
                // Nobody will do it: whoever waits learns that at once.
                state.waiting.clear();
            }
        }
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        state.waiting.clear();
        self.shared.wake.notify_all();
    }
}

impl Queued {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task that somebody waits for; none when it is over.
    fn next(&self) -> Option<Box<dyn Task>> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            match state.waiting.pop_front() {
                Some(task) if task.is_given_up() => {}
                Some(task) => return Some(task),
                None => {
                    state.idle += 1;
                    state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
    }
}

fn serve(shared: &Queued) {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "work on long bodies has the priority of the cores");
    }
    while let Some(task) = shared.next() {
        // Whoever waits learns of it; the thread goes on for the others.
        if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
            tracing::error!("work on a long body has failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn limits(threads: usize, queue: usize) -> Limits {
        Limits {
            work_threads_max: threads,
            work_queue_max: queue,
            ..Limits::default()
        }
    }

    /// Work that goes on until it is let go.
    fn gate() -> (mpsc::Sender<()>, impl FnOnce() + Send) {
        let (open, wait) = mpsc::channel();
        (open, move || {
            let _ = wait.recv();
        })
    }

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let offload = Offload::default();
        let here = std::thread::current().id();
        let limits = limits(1, 1);
        let there = offload.run(&limits, || std::thread::current().id()).await;
        assert_ne!(there, Ok(here));
        let again = offload.run(&limits, || std::thread::current().id()).await;
        assert_eq!(again, there, "a thread stays for further work");
    }

    #[tokio::test]
    async fn it_is_bounded_in_threads_and_in_what_waits() {
        let (offload, limits) = (Offload::default(), limits(2, 1));
        let (gates, busy): (Vec<_>, Vec<_>) = (0..2).map(|_| gate()).unzip();
        let (begun, beginning) = mpsc::channel();
        let mut running = Vec::new();
        for work in busy {
            let begun = begun.clone();
            let mut run = Box::pin(offload.run(&limits, move || {
                let _ = begun.send(());
                work();
            }));
            // The first look hands the work over.
            assert!(futures_util::poll!(&mut run).is_pending());
            beginning.recv().unwrap();
            running.push(run);
        }
        let mut waiting = Box::pin(offload.run(&limits, || 7));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(offload.run(&limits, || 8).await, Err(NotDone::Full));
        // What nobody waits for any more makes room.
        drop(waiting);
        let mut waiting = Box::pin(offload.run(&limits, || 9));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(offload.shared.state().threads, 2);
        drop(gates);
        assert_eq!(waiting.await, Ok(9));
        for run in running {
            assert_eq!(run.await, Ok(()));
        }
    }

    #[tokio::test]
    async fn work_that_fails_is_told_and_the_thread_goes_on() {
        let (offload, limits) = (Offload::default(), limits(1, 1));
        assert_eq!(
            offload.run(&limits, || panic!("on purpose")).await,
            Err::<(), _>(NotDone::Failed)
        );
        assert_eq!(offload.run(&limits, || 1).await, Ok(1));
    }
}
