//! The groups of sites that decide together.

use cheops_strong::{ChangeError, GroupId, GroupStatus};
use cheops_types::{Code, Problem, SiteName};

use super::Operator;
use crate::model::{GroupList, GroupMember, GroupState, GroupSummary};

impl Operator {
    /// All that this site is part of, by their founders.
    pub async fn groups(&self) -> GroupList {
        let mut groups: Vec<_> = self.core.groups.list().await.iter().map(summary).collect();
        groups.sort_by(|a, b| (&a.founders, a.generation).cmp(&(&b.founders, b.generation)));
        GroupList { groups }
    }

    /// One of them, by the beginning of its id.
    pub async fn group(&self, id: &str) -> Result<GroupSummary, Problem> {
        let mut found = self.groups().await.groups;
        found.retain(|group| !id.is_empty() && group.id.starts_with(id));
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(self.no_group(&format!("this site is part of no group `{id}`"))),
            _ => Err(self.no_group(&format!(
                "`{id}` begins the ids of several groups: write more of it"
            ))),
        }
    }

    /// Lets another member lead.
    pub async fn transfer(&self, id: &str, to: &SiteName) -> Result<GroupSummary, Problem> {
        let group = self.group(id).await?;
        let id: GroupId = group
            .id
            .parse()
            .map_err(|_| self.no_group(&format!("`{id}` is no id of a group")))?;
        let changed = self.core.groups.transfer(id, to.clone()).await;
        changed.map_err(|error| {
            let detail = match &error {
                ChangeError::NotLeader { leader: Some(leader) } => {
                    format!("site `{leader}` leads the group: ask its agent")
                }
                ChangeError::NotMember(site) => format!("site `{site}` is no member of the group"),
                error => format!("{error}: look with `cheops groups show {}`", group.id),
            };
            Problem::new(Code::SetRefused, detail).at(&self.core.site)
        })?;
        self.group(&group.id).await
    }

    fn no_group(&self, detail: &str) -> Problem {
        let detail = format!("{detail}; `cheops groups ls` lists them");
        Problem::new(Code::UnknownReplicaSet, detail).at(&self.core.site)
    }
}

fn summary(status: &GroupStatus) -> GroupSummary {
    let member = |member: &cheops_strong::Member| GroupMember {
        site: member.site.clone(),
        incarnation: member.incarnation,
        votes: status.voters.contains(member),
    };
    GroupSummary {
        id: status.id.to_string(),
        founders: status.founding.founders.iter().cloned().collect(),
        generation: status.founding.generation,
        leader: status.leader.as_ref().map(|leader| leader.site.clone()),
        members: status.members.iter().map(member).collect(),
        term: status.term,
        last: status.last_index,
        committed: status.committed_index,
        applied: status.applied_index,
        entries: status.log_entries,
        bytes: status.log_bytes as u64,
        open: status.open_intents as u64,
        state: match (status.is_stopped, status.is_awake) {
            (true, _) => GroupState::Stopped,
            (false, true) => GroupState::Awake,
            (false, false) => GroupState::Asleep,
        },
    }
}
