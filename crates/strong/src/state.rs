//! What the log means: which intents are open, and what became of the others.
//!
//! A pure function of the committed entries in their order, so that all members agree:
//!
//! ```text
//! index  entry             open         what follows
//!   5    intent a of `x`   a            the leader's site executes a
//!   6    intent b of `y`   a b
//!   7    outcome a: 200    b            every site concludes a
//!   8    outcome a: 409    b            ignored: a deposed leader came late, the first outcome counts
//!   9    intent a of `x`   b            ignored: its caller asked twice
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::command::{Command, Intent, Token, Verdict};

#[cfg(test)]
mod tests;

/// How many decided tokens are remembered. An intent is repeated by whoever lost an answer, within
/// its deadline, and not after so many other writes of the group.
pub const DECIDED_MAX: usize = 4096;

/// The state of a group after some entry of its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// By the index of the entry, hence in the order of the log.
    open: BTreeMap<u64, Intent>,
    by_token: BTreeMap<Token, u64>,
    by_set: BTreeMap<String, BTreeSet<u64>>,
    /// The oldest first.
    decided: VecDeque<Token>,
    is_decided: BTreeSet<Token>,
}

/// What an entry did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The intent waits for its outcome from now on.
    Opened,
    /// An intent with this token was open already.
    AlreadyOpen,
    /// An intent with this token was decided before; or the outcome came too late and does not count.
    AlreadyDecided,
    /// The outcome of an intent: every site has to conclude it.
    Closed(Intent, Verdict),
    /// The outcome of an intent that nobody knows.
    Unknown,
}

/// What a snapshot holds of a [`State`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    open: Vec<(u64, Intent)>,
    decided: Vec<Token>,
}

impl State {
    /// Applies the committed entry at `index`. The caller goes by the log, without gaps and once.
    pub fn apply(&mut self, index: u64, command: Command) -> Effect {
        match command {
            Command::Intent(intent) => self.open(index, intent),
            Command::Outcome { token, verdict } => self.close(token, verdict),
        }
    }

    /// As [`State::apply`], but a later outcome counts like the first: what must not be.
    pub(crate) fn apply_flawed(
        &mut self,
        index: u64,
        command: Command,
        last: &mut BTreeMap<Token, Intent>,
    ) -> Effect {
        if let Command::Outcome { token, verdict } = &command
            && self.is_decided.contains(token)
            && let Some(intent) = last.get(token)
        {
            return Effect::Closed(intent.clone(), verdict.clone());
        }
        let effect = self.apply(index, command);
        if let Effect::Closed(intent, _) = &effect {
            last.insert(intent.token, intent.clone());
        }
        effect
    }

    fn open(&mut self, index: u64, intent: Intent) -> Effect {
        if self.by_token.contains_key(&intent.token) {
            return Effect::AlreadyOpen;
        }
        if self.is_decided.contains(&intent.token) {
            return Effect::AlreadyDecided;
        }
        self.by_token.insert(intent.token, index);
        self.by_set.entry(intent.set.clone()).or_default().insert(index);
        self.open.insert(index, intent);
        Effect::Opened
    }

    fn close(&mut self, token: Token, verdict: Verdict) -> Effect {
        let Some(index) = self.by_token.remove(&token) else {
            let is_late = self.is_decided.contains(&token);
            return if is_late {
                Effect::AlreadyDecided
            } else {
                Effect::Unknown
            };
        };
        // A snapshot that a member made up may have two tokens for one entry.
        let Some(intent) = self.open.remove(&index) else {
            return Effect::Unknown;
        };
        if let Some(of_set) = self.by_set.get_mut(&intent.set) {
            of_set.remove(&index);
            if of_set.is_empty() {
                self.by_set.remove(&intent.set);
            }
        }
        if self.decided.len() == DECIDED_MAX
            && let Some(oldest) = self.decided.pop_front()
        {
            self.is_decided.remove(&oldest);
        }
        self.decided.push_back(token);
        self.is_decided.insert(token);
        Effect::Closed(intent, verdict)
    }

    /// The open intents in the order of the log, with the index of their entry.
    pub fn open_intents(&self) -> impl Iterator<Item = (u64, &Intent)> {
        self.open.iter().map(|(index, intent)| (*index, intent))
    }

    /// The open intent of a set that has to be decided first.
    pub fn first_open(&self, set: &str) -> Option<&Intent> {
        self.by_set
            .get(set)?
            .first()
            .and_then(|index| self.open.get(index))
    }

    pub fn is_open(&self, token: Token) -> bool {
        self.by_token.contains_key(&token)
    }

    /// The sets that have open intents.
    pub fn open_sets(&self) -> impl Iterator<Item = &String> {
        self.by_set.keys()
    }

    pub fn open_len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn save(&self) -> Saved {
        Saved {
            open: self
                .open
                .iter()
                .map(|(index, intent)| (*index, intent.clone()))
                .collect(),
            decided: self.decided.iter().copied().collect(),
        }
    }

    pub(crate) fn restore(saved: Saved) -> Self {
        let mut state = Self::default();
        // What a peer sends may hold two intents in one place, a token twice, or more than is kept.
        for (index, intent) in saved.open {
            if !state.open.contains_key(&index) {
                state.open(index, intent);
            }
        }
        let surplus = saved.decided.len().saturating_sub(DECIDED_MAX);
        for token in saved.decided.into_iter().skip(surplus) {
            if state.is_decided.insert(token) {
                state.decided.push_back(token);
            }
        }
        state
    }
}
