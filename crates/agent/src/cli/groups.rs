//! `cheops groups`.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use cheops_node::model::{GroupList, GroupMember, GroupSummary, Transfer};
use cheops_types::SiteName;
use clap::{Args, Subcommand};

use super::{
    AskArgs,
    ask::{client, or_dash, show, wait},
    output::columns,
};

#[derive(Debug, Subcommand)]
pub(super) enum GroupsCommand {
    /// List the groups of sites that decide together about strong resources
    #[command(after_help = "\
Examples:
  cheops groups ls
  cheops groups ls --json")]
    Ls(AskArgs),
    /// Show a group: who leads, who votes, how far its log is
    #[command(after_help = "\
The beginning of an id is enough.

Example:
  cheops groups show 3f")]
    Show(GroupArgs),
    /// Let another site of a group lead
    #[command(after_help = "\
Ask the agent of the site that leads. The leader follows the writes by itself; this is for a site that is
about to be taken down.

Example:
  cheops groups transfer 3f site2")]
    Transfer(TransferArgs),
}

#[derive(Debug, Args)]
pub(super) struct GroupArgs {
    /// Its id, or the beginning of it
    id: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct TransferArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The site that is to lead
    to: SiteName,
}

pub(super) fn run(admin: Option<&Path>, command: GroupsCommand) -> anyhow::Result<ExitCode> {
    match command {
        GroupsCommand::Ls(ask) => {
            let all: GroupList = wait(client(admin, &ask)?.get("/v1/groups"))??;
            show(&all, ask.json, || list(&all))
        }
        GroupsCommand::Show(GroupArgs { id, ask }) => {
            let group: GroupSummary = wait(client(admin, &ask)?.get(&format!("/v1/groups/{id}")))??;
            show(&group, ask.json, || detail(&group))
        }
        GroupsCommand::Transfer(TransferArgs { group, to }) => {
            let GroupArgs { id, ask } = group;
            let asked = Transfer { to };
            let path = format!("/v1/groups/{id}/transfer");
            let group: GroupSummary = wait(client(admin, &ask)?.post(&path, &asked))??;
            show(&group, ask.json, || detail(&group))
        }
    }
}

fn list(list: &GroupList) -> String {
    if list.groups.is_empty() {
        return "no sites decide together here: make something under `strong(site1 & site2 & site3)`"
            .to_owned();
    }
    let row = |group: &GroupSummary| {
        vec![
            group.id[..8.min(group.id.len())].to_owned(),
            names(&group.founders),
            or_dash(group.leader.as_ref().map(SiteName::as_str)),
            group.state.to_string(),
            group.term.to_string(),
            number(group.applied),
            group.open.to_string(),
        ]
    };
    let rows: Vec<_> = list.groups.iter().map(row).collect();
    columns(
        &["ID", "SITES", "LEADER", "STATE", "TERM", "APPLIED", "OPEN"],
        &rows,
    )
}

fn detail(group: &GroupSummary) -> String {
    let mut text = format!("id         {}\nsites      {}\n", group.id, names(&group.founders));
    let _ = writeln!(text, "generation {}", group.generation);
    let leader = or_dash(group.leader.as_ref().map(SiteName::as_str));
    let _ = writeln!(
        text,
        "leader     {leader}\nstate      {}\nterm       {}",
        group.state, group.term
    );
    let _ = writeln!(
        text,
        "log        last {}, committed {}, applied here {}; {} entries of {} bytes are kept",
        number(group.last),
        number(group.committed),
        number(group.applied),
        group.entries,
        group.bytes
    );
    let _ = writeln!(text, "open       {} writes are not decided yet\n", group.open);
    let row = |member: &GroupMember| {
        let votes = if member.votes { "yes" } else { "no, it follows" };
        vec![
            member.site.to_string(),
            votes.to_owned(),
            member.incarnation.to_string(),
        ]
    };
    let rows: Vec<_> = group.members.iter().map(row).collect();
    text.push_str(&columns(&["SITE", "VOTES", "STORE"], &rows));
    text
}

fn names(sites: &[SiteName]) -> String {
    let names: Vec<&str> = sites.iter().map(SiteName::as_str).collect();
    names.join(" ")
}

fn number(number: Option<u64>) -> String {
    or_dash(number.map(|number| number.to_string()).as_deref())
}
