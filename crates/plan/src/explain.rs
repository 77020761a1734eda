//! Why a plan is as it is, for people: the same decision, told.

use std::fmt;

use cheops_scope::{Loc, LocKind, Operator, Radius, Scope};
use cheops_types::{Consistency, ServiceName, VerbClass};

use crate::View;

/// Takes down why something is decided.
pub trait Tell {
    fn say_all(&mut self, lines: impl FnOnce() -> Vec<String>);

    fn say(&mut self, line: impl FnOnce() -> String) {
        self.say_all(|| vec![line()]);
    }
}

/// Nobody asks why: nothing is put in words.
#[derive(Debug)]
pub struct Silent;

impl Tell for Silent {
    fn say_all(&mut self, _lines: impl FnOnce() -> Vec<String>) {}
}

impl Tell for Vec<String> {
    fn say_all(&mut self, lines: impl FnOnce() -> Vec<String>) {
        self.extend(lines());
    }
}

/// Why a scope asks for what it does.
pub(crate) fn reasons<V: View + ?Sized, T: Tell>(
    service: &ServiceName,
    verb: VerbClass,
    scope: Option<&Scope>,
    view: &V,
    tell: &mut T,
) {
    let here = view.here();
    tell.say_all(|| match (scope, scope.and_then(|scope| scope.loc_of(service))) {
        (None, _) => vec![format!("no scope: {service} of this site is meant, {here}")],
        (_, None) => vec![format!(
            "the scope does not name {service}: that of this site is meant, {here}"
        )],
        (_, Some(loc)) => {
            let lines = Vec::new();
            let mut reasons = Reasons { verb, view, lines };
            reasons.loc(loc);
            reasons.lines
        }
    });
}

struct Reasons<'a, V: ?Sized> {
    verb: VerbClass,
    view: &'a V,
    lines: Vec<String>,
}

// === impl Reasons ===

impl<V: View + ?Sized> Reasons<'_, V> {
    /// One line per part of the scope, outermost first.
    fn loc(&mut self, loc: &Loc) {
        match loc.kind() {
            LocKind::Site(name) if name == self.view.here() => self.say(loc, "is this site"),
            LocKind::Site(name) => self.say(loc, &format!("is another site, {}", self.distance(name))),
            LocKind::All => self.say(loc, &format!("is {}", self.view.sites().join(" & "))),
            LocKind::Not(_) => self.say(loc, "is every reachable site but those named, nearest first"),
            LocKind::Around(center, radius) => self.around(loc, center, *radius),
            LocKind::Joined(operator, members) => {
                self.say(loc, self.joined(*operator));
                for member in members {
                    self.loc(member);
                }
            }
            LocKind::Wrapped(consistency, inner) => {
                self.say(
                    loc,
                    match consistency {
                        Consistency::Eventual => "lets every site accept writes, partitioned or not",
                        Consistency::Strong => {
                            "executes a write only after a majority of the sites agreed on it"
                        }
                    },
                );
                self.loc(inner);
            }
        }
    }

    fn joined(&self, operator: Operator) -> &'static str {
        match (operator, self.verb.is_read()) {
            (Operator::Otherwise, true) => "is tried from left to right until one answers",
            (Operator::Otherwise, false) => {
                "is tried from left to right; the next only if the one before certainly did not execute"
            }
            (Operator::First, true) => "is the nearest healthy one; a late answer is hedged by the next",
            (Operator::First, false) => "is the nearest healthy one, and never two",
            (Operator::Both, true) => "is asked at every site and gathered",
            (Operator::Both, false) => "is executed at every site: one resource, a replica at each",
            (Operator::Cross, _) => "is one resource that spans the sites",
        }
    }

    fn around(&mut self, loc: &Loc, center: &Loc, radius: Radius) {
        self.say(
            loc,
            &format!("is {center}, then the sites within {radius} of it, nearest first"),
        );
        let LocKind::Site(center) = center.kind() else {
            return;
        };
        for site in self.view.sites().iter().filter(|site| *site != center) {
            let line = match self.view.round_trip_us(center, site) {
                Some(us) if us <= radius.us() => {
                    format!("{site} is {} from {center}: within {radius}", Millis(us))
                }
                Some(us) => format!("{site} is {} from {center}: too far", Millis(us)),
                None => format!("the distance from {center} to {site} is not known: left out"),
            };
            self.lines.push(line);
        }
    }

    fn say(&mut self, loc: &Loc, what: &str) {
        self.lines.push(format!("`{loc}` {what}"));
    }

    fn distance(&self, name: &str) -> String {
        let Some(site) = self.view.site(name) else {
            return "not known".to_owned();
        };
        let health = if self.view.is_up(site) { "up" } else { "down" };
        match self.view.round_trip_us(self.view.here(), site) {
            Some(us) => format!("{health}, {} away", Millis(us)),
            None => format!("{health}, distance not known"),
        }
    }
}

struct Millis(u32);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ms", self.0 / 1000, self.0 % 1000 / 100)
    }
}
