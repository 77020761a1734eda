//! What became of the last writes, for those who ask later.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cheops_ports::Told;
use cheops_replica::{Answer, Token};

/// Writes that are remembered.
const WRITES_MAX: usize = 4096;

/// The answers to the last writes. A write that was refused is recorded nowhere else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finished(Arc<Mutex<Recent>>);

#[derive(Debug, Default)]
struct Recent {
    answers: HashMap<Token, (Answer, Told)>,
    order: VecDeque<Token>,
}

impl Finished {
    pub(crate) fn put(&self, token: Token, answer: &Answer, told: &Told) {
        let mut recent = self.lock();
        if recent
            .answers
            .insert(token, (answer.clone(), told.clone()))
            .is_none()
        {
            recent.order.push_back(token);
        }
        if recent.order.len() > WRITES_MAX
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.answers.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, token: Token) -> Option<(Answer, Told)> {
        self.lock().answers.get(&token).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        // At worst an entry is in one of the two only: a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
