//! Scope × verb class × view → plan.

use cheops_scope::{Loc, LocKind, Operator, Radius, Scope};
use cheops_types::{Code, Consistency, Plan, ServiceName, SiteName, VerbClass};

use crate::{Refusal, View, nearness::Nearness};

/// What the scope becomes for one request to `service`. A scope that was not checked is planned as far
/// as it means something and refused otherwise.
pub fn plan<V: View + ?Sized>(
    service: &ServiceName,
    verb: VerbClass,
    scope: Option<&Scope>,
    view: &V,
) -> Result<Plan, Refusal> {
    match scope.and_then(|scope| scope.loc_of(service)) {
        None => Ok(Plan::Local),
        Some(loc) => Planner { verb, view }.loc(loc),
    }
}

struct Planner<'a, V: ?Sized> {
    verb: VerbClass,
    view: &'a V,
}

impl<V: View + ?Sized> Planner<'_, V> {
    fn loc(&self, loc: &Loc) -> Result<Plan, Refusal> {
        match loc.kind() {
            LocKind::Site(name) => Ok(self.at(self.known(name)?)),
            LocKind::Not(excluded) => self.except(loc, excluded),
            LocKind::Around(center, radius) => self.around(center, *radius),
            LocKind::All => self.joined(Operator::Both, std::slice::from_ref(loc), Consistency::Eventual),
            LocKind::Joined(operator, members) => self.joined(*operator, members, Consistency::Eventual),
            LocKind::Wrapped(consistency, inner) => match inner.kind() {
                LocKind::All => self.joined(Operator::Both, std::slice::from_ref(&**inner), *consistency),
                LocKind::Joined(operator @ (Operator::Both | Operator::Cross), members) => {
                    self.joined(*operator, members, *consistency)
                }
                _ => Err(means_nothing(loc)),
            },
        }
    }

    /// The method × operator table. Where a cell depends on what the resource is (replicated, divided),
    /// the plan is the same and its execution decides.
    fn joined(&self, operator: Operator, members: &[Loc], consistency: Consistency) -> Result<Plan, Refusal> {
        use Consistency::{Eventual, Strong};
        use Operator::{Both, Cross, First, Otherwise};
        use VerbClass::{Action, Change, Create, ReadCollection, ReadOne};

        match (operator, consistency, self.verb) {
            (Otherwise, _, ReadOne | ReadCollection | Create | Change | Action) => self.otherwise(members),
            (First, _, ReadOne | ReadCollection | Create | Change | Action) => self.first(members),
            (Both, Eventual, ReadOne | ReadCollection) => self.together(members, Plan::Gather),
            (Both, Strong, ReadOne | ReadCollection) => Err(not_available(
                "a read through `strong` is not available yet; read one of the sites",
            )),
            (Both, _, Create | Change | Action) => {
                self.together(members, |sites| Plan::Replicate { sites, consistency })
            }
            (Cross, Eventual, ReadOne | ReadCollection | Create | Change | Action) => {
                self.together(members, Plan::Cross)
            }
            (Cross, Strong, _) => Err(not_available(
                "`strong` of a cross resource is not available yet; use `%` alone",
            )),
        }
    }

    /// `A ; B`, left to right.
    fn otherwise(&self, members: &[Loc]) -> Result<Plan, Refusal> {
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
    fn first(&self, members: &[Loc]) -> Result<Plan, Refusal> {
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
    fn step(&self, member: &Loc) -> Result<Plan, Refusal> {
        let plan = self.loc(member)?;
        match plan {
            Plan::Replicate { .. } | Plan::Cross(_) => Err(not_available(format!(
                "`{member}` inside `;` or `|` is not available yet for this request; use it alone"
            ))),
            _ => Ok(plan),
        }
    }

    /// `A & B` and `A % B`: all sites, in scope order.
    fn together(&self, members: &[Loc], make: impl FnOnce(Vec<SiteName>) -> Plan) -> Result<Plan, Refusal> {
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
            [site] => Ok(self.at(site)),
            _ => Ok(make(sites)),
        }
    }

    /// `!L`: the reachable sites that L does not name, nearest first.
    fn except(&self, loc: &Loc, excluded: &Loc) -> Result<Plan, Refusal> {
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
    fn names(&self, loc: &Loc, site: &SiteName) -> Result<bool, Refusal> {
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
    fn around(&self, center: &Loc, radius: Radius) -> Result<Plan, Refusal> {
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
        if site == self.view.here() {
            Plan::Local
        } else {
            Plan::Forward(site.clone())
        }
    }

    fn is_reachable(&self, site: &SiteName) -> bool {
        site == self.view.here() || self.view.is_up(site)
    }

    fn known(&self, name: &str) -> Result<&SiteName, Refusal> {
        self.view
            .site(name)
            .ok_or_else(|| Refusal::new(Code::UnknownSite, format!("no site `{name}` is known here")))
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

fn not_available(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::NotAvailable, detail)
}

fn means_nothing(loc: &Loc) -> Refusal {
    Refusal::new(
        Code::ScopeMeaning,
        format!("`{loc}` means nothing there; see `cheops scope check`"),
    )
}

fn means_nothing_left(what: &str) -> Refusal {
    Refusal::new(
        Code::NoSiteLeft,
        format!("{what} leaves no site that can be reached from here; try again later"),
    )
}
