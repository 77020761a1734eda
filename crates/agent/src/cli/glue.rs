//! `cheops glue`.

mod errors;
mod show;
#[cfg(test)]
mod tests;

use std::{fs, path::Path, path::PathBuf, process::ExitCode};

use cheops_glue::{GlueError, Profile};
use cheops_types::ServiceName;
use clap::Subcommand;
use serde_json::json;

use super::{BAD_INPUT, BadInput, output, settings};
use crate::builtin::{BUILT_IN, BuiltIn};

#[derive(Debug, Subcommand)]
pub(super) enum GlueCommand {
    /// Judge a glue file
    #[command(after_help = "\
Example:
  cheops glue check shop.toml")]
    Check {
        /// The glue file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a glue file describes; without a name, the ones that come with Cheops
    #[command(after_help = "\
Examples:
  cheops glue show
  cheops glue show kubernetes
  cheops glue show shop.toml --json")]
    Show {
        /// A name that `cheops glue show` lists, or a file
        glue: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a glue file with a comment on every key
    #[command(after_help = "\
Example:
  cheops glue example > shop.toml")]
    Example,
    /// Print what to do once at each site so that replayed writes can authenticate
    #[command(after_help = "\
Example:
  cheops glue setup kubernetes > setup.sh")]
    Setup {
        /// The application
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(SETUPS.map(|(name, _)| name)))]
        application: String,
    },
}

const EXAMPLE: &str = include_str!("glue/example.toml");

/// What an operator does once at each site, by application.
const SETUPS: [(&str, &str); 2] = [
    ("kubernetes", include_str!("../../../../glue/setup/kubernetes.sh")),
    ("openstack", include_str!("../../../../glue/setup/openstack.sh")),
];

pub(super) fn run(command: GlueCommand) -> anyhow::Result<ExitCode> {
    match command {
        GlueCommand::Check { file, json } => check(&file, json),
        GlueCommand::Show { glue: None, json } => list(json),
        GlueCommand::Show {
            glue: Some(glue),
            json,
        } => show(&glue, json),
        GlueCommand::Example => {
            output::print(EXAMPLE)?;
            Ok(ExitCode::SUCCESS)
        }
        GlueCommand::Setup { application } => {
            let setup = SETUPS.iter().find(|(name, _)| *name == application);
            output::print(setup.map(|(_, text)| *text).unwrap_or_default())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A glue file, as it is found.
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn read(file: &Path) -> Result<Self, BadInput> {
        match fs::read_to_string(file) {
            Ok(text) => Ok(Self {
                name: file.display().to_string(),
                text,
            }),
            Err(error) => Err(BadInput(format!("cannot read {}: {error}", file.display()))),
        }
    }

    /// One that comes with Cheops, or else a file.
    fn find(glue: &str) -> Result<Self, BadInput> {
        if let Some(built_in) = BuiltIn::find(glue) {
            return Ok(Self {
                name: built_in.file.to_owned(),
                text: built_in.text.to_owned(),
            });
        }
        let file = Path::new(glue);
        if file.extension().is_some() || file.exists() {
            return Self::read(file);
        }
        let known: Vec<_> = BUILT_IN.iter().map(|built_in| built_in.name).collect();
        Err(BadInput(format!(
            "there is no glue `{glue}`: name a file, or one of {}",
            known.join(", ")
        )))
    }

    /// Or every mistake in it.
    fn profile(&self) -> Result<Profile, Vec<GlueError>> {
        Profile::parse(&self.name, &self.text).map_err(|first| {
            let all = Profile::check(&self.name, &self.text);
            if all.is_empty() { vec![first] } else { all }
        })
    }
}

fn check(file: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let source = Source::read(file)?;
    let profile = match source.profile() {
        Ok(profile) => profile,
        Err(errors) => return refuse(&source, &errors, json),
    };
    let description = show::Description::read(&source.text)?;
    if json {
        output::print_json(&json!({
            "ok": true,
            "application": profile.application(),
            "services": profile.services().collect::<Vec<_>>(),
        }))?;
    } else {
        output::print(&format!(
            "{} is good: application {}, {}, {}",
            source.name,
            profile.application(),
            settings::count(profile.services().count(), "service"),
            settings::count(description.kinds(), "kind"),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(glue: &str, json: bool) -> anyhow::Result<ExitCode> {
    let source = Source::find(glue)?;
    if let Err(errors) = source.profile() {
        return refuse(&source, &errors, json);
    }
    let description = show::Description::read(&source.text)?;
    if json {
        output::print_json(description.document())?;
    } else {
        output::print(&description.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for built_in in BUILT_IN {
        let profile = built_in.profile();
        let services: Vec<_> = profile.services().map(ServiceName::as_str).collect();
        rows.push((built_in.name, services.join(" ")));
    }
    if json {
        let glues = rows.iter().map(
            |(name, services)| json!({ "name": name, "services": services.split(' ').collect::<Vec<_>>() }),
        );
        output::print_json(&glues.collect::<Vec<_>>())?;
    } else {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(name, services)| vec![name.to_owned(), services])
            .collect();
        output::print(&output::columns(&["GLUE", "SERVICES"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn refuse(source: &Source, errors: &[GlueError], json: bool) -> anyhow::Result<ExitCode> {
    if json {
        output::print_json(&errors::to_json(errors))?;
    } else {
        output::complain(&errors::render(&source.text, errors, output::is_styled()));
    }
    Ok(ExitCode::from(BAD_INPUT))
}
