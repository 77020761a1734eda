//! The state of another replica becomes this one's.
//!
//! ```text
//! rome takes a state at [p9]        set.held and what is pruned are at [p9] at once; `install` keeps the document
//! its application answers 503       nothing has changed there: tried again; operations behind p9 wait
//! it gives no answer                doubt: looked for under the id or the key, and set to the state if it is there
//! it answers 200                    `done` is [p9] as well, and p10 executes
//! it answers 422                    `done` is [p9] all the same, the replica is degraded; it is no source for others
//! ```
//!
//! To count it as done only after success would have rome wait for ever behind a state that its application never takes. To count it as
//! done before the answer would let p10 execute on the document of before.

use super::Step;
use crate::{Attempt, LocalId, Outcome, Recognise, State, Token, Vector, set::Repair};

impl Step<'_> {
    pub(super) fn install_ended(&mut self, attempt: Attempt) {
        let Some(install) = &mut self.set.install else {
            self.set.job = None;
            return;
        };
        let is_doubtful = self.set.job.as_ref().is_some_and(|job| job.tries > 0);
        let is_chosen = install.recognise == Recognise::ChosenId && install.state.is_some();
        let (status, local, said) = match attempt {
            // Some applications have no better word for an id that is taken.
            Attempt::Answered { status: 500, .. } if is_doubtful && is_chosen && self.set.local.is_none() => {
                return self.confirm(500);
            }
            Attempt::Answered {
                status: status @ (500 | 502 | 504),
                said,
                ..
            } => {
                (install.status, install.said) = (Some(status), said);
                return self.doubt();
            }
            Attempt::Unknown => {
                (install.status, install.said) = (None, None);
                return self.doubt();
            }
            Attempt::NotSent => (None, None, None),
            Attempt::Answered { status, local, said } => (Some(status), local, said),
        };
        install.status = status;
        install.said.clone_from(&said);
        let is_delete = install.state.is_none();
        let is_create = !is_delete && self.set.local.is_none();
        let Some(job) = self.set.job.take() else {
            return;
        };
        match status {
            Some(200..=299) if is_create && install.recognise == Recognise::Key && !install.made => {
                // It may be the answer of an earlier life of this store, to a replica that is gone or another
                // state since: it is set to this one, which also tells whether it is there.
                install.made = true;
                self.set.local = Some(local.unwrap_or_else(|| self.chosen_id()));
            }
            Some(200..=299) => self.installed(local),
            Some(404 | 410) if is_delete => self.installed(None),
            Some(404) if !is_create => {
                // The replica that was to be overwritten is not there: it is made anew. The application may
                // remember the token of the first time.
                install.token = self.site.derive(install.token);
                install.made = false;
                self.set.local = None;
            }
            // Its own work of an earlier attempt, or of an earlier life of this store? It may not be this state:
            // if it is there, it is set to it.
            Some(409) if is_create && install.recognise == Recognise::ChosenId => {
                self.set.job = Some(job);
                self.confirm(409);
            }
            // It is there; whether it is equal, the comparison finds out.
            Some(400 | 405 | 409 | 413 | 415 | 422) if install.made => self.installed(None),
            Some(status) if matches!(status, 400 | 405 | 409 | 413 | 415 | 422) => {
                self.install_refused(status, said);
            }
            _ => {
                install.until_ms = self.context.now_ms + self.context.tuning.retry_ms(install.tries);
                install.tries += 1;
            }
        }
    }

    /// Whether the name of a replica that could not be made may be taken, by something that is no replica. An application
    /// that answers 500 to such a name would do so for ever: reading tells.
    pub(super) fn may_be_taken(&self) -> bool {
        let install = self.set.install.as_ref();
        self.set.record.name.is_some() && install.is_some_and(|install| install.status == Some(500))
    }

    /// The state of another replica is this one's now. `local` is what a create made.
    pub(super) fn installed(&mut self, local: Option<LocalId>) {
        let Some(install) = self.set.install.take() else {
            return;
        };
        if install.state.is_none() {
            self.set.local = None;
        } else {
            self.renew_keys();
            self.set.is_weighed = true;
            self.set.is_inherited = false;
            if self.set.local.is_none() || local.is_some() {
                self.set.local = Some(local.unwrap_or_else(|| self.chosen_id()));
            }
        }
        self.set.degraded = install.degraded;
        // A replica that was overwritten where it stood is compared again: not every state can be set.
        let is_repair = install.at == self.set.done && install.state.is_some();
        if install.state.is_some() {
            self.set.want_comparison();
        }
        let earlier = self.set.repair.take();
        let earlier = earlier.filter(|repair| repair.at == install.at && repair.wanted == install.wanted);
        self.set.repair = is_repair.then(|| Repair {
            at: install.at.clone(),
            wanted: install.wanted.clone(),
            digest: None,
            times: earlier.map_or(1, |repair| repair.times.saturating_add(1)),
        });
        self.has_all_of(&install.at);
    }

    /// What the application remembers by the keys so far may be gone from the replica.
    fn renew_keys(&mut self) {
        // The start tells it from that of a store that was set back, which counts its tickets again.
        let start = Token(u128::from(self.site.start()));
        self.set.renewal = Some(self.site.derive(start));
    }

    /// The state is of no use here: the resource is gone, or this site goes.
    pub(super) fn install_without_replica(&mut self) {
        if let Some(install) = self.set.install.take() {
            self.set.degraded = None;
            self.has_all_of(&install.at);
        }
    }

    /// The application does not take the state: the replica stays what it is, and this site follows.
    pub(super) fn install_refused(&mut self, status: u16, said: Option<String>) {
        if let Some(install) = self.set.install.take() {
            self.degrade(None, status, said);
            self.set.repair = Some(Repair {
                at: install.at.clone(),
                wanted: install.wanted.clone(),
                digest: None,
                times: Repair::TIMES_MAX,
            });
            // A delete that is refused is not asked for again at once: there is nothing to compare.
            self.set.check = install.state.is_some();
            self.has_all_of(&install.at);
        }
    }

    /// No replica is left to begin from, but for the one that may be here.
    pub(super) fn begin_without_state(&mut self, at: &Vector) {
        if self.set.local.is_none() {
            self.degrade(None, 0, None);
        }
        if self.set.is_inherited {
            self.inherit();
        }
        self.set.want_comparison();
        self.has_all_of(at);
    }

    /// Everything up to a vector has its outcome here.
    fn has_all_of(&mut self, at: &Vector) {
        let set = &mut *self.set;
        // From a replica that had executed all, this one has all.
        let is_good = set.degraded.is_none();
        set.done.join(at);
        set.digest = None;
        set.log.change(|entry| {
            let is_missing = !entry.is_done() || is_good && entry.has_failed();
            let is_part = at.includes(&entry.op.id) && (entry.redo || is_missing);
            if is_part {
                entry.redo = false;
                if is_missing {
                    entry.state = State::Done(Outcome::Installed);
                }
            }
            is_part
        });
        self.moved();
        self.tell_all();
    }
}
