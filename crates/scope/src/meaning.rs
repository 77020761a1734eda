//! Which combinations mean something. What does not is refused before anything runs.

use std::collections::HashSet;

use cheops_types::Consistency;

use crate::{
    Diagnostic, Diagnostics, Entry, Loc, LocKind, Operator, Scope, diagnostic::quoted, function::wrapper,
};

/// Lists up to this length are searched without hashing.
const FEW: usize = 16;

/// Refuses what can be read but means nothing, whatever the names.
pub fn check_meaning(scope: &Scope) -> Result<(), Diagnostics> {
    let mut found = Vec::new();
    if let Scope::Full(entries) = scope {
        services_once(entries, &mut found);
    }
    for loc in scope.locs() {
        check(loc, &mut found);
    }
    Diagnostics::result(found)
}

fn services_once(entries: &[Entry], found: &mut Vec<Diagnostic>) {
    for_each_repeated(
        entries,
        |entry| Some(&entry.service),
        |entry, service| {
            let message = format!("`{service}` has two locations");
            found.push(
                Diagnostic::meaning(entry.service_span, message, "named before")
                    .help(format!("write one entry, as in `{service}: paris ; nantes`")),
            );
        },
    );
}

/// A location where any is allowed: a whole entry, or a member of `;` or `|`.
fn check(loc: &Loc, found: &mut Vec<Diagnostic>) {
    match loc.kind() {
        LocKind::Site(_) | LocKind::All => {}
        LocKind::Joined(Operator::Otherwise | Operator::First, members) => {
            for member in members {
                check(member, found);
            }
        }
        LocKind::Joined(operator @ (Operator::Both | Operator::Cross), members) => {
            together(*operator, members, found);
        }
        LocKind::Not(excluded) => check_excluded(loc, excluded, found),
        LocKind::Around(center, radius) => {
            if !matches!(center.kind(), LocKind::Site(_)) {
                found.push(
                    Diagnostic::meaning(center.span(), "`around` needs one site", "not one site")
                        .help(format!("write `around(paris, {radius})`"))
                        .note("distances are measured from one site to the others"),
                );
            }
        }
        LocKind::Wrapped(consistency, inner) => check_wrapped(*consistency, inner, found),
    }
}

/// The members of `&` and `%`: sites that are certain before anything runs, each once.
fn together(operator: Operator, members: &[Loc], found: &mut Vec<Diagnostic>) {
    fn name(member: &Loc) -> Option<&str> {
        match member.kind() {
            LocKind::Site(name) => Some(name.as_str()),
            LocKind::All => Some("all()"),
            _ => None,
        }
    }
    for member in members.iter().filter(|member| name(member).is_none()) {
        found.push(not_together(operator, member));
    }
    for_each_repeated(members, name, |member, name| {
        let message = format!("`{name}` stands twice in one `{operator}`");
        found.push(Diagnostic::meaning(member.span(), message, "named before").help("write it once"));
    });
}

/// Calls `report` for each item that has the name of an earlier one.
fn for_each_repeated<'a, T>(
    items: &'a [T],
    name: impl Fn(&'a T) -> Option<&'a str>,
    mut report: impl FnMut(&'a T, &'a str),
) {
    // Comparing a few with each other is much cheaper than hashing them; comparing many is not.
    let mut hashed = (items.len() > FEW).then(HashSet::new);
    for (i, item) in items.iter().enumerate() {
        let Some(this) = name(item) else { continue };
        let repeated = match &mut hashed {
            Some(seen) => !seen.insert(this),
            None => items[..i].iter().any(|earlier| name(earlier) == Some(this)),
        };
        if repeated {
            report(item, this);
        }
    }
}

fn not_together(operator: Operator, member: &Loc) -> Diagnostic {
    let span = member.span();
    let text = quoted(&member.to_string());
    let error = |message: String, label: &str| Diagnostic::meaning(span, message, label);
    match member.kind() {
        LocKind::Joined(Operator::Both, _) => error(format!("{text} cannot be a part of `%`"), "replicas")
            .help("use only `&`, or only `%`")
            .note(
                "`%` divides one resource among sites, `&` copies it: a resource is either divided or copied",
            ),
        LocKind::Joined(Operator::Cross, _) => error(
            format!("{text} cannot be a part of `&`"),
            "a cross resource",
        )
        .help("use only `&`, or only `%`")
        .note("`%` divides one resource among sites, `&` copies it: a resource is either divided or copied"),
        LocKind::Wrapped(consistency, inner) => {
            let function = wrapper(*consistency);
            error(
                format!("`{function}` cannot be a part of `{operator}`"),
                "consistency of a part",
            )
            .help(format!(
                "put all sites inside, as in `{function}({inner} {operator} …)`"
            ))
            .note("one resource has one consistency, at all its sites")
        }
        LocKind::Not(excluded) if matches!(excluded.kind(), LocKind::Site(_)) => error(
            format!("{text} cannot be a part of `{operator}`"),
            "one of several sites",
        )
        .help(format!(
            "to exclude several sites, use parentheses: `!({excluded} {operator} …)`"
        ))
        .note(format!(
            "`{operator}` needs sites that are certain before anything runs"
        )),
        _ => error(
            format!("{text} cannot be a part of `{operator}`"),
            "one of several sites",
        )
        .help(format!("name the sites, as in `paris {operator} nantes`"))
        .note(format!(
            "`{operator}` needs sites that are certain before anything runs"
        )),
    }
}

fn check_excluded(whole: &Loc, excluded: &Loc, found: &mut Vec<Diagnostic>) {
    if let LocKind::Not(inner) = excluded.kind() {
        found.push(
            Diagnostic::meaning(whole.span(), "`!` of `!` means nothing", "excluded twice")
                .help(format!("did you mean `{inner}`?")),
        );
        return;
    }
    each_excluded(whole, excluded, found);
}

/// Sites, and lists of sites by `&`, `;` or `|`, which are all the same under `!`.
fn each_excluded(whole: &Loc, excluded: &Loc, found: &mut Vec<Diagnostic>) {
    match excluded.kind() {
        LocKind::Site(_) => {}
        LocKind::Joined(Operator::Otherwise | Operator::First | Operator::Both, members) => {
            for member in members {
                each_excluded(whole, member, found);
            }
        }
        LocKind::All => found.push(
            Diagnostic::meaning(
                whole.span(),
                format!("{} leaves no site", quoted(&whole.to_string())),
                "nothing is left",
            )
            .help("name the sites to leave out, as in `!(paris & nantes)`"),
        ),
        LocKind::Joined(Operator::Cross, _)
        | LocKind::Not(_)
        | LocKind::Around(..)
        | LocKind::Wrapped(..) => found.push(
            Diagnostic::meaning(
                excluded.span(),
                format!("`!` cannot exclude {}", quoted(&excluded.to_string())),
                "not a list of sites",
            )
            .help("name the sites to leave out, as in `!(paris & nantes)`"),
        ),
    }
}

fn check_wrapped(consistency: Consistency, inner: &Loc, found: &mut Vec<Diagnostic>) {
    let function = wrapper(consistency);
    match inner.kind() {
        // One site decides for itself, and agrees with all of its replicas.
        LocKind::All | LocKind::Site(_) => {}
        LocKind::Joined(operator @ (Operator::Both | Operator::Cross), members) => {
            together(*operator, members, found);
        }
        LocKind::Wrapped(..) => found.push(
            Diagnostic::meaning(inner.span(), "a resource has one consistency", "a second one")
                .help(format!("did you mean `{inner}`?")),
        ),
        _ => found.push(
            Diagnostic::meaning(
                inner.span(),
                format!("`{function}` needs `&`, `%` or `all()`"),
                "no replicas",
            )
            .help(format!("name the replicas, as in `{function}(paris & nantes)`"))
            .note("consistency is between the replicas of a resource"),
        ),
    }
}
