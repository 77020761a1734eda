//! `cheops replicas`.

mod show;

use std::{path::Path, process::ExitCode, time::Duration};

use cheops_node::model::{AddSite, Adopt, Afterwards, Move, SetDetail, SetList, SetState, Verification};
use cheops_types::SiteName;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    AskArgs, LIST_LIMIT,
    ask::{client, show, wait},
    credential::CredentialArg,
    pages,
};
use crate::admin::client::path;
pub(super) use show::{afterwards, differences};

/// Beyond what the agent waits for other sites.
const MARGIN: Duration = Duration::from_secs(30);
const WAIT_S: u64 = 60;

#[derive(Debug, Subcommand)]
pub(super) enum ReplicasCommand {
    /// List the replica sets of a site
    #[command(after_help = "\
Examples:
  cheops replicas ls
  cheops replicas ls --service A --state degraded --json")]
    Ls(LsArgs),
    /// Show a replica set, its replicas and what is not settled
    #[command(after_help = "\
Example:
  cheops replicas show 72")]
    Show(SetArgs),
    /// Give the set a replica at another site
    #[command(after_help = "\
The new site starts from this site's replica and follows from there.

Example:
  cheops replicas add-site 72 site3")]
    AddSite(AddSiteArgs),
    /// Take a site out of the set; its replica is deleted
    #[command(after_help = "\
A site that is lost for good is removed with --force: the others go on without it. If it comes
back, what only it had becomes conflicts.

Examples:
  cheops replicas remove-site 72 site3
  cheops replicas remove-site 72 site3 --force")]
    RemoveSite(RemoveSiteArgs),
    /// Take a resource of this site into a new replica set
    #[command(after_help = "\
The resource keeps its id here; each other site makes one like it through its own application.

Example:
  cheops replicas adopt --service A /orders/7 site2 site3")]
    Adopt(AdoptArgs),
    /// Move a replica: add a site, and when it has everything remove another
    #[command(after_help = "\
When the new site is not ready in time nothing is removed; the command can be repeated.

Example:
  cheops replicas move 72 site1 site3")]
    Move(MoveArgs),
    /// Read every replica and compare; exit code 1 when they are not all the same
    #[command(after_help = "\
Examples:
  cheops replicas verify 72
  cheops replicas verify 72 --repair")]
    Verify(VerifyArgs),
    /// Let a set go on that broke a rule of replication here and was fenced off, or drop it
    #[command(after_help = "\
What the set was before it broke is kept. `show` says why it is fenced off; `ls --state fenced` lists
such sets. With --drop this site forgets what it knows of the set; the application's resource stays.
To take the set from the other sites again, remove this site there with --force, then add it.

Examples:
  cheops replicas unfence 72
  cheops replicas unfence 72 --drop")]
    Unfence(UnfenceArgs),
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Only sets of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only sets of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only sets in this state: ok, pending, degraded, in-doubt, fenced, deleted, left, expelled
    #[arg(long)]
    state: Option<SetState>,
    /// Only sets with a replica at this site
    #[arg(long, value_name = "NAME")]
    site: Option<SiteName>,
    /// At most so many
    #[arg(long, default_value_t = LIST_LIMIT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    ask: AskArgs,
}

/// A replica set, however it is called.
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The set's meta-id, its name, or the local id of its replica here
    #[arg(value_name = "SET")]
    id: String,
    /// The service, where the id alone does not tell
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The kind, where the id alone does not tell
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    pub(super) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct SiteArgs {
    #[command(flatten)]
    pub(super) set: SetArgs,
    /// The site
    pub(super) site: SiteName,
}

#[derive(Debug, Args)]
pub(super) struct AddSiteArgs {
    #[command(flatten)]
    pub(super) site: SiteArgs,
    #[command(flatten)]
    pub(super) credential: CredentialArg,
}

#[derive(Debug, Args)]
pub(super) struct RemoveSiteArgs {
    #[command(flatten)]
    pub(super) site: SiteArgs,
    /// Without asking the site, which is lost
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct AdoptArgs {
    /// The service that the resource belongs to
    #[arg(long, value_name = "NAME")]
    service: String,
    /// The resource's path at this site's service
    path: String,
    /// The sites that are to have a replica too
    #[arg(required = true, value_name = "SITE")]
    sites: Vec<SiteName>,
    #[command(flatten)]
    credential: CredentialArg,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    #[command(flatten)]
    set: SetArgs,
    /// The site that has a replica
    from: SiteName,
    /// The site that is to have it
    to: SiteName,
    /// How long to wait for the new replica
    #[arg(long, value_name = "SECONDS", default_value_t = WAIT_S)]
    wait: u64,
    #[command(flatten)]
    credential: CredentialArg,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    set: SetArgs,
    /// Bring replicas that differ back through the application
    #[arg(long)]
    repair: bool,
}

#[derive(Debug, Args)]
pub(super) struct UnfenceArgs {
    #[command(flatten)]
    set: SetArgs,
    /// Forget what this site knows of the set; its resource stays
    #[arg(long)]
    drop: bool,
}

impl SetArgs {
    fn path(&self, below: &[&str], more: &[(&str, Option<&str>)]) -> String {
        self.path_in("replicas", below, more)
    }

    /// The path of the set, or of something below it, in one of the admin API's lists.
    pub(super) fn path_in(&self, list: &str, below: &[&str], more: &[(&str, Option<&str>)]) -> String {
        let mut segments = vec!["v1", list, &self.id];
        segments.extend(below);
        let mut parameters = vec![
            ("service", self.service.as_deref()),
            ("kind", self.kind.as_deref()),
        ];
        parameters.extend(more);
        path(&segments, &parameters)
    }
}

pub(super) fn run(admin: Option<&Path>, command: ReplicasCommand) -> anyhow::Result<ExitCode> {
    match command {
        ReplicasCommand::Ls(args) => ls(admin, &args),
        ReplicasCommand::Show(args) => {
            let set = wait(client(admin, &args.ask)?.get(&args.path(&[], &[])))??;
            show_set(&set, args.ask.json)
        }
        ReplicasCommand::AddSite(AddSiteArgs { site, credential }) => {
            let SiteArgs { set: args, site } = site;
            let asked = AddSite {
                site,
                credential: credential.read()?,
            };
            let set = wait(client(admin, &args.ask)?.post(&args.path(&["sites"], &[]), &asked))??;
            show_set(&set, args.ask.json)
        }
        ReplicasCommand::RemoveSite(RemoveSiteArgs { site, force }) => {
            let SiteArgs { set: args, site } = site;
            let force = ("force", force.then_some("true"));
            let path = args.path(&["sites", site.as_str()], &[force]);
            let set = wait(client(admin, &args.ask)?.delete(&path))??;
            show_set(&set, args.ask.json)
        }
        ReplicasCommand::Adopt(args) => adopt(admin, args),
        ReplicasCommand::Move(MoveArgs {
            set: args,
            from,
            to,
            wait: wait_s,
            credential,
        }) => {
            let asked = Move {
                from,
                to,
                wait_s: Some(wait_s),
                credential: credential.read()?,
            };
            let patience = Duration::from_secs(wait_s) + MARGIN;
            let path = args.path(&["move"], &[]);
            let set = wait(client(admin, &args.ask)?.post_within(&path, &asked, patience))??;
            show_set(&set, args.ask.json)
        }
        ReplicasCommand::Verify(args) => verify(admin, &args),
        ReplicasCommand::Unfence(UnfenceArgs { set: args, drop }) => {
            let path = args.path(&["unfence"], &[("drop", drop.then_some("true"))]);
            let after: Afterwards = wait(client(admin, &args.ask)?.post(&path, &json!({})))??;
            show(&after, args.ask.json, || match &after.set {
                Some(_) => show::afterwards(&after),
                None => format!(
                    "the set `{}` is dropped at this site; its resource stays",
                    args.id
                ),
            })
        }
    }
}

/// Pages until there are as many as asked for: one may be shorter than the agent was asked for.
fn ls(admin: Option<&Path>, args: &LsArgs) -> anyhow::Result<ExitCode> {
    let filters = [
        ("service", args.service.as_deref()),
        ("kind", args.kind.as_deref()),
        ("state", args.state.map(SetState::as_str)),
        ("site", args.site.as_ref().map(SiteName::as_str)),
    ];
    let client = client(admin, &args.ask)?;
    let all: SetList = pages::read(&client, "replicas", &filters, args.limit as usize)?;
    show(&all, args.ask.json, || show::list(&all))
}

fn adopt(admin: Option<&Path>, args: AdoptArgs) -> anyhow::Result<ExitCode> {
    let asked = Adopt {
        service: args.service,
        path: Some(args.path),
        sites: args.sites,
        credential: args.credential.read()?,
        ..Adopt::default()
    };
    let client = client(admin, &args.ask)?;
    let set = wait(client.post_within("/v1/replicas", &asked, MARGIN + Duration::from_secs(WAIT_S)))??;
    show_set(&set, args.ask.json)
}

fn verify(admin: Option<&Path>, args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let repair = ("repair", args.repair.then_some("true"));
    let path = args.set.path(&["verify"], &[repair]);
    let patience = MARGIN + Duration::from_secs(WAIT_S);
    let client = client(admin, &args.set.ask)?;
    let found: Verification = wait(client.post_within(&path, &json!({}), patience))??;
    show(&found, args.set.ask.json, || show::verification(&found))?;
    Ok(if found.same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn show_set(set: &SetDetail, json: bool) -> anyhow::Result<ExitCode> {
    show(set, json, || show::detail(set))
}
