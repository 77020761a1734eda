//! Whether the names of a scope are known here.

use cheops_types::{Code, listed, nearest};

use crate::{Diagnostic, Diagnostics, Scope, Span};

/// Lists up to this length are shown whole.
const LISTED_MAX: usize = 12;

/// The names that are known at this site.
pub trait Names {
    fn has_site(&self, name: &str) -> bool;
    fn has_service(&self, name: &str) -> bool;
    /// All sites, to suggest one.
    fn sites(&self) -> Box<dyn Iterator<Item = &str> + '_>;
    /// All services, to suggest one.
    fn services(&self) -> Box<dyn Iterator<Item = &str> + '_>;
}

/// Refuses sites and services that are not known.
pub fn check_names(scope: &Scope, names: &dyn Names) -> Result<(), Diagnostics> {
    let mut found = Vec::new();
    if let Scope::Full(entries) = scope {
        for entry in entries.iter().filter(|entry| !names.has_service(&entry.service)) {
            found.push(unknown(
                Code::UnknownService,
                &entry.service,
                entry.service_span,
                || names.services(),
            ));
        }
    }
    for loc in scope.locs() {
        loc.for_each_site(&mut |site, span| {
            if !names.has_site(site) {
                found.push(unknown(Code::UnknownSite, site, span, || names.sites()));
            }
        });
    }
    found.sort_by_key(|diagnostic| diagnostic.span.start);
    Diagnostics::result(found)
}

fn unknown<'a>(
    code: Code,
    name: &str,
    span: Span,
    candidates: impl Fn() -> Box<dyn Iterator<Item = &'a str> + 'a>,
) -> Diagnostic {
    let what = if code == Code::UnknownSite {
        "site"
    } else {
        "service"
    };
    let mut error = Diagnostic::new(
        code,
        span,
        format!("no {what} `{name}` is known here"),
        "not known here",
    );
    if let Some(meant) = nearest(name, candidates()) {
        error = error.help(format!("did you mean `{meant}`?"));
    }
    match candidates().take(LISTED_MAX + 1).count() {
        1..=LISTED_MAX => error.note(format!("known {what}s: {}", listed(candidates(), "and"))),
        _ => error,
    }
}
