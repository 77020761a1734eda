//! What a scope means inside a replica's own execution.

use cheops_plan::{View, nearest_first};
use cheops_scope::{Entry, Loc, LocKind, Operator, Scope};

/// The scope with one site in place of each `&`: this one if it is listed, else the nearest listed. All
/// sites execute the operation, so a service that its execution calls is called once by each.
pub(super) fn inside_replica<V: View + ?Sized>(scope: &Scope, view: &V) -> Scope {
    match scope {
        Scope::Bare(loc) => Scope::Bare(one_site(loc, view)),
        Scope::Full(entries) => Scope::Full(
            entries
                .iter()
                .map(|entry| Entry::new(entry.service.clone(), one_site(&entry.loc, view)))
                .collect(),
        ),
    }
}

fn one_site<V: View + ?Sized>(loc: &Loc, view: &V) -> Loc {
    match loc.kind() {
        LocKind::All => Loc::site(view.here().clone()),
        LocKind::Joined(Operator::Both, members) => nearest(members, view).unwrap_or_else(|| loc.clone()),
        LocKind::Joined(operator @ (Operator::Otherwise | Operator::First), members) => {
            let members = members.iter().map(|member| one_site(member, view));
            members
                .reduce(|left, right| left.join(*operator, right))
                .unwrap_or_else(|| loc.clone())
        }
        LocKind::Wrapped(consistency, inner) => match one_site(inner, view) {
            // Consistency is between replicas, and one site is none.
            site if matches!(site.kind(), LocKind::Site(_)) => site,
            inner => Loc::wrapped(*consistency, inner),
        },
        LocKind::Site(_) | LocKind::Not(_) | LocKind::Around(..) | LocKind::Joined(Operator::Cross, _) => {
            loc.clone()
        }
    }
}

fn nearest<V: View + ?Sized>(members: &[Loc], view: &V) -> Option<Loc> {
    let mut sites = Vec::with_capacity(members.len());
    for member in members {
        match member.kind() {
            LocKind::Site(name) => sites.push(name.clone()),
            _ => sites.push(view.here().clone()),
        }
    }
    nearest_first(&mut sites, view);
    sites.into_iter().next().map(Loc::site)
}

#[cfg(test)]
mod tests {
    use cheops_scope::{ParseLimits, read};
    use cheops_types::SiteName;

    use super::*;

    /// Sites are as far as their place says; `down` is down.
    struct Line(Vec<SiteName>);

    impl View for Line {
        fn here(&self) -> &SiteName {
            &self.0[0]
        }

        fn site(&self, name: &str) -> Option<&SiteName> {
            self.0.iter().find(|site| site.as_str() == name)
        }

        fn sites(&self) -> &[SiteName] {
            &self.0
        }

        fn is_up(&self, site: &SiteName) -> bool {
            site.as_str() != "down"
        }

        fn round_trip_us(&self, _: &SiteName, to: &SiteName) -> Option<u32> {
            self.0
                .iter()
                .position(|site| site == to)
                .map(|place| place as u32)
        }
    }

    fn check(text: &str, expect: &str) {
        let sites = ["here", "down", "near", "far"].map(|name| SiteName::new(name).unwrap());
        let limits = ParseLimits {
            max_bytes: 200,
            max_depth: 8,
        };
        let scope = read(text, &limits, None).unwrap();
        let inside = inside_replica(&scope, &Line(sites.to_vec()));
        assert_eq!(inside.to_string(), expect, "{text}");
    }

    #[test]
    fn each_and_becomes_one_site() {
        check("B: far & here", "B: here");
        check("A: here & far, B: far & near", "A: here, B: near");
        check("B: far & down", "B: far");
        check("B: all()", "B: here");
        check("B: eventual(near & far)", "B: near");
        check("B: near & all()", "B: here");
        check("B: (far & near) ; far", "B: near ; far");
    }

    #[test]
    fn everything_else_stays() {
        for same in ["B: far", "B: near ; far", "B: !near", "B: near % far"] {
            check(same, same);
        }
    }
}
