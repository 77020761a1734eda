//! `cheops scope check`.

use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use cheops_scope::{Diagnostic, Diagnostics, Loc, LocKind, Names, ParseLimits, Scope};
use cheops_types::{Consistency, Limits, ServiceName, SiteName};
use serde_json::{Map, Value, json};

use super::{BAD_INPUT, ScopeCheckArgs, output};
use crate::config::Config;

pub(super) fn check(args: &ScopeCheckArgs) -> anyhow::Result<ExitCode> {
    let config = args.config.as_deref().map(Config::read).transpose()?;
    let known = config.as_ref().map(Known);
    let default = Limits::default();
    let limits = ParseLimits::from(config.as_ref().map_or(&default, |config| &config.limits));
    let read = cheops_scope::read(
        &args.scope,
        &limits,
        known.as_ref().map(|known| known as &dyn Names),
    );
    match read {
        Ok(scope) if args.json => output::print_json(&to_json(&scope))?,
        Ok(scope) => output::print(&format!("{scope}\n\n{}", tree(&scope)))?,
        Err(found) if args.json => {
            let mut problem = found.to_problem(&args.scope).to_json();
            problem["ok"] = false.into();
            output::print_json(&problem)?;
            return Ok(ExitCode::from(BAD_INPUT));
        }
        Err(found) => {
            output::complain(&render(&args.scope, &found, output::is_styled()));
            return Ok(ExitCode::from(BAD_INPUT));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of a configuration.
struct Known<'a>(&'a Config);

impl Names for Known<'_> {
    fn has_site(&self, name: &str) -> bool {
        *self.0.site == *name || self.0.sites.contains_key(name)
    }

    fn has_service(&self, name: &str) -> bool {
        self.0.services.contains_key(name)
    }

    fn sites(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        let others = self.0.sites.keys().map(SiteName::as_str);
        Box::new(std::iter::once(self.0.site.as_str()).chain(others))
    }

    fn services(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.services.keys().map(ServiceName::as_str))
    }
}

/// Every error with its place in the scope, in colour if `styled`.
pub(super) fn render(source: &str, found: &Diagnostics, styled: bool) -> String {
    let renderer = if styled {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let rendered: Vec<_> = found
        .iter()
        .map(|diagnostic| render_one(&renderer, source, diagnostic))
        .collect();
    rendered.join("\n\n")
}

fn render_one(renderer: &Renderer, source: &str, diagnostic: &Diagnostic) -> String {
    let mut group = Level::ERROR
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code.as_str())
        .element(
            Snippet::source(source).annotation(
                AnnotationKind::Primary
                    .span(diagnostic.span.clone())
                    .label(diagnostic.label.as_str()),
            ),
        );
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    if let Some(note) = &diagnostic.note {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    renderer.render(&[group])
}

/// A problem that an agent answered with, shown in the scope if it says where.
pub(super) fn render_problem(source: &str, problem: &Value) -> String {
    let text = |member: &str| problem.get(member).and_then(Value::as_str);
    let number = |member: &str| {
        let number = problem.get("position")?.get(member)?.as_u64()?;
        usize::try_from(number).ok()
    };
    let span = number("offset")
        .zip(number("length"))
        .and_then(|(offset, length)| Some(offset..offset.checked_add(length)?))
        .filter(|span| source.get(span.clone()).is_some());
    let renderer = if output::is_styled() {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut title = Level::ERROR.primary_title(text("detail").unwrap_or("the agent refused"));
    if let Some(code) = text("code") {
        title = title.id(code);
    }
    let mut group = title
        .elements(span.map(|span| Snippet::source(source).annotation(AnnotationKind::Primary.span(span))));
    if let Some(note) = text("explanation") {
        group = group.element(Level::NOTE.message(note));
    }
    renderer.render(&[group])
}

fn to_json(scope: &Scope) -> Value {
    let mut object = Map::new();
    object.insert("ok".to_owned(), true.into());
    object.insert("scope".to_owned(), scope.to_string().into());
    match scope {
        Scope::Bare(loc) => {
            object.insert("location".to_owned(), loc_to_json(loc));
        }
        Scope::Full(entries) => {
            let services = entries
                .iter()
                .map(|entry| (entry.service.to_string(), loc_to_json(&entry.loc)))
                .collect();
            object.insert("services".to_owned(), Value::Object(services));
        }
    }
    Value::Object(object)
}

fn loc_to_json(loc: &Loc) -> Value {
    match loc.kind() {
        LocKind::Site(name) => json!({ "site": name }),
        LocKind::All => json!({ "all": true }),
        LocKind::Not(inner) => json!({ "not": loc_to_json(inner) }),
        LocKind::Joined(operator, members) => json!({
            "operator": operator.to_string(),
            "members": members.iter().map(loc_to_json).collect::<Vec<_>>(),
        }),
        LocKind::Around(centre, radius) => json!({
            "around": loc_to_json(centre),
            "radius_us": radius.us(),
        }),
        LocKind::Wrapped(consistency, inner) => json!({ word(*consistency): loc_to_json(inner) }),
    }
}

/// The scope, one node per line.
fn tree(scope: &Scope) -> String {
    let mut text = String::new();
    match scope {
        Scope::Bare(loc) => {
            text.push_str("the addressed service\n");
            branch(&mut text, loc, 1);
        }
        Scope::Full(entries) => {
            for entry in entries {
                text.push_str(&entry.service);
                text.push('\n');
                branch(&mut text, &entry.loc, 1);
            }
        }
    }
    text
}

fn branch(text: &mut String, loc: &Loc, depth: usize) {
    let mut line = |words: &str| {
        text.push_str(&"  ".repeat(depth));
        text.push_str(words);
        text.push('\n');
    };
    match loc.kind() {
        LocKind::Site(name) => line(name),
        LocKind::All => line("every known site"),
        LocKind::Not(inner) => {
            line("every reachable site but (!)");
            branch(text, inner, depth + 1);
        }
        LocKind::Joined(operator, members) => {
            line(&format!("{} ({operator})", meaning(*operator)));
            for member in members {
                branch(text, member, depth + 1);
            }
        }
        LocKind::Around(centre, radius) => {
            line(&format!(
                "this, then others within a round trip of {radius}, nearest first (around)"
            ));
            branch(text, centre, depth + 1);
        }
        LocKind::Wrapped(consistency, inner) => {
            line(word(*consistency));
            branch(text, inner, depth + 1);
        }
    }
}

fn meaning(operator: cheops_scope::Operator) -> &'static str {
    use cheops_scope::Operator;
    match operator {
        Operator::Otherwise => "the first that does not fail, left to right",
        Operator::First => "the nearest that is available",
        Operator::Cross => "one resource across",
        Operator::Both => "all together",
    }
}

fn word(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Eventual => "eventual",
        Consistency::Strong => "strong",
    }
}
