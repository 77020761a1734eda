//! What others ask of the groups, from any thread.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use cheops_strong::{
    ChangeError, Founding, GroupId, GroupStatus, Groups, Intent, ReadError, Refused, Token, Verdict,
    WriteError,
};
use cheops_types::SiteName;
use tokio::sync::{mpsc, oneshot};

/// Asks that wait; further ones hear that there is too much to do.
const ASKS_MAX: usize = 4_096;

/// Keeps a set from being written to at this site, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold(#[allow(dead_code)] oneshot::Sender<()>);

#[derive(Debug)]
pub(crate) enum GroupAsk {
    Write {
        founding: Founding,
        intent: Intent,
        answer: oneshot::Sender<Result<Verdict, WriteError>>,
    },
    Read {
        founding: Founding,
        set: String,
        answer: oneshot::Sender<Result<Hold, ReadError>>,
    },
    Receive {
        from: SiteName,
        body: Bytes,
        answer: oneshot::Sender<Result<Bytes, Refused>>,
    },
    List {
        answer: oneshot::Sender<Vec<GroupStatus>>,
    },
    Transfer {
        id: GroupId,
        to: SiteName,
        answer: oneshot::Sender<Result<(), ChangeError>>,
    },
}

/// What callers of this site are having decided, by the token of each write. A member may write the same token into another
/// group's log, with content of its own: that is not what the caller has asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnIntents(Arc<Mutex<HashMap<Token, (GroupId, Bytes)>>>);

/// A write under way; when it ends, its token means nothing any more.
#[derive(Debug)]
pub(crate) struct OwnIntent {
    all: OwnIntents,
    token: Token,
}

impl OwnIntents {
    pub(crate) fn begin(&self, group: GroupId, intent: &Intent) -> OwnIntent {
        let token = intent.token;
        self.lock().insert(token, (group, intent.content.clone()));
        let all = self.clone();
        OwnIntent { all, token }
    }

    pub(crate) fn has(&self, group: &GroupId, intent: &Intent) -> bool {
        let all = self.lock();
        let own = all.get(&intent.token);
        own.is_some_and(|(of, content)| of == group && *content == intent.content)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, (GroupId, Bytes)>> {
        // Nothing that panics runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnIntent {
    fn drop(&mut self) {
        self.all.lock().remove(&self.token);
    }
}

/// Why there is no answer.
enum NoAnswer {
    /// There are no groups (yet), or too many ask already.
    NotSent,
    /// The agent stops.
    Lost,
}

/// The way to the groups. Nothing can be asked before the control runtime has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupAsks(Arc<Mutex<Option<mpsc::Sender<GroupAsk>>>>);

impl GroupAsks {
    pub(crate) fn attach(&self) -> mpsc::Receiver<GroupAsk> {
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        asks
    }

    pub(crate) async fn write(&self, founding: Founding, intent: Intent) -> Result<Verdict, WriteError> {
        let ask = |answer| GroupAsk::Write {
            founding,
            intent,
            answer,
        };
        match self.ask(ask).await {
            Ok(verdict) => verdict,
            Err(NoAnswer::NotSent) => Err(WriteError::Full),
            // It may be in the log.
            Err(NoAnswer::Lost) => Err(WriteError::Unknown),
        }
    }

    pub(crate) async fn read(&self, founding: Founding, set: String) -> Result<Hold, ReadError> {
        let ask = |answer| GroupAsk::Read {
            founding,
            set,
            answer,
        };
        self.ask(ask).await.unwrap_or(Err(ReadError::Stopped))
    }

    pub(crate) async fn receive(&self, from: SiteName, body: Bytes) -> Result<Bytes, Refused> {
        let ask = |answer| GroupAsk::Receive { from, body, answer };
        self.ask(ask).await.unwrap_or(Err(Refused::Stopped))
    }

    pub(crate) async fn list(&self) -> Vec<GroupStatus> {
        let ask = |answer| GroupAsk::List { answer };
        self.ask(ask).await.unwrap_or_default()
    }

    pub(crate) async fn transfer(&self, id: GroupId, to: SiteName) -> Result<(), ChangeError> {
        let ask = |answer| GroupAsk::Transfer { id, to, answer };
        self.ask(ask).await.unwrap_or(Err(ChangeError::Stopped))
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> GroupAsk) -> Result<T, NoAnswer> {
        let (sender, answer) = oneshot::channel();
        {
            let asks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let asks = asks.as_ref().ok_or(NoAnswer::NotSent)?;
            asks.try_send(ask(sender)).map_err(|_| NoAnswer::NotSent)?;
        }
        answer.await.map_err(|_| NoAnswer::Lost)
    }
}

/// Answers one of them, on the control runtime. Whoever asked may have gone.
pub(crate) async fn answer(groups: Groups, ask: GroupAsk) {
    match ask {
        GroupAsk::Write {
            founding,
            intent,
            answer,
        } => drop(answer.send(groups.write(&founding, intent).await)),
        GroupAsk::Read {
            founding,
            set,
            answer,
        } => match groups.read(&founding, &set).await {
            Err(error) => drop(answer.send(Err(error))),
            Ok(guard) => {
                let (hold, released) = oneshot::channel();
                if answer.send(Ok(Hold(hold))).is_ok() {
                    let _ = released.await;
                }
                drop(guard);
            }
        },
        GroupAsk::Receive { from, body, answer } => drop(answer.send(groups.receive(&from, body).await)),
        GroupAsk::List { answer } => drop(answer.send(groups.list())),
        GroupAsk::Transfer { id, to, answer } => drop(answer.send(groups.transfer(&id, &to).await)),
    }
}

/// Before this site takes part. Whoever asked may have gone.
pub(crate) fn refuse(ask: GroupAsk) {
    match ask {
        GroupAsk::Write { answer, .. } => drop(answer.send(Err(WriteError::NotLeader { leader: None }))),
        GroupAsk::Read { answer, .. } => drop(answer.send(Err(ReadError::UnknownLeader))),
        GroupAsk::Receive { answer, .. } => drop(answer.send(Err(Refused::Stopped))),
        GroupAsk::List { answer } => drop(answer.send(Vec::new())),
        GroupAsk::Transfer { answer, .. } => drop(answer.send(Err(ChangeError::Stopped))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(content: &'static str) -> Intent {
        Intent {
            token: Token(7),
            set: "m".into(),
            from: SiteName::new("a").unwrap(),
            content: Bytes::from_static(content.as_bytes()),
        }
    }

    fn group(name: &str) -> GroupId {
        GroupId::of(&Founding::of([SiteName::new(name).unwrap()]))
    }

    /// A member sees the tokens of others' writes, and may write them into a log that it leads.
    #[test]
    fn a_token_means_what_its_caller_has_asked_for_and_nothing_else() {
        let own = OwnIntents::default();
        let under_way = own.begin(group("a"), &intent("pay 1"));
        assert!(own.has(&group("a"), &intent("pay 1")));
        assert!(!own.has(&group("a"), &intent("pay 1000")));
        assert!(!own.has(&group("b"), &intent("pay 1")));
        drop(under_way);
        assert!(
            !own.has(&group("a"), &intent("pay 1")),
            "nobody waits for it any more"
        );
    }

    #[tokio::test]
    async fn what_was_not_sent_did_not_happen_and_what_was_lost_may_have() {
        let asks = GroupAsks::default();
        let write = || asks.write(Founding::of([]), intent("pay 1"));
        assert_eq!(write().await, Err(WriteError::Full));
        let mut queue = asks.attach();
        let lose = async {
            drop(queue.recv().await);
        };
        let (told, ()) = tokio::join!(write(), lose);
        assert_eq!(told, Err(WriteError::Unknown));
    }
}
