//! `cheops conflicts`.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use cheops_node::model::{Afterwards, ConflictDetail, ConflictList, ConflictSummary, Reapplied, Side};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    AskArgs, LIST_LIMIT,
    ask::{client, or_dash, show, wait},
    credential::CredentialArg,
    ops,
    output::columns,
    pages, replicas, time,
};
use crate::admin::client::path;

#[derive(Debug, Subcommand)]
pub(super) enum ConflictsCommand {
    /// List writes that lost against a concurrent one
    #[command(after_help = "\
Example:
  cheops conflicts ls --service A")]
    Ls(LsArgs),
    /// Show both sides of a conflict and what differs
    #[command(after_help = "\
Example:
  cheops conflicts show 72:site2.1767225599001.0.1")]
    Show(ConflictArgs),
    /// Execute what lost once more, as a new write; the conflict is dismissed when it succeeds
    #[command(after_help = "\
Examples:
  cheops conflicts reapply 72:site2.1767225599001.0.1
  get-token | cheops conflicts reapply 72:site2.1767225599001.0.1 --credential -")]
    Reapply(ReapplyArgs),
    /// Forget what lost, at all sites
    #[command(after_help = "\
Example:
  cheops conflicts dismiss 72:site2.1767225599001.0.1")]
    Dismiss(ConflictArgs),
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Only conflicts of the set with this meta-id
    #[arg(long, value_name = "META-ID")]
    set: Option<String>,
    /// Only conflicts of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = LIST_LIMIT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct ConflictArgs {
    /// The conflict, by the operation that lost
    #[arg(value_name = "CONFLICT")]
    id: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct ReapplyArgs {
    #[command(flatten)]
    conflict: ConflictArgs,
    #[command(flatten)]
    credential: CredentialArg,
}

pub(super) fn run(admin: Option<&Path>, command: ConflictsCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConflictsCommand::Ls(args) => ls(admin, &args),
        ConflictsCommand::Show(args) => {
            let path = path(&["v1", "conflicts", &args.id], &[]);
            let conflict: ConflictDetail = wait(client(admin, &args.ask)?.get(&path))??;
            show(&conflict, args.ask.json, || detail(&conflict))
        }
        ConflictsCommand::Reapply(ReapplyArgs { conflict, credential }) => {
            let path = path(&["v1", "conflicts", &conflict.id, "reapply"], &[]);
            let with = json!({ "credential": credential.read()? });
            let done: Reapplied = wait(client(admin, &conflict.ask)?.post(&path, &with))??;
            show(&done, conflict.ask.json, || {
                format!(
                    "applied again as {}; the service answered {}",
                    done.operation, done.status
                )
            })
        }
        ConflictsCommand::Dismiss(args) => {
            let path = path(&["v1", "conflicts", &args.id, "dismiss"], &[]);
            let after: Afterwards = wait(client(admin, &args.ask)?.post(&path, &json!({})))??;
            show(&after, args.ask.json, || replicas::afterwards(&after))
        }
    }
}

fn ls(admin: Option<&Path>, args: &LsArgs) -> anyhow::Result<ExitCode> {
    let filters = [("set", args.set.as_deref()), ("service", args.service.as_deref())];
    let client = client(admin, &args.ask)?;
    let all: ConflictList = pages::read(&client, "conflicts", &filters, args.limit as usize)?;
    show(&all, args.ask.json, || {
        pages::shown(&all, "no conflicts", || table(&all.conflicts))
    })
}

pub(super) fn table(conflicts: &[ConflictSummary]) -> String {
    let row = |conflict: &ConflictSummary| {
        vec![
            conflict.id.clone(),
            conflict.service.to_string(),
            format!("{} {}", conflict.method, conflict.path),
            time::utc(conflict.time_ms),
            conflict.cause.to_string(),
            or_dash(conflict.winner.as_deref()),
        ]
    };
    let rows: Vec<_> = conflicts.iter().map(row).collect();
    columns(
        &["CONFLICT", "SERVICE", "REQUEST", "TIME", "CAUSE", "WINNER"],
        &rows,
    )
}

/// Both sides beside each other, then what differs, then the bodies.
fn detail(detail: &ConflictDetail) -> String {
    let conflict = &detail.conflict;
    let mut text = format!(
        "set      {}\nservice  {}\nkind     {}\ncause    {}\n\n",
        conflict.set, conflict.service, conflict.kind, conflict.cause
    );
    let sides: Vec<_> = std::iter::once(&detail.loser).chain(&detail.winner).collect();
    let row = |name: &str, value: fn(&Side) -> String| {
        let values = sides.iter().map(|side| value(side));
        std::iter::once(name.to_owned()).chain(values).collect::<Vec<_>>()
    };
    let rows = [
        row("operation", |side| side.operation.clone()),
        row("accepted at", |side| side.origin.to_string()),
        row("time", |side| time::utc(side.time_ms)),
        row("request", |side| format!("{} {}", side.method, side.path)),
    ];
    let heading = ["", "LOSER", "WINNER"];
    text.push_str(&columns(&heading[..=sides.len()], &rows));
    if !detail.differences.is_empty() {
        text.push('\n');
        text.push_str(&replicas::differences("LOSER", "WINNER", &detail.differences));
    }
    for (whose, side) in ["loser", "winner"].iter().zip(&sides) {
        let _ = write!(text, "\n{whose}'s body\n{}", ops::body(&side.body));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn side(site: &str, body: &Value) -> Value {
        json!({
            "operation": format!("72:{site}.7.0.1"), "origin": site, "time_ms": 0, "method": "PUT",
            "path": "/orders/{id}", "headers": [], "body": { "form": "json", "value": body },
        })
    }

    fn conflict(winner: &Value) -> ConflictDetail {
        let both = !winner.is_null();
        serde_json::from_value(json!({
            "conflict": {
                "id": "72:site2.7.0.1", "set": "72", "service": "A", "kind": "order", "method": "PUT",
                "path": "/orders/{id}", "origin": "site2", "time_ms": 0,
                "cause": if both { "overwritten" } else { "expelled" },
                "winner": if both { json!("72:site1.7.0.1") } else { Value::Null },
            },
            "loser": side("site2", &json!({ "name": "coffee" })),
            "winner": winner,
            "differences": if both {
                json!([{ "pointer": "/name", "left": "coffee", "right": "tea" }])
            } else {
                json!([])
            },
        }))
        .unwrap()
    }

    #[test]
    fn both_sides_stand_beside_each_other() {
        let expected = "\
set      72
service  A
kind     order
cause    overwritten

             LOSER                     WINNER
operation    72:site2.7.0.1            72:site1.7.0.1
accepted at  site2                     site1
time         1970-01-01 00:00:00.000Z  1970-01-01 00:00:00.000Z
request      PUT /orders/{id}          PUT /orders/{id}

DIFFERS AT  LOSER     WINNER
/name       \"coffee\"  \"tea\"

loser's body
  {
    \"name\": \"coffee\"
  }

winner's body
  {
    \"name\": \"tea\"
  }
";
        let shown = detail(&conflict(&side("site1", &json!({ "name": "tea" }))));
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_loser_without_a_winner_stands_alone() {
        let shown = detail(&conflict(&Value::Null));
        assert!(!shown.contains("WINNER") && !shown.contains("winner"), "{shown}");
        assert!(shown.contains("cause    expelled"), "{shown}");
    }
}
