//! `cheops cross`.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use cheops_node::model::{AddSite, CrossDetail, CrossList, CrossSummary, Rebalance, Replica};
use cheops_types::{Share, SiteName, SpanForm, Unreserved};
use clap::{Args, Subcommand};

use super::{
    AskArgs, LIST_LIMIT,
    ask::{client, or_dash, show, wait},
    credential::CredentialArg,
    output::columns,
    pages,
    replicas::{AddSiteArgs, RemoveSiteArgs, SetArgs, SiteArgs},
};

#[derive(Debug, Subcommand)]
pub(super) enum CrossCommand {
    /// List the resources that span sites
    #[command(after_help = "\
Examples:
  cheops cross ls
  cheops cross ls --kind room --json")]
    Ls(LsArgs),
    /// Show a resource that spans sites: its extents, its parts, and names that two have
    #[command(after_help = "\
Example:
  cheops cross show packers")]
    Show(SetArgs),
    /// Let the resource reach another site
    #[command(after_help = "\
A container is made there, empty. Of a count that is divided the new site has nothing until
`cheops cross rebalance`.

Example:
  cheops cross add-site packers site3")]
    AddSite(AddSiteArgs),
    /// Take a site out of the resource; what is there is deleted
    #[command(after_help = "\
What lies in a container at that site goes with its extent. A site that is lost for good is removed with
--force: the others go on without it, and the next one becomes the prime site if need be.

Examples:
  cheops cross remove-site packers site3 --rebalance
  cheops cross remove-site foo site3 --force")]
    RemoveSite(RemoveExtentArgs),
    /// Divide a count anew among the sites that are there
    #[command(after_help = "\
Examples:
  cheops cross rebalance packers
  cheops cross rebalance packers --weights site1=3,site2=1
  cheops cross rebalance packers --total 12")]
    Rebalance(RebalanceArgs),
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Only resources of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only resources of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only resources that reach this site
    #[arg(long, value_name = "NAME")]
    site: Option<SiteName>,
    /// At most so many
    #[arg(long, default_value_t = LIST_LIMIT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveExtentArgs {
    #[command(flatten)]
    extent: RemoveSiteArgs,
    /// Hand its part of what is divided to the others
    #[arg(long)]
    rebalance: bool,
}

#[derive(Debug, Args)]
pub(super) struct RebalanceArgs {
    #[command(flatten)]
    cross: SetArgs,
    /// How much each site gets in relation to the others, 1 where it is not listed; without any: as before
    #[arg(long, value_name = "SITE=N", value_delimiter = ',', value_parser = weight)]
    weights: Vec<(SiteName, u32)>,
    /// Another whole
    #[arg(long, value_name = "N")]
    total: Option<u64>,
    #[command(flatten)]
    credential: CredentialArg,
}

fn weight(text: &str) -> Result<(SiteName, u32), String> {
    let wrong = || format!("`{text}` is no weight: write `site1=3`");
    let (site, weight) = text.split_once('=').ok_or_else(wrong)?;
    let site = SiteName::new(site).map_err(|error| error.to_string())?;
    Ok((site, weight.parse().map_err(|_| wrong())?))
}

pub(super) fn run(admin: Option<&Path>, command: CrossCommand) -> anyhow::Result<ExitCode> {
    match command {
        CrossCommand::Ls(args) => {
            let filters = [
                ("service", args.service.as_deref()),
                ("kind", args.kind.as_deref()),
                ("site", args.site.as_ref().map(SiteName::as_str)),
            ];
            let client = client(admin, &args.ask)?;
            let all: CrossList = pages::read(&client, "cross", &filters, args.limit as usize)?;
            show(&all, args.ask.json, || list(&all))
        }
        CrossCommand::Show(args) => {
            let found = wait(client(admin, &args.ask)?.get(&args.path_in("cross", &[], &[])))??;
            show_one(&found, args.ask.json)
        }
        CrossCommand::AddSite(AddSiteArgs { site, credential }) => {
            let SiteArgs { set: args, site } = site;
            let asked = AddSite {
                site,
                credential: credential.read()?,
            };
            let found =
                wait(client(admin, &args.ask)?.post(&args.path_in("cross", &["sites"], &[]), &asked))??;
            show_one(&found, args.ask.json)
        }
        CrossCommand::RemoveSite(RemoveExtentArgs { extent, rebalance }) => {
            let RemoveSiteArgs { site, force } = extent;
            let SiteArgs { set: args, site } = site;
            let flags = [
                ("force", force.then_some("true")),
                ("rebalance", rebalance.then_some("true")),
            ];
            let path = args.path_in("cross", &["sites", site.as_str()], &flags);
            let found = wait(client(admin, &args.ask)?.delete(&path))??;
            show_one(&found, args.ask.json)
        }
        CrossCommand::Rebalance(RebalanceArgs {
            cross: args,
            weights,
            total,
            credential,
        }) => {
            let asked = Rebalance {
                weights: (!weights.is_empty()).then_some(weights),
                total,
                credential: credential.read()?,
            };
            let found =
                wait(client(admin, &args.ask)?.post(&args.path_in("cross", &["rebalance"], &[]), &asked))??;
            show_one(&found, args.ask.json)
        }
    }
}

fn show_one(found: &CrossDetail, json: bool) -> anyhow::Result<ExitCode> {
    show(found, json, || detail(found))
}

fn list(list: &CrossList) -> String {
    let row = |cross: &CrossSummary| {
        let mut names = cross.names.to_string();
        if cross.flagged > 0 {
            let _ = write!(names, " ({} flagged)", cross.flagged);
        }
        vec![
            cross.set.id.clone(),
            cross.set.service.to_string(),
            cross.set.kind.clone(),
            form(cross.form).to_owned(),
            cross.set.state.to_string(),
            or_dash(cross.prime.as_ref().map(SiteName::as_str)),
            sites(&cross.set.sites),
            match cross.form {
                SpanForm::Container => names,
                SpanForm::Divided => parts(&cross.shares),
            },
        ]
    };
    let rows: Vec<_> = list.resources.iter().map(row).collect();
    let heading = [
        "ID",
        "SERVICE",
        "KIND",
        "FORM",
        "STATE",
        "PRIME",
        "SITES",
        "NAMES OR PARTS",
    ];
    pages::shown(list, "nothing spans sites", || columns(&heading, &rows))
}

fn detail(detail: &CrossDetail) -> String {
    let cross = &detail.cross;
    let set = &cross.set;
    let mut text = format!("id       {}\nmeta-id  {}\n", set.id, set.meta_id);
    let _ = writeln!(text, "service  {}\nkind     {}", set.service, set.kind);
    let _ = writeln!(text, "form     {}\nstate    {}", form(cross.form), set.state);
    let _ = writeln!(
        text,
        "prime    {}",
        or_dash(cross.prime.as_ref().map(SiteName::as_str))
    );
    if cross.form == SpanForm::Container {
        let rule = match detail.unreserved {
            Unreserved::Refuse => "refuse",
            Unreserved::Flag => "accept and flag",
        };
        let _ = writeln!(
            text,
            "names    {} kept here; without the prime site: {rule}",
            cross.names
        );
    }
    if !detail.removed.is_empty() {
        let _ = writeln!(text, "removed  {}", sites(&detail.removed));
    }
    text.push('\n');
    let row = |extent: &Replica| {
        let part = |share: &Share| format!("{}={}", share.pointer, share.part_of(&extent.site));
        let parts: Vec<String> = cross.shares.iter().map(part).collect();
        vec![
            extent.site.to_string(),
            extent.state.to_string(),
            or_dash(extent.local_id.as_deref()),
            or_dash(Some(parts.join(" ").as_str()).filter(|parts| !parts.is_empty())),
        ]
    };
    let rows: Vec<_> = detail.extents.iter().map(row).collect();
    text.push_str(&columns(&["SITE", "STATE", "LOCAL ID", "PART"], &rows));
    for share in &cross.shares {
        let _ = writeln!(text, "\n{} as a whole: {}", share.pointer, share.total());
    }
    for name in &detail.flagged_names {
        let _ = writeln!(
            text,
            "\n{} is at {} and also at {}: the first keeps the name, delete or rename the others",
            name.name,
            name.owner,
            if name.rivals.is_empty() {
                "another site".to_owned()
            } else {
                sites(&name.rivals)
            }
        );
    }
    text
}

fn form(form: SpanForm) -> &'static str {
    match form {
        SpanForm::Container => "container",
        SpanForm::Divided => "divided",
    }
}

fn parts(shares: &[Share]) -> String {
    let shown: Vec<String> = shares
        .iter()
        .map(|share| {
            let parts: Vec<String> = share.parts.iter().map(|(_, part)| part.to_string()).collect();
            format!("{} = {}", share.total(), parts.join(" + "))
        })
        .collect();
    shown.join(", ")
}

fn sites(sites: &[SiteName]) -> String {
    let names: Vec<&str> = sites.iter().map(SiteName::as_str).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read() {
        let site = SiteName::new("site1").unwrap();
        assert_eq!(weight("site1=3"), Ok((site, 3)));
        for wrong in ["site1", "site1=", "site1=x", "=3", "site 1=3"] {
            assert!(weight(wrong).is_err(), "{wrong}");
        }
    }
}
