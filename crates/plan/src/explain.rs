//! A plan with its reasons, for people.

use std::fmt;

use cheops_scope::{Loc, LocKind, Operator, Radius, Scope};
use cheops_types::{Consistency, Plan, ServiceName, VerbClass};
use serde::Serialize;

use crate::{Refusal, View, at_one_site, plan};

/// What a request to `service` would do, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub service: ServiceName,
    pub verb: VerbClass,
    /// The scope in canonical form.
    pub scope: Option<String>,
    pub plan: Plan,
    pub reasons: Vec<String>,
}

/// Plans like [`plan`] and says why.
pub fn explain<V: View + ?Sized>(
    service: &ServiceName,
    verb: VerbClass,
    scope: Option<&Scope>,
    view: &V,
) -> Result<Explanation, Refusal> {
    let plan = plan(service, verb, scope, view)?;
    let here = view.here();
    let reasons = match (scope, scope.and_then(|scope| scope.loc_of(service))) {
        (None, _) => vec![format!("no scope: {service} executes here, at {here}")],
        (_, None) => vec![format!(
            "the scope does not name {service}: it executes here, at {here}"
        )],
        (_, Some(loc)) => {
            let mut reasons = Reasons {
                verb,
                view,
                lines: Vec::new(),
            };
            reasons.loc(loc);
            reasons.lines
        }
    };
    Ok(Explanation {
        service: service.clone(),
        verb,
        scope: scope.map(Scope::to_string),
        plan,
        reasons,
    })
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

// === impl Explanation ===

impl Explanation {
    /// The same for a request that one site is enough for, because of `why`.
    pub fn at_one_site<V: View + ?Sized>(mut self, why: &str, view: &V) -> Self {
        let one = at_one_site(self.plan.clone(), view);
        if one == self.plan {
            self.reasons.insert(0, why.to_owned());
        } else {
            let site = "one site is enough, this one if it is among them, else the nearest";
            self.reasons = vec![format!("{why}: {site}")];
            self.plan = one;
        }
        self
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "service  {}", self.service)?;
        writeln!(f, "verb     {}", self.verb.as_str())?;
        writeln!(f, "scope    {}", self.scope.as_deref().unwrap_or("none"))?;
        writeln!(f, "plan     {}", self.plan)?;
        for reason in &self.reasons {
            writeln!(f, "  - {reason}")?;
        }
        Ok(())
    }
}

struct Millis(u32);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ms", self.0 / 1000, self.0 % 1000 / 100)
    }
}
