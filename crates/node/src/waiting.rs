//! Callers that wait for what the engine makes of their writes.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use cheops_ports::Told;
use cheops_replica::{Answer, MetaId, Proposal, Token};
use cheops_types::Problem;
use http::HeaderMap;
use tokio::sync::watch;

/// What a caller sent that the operation does not record. Only the first execution has it; preconditions, which
/// every attempt must have, are kept with the write too.
#[derive(Default)]
pub(crate) struct CallerHeaders {
    /// All headers, credentials and preconditions included.
    pub(crate) headers: HeaderMap,
}

/// Headers may hold credentials.
impl fmt::Debug for CallerHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerHeaders(..)")
    }
}

/// The application's answer, with its own ids.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AppAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Answers may hold what is nobody else's business.
impl fmt::Debug for AppAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppAnswer({}, {} bytes)", self.status, self.body.len())
    }
}

/// What this site's application made of a write that the sites of a strong set decide together.
#[derive(Debug, Clone)]
pub(crate) struct Proposed {
    pub(crate) set: MetaId,
    pub(crate) proposal: Proposal,
}

/// How far a write is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stage {
    /// It is durable here.
    pub(crate) recorded: bool,
    pub(crate) answer: Option<Answer>,
    /// How all sites stand, as of the last change.
    pub(crate) told: Option<Told>,
    /// It came to nothing because of this.
    pub(crate) failed: Option<Problem>,
    /// It has ended here, and its group has yet to decide.
    pub(crate) proposed: Option<Proposed>,
}

/// All callers, by the token of their write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    callers: Arc<Mutex<HashMap<Token, WaitingWrite>>>,
}

#[derive(Debug)]
struct WaitingWrite {
    /// Until the first execution.
    caller: Option<Arc<CallerHeaders>>,
    answer: Option<AppAnswer>,
    stage: watch::Sender<Stage>,
}

impl WaitingWrite {
    /// Whether neither a caller waits nor anything is left to execute.
    fn is_over(&self) -> bool {
        let stage = self.stage.borrow();
        let is_answered = stage.answer.is_some() || stage.failed.is_some();
        self.stage.is_closed() && (self.caller.is_none() || is_answered)
    }
}

/// One caller's end. When it is dropped, nobody hears of the write any more; what the first execution needs
/// of the caller stays until then.
#[derive(Debug)]
pub(crate) struct Waiter {
    token: Token,
    waiting: Waiting,
    /// Only none while it is dropped.
    stage: Option<watch::Receiver<Stage>>,
}

impl Waiting {
    /// Before the write is posted, so that nothing is missed.
    pub(crate) fn register(&self, token: Token, caller: CallerHeaders) -> Waiter {
        self.place(token, Some(caller))
    }

    /// The same for what no request brings: it is sent as it is recorded, and authenticated like a repetition.
    pub(crate) fn register_recorded(&self, token: Token) -> Waiter {
        self.place(token, None)
    }

    /// Hears how far a write is that somebody else may wait for as well.
    pub(crate) fn attend(&self, token: Token) -> Waiter {
        let stage = self.lock().get(&token).map(|place| place.stage.subscribe());
        let Some(stage) = stage else {
            return self.register_recorded(token);
        };
        Waiter {
            token,
            waiting: self.clone(),
            stage: Some(stage),
        }
    }

    fn place(&self, token: Token, caller: Option<CallerHeaders>) -> Waiter {
        let (sender, stage) = watch::channel(Stage::default());
        let place = WaitingWrite {
            caller: caller.map(Arc::new),
            answer: None,
            stage: sender,
        };
        self.lock().insert(token, place);
        Waiter {
            token,
            waiting: self.clone(),
            stage: Some(stage),
        }
    }

    /// What the caller of a write sent; given once, to the first execution.
    pub(crate) fn take_caller(&self, token: Token) -> Option<Arc<CallerHeaders>> {
        let mut callers = self.lock();
        let place = callers.get_mut(&token)?;
        let caller = place.caller.take();
        if place.is_over() {
            callers.remove(&token);
        }
        caller
    }

    /// The same without taking it.
    pub(crate) fn headers(&self, token: Token) -> Option<HeaderMap> {
        let callers = self.lock();
        let caller = callers.get(&token)?.caller.as_ref()?;
        Some(caller.headers.clone())
    }

    /// Nothing was executed: the next attempt is the first one. Also for a caller that has been answered (202).
    pub(crate) fn give_back(&self, token: Token, caller: Arc<CallerHeaders>) {
        let place = || WaitingWrite {
            caller: None,
            answer: None,
            stage: watch::Sender::new(Stage::default()),
        };
        self.lock().entry(token).or_insert_with(place).caller = Some(caller);
    }

    /// The application's answer to the first execution.
    pub(crate) fn put_answer(&self, token: Token, answer: AppAnswer) {
        if let Some(place) = self.lock().get_mut(&token) {
            place.answer = Some(answer);
        }
    }

    /// Lets a caller know how far its write is.
    pub(crate) fn advance(&self, token: Token, change: impl FnOnce(&mut Stage)) {
        let mut callers = self.lock();
        if let Some(place) = callers.get(&token) {
            place.stage.send_modify(change);
            if place.is_over() {
                callers.remove(&token);
            }
        }
    }

    /// Whether somebody waits for the write of this token.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.lock().contains_key(&token)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, WaitingWrite>> {
        // Every change is one assignment: a panic elsewhere leaves the map whole.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Waits until the stage is as wanted, and gives it; none when the engine has ended.
    pub(crate) async fn until(&mut self, wanted: impl FnMut(&Stage) -> bool) -> Option<Stage> {
        let stage = self.stage.as_mut()?;
        stage.wait_for(wanted).await.ok().map(|stage| stage.clone())
    }

    pub(crate) fn stage(&self) -> Stage {
        let stage = self.stage.as_ref();
        stage.map(|stage| stage.borrow().clone()).unwrap_or_default()
    }

    pub(crate) fn take_answer(&self) -> Option<AppAnswer> {
        self.waiting.lock().get_mut(&self.token)?.answer.take()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        drop(self.stage.take());
        let mut callers = self.waiting.lock();
        if callers.get(&self.token).is_some_and(WaitingWrite::is_over) {
            callers.remove(&self.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use cheops_replica::Reason;

    use super::*;

    fn waiting() -> (Waiting, Waiter) {
        let waiting = Waiting::default();
        let headers = [(http::header::IF_MATCH, http::HeaderValue::from_static("7"))];
        let headers = headers.into_iter().collect();
        let waiter = waiting.register(Token(1), CallerHeaders { headers });
        (waiting, waiter)
    }

    #[test]
    fn headers_outlive_a_caller_that_went_away() {
        let (waiting, waiter) = waiting();
        drop(waiter);
        assert_eq!(waiting.take_caller(Token(1)).unwrap().headers.len(), 1);
        assert!(!waiting.has(Token(1)));
    }

    #[test]
    fn nothing_stays_of_a_write_that_was_answered() {
        let (waiting, waiter) = waiting();
        waiting.advance(Token(1), |stage| {
            stage.answer = Some(Answer::NotHere(Reason::NoReplica));
        });
        assert!(waiting.has(Token(1)));
        drop(waiter);
        assert!(!waiting.has(Token(1)));
    }

    #[test]
    fn only_the_first_execution_is_the_callers() {
        let (waiting, waiter) = waiting();
        assert!(waiting.take_caller(Token(1)).is_some());
        assert!(waiting.take_caller(Token(1)).is_none());
        drop(waiter);
        assert!(!waiting.has(Token(1)));
    }
}
