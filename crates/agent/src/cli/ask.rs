//! The commands that ask a running agent.

use std::{future::Future, path::Path, process::ExitCode};

use serde::Serialize;
use serde_json::json;

use super::{AskArgs, ExplainArgs, output};
use crate::{
    admin::{
        ExplainRequest, Explained, LimitsAnswer, ReloadAnswer, ServicesAnswer, SitesAnswer, Status,
        client::{Client, ClientError},
    },
    config::Config,
};

pub(super) fn status(admin: Option<&Path>, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let client = client(admin, args)?;
    let status: Status = wait(client.get("/v1/status"))??;
    show(&status, args.json, || {
        format!(
            "site        {}\nversion     {}\npid         {}\nup since    {} s\nworkers     {}\ngeneration  {}",
            status.site, status.version, status.pid, status.uptime_s, status.workers, status.generation
        )
    })
}

pub(super) fn sites(admin: Option<&Path>, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let client = client(admin, args)?;
    let answer: SitesAnswer = wait(client.get("/v1/sites"))??;
    show(&answer, args.json, || {
        let rows: Vec<_> = answer
            .sites
            .iter()
            .map(|site| {
                let state = match (site.here, site.up) {
                    (true, _) => "here",
                    (false, true) => "up",
                    (false, false) => "down",
                };
                vec![
                    site.name.to_string(),
                    state.to_owned(),
                    site.round_trip_us.map_or("-".to_owned(), milliseconds),
                    or_dash(site.address.as_deref()),
                    or_dash(site.last_error.as_deref()),
                ]
            })
            .collect();
        output::columns(&["SITE", "STATE", "ROUND TRIP", "ADDRESS", "LAST ERROR"], &rows)
    })
}

pub(super) fn services(admin: Option<&Path>, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let client = client(admin, args)?;
    let answer: ServicesAnswer = wait(client.get("/v1/services"))??;
    show(&answer, args.json, || {
        let rows: Vec<_> = answer
            .services
            .iter()
            .map(|service| {
                let address = |own: Option<std::net::SocketAddr>| {
                    or_dash(
                        own.or(service.shared)
                            .map(|address| address.to_string())
                            .as_deref(),
                    )
                };
                vec![
                    service.name.to_string(),
                    address(service.public),
                    address(service.internal),
                    service.upstream.clone(),
                ]
            })
            .collect();
        output::columns(&["SERVICE", "PUBLIC", "INTERNAL", "UPSTREAM"], &rows)
    })
}

pub(super) fn limits(admin: Option<&Path>, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let client = client(admin, args)?;
    let answer: LimitsAnswer = wait(client.get("/v1/limits"))??;
    show(&answer, args.json, || {
        let rows: Vec<_> = answer
            .limits
            .iter()
            .map(|limit| {
                vec![
                    limit.name.clone(),
                    limit.value.to_string(),
                    limit.hits.to_string(),
                    limit.answer.clone(),
                ]
            })
            .collect();
        output::columns(&["LIMIT", "VALUE", "HITS", "WHEN HIT"], &rows)
    })
}

pub(super) fn reload(admin: Option<&Path>, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let client = client(admin, args)?;
    let answer: ReloadAnswer = wait(client.post("/v1/reload", &json!({})))??;
    show(&answer, args.json, || {
        let mut text = format!("configuration {} is in force", answer.generation);
        if answer.changes.is_empty() {
            text.push_str("; nothing changed");
        }
        for change in &answer.changes {
            text.push_str("\n  ");
            text.push_str(change);
        }
        text
    })
}

pub(super) fn explain(admin: Option<&Path>, args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let client = client(admin, &args.ask)?;
    let request = ExplainRequest {
        service: args.service,
        // As curl does not: a method in small letters is another one, and nobody means that.
        method: args.method.to_ascii_uppercase(),
        path: args.path,
        content_type: args.content_type,
        scope: args.scope,
    };
    let answer: Explained = match wait(client.post("/v1/explain", &request))? {
        Ok(answer) => answer,
        Err(ClientError::Refused { status, problem }) => {
            if args.ask.json {
                output::print_json(&problem)?;
            } else {
                output::complain(&super::scope::render_problem(&request.scope, &problem));
            }
            return Ok(ExitCode::from(if status.is_client_error() {
                super::BAD_INPUT
            } else {
                1
            }));
        }
        Err(error) => return Err(error.into()),
    };
    show(&answer, args.ask.json, || {
        let mut text = format!(
            "request  {} {} of {} ({})\nscope    {}\nplan     {}",
            answer.method,
            answer.path,
            answer.service,
            answer.verb.as_str(),
            answer.scope.as_deref().unwrap_or("none"),
            answer.plan
        );
        for note in &answer.notes {
            text.push_str("\n         ");
            text.push_str(note);
        }
        text
    })
}

/// The agent to ask: `--admin`, or else the one of the configuration.
pub(super) fn client(admin: Option<&Path>, args: &AskArgs) -> anyhow::Result<Client> {
    match admin {
        Some(socket) => Ok(Client::new(socket)),
        None => Ok(Client::new(&Config::read(&args.config.path()?)?.admin_socket())),
    }
}

pub(super) fn wait<T>(call: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(call))
}

pub(super) fn show(
    answer: &impl Serialize,
    json: bool,
    text: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    if json {
        output::print_json(answer)?;
    } else {
        output::print(&text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn milliseconds(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}

pub(super) fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}
