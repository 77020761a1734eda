//! What holds for every scope, checked or not, and every view.

#[path = "support/mesh.rs"]
mod mesh;

use std::collections::BTreeSet;

use cheops_plan::{View, explain, plan};
use cheops_scope::{Loc, LocKind, Operator, Radius, Scope, check_meaning};
use cheops_types::{Code, Consistency, Plan, ServiceName, SiteName, VerbClass};
use mesh::{Mesh, site};
use proptest::prelude::*;

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

/// The sites of a plan; on the way, what every plan promises.
fn sites(plan: &Plan, verb: VerbClass, mesh: &Mesh) -> BTreeSet<SiteName> {
    let one = |site: &SiteName| BTreeSet::from([site.clone()]);
    match plan {
        Plan::Local => one(mesh.here()),
        Plan::Forward(site) => {
            assert_ne!(site, mesh.here(), "here is local");
            one(site)
        }
        Plan::Fallback(members) | Plan::FirstOf(members) => {
            assert!(members.len() > 1, "a choice needs two members: {plan}");
            for member in members {
                assert_ne!(member.kind(), plan.kind(), "not flat: {plan}");
                assert!(
                    !matches!(member, Plan::Replicate { .. } | Plan::Cross(_)),
                    "{plan}"
                );
            }
            members
                .iter()
                .flat_map(|member| sites(member, verb, mesh))
                .collect()
        }
        Plan::Gather(list) | Plan::Cross(list) | Plan::Replicate { sites: list, .. } => {
            let set: BTreeSet<_> = list.iter().cloned().collect();
            assert!(
                list.len() > 1 && set.len() == list.len(),
                "several sites, each once: {plan}"
            );
            assert!(
                !matches!(plan, Plan::Gather(_)) || verb.is_read(),
                "a write is never gathered: {plan}"
            );
            assert!(
                !matches!(plan, Plan::Replicate { .. }) || !verb.is_read(),
                "a read never replicates: {plan}"
            );
            set
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_keep_to_the_scope(loc in loc(), verb in verb(), mesh in mesh()) {
        let service = ServiceName::new("s").unwrap();
        let allowed = allowed(&loc, &mesh);
        let scope = Scope::Bare(loc);
        let meaningful = check_meaning(&scope).is_ok();
        match plan(&service, verb, Some(&scope), &mesh) {
            Ok(plan) => {
                let named = sites(&plan, verb, &mesh);
                prop_assert!(named.is_subset(&allowed), "{} for {}: {:?} allowed", plan, scope, allowed);
                prop_assert_eq!(explain(&service, verb, Some(&scope), &mesh).unwrap().plan, plan);
            }
            Err(refusal) if meaningful => {
                prop_assert!(matches!(refusal.code, Code::NotAvailable | Code::NoSiteLeft), "{}", refusal);
            }
            Err(_) => {}
        }
    }

    #[test]
    fn full_form_plans_the_same(loc in loc(), verb in verb(), mesh in mesh()) {
        let service = ServiceName::new("s").unwrap();
        let other = ServiceName::new("t").unwrap();
        let bare = Scope::Bare(loc);
        let full = bare.to_full(&service);
        prop_assert_eq!(plan(&service, verb, Some(&bare), &mesh), plan(&service, verb, Some(&full), &mesh));
        prop_assert_eq!(plan(&other, verb, Some(&full), &mesh), Ok(Plan::Local));
    }
}
