//! The other members for openraft: its requests as messages over the [`Wire`](crate::Wire).

use std::{cell::Cell, rc::Rc, time::Duration};

use bytes::Bytes;
use openraft::{
    EmptyNode, EntryPayload, OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2,
    errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable},
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
        TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};

use crate::{
    codec::{self, Message, Reply, Request},
    founding::Founding,
    member::Member,
    types::{Entry, Snapshot, Types, Vote},
    wire::Wire,
};

/// A way out, shared by all that a member says.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) founding: Founding,
    pub(crate) me: Member,
    pub(crate) wire: Rc<dyn Wire>,
    pub(crate) request_timeout: Duration,
    pub(crate) message_bytes: usize,
    /// A leader that nobody answers is silent for a while, whatever openraft wants to repeat: as long
    /// as its members hear it they elect nobody, also when it does not hear them.
    ///
    /// ```text
    ///   leader ── entries, heartbeats ──▶ members      arrive
    ///   leader ◀────────── answers ───╳── members      are lost: it can decide nothing, for ever
    /// ```
    pub(crate) is_muted: Rc<Cell<bool>>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    #[error("{0}")]
    Unreached(String),
    #[error("no answer in time")]
    Late,
    #[error("the answer means nothing: {0}")]
    Nonsense(String),
}

impl Links {
    /// Sends a request to a member and waits for its answer.
    pub(crate) async fn ask(&self, to: &Member, request: Request, within: Duration) -> Result<Reply, Failed> {
        // Not even tried, so that a group with a dead member costs nothing for it.
        if !self.wire.is_up(&to.site) {
            return Err(Failed::Unreached(format!("site `{}` is down", to.site)));
        }
        let message = Message {
            founders: self.founding.founders.clone(),
            generation: self.founding.generation,
            from: self.me.clone(),
            to: to.clone(),
            request,
        };
        let answer = tokio::time::timeout(within, self.wire.send(&to.site, codec::write(&message)));
        let body = answer
            .await
            .map_err(|_| Failed::Late)?
            .map_err(|error| Failed::Unreached(error.to_string()))?;
        codec::decode(&body).map_err(|error| Failed::Nonsense(error.to_string()))
    }
}

impl RaftNetworkFactory<Types> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: Member, _node: &EmptyNode) -> Link {
        Link {
            links: self.clone(),
            target,
        }
    }
}

/// The way to one member.
pub(crate) struct Link {
    links: Links,
    target: Member,
}

impl Link {
    async fn ask(
        &self,
        request: Request,
        kind: RPCTypes,
        within: Duration,
    ) -> Result<Reply, RPCError<Types>> {
        self.links
            .ask(&self.target, request, within)
            .await
            .map_err(|failed| match failed {
                Failed::Late => RPCError::Timeout(Timeout {
                    action: kind,
                    id: self.links.me.clone(),
                    target: self.target.clone(),
                    timeout: within,
                }),
                // Openraft repeats at once what failed otherwise.
                failed => RPCError::Unreachable(Unreachable::new(&failed)),
            })
    }

    /// How many entries go into one message, at least one.
    fn fitting(&self, entries: &[Entry]) -> usize {
        let mut bytes = 0;
        let fits = entries.iter().take_while(|entry| {
            if let EntryPayload::Normal(command) = &entry.payload {
                bytes += command.size();
            }
            bytes <= self.links.message_bytes
        });
        fits.count().max(1).min(entries.len())
    }

    /// As a leader.
    async fn lead(
        &self,
        request: Request,
        kind: RPCTypes,
        within: Duration,
    ) -> Result<Reply, RPCError<Types>> {
        if self.links.is_muted.get() {
            return Err(RPCError::Unreachable(Unreachable::from_string(
                "a leader that nobody answers is silent for a while",
            )));
        }
        self.ask(request, kind, within).await
    }
}

/// An answer to another question: the member is not ready, or of another kind than this one.
fn misplaced(reply: &Reply) -> RPCError<Types> {
    let error = Failed::Nonsense(format!("{reply:?}"));
    match reply {
        Reply::Later => RPCError::Unreachable(Unreachable::new(&error)),
        _ => RPCError::Network(NetworkError::new(&error)),
    }
}

impl RaftNetworkV2<Types> for Link {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        mut rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let within = option.hard_ttl().max(self.links.request_timeout);
        // Openraft counts entries, a message must not have too many bytes. The rest follows.
        let fitting = self.fitting(&rpc.entries);
        let is_cut = fitting < rpc.entries.len();
        rpc.entries.truncate(fitting);
        let last = rpc.entries.last().map(|entry| entry.log_id);
        match self
            .lead(Request::Append(rpc), RPCTypes::AppendEntries, within)
            .await?
        {
            Reply::Append(AppendEntriesResponse::Success) if is_cut => {
                Ok(AppendEntriesResponse::PartialSuccess(last))
            }
            Reply::Append(response) => Ok(response),
            reply => Err(misplaced(&reply)),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let within = self.links.request_timeout;
        match self.ask(Request::Vote(rpc), RPCTypes::Vote, within).await? {
            Reply::Vote(response) => Ok(response),
            reply => Err(misplaced(&reply)),
        }
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let within = self.links.request_timeout;
        match self.ask(Request::PreVote(rpc), RPCTypes::Vote, within).await? {
            Reply::Vote(response) => Ok(response),
            reply => Err(misplaced(&reply)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let within = option.hard_ttl().max(self.links.request_timeout) * 4;
        let request = Request::Snapshot {
            vote,
            snapshot: snapshot.snapshot,
        };
        let sending = self.lead(request, RPCTypes::InstallSnapshot, within);
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            reply = sending => match reply? {
                Reply::Snapshot(response) => Ok(response),
                reply => Err(misplaced(&reply).into()),
            },
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        _option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let within = self.links.request_timeout;
        match self
            .ask(Request::Transfer(req), RPCTypes::TransferLeader, within)
            .await?
        {
            Reply::Transferred(true) => Ok(Ok(())),
            reply => Err(misplaced(&reply)),
        }
    }
}
