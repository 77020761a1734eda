//! Scope × verb class × view → what is asked for.

use cheops_scope::{Loc, LocKind, Operator, Radius};
use cheops_types::{Code, Consistency, Problem, SiteName, VerbClass};

use crate::{Plan, Remainder, Request, Tell, View, Wish, asked::Asked, explain::reasons, nearness::Nearness};

/// What a request asks for: by its scope, or by what is left of another agent's plan. A scope that was not checked is read
/// as far as it means something and refused otherwise.
pub fn asked<V: View + ?Sized, T: Tell>(
    request: &Request<'_>,
    view: &V,
    tell: &mut T,
) -> Result<Asked, Problem> {
    let scope = match request.wish {
        Wish::Peer(remainder) => return of_peer(remainder, request.verb, view),
        Wish::Scope(scope) => scope,
    };
    let Request { service, verb, .. } = *request;
    let asked = match scope.and_then(|scope| scope.loc_of(service)) {
        None => Ok(Asked::Plan(Plan::Local)),
        Some(loc) => Planner { verb, view }.loc(loc),
    };
    if let (Some(why), Ok(several)) = (request.one_site, &asked) {
        let one = Asked::Plan(several.clone().at_one_site(view));
        if one != *several {
            tell.say(|| format!("{why}: one site is enough, this one if it is among them, else the nearest"));
            return Ok(one);
        }
        tell.say(|| why.to_owned());
    }
    reasons(service, verb, scope, view, tell);
    asked
}

/// What another agent has left to this one. It has planned already: a read is for this site, and the sites of a write are
/// known ones, each once.
fn of_peer<V: View + ?Sized>(remainder: &Remainder, verb: VerbClass, view: &V) -> Result<Asked, Problem> {
    let asked = remainder.asked();
    let asked = match asked {
        Asked::Replicas {
            sites,
            consistency: Consistency::Strong,
        } if verb == VerbClass::ReadOne => Asked::Latest(sites),
        _ if verb.is_read() => Plan::Local.into(),
        asked => asked,
    };
    let sites = match &asked {
        Asked::Replicas { sites, .. } | Asked::Latest(sites) | Asked::Span(sites) => sites,
        Asked::Plan(_) => return Ok(asked),
    };
    let is_strange =
        |(place, site): (usize, &SiteName)| view.site(site).is_none() || sites[..place].contains(site);
    if sites.len() > view.sites().len() || sites.iter().enumerate().any(is_strange) {
        return Err(Problem::new(
            Code::BadRequest,
            "the plan of another agent names a site that is not known here, or one twice; nothing executed",
        ));
    }
    Ok(asked)
}

struct Planner<'a, V: ?Sized> {
    verb: VerbClass,
    view: &'a V,
}

impl<V: View + ?Sized> Planner<'_, V> {
    fn loc(&self, loc: &Loc) -> Result<Asked, Problem> {
        match loc.kind() {
            LocKind::Site(name) => Ok(self.at(self.known(name)?).into()),
            LocKind::Not(excluded) => self.except(loc, excluded).map(Asked::Plan),
            LocKind::Around(center, radius) => self.around(center, *radius).map(Asked::Plan),
            LocKind::All => self.joined(Operator::Both, std::slice::from_ref(loc), Consistency::Eventual),
            LocKind::Joined(operator, members) => self.joined(*operator, members, Consistency::Eventual),
            LocKind::Wrapped(consistency, inner) => match inner.kind() {
                LocKind::All | LocKind::Site(_) => {
                    self.joined(Operator::Both, std::slice::from_ref(&**inner), *consistency)
                }
                LocKind::Joined(operator @ (Operator::Both | Operator::Cross), members) => {
                    self.joined(*operator, members, *consistency)
                }
                _ => Err(means_nothing(loc)),
            },
        }
    }

    /// The method × operator table. Where a cell depends on what the resource is (replicated, divided), what is asked for is
    /// the same and the facts decide.
    fn joined(
        &self,
        operator: Operator,
        members: &[Loc],
        consistency: Consistency,
    ) -> Result<Asked, Problem> {
        use Consistency::{Eventual, Strong};
        use Operator::{Both, Cross, First, Otherwise};
        use VerbClass::{Action, Change, Create, ReadCollection, ReadOne};

        match (operator, consistency, self.verb) {
            (Otherwise, _, ReadOne | ReadCollection | Create | Change | Action) => {
                self.otherwise(members).map(Asked::Plan)
            }
            (First, _, ReadOne | ReadCollection | Create | Change | Action) => {
                self.first(members).map(Asked::Plan)
            }
            // Sites agree on what a resource is, not on what is in a list.
            (Both, Eventual, ReadOne) | (Both, _, ReadCollection) => {
                self.together(members, |sites| Plan::Gather(sites).into())
            }
            (Both, Strong, ReadOne) => self.together(members, Asked::Latest),
            (Both, _, Create | Change | Action) => {
                self.together(members, |sites| Asked::Replicas { sites, consistency })
            }
            (Cross, Eventual, ReadOne | ReadCollection | Create | Change | Action) => {
                self.together(members, Asked::Span)
            }
            (Cross, Strong, _) => Err(not_available(
                "`strong` of a cross resource is not available yet; use `%` alone",
            )),
        }
    }

    /// `A ; B`, left to right.
    fn otherwise(&self, members: &[Loc]) -> Result<Plan, Problem> {
        let mut steps = Vec::with_capacity(members.len());
        for member in members {
            match self.step(member)? {
                Plan::Fallback(inner) => inner.into_iter().for_each(|step| push_new(&mut steps, step)),
                step => push_new(&mut steps, step),
            }
        }
        Ok(one_or(steps, Plan::Fallback))
    }

    /// `A | B`, nearest healthy first; equally near ones stay in scope order.
    fn first(&self, members: &[Loc]) -> Result<Plan, Problem> {
        let mut choices = Vec::with_capacity(members.len());
        for member in members {
            match self.step(member)? {
                Plan::FirstOf(inner) => inner
                    .into_iter()
                    .for_each(|choice| push_new(&mut choices, choice)),
                choice => push_new(&mut choices, choice),
            }
        }
        choices.sort_by_cached_key(|choice| Nearness::of_plan(choice, self.view));
        Ok(one_or(choices, Plan::FirstOf))
    }

    /// A member of `;` or `|`. A write to several sites cannot be one: whether it certainly did not
    /// execute is not known of all of them at once.
    fn step(&self, member: &Loc) -> Result<Plan, Problem> {
        match self.loc(member)? {
            Asked::Plan(plan) => Ok(plan),
            Asked::Replicas { .. } | Asked::Latest(_) | Asked::Span(_) => Err(not_available(format!(
                "`{member}` inside `;` or `|` is not available yet for this request; use it alone"
            ))),
        }
    }

    /// `A & B` and `A % B`: all sites, in scope order.
    fn together(&self, members: &[Loc], make: impl FnOnce(Vec<SiteName>) -> Asked) -> Result<Asked, Problem> {
        let mut sites = Vec::with_capacity(members.len());
        for member in members {
            match member.kind() {
                LocKind::Site(name) => push_new(&mut sites, self.known(name)?.clone()),
                LocKind::All => self
                    .view
                    .sites()
                    .iter()
                    .for_each(|site| push_new(&mut sites, site.clone())),
                _ => return Err(means_nothing(member)),
            }
        }
        match sites.as_slice() {
            [] => Err(means_nothing_left("the scope")),
            [site] => Ok(self.at(site).into()),
            _ => Ok(make(sites)),
        }
    }

    /// `!L`: the reachable sites that L does not name, nearest first.
    fn except(&self, loc: &Loc, excluded: &Loc) -> Result<Plan, Problem> {
        let mut left = Vec::with_capacity(self.view.sites().len());
        for site in self.view.sites() {
            if self.is_reachable(site) && !self.names(excluded, site)? {
                left.push(site);
            }
        }
        if left.is_empty() {
            return Err(means_nothing_left(&format!("`{loc}`")));
        }
        left.sort_by_cached_key(|site| Nearness::of_site(site, self.view));
        Ok(one_or(
            left.into_iter().map(|site| self.at(site)).collect(),
            Plan::FirstOf,
        ))
    }

    /// Whether `loc`, a site or a list of sites, names `site`.
    fn names(&self, loc: &Loc, site: &SiteName) -> Result<bool, Problem> {
        match loc.kind() {
            LocKind::Site(name) => Ok(self.known(name)? == site),
            LocKind::All => Ok(true),
            LocKind::Joined(Operator::Otherwise | Operator::First | Operator::Both, members) => {
                let mut named = false;
                for member in members {
                    named |= self.names(member, site)?;
                }
                Ok(named)
            }
            _ => Err(means_nothing(loc)),
        }
    }

    /// `around(S, radius)`: S, then the others by their round trip from S.
    fn around(&self, center: &Loc, radius: Radius) -> Result<Plan, Problem> {
        let LocKind::Site(name) = center.kind() else {
            return Err(means_nothing(center));
        };
        let center = self.known(name)?;
        let mut near: Vec<_> = self
            .view
            .sites()
            .iter()
            .filter(|site| *site != center)
            .filter_map(|site| Some((self.view.round_trip_us(center, site)?, site)))
            .filter(|(round_trip_us, _)| *round_trip_us <= radius.us())
            .collect();
        near.sort_by_key(|(round_trip_us, _)| *round_trip_us);
        let sites = std::iter::once(center).chain(near.into_iter().map(|(_, site)| site));
        Ok(one_or(sites.map(|site| self.at(site)).collect(), Plan::Fallback))
    }

    fn at(&self, site: &SiteName) -> Plan {
        Plan::at(site.clone(), self.view.here())
    }

    fn is_reachable(&self, site: &SiteName) -> bool {
        site == self.view.here() || self.view.is_up(site)
    }

    fn known(&self, name: &str) -> Result<&SiteName, Problem> {
        self.view
            .site(name)
            .ok_or_else(|| Problem::new(Code::UnknownSite, format!("no site `{name}` is known here")))
    }
}

/// Nothing is tried or asked twice.
fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn one_or(mut members: Vec<Plan>, make: impl FnOnce(Vec<Plan>) -> Plan) -> Plan {
    match members.pop() {
        Some(only) if members.is_empty() => only,
        last => {
            members.extend(last);
            make(members)
        }
    }
}

fn not_available(detail: impl Into<String>) -> Problem {
    Problem::new(Code::NotAvailable, detail)
}

fn means_nothing(loc: &Loc) -> Problem {
    Problem::new(
        Code::ScopeMeaning,
        format!("`{loc}` means nothing there; see `cheops scope check`"),
    )
}

fn means_nothing_left(what: &str) -> Problem {
    Problem::new(
        Code::NoSiteLeft,
        format!("{what} leaves no site that can be reached from here; try again later"),
    )
}
