//! `cheops config`.

use std::process::ExitCode;

use serde_json::json;

use super::{BAD_INPUT, ConfigArg, output};
use crate::config::{self, Config};

pub(super) fn check(file: &ConfigArg, json: bool) -> anyhow::Result<ExitCode> {
    match Config::load(&file.path()?) {
        Ok(config) if json => output::print_json(&json!({ "ok": true, "config": config }))?,
        Ok(config) => output::print(&format!(
            "{} is good: site {}, {}, {}",
            config.path.display(),
            config.site,
            count(config.services.len(), "service"),
            count(config.sites.len(), "other site"),
        ))?,
        Err(errors) if json => {
            output::print_json(&errors.to_json())?;
            return Ok(ExitCode::from(BAD_INPUT));
        }
        Err(errors) => return Err(errors.into()),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn example() -> anyhow::Result<ExitCode> {
    output::print(&config::example())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
