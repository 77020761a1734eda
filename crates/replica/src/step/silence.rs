//! Executions that get no answer, again and again.
//!
//! Silence and a broken connection say nothing about what the application did, so what is harmless to repeat is
//! repeated. One that ends its application would be sent again for ever, and everything behind it would wait:
//!
//! ```text
//! paris asks for 7, the application dies, its supervisor starts it, paris asks for 7, the application dies ...
//! ```
//!
//! After [`crate::Tuning::execution_tries_max`] attempts that were sent it is not sent again by itself. An application that
//! cannot be reached has seen nothing: that does not count.

use super::Step;
use crate::{Answer, Install, Outcome, Phase, State, Verb, Why, Work};

impl Step<'_> {
    /// The attempt under way was sent and has got no answer.
    pub(super) fn count_silence(&mut self) {
        let Some(job) = &mut self.set.job else {
            return;
        };
        job.silent = job.silent.saturating_add(1);
        match &job.work {
            Work::Replay { id } => {
                if let Some(entry) = self.set.log.get_mut(id) {
                    entry.silent = entry.silent.saturating_add(1);
                }
            }
            Work::Install => {
                if let Some(install) = &mut self.set.install {
                    install.silent = install.silent.saturating_add(1);
                }
            }
            Work::Accept { .. } | Work::Vacate { .. } | Work::Read => {}
        }
    }

    fn silent(&self) -> u32 {
        let Some(job) = &self.set.job else {
            return 0;
        };
        match &job.work {
            // Between two attempts it may have been put off, because the application could not be reached.
            Work::Replay { id } => self.set.entry(id).map_or(0, |entry| entry.silent),
            Work::Install => self.set.install.as_ref().map_or(0, |install| install.silent),
            Work::Accept { .. } | Work::Vacate { .. } | Work::Read => job.silent,
        }
    }

    /// Whether the job has got no answer too often to be sent again.
    pub(super) fn is_spent(&self) -> bool {
        self.silent() as usize >= self.context.tuning.execution_tries_max.max(1)
    }

    /// The job is not sent again by itself, and holds up nothing that need not follow it.
    pub(super) fn stop_sending(&mut self) {
        let silent = self.silent();
        let Some(job) = self.set.job.take() else {
            return;
        };
        // Its marker was looked for, or an operator has looked.
        let is_nowhere = matches!(job.phase, Phase::Looking | Phase::Stuck);
        let has_state = |install: &Install| install.state.is_some();
        let makes_replica = self.set.local.is_none() && self.set.install.as_ref().is_some_and(has_state);
        self.set.executions_spent = self.set.executions_spent.saturating_add(1);
        let said = Some(format!("it was sent {silent} times and got no answer"));
        match &job.work {
            Work::Replay { id } => {
                let Some(entry) = self.set.log.get_mut(id) else {
                    return;
                };
                entry.said.clone_from(&said);
                entry.doubted = true;
                if matches!(entry.op.verb, Verb::Create(_)) && self.set.local.is_none() && !is_nowhere {
                    // Something may have been made: it must not be left behind.
                    self.set.job = Some(crate::Job {
                        phase: Phase::Stuck,
                        ..job
                    });
                } else if entry.redo {
                    // It has executed once. Its new place in the order is given up, and another replica's state will do.
                    entry.redo = false;
                    entry.state = State::Done(Outcome::Abandoned);
                    self.degrade(Some(id.clone()), 0, said);
                } else {
                    entry.state = State::Waiting(Why::SPENT);
                }
            }
            // Something may have been made: it must not be left behind.
            Work::Install if makes_replica && !is_nowhere => {
                self.set.job = Some(crate::Job {
                    phase: Phase::Stuck,
                    ..job
                });
            }
            Work::Accept { op, .. } if matches!(op.verb, Verb::Create(_)) && !is_nowhere => {
                self.set.job = Some(crate::Job {
                    phase: Phase::Stuck,
                    ..job
                });
            }
            Work::Accept { op, answered, .. } => {
                // Nobody was told that it has executed, so it is no operation. What it left here, the comparison finds.
                self.set.want_comparison();
                self.dropped(op, *answered, Answer::Unknown { status: None });
            }
            Work::Install => self.install_refused(0, said),
            Work::Vacate { .. } => {
                self.set.job = Some(crate::Job {
                    phase: Phase::Stuck,
                    ..job
                });
            }
            Work::Read => {}
        }
    }

    /// An operator wants what is not sent any more sent again.
    pub(super) fn send_again(&mut self) {
        let is_stopped = |phase| phase == Phase::Stuck;
        let may_repeat = self.is_spent()
            && self
                .set
                .job
                .as_ref()
                .is_some_and(|job| self.can_resolve(&job.work));
        let until_ms = self.now_ms();
        if let Some(job) = self
            .set
            .job
            .as_mut()
            .filter(|job| is_stopped(job.phase) && may_repeat)
        {
            if let (Work::Install, Some(install)) = (&job.work, &mut self.set.install) {
                install.silent = 0;
            }
            job.silent = 0;
            job.phase = Phase::Doubt { until_ms };
        }
    }

    /// Whether an attempt of before, whose result nobody knows, may have made the replica.
    pub(super) fn may_have_made(&self, work: &Work) -> bool {
        let Work::Replay { id } = work else {
            return false;
        };
        let entry = self.set.entry(id);
        entry.is_some_and(|entry| entry.doubted && matches!(entry.op.verb, Verb::Create(_)))
    }
}
