//! `cheops ops`.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use cheops_node::model::{
    Afterwards, Body, OperationDetail, OperationList, OperationState, OperationSummary, Settle,
};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::{
    AskArgs, LIST_LIMIT,
    ask::{client, show, wait},
    credential::CredentialArg,
    output::columns,
    pages, replicas, time,
};
use crate::admin::client::path;

#[derive(Debug, Subcommand)]
pub(super) enum OpsCommand {
    /// List operations that have no outcome at this site yet, or all that is kept of one set
    #[command(after_help = "\
Examples:
  cheops ops ls
  cheops ops ls --state needs-credentials
  cheops ops ls --set 72 --json")]
    Ls(LsArgs),
    /// Show an operation, how far each site is with it and why it waits
    #[command(after_help = "\
Example:
  cheops ops show 72:site1.1767225599001.0.4")]
    Show(OperationArgs),
    /// Try an operation again now, with another credential if one is given
    #[command(after_help = "\
Examples:
  cheops ops retry 72:site1.1767225599001.0.4
  cheops ops retry 72:site1.1767225599001.0.4 --credential headers.txt
  get-token | cheops ops retry 72:site1.1767225599001.0.4 --credential -")]
    Retry(RetryArgs),
    /// Say what became of an execution in doubt
    #[command(after_help = "\
Look at the application first: what is settled wrongly is lost or done twice.

Examples:
  cheops ops settle 72:site1.1767225599001.0.4 --not-executed
  cheops ops settle 72:site1.1767225599001.0.1 --executed --local-id 42")]
    Settle(SettleArgs),
    /// Give up an operation at this site; the replica here is degraded until it is repaired
    #[command(after_help = "\
Example:
  cheops ops abandon 72:site1.1767225599001.0.4")]
    Abandon(OperationArgs),
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// All that is kept of the set with this meta-id
    #[arg(long, value_name = "META-ID")]
    set: Option<String>,
    /// Only operations of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only operations in this state: waiting, running, retry, blocked, needs-credentials, quarantined,
    /// resolving, in-doubt
    #[arg(long)]
    state: Option<OperationState>,
    /// At most so many
    #[arg(long, default_value_t = LIST_LIMIT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct OperationArgs {
    /// The operation, as `ops ls` and receipts call it
    #[arg(value_name = "OPERATION")]
    id: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    operation: OperationArgs,
    #[command(flatten)]
    credential: CredentialArg,
}

#[derive(Debug, Args)]
pub(super) struct SettleArgs {
    #[command(flatten)]
    operation: OperationArgs,
    /// The application has executed it
    #[arg(
        long,
        required_unless_present = "not_executed",
        conflicts_with = "not_executed"
    )]
    executed: bool,
    /// The application has not executed it
    #[arg(long)]
    not_executed: bool,
    /// What a create that has executed made, as the application here calls it
    #[arg(long, value_name = "ID", conflicts_with = "not_executed")]
    local_id: Option<String>,
}

pub(super) fn run(admin: Option<&Path>, command: OpsCommand) -> anyhow::Result<ExitCode> {
    match command {
        OpsCommand::Ls(args) => ls(admin, &args),
        OpsCommand::Show(args) => {
            let path = path(&["v1", "operations", &args.id], &[]);
            let operation: OperationDetail = wait(client(admin, &args.ask)?.get(&path))??;
            show(&operation, args.ask.json, || detail(&operation))
        }
        OpsCommand::Retry(RetryArgs {
            operation,
            credential,
        }) => {
            let with = json!({ "credential": credential.read()? });
            decide(admin, &operation, "retry", &with)
        }
        OpsCommand::Settle(args) => {
            let settle = Settle {
                executed: args.executed,
                local_id: args.local_id,
            };
            decide(admin, &args.operation, "settle", &settle)
        }
        OpsCommand::Abandon(args) => decide(admin, &args, "abandon", &json!({})),
    }
}

fn decide(
    admin: Option<&Path>,
    args: &OperationArgs,
    what: &str,
    with: &impl Serialize,
) -> anyhow::Result<ExitCode> {
    let path = path(&["v1", "operations", &args.id, what], &[]);
    let after: Afterwards = wait(client(admin, &args.ask)?.post(&path, with))??;
    show(&after, args.ask.json, || replicas::afterwards(&after))
}

fn ls(admin: Option<&Path>, args: &LsArgs) -> anyhow::Result<ExitCode> {
    let filters = [
        ("set", args.set.as_deref()),
        ("service", args.service.as_deref()),
        ("state", args.state.map(OperationState::as_str)),
    ];
    let client = client(admin, &args.ask)?;
    let all: OperationList = pages::read(&client, "operations", &filters, args.limit as usize)?;
    show(&all, args.ask.json, || {
        let none = match args.set {
            Some(_) => "no operations of this set are kept here",
            None => "no operations wait here",
        };
        pages::shown(&all, none, || table(&all.operations))
    })
}

pub(super) fn table(operations: &[OperationSummary]) -> String {
    let row = |operation: &OperationSummary| {
        vec![
            operation.id.clone(),
            operation.service.to_string(),
            request(&operation.verb, &operation.method, &operation.path),
            state(operation),
            operation.tries.to_string(),
            operation.next_try_ms.map_or("-".to_owned(), time::utc),
        ]
    };
    let rows: Vec<_> = operations.iter().map(row).collect();
    columns(
        &["OPERATION", "SERVICE", "REQUEST", "STATE", "TRIES", "NEXT TRY"],
        &rows,
    )
}

/// Operations of the set itself have no request.
pub(super) fn request(verb: &str, method: &str, path: &str) -> String {
    if method.is_empty() {
        verb.to_owned()
    } else {
        format!("{method} {path}")
    }
}

fn state(operation: &OperationSummary) -> String {
    match operation.status {
        Some(status) => format!("{} ({status})", operation.state),
        None => operation.state.to_string(),
    }
}

fn detail(detail: &OperationDetail) -> String {
    let operation = &detail.operation;
    let mut text = format!(
        "operation   {}\nset         {}\nservice     {}\nkind        {}\nrequest     {}\naccepted    at {}, {}\nstate       {}\n",
        operation.id,
        operation.set,
        operation.service,
        operation.kind,
        request(&operation.verb, &operation.method, &operation.path),
        operation.origin,
        time::utc(operation.time_ms),
        state(operation),
    );
    if let Some(why) = &detail.why {
        let _ = writeln!(text, "why         {why}");
    }
    if operation.tries > 0 {
        let _ = writeln!(text, "tries       {}", operation.tries);
    }
    if let Some(next_ms) = operation.next_try_ms {
        let _ = writeln!(text, "next try    {}", time::utc(next_ms));
    }
    if !detail.needs.is_empty() {
        let _ = writeln!(text, "waits for   {}", detail.needs.join(" "));
    }
    if !detail.scope.is_empty() {
        let _ = writeln!(text, "scope       {}", detail.scope);
    }
    if let Some(caller) = &detail.caller {
        let _ = writeln!(text, "caller      {caller}");
    }
    let credential = if detail.has_credential {
        "kept, sealed"
    } else {
        "none"
    };
    let _ = writeln!(text, "credential  {credential}\n");
    let rows: Vec<_> = detail
        .sites
        .iter()
        .map(|site| vec![site.site.to_string(), site.state.to_string()])
        .collect();
    text.push_str(&columns(&["SITE", "STATE"], &rows));
    if detail.body != Body::Empty {
        let _ = write!(text, "\nbody\n{}", body(&detail.body));
    }
    text
}

/// A recorded body, indented.
pub(super) fn body(body: &Body) -> String {
    let text = match body {
        Body::Empty => "none".to_owned(),
        Body::Json(value) => serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()),
        Body::Text(text) => text.clone(),
        Body::Base64(text) => format!("base64 {text}"),
        Body::Spooled { sha256, bytes } => format!("{bytes} bytes in the spool, sha256 {sha256}"),
    };
    text.lines().fold(String::new(), |mut indented, line| {
        let _ = writeln!(indented, "  {line}");
        indented
    })
}
