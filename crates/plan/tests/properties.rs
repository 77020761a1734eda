//! What holds for every scope, checked or not, and every view.

#[path = "support/mesh.rs"]
mod mesh;
#[path = "support/request.rs"]
mod request;

use std::collections::BTreeSet;

use cheops_plan::{Asked, Plan, Silent, View, asked};
use cheops_scope::{Loc, LocKind, Operator, Radius, Scope, check_meaning};
use cheops_types::{Code, Consistency, ServiceName, SiteName, VerbClass};
use mesh::{Mesh, site};
use proptest::prelude::*;
use request::of_user;

const SITES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn loc() -> impl Strategy<Value = Loc> {
    let leaf = prop_oneof![
        12 => prop::sample::select(&SITES[..]).prop_map(|name| Loc::site(site(name))),
        1 => Just(Loc::all()),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let operator = prop::sample::select(&Operator::ALL[..]);
        prop_oneof![
            6 => (operator, inner.clone(), inner.clone()).prop_map(|(operator, left, right)| left.join(operator, right)),
            1 => inner.clone().prop_map(Loc::except),
            1 => (inner.clone(), 1..20_000u32)
                .prop_map(|(center, us)| Loc::around(center, Radius::from_us(us).unwrap())),
            1 => (prop::bool::ANY, inner).prop_map(|(strong, inner)| {
                Loc::wrapped(if strong { Consistency::Strong } else { Consistency::Eventual }, inner)
            }),
        ]
    })
}

fn mesh() -> impl Strategy<Value = Mesh> {
    let pair = (
        prop::sample::select(&SITES[..]),
        prop::sample::select(&SITES[..]),
        0..20_000u32,
    );
    let down = prop::sample::subsequence(&SITES[1..], 0..4);
    (prop::collection::vec(pair, 0..12), down).prop_map(|(pairs, down)| {
        let mesh = pairs
            .into_iter()
            .fold(Mesh::new("a", &SITES), |mesh, (a, b, us)| mesh.distance(a, b, us));
        down.into_iter().fold(mesh, Mesh::down)
    })
}

fn verb() -> impl Strategy<Value = VerbClass> {
    use VerbClass::{Action, Change, Create, ReadCollection, ReadOne};
    prop::sample::select(vec![ReadOne, ReadCollection, Create, Change, Action])
}

/// The sites that a location allows, by its definition and without its order.
fn allowed(loc: &Loc, mesh: &Mesh) -> BTreeSet<SiteName> {
    let all: BTreeSet<_> = mesh.sites().iter().cloned().collect();
    match loc.kind() {
        LocKind::Site(name) => BTreeSet::from([name.clone()]),
        LocKind::All => all,
        LocKind::Not(excluded) => &all - &allowed(excluded, mesh),
        LocKind::Joined(_, members) => members.iter().flat_map(|member| allowed(member, mesh)).collect(),
        LocKind::Wrapped(_, inner) => allowed(inner, mesh),
        LocKind::Around(center, radius) => {
            let centers = allowed(center, mesh);
            let near = |site: &SiteName| {
                let mut distances = centers
                    .iter()
                    .filter_map(|center| mesh.round_trip_us(center, site));
                centers.contains(site) || distances.any(|us| us <= radius.us())
            };
            all.into_iter().filter(near).collect()
        }
    }
}

/// The sites of what is asked for; on the way, what all of it promises.
fn sites(asked: &Asked, verb: VerbClass, mesh: &Mesh) -> BTreeSet<SiteName> {
    match asked {
        Asked::Plan(plan) => of_plan(plan, verb, mesh),
        Asked::Replicas { sites, .. } => {
            assert!(!verb.is_read(), "a read never replicates: {asked}");
            several(sites)
        }
        Asked::Latest(sites) => {
            assert_eq!(
                verb,
                VerbClass::ReadOne,
                "only what one resource is can be decided: {asked}"
            );
            several(sites)
        }
        Asked::Span(sites) => several(sites),
    }
}

fn several(list: &[SiteName]) -> BTreeSet<SiteName> {
    let set: BTreeSet<_> = list.iter().cloned().collect();
    assert!(
        list.len() > 1 && set.len() == list.len(),
        "several sites, each once: {list:?}"
    );
    set
}

fn of_plan(plan: &Plan, verb: VerbClass, mesh: &Mesh) -> BTreeSet<SiteName> {
    match plan {
        Plan::Local => BTreeSet::from([mesh.here().clone()]),
        Plan::Forward(site) => {
            assert_ne!(site, mesh.here(), "here is local");
            BTreeSet::from([site.clone()])
        }
        Plan::Fallback(members) | Plan::FirstOf(members) => {
            assert!(members.len() > 1, "a choice needs two members: {plan}");
            for member in members {
                assert_ne!(member.kind(), plan.kind(), "not flat: {plan}");
            }
            let each = members.iter().flat_map(|member| of_plan(member, verb, mesh));
            each.collect()
        }
        Plan::Gather(list) => {
            assert!(verb.is_read(), "a write is never gathered: {plan}");
            several(list)
        }
        plan => panic!("a scope alone does not ask for {plan}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_asked_for_keeps_to_the_scope(loc in loc(), verb in verb(), mesh in mesh()) {
        let service = ServiceName::new("s").unwrap();
        let allowed = allowed(&loc, &mesh);
        let scope = Scope::Bare(loc);
        let meaningful = check_meaning(&scope).is_ok();
        match asked(&of_user(&service, verb, Some(&scope)), &mesh, &mut Silent) {
            Ok(asked) => {
                let named = sites(&asked, verb, &mesh);
                prop_assert!(named.is_subset(&allowed), "{} for {}: {:?} allowed", asked, scope, allowed);
            }
            Err(problem) if meaningful => {
                prop_assert!(matches!(problem.code, Code::NotAvailable | Code::NoSiteLeft), "{:?}", problem);
            }
            Err(_) => {}
        }
    }

    #[test]
    fn full_form_asks_for_the_same(loc in loc(), verb in verb(), mesh in mesh()) {
        let service = ServiceName::new("s").unwrap();
        let other = ServiceName::new("t").unwrap();
        let bare = Scope::Bare(loc);
        let full = bare.to_full(&service);
        let ask = |service, scope| asked(&of_user(service, verb, Some(scope)), &mesh, &mut Silent);
        prop_assert_eq!(ask(&service, &bare), ask(&service, &full));
        prop_assert_eq!(ask(&other, &full), Ok(Asked::Plan(Plan::Local)));
    }
}
