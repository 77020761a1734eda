//! What a scope costs before anything runs: parse, check meaning and names, plan.

use std::hint::black_box;

use cheops_plan::{Party, Plan, Request, Silent, View, Wish, decide};
use cheops_scope::{Names, ParseLimits, read};
use cheops_types::{ServiceName, SiteName, VerbClass};
use criterion::{Criterion, criterion_group, criterion_main};

const SERVICES: [&str; 3] = ["compute", "image", "network"];
const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};

struct Mesh {
    sites: Vec<SiteName>,
}

impl Mesh {
    fn new() -> Self {
        let sites = ["paris", "nantes", "lyon", "rennes", "lille"];
        Self {
            sites: sites.iter().map(|name| SiteName::new(name).unwrap()).collect(),
        }
    }
}

impl View for Mesh {
    fn here(&self) -> &SiteName {
        &self.sites[0]
    }
    fn site(&self, name: &str) -> Option<&SiteName> {
        self.sites.iter().find(|site| site.as_str() == name)
    }
    fn sites(&self) -> &[SiteName] {
        &self.sites
    }
    fn is_up(&self, _site: &SiteName) -> bool {
        true
    }
    fn round_trip_us(&self, from: &SiteName, to: &SiteName) -> Option<u32> {
        let place = |site| self.sites.iter().position(|known| known == site);
        Some(u32::try_from(place(from)?.abs_diff(place(to)?)).ok()? * 4_000)
    }
}

impl Names for Mesh {
    fn has_site(&self, name: &str) -> bool {
        View::site(self, name).is_some()
    }
    fn has_service(&self, name: &str) -> bool {
        SERVICES.contains(&name)
    }
    fn sites(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.sites.iter().map(SiteName::as_str))
    }
    fn services(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(SERVICES.into_iter())
    }
}

fn whole(text: &str, service: &ServiceName, mesh: &Mesh) -> Plan {
    let scope = read(text, &LIMITS, Some(mesh)).unwrap();
    let request = Request {
        service,
        verb: VerbClass::ReadCollection,
        caller: Party::User,
        wish: Wish::Scope(Some(&scope)),
        is_placed: true,
        one_site: None,
        is_get: true,
        is_stream: false,
        is_watchable: false,
        switches: false,
        is_inside_replica: false,
    };
    decide(&request, mesh, |_| Ok(None), &mut Silent).plan.unwrap()
}

fn parse_check_plan(criterion: &mut Criterion) {
    let mesh = Mesh::new();
    let cases = [
        ("one_site", "image", "nantes"),
        (
            "three_entries",
            "network",
            "compute: paris, image: nantes & lyon, network: around(paris, 10ms) ; rennes",
        ),
        (
            "three_entries_json",
            "network",
            r#"{"compute": "paris", "image": "nantes & lyon", "network": "around(paris, 10ms) ; rennes"}"#,
        ),
    ];
    let mut group = criterion.benchmark_group("parse_check_plan");
    for (name, service, text) in cases {
        let service = ServiceName::new(service).unwrap();
        group.bench_function(name, |bencher| {
            bencher.iter(|| whole(black_box(text), &service, &mesh));
        });
    }
    group.finish();
}

criterion_group!(benches, parse_check_plan);
criterion_main!(benches);
