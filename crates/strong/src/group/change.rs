//! Who leads, and who takes part.

use std::{collections::BTreeSet, rc::Rc};

use cheops_types::SiteName;
use openraft::{
    ChangeMembers, EmptyNode,
    async_runtime::watch::WatchReceiver,
    errors::{ClientWriteError, RaftError},
};
use tokio::time::{Instant, timeout_at};

use super::{Group, Leadership};
use crate::{error::ChangeError, member::Member, site::ms, types::Types};

impl Group {
    fn must_lead(&self) -> Result<(), ChangeError> {
        match self.leadership() {
            Leadership::Here(_) => Ok(()),
            Leadership::There(member) => Err(ChangeError::NotLeader {
                leader: Some(member.site),
            }),
            Leadership::Nobody => Err(ChangeError::NotLeader { leader: None }),
        }
    }

    fn voter(&self, site: &SiteName) -> Result<Member, ChangeError> {
        let voters = self.voters().into_iter().flatten();
        let mut of_site: Vec<Member> = voters.filter(|member| member.site == *site).collect();
        of_site.sort();
        of_site.pop().ok_or_else(|| ChangeError::NotMember(site.clone()))
    }

    /// Has another site lead, when the writes under way have ended.
    pub(crate) async fn transfer(self: &Rc<Self>, to: &SiteName) -> Result<(), ChangeError> {
        self.wake();
        self.must_lead()?;
        let member = self.voter(to)?;
        if member == self.me {
            return Ok(());
        }
        self.hand_over(&member).await
    }

    /// New writes are sent to the new leader's site, those under way end first, so that nothing is
    /// executed at two sites for it.
    pub(super) async fn hand_over(&self, to: &Member) -> Result<(), ChangeError> {
        if self.handing_over.replace(Some(to.site.clone())).is_some() {
            return Err(ChangeError::Failed(
                "another change of leader is under way".to_owned(),
            ));
        }
        let patience = Instant::now() + ms(self.site.tuning.election_max_ms);
        let quiet = async {
            loop {
                let changed = self.machine.changed();
                if self.machine.open_len() == 0 && self.writes.get() == 0 {
                    return;
                }
                changed.await;
            }
        };
        let is_quiet = timeout_at(patience, quiet).await.is_ok();
        let done = if is_quiet {
            self.transfer_to(to).await
        } else {
            Err(ChangeError::Failed("the writes under way did not end".to_owned()))
        };
        self.handing_over.replace(None);
        done
    }

    /// Has a member elected at once. If it is not, somebody is elected after a while.
    pub(super) async fn transfer_to(&self, to: &Member) -> Result<(), ChangeError> {
        let stopped = |_| ChangeError::Stopped;
        self.raft
            .trigger()
            .transfer_leader(to.clone())
            .await
            .map_err(stopped)?;
        let mut changes = self.raft.server_metrics();
        let patience = Instant::now() + ms(self.site.tuning.election_max_ms * 2);
        loop {
            match self.leadership() {
                Leadership::There(leader) if leader == *to => return Ok(()),
                Leadership::There(leader) => {
                    return Err(ChangeError::Failed(format!("`{leader}` leads now")));
                }
                Leadership::Here(_) | Leadership::Nobody => {}
            }
            match timeout_at(patience, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(ChangeError::Stopped),
                Err(_) => return Err(ChangeError::Unknown),
            }
        }
    }

    /// Has a site take part, with the store that it has now: first as a learner, and as a voter when it
    /// knows the log. It replaces a former life of the same site.
    pub(crate) async fn add_member(self: &Rc<Self>, site: &SiteName) -> Result<(), ChangeError> {
        self.wake();
        self.must_lead()?;
        let incarnation = self.site.wire.incarnation(site);
        let incarnation = incarnation.ok_or_else(|| ChangeError::NeverSeen(site.clone()))?;
        let member = Member {
            site: site.clone(),
            incarnation,
        };
        let voters: BTreeSet<Member> = self.voters().into_iter().flatten().collect();
        if voters.contains(&member) {
            return Ok(());
        }
        let added = self.raft.add_learner(member.clone(), EmptyNode::new(), true);
        added.await.map_err(|error| failed(&error))?;
        let mut voters: BTreeSet<Member> = voters.into_iter().filter(|old| old.site != *site).collect();
        voters.insert(member);
        self.change_to(voters).await
    }

    /// Has a site not take part any more. If it is this one, somebody else leads afterwards.
    pub(crate) async fn remove_member(self: &Rc<Self>, site: &SiteName) -> Result<(), ChangeError> {
        self.wake();
        self.must_lead()?;
        self.voter(site)?;
        let voters: BTreeSet<Member> = self.voters().into_iter().flatten().collect();
        let kept: BTreeSet<Member> = voters.into_iter().filter(|member| member.site != *site).collect();
        if kept.is_empty() {
            return Err(ChangeError::Failed("nobody would be left".to_owned()));
        }
        self.change_to(kept).await
    }

    async fn change_to(&self, voters: BTreeSet<Member>) -> Result<(), ChangeError> {
        let change = ChangeMembers::ReplaceAllVoters(voters);
        let changed = self.raft.change_membership(change, false).await;
        changed.map(drop).map_err(|error| failed(&error))
    }
}

fn failed(error: &RaftError<Types, ClientWriteError<Types>>) -> ChangeError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => ChangeError::NotLeader {
            leader: forward.leader_id.as_ref().map(|member| member.site.clone()),
        },
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) => ChangeError::Unknown,
        RaftError::APIError(error) => ChangeError::Failed(error.to_string()),
        RaftError::Fatal(_) => ChangeError::Stopped,
    }
}
