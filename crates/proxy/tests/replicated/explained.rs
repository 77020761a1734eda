//! What is explained is what happens: random requests are asked about, then sent, and services, other sites and
//! replication see what the explanation said.

use std::{collections::BTreeSet, sync::Arc};

use cheops_glue::Profile;
use cheops_proxy::Explained;
use cheops_types::{SpanForm, Visit};
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::Value;

use super::{
    client::Answer,
    coordinator::{answered, told},
    service::Seen,
    sites::{Site, site, start},
};

const SITES: [&str; 3] = ["a", "b", "c"];
const GLUES: usize = 6;
const REQUESTS: usize = 150;
/// A header that tells a request from all others.
const MARK: &str = "x-mark";

/// A glue with all that a decision can depend on, some of it by chance.
fn glue() -> impl Strategy<Value = String> {
    let flags = prop::collection::vec(any::<bool>(), 6);
    flags.prop_map(|flags| {
        let some = |place: usize, text: &'static str| if flags[place] { text } else { "" };
        format!(
            r#"
application = "random"
services.A.stream = ["?watch"]
{}
{}

[[services.A.resources]]
kind = "item"
collection = "/items"
item = "/items/{{id}}"
list = {{ items = "/items" }}
actions = [{{ path = "/ship"{} }}, {{ path = "/attach", as = "local" }}]
{}

[[services.A.resources]]
kind = "label"
collection = "/labels"
item = "/labels/{{name}}"
list = {{ items = "/items" }}
chosen-by = "client"
name = "/name"
{}

[[services.A.resources]]
kind = "room"
collection = "/rooms"
item = "/rooms/{{name}}"
list = {{ items = "/items" }}
chosen-by = "client"
name = "/name"
spans = true

[[services.A.resources]]
kind = "box"
collection = "/rooms/{{room}}/boxes"
item = "/rooms/{{room}}/boxes/{{name}}"
list = {{ items = "/items" }}
chosen-by = "client"
name = "/name"
{}

[[services.A.resources]]
kind = "crew"
collection = "/crews"
item = "/crews/{{name}}"
list = {{ items = "/items" }}
chosen-by = "client"
name = "/name"
divide = [{{ pointer = "/workers" }}]
"#,
            some(0, r#"services.A.context-free = ["/version"]"#),
            some(1, r#"services.A.effect-free = ["POST /reviews"]"#),
            some(2, ", commutes = true"),
            some(3, r#"effect-free = ["preview"]"#),
            some(4, r#"upsert = ["PUT"]"#),
            some(5, r#"upsert = ["PUT"]"#),
        )
    })
}

fn request() -> impl Strategy<Value = (String, String, String)> {
    let methods = ["GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE"];
    let paths = [
        "/items",
        "/items/m1",
        "/items/m2",
        "/items/m3",
        "/items/x",
        "/items/m1/ship",
        "/items/x/attach",
        "/items?watch=1",
        "/items?preview=1",
        "/labels",
        "/labels/l1",
        "/labels/new",
        "/rooms",
        "/rooms/r1",
        "/rooms/r1/boxes",
        "/rooms/r1/boxes/x",
        "/rooms/r1/boxes/new",
        "/rooms/r1/boxes?watch=1",
        "/crews",
        "/crews/w1",
        "/crews/new",
        "/version",
        "/reviews",
        "/other/3",
        "/items/m1%2Fship",
        "/",
    ];
    let scopes = [
        "",
        "",
        "",
        "",
        "a",
        "b",
        "c",
        "a & b",
        "b & a",
        "b & c",
        "a & b & c",
        "all()",
        "a % b",
        "b % a",
        "b % c",
        "a ; b",
        "b ; a",
        "c ; b",
        "b | c",
        "a | b",
        "!a",
        "!b",
        "strong(a & b)",
        "eventual(a & b)",
        "Z: b",
        "(a & b) ; c",
        "around(a, 5ms)",
        "nowhere",
    ];
    let one = |list: Vec<&'static str>| prop::sample::select(list).prop_map(str::to_owned);
    (one(methods.to_vec()), one(paths.to_vec()), one(scopes.to_vec()))
}

/// Anything whose name begins with `new` is nowhere; all else is everywhere.
fn react(seen: &Seen) -> Answer {
    let path = seen.target.split('?').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    match seen.method.as_str() {
        "GET" if last.starts_with("new") => Answer::json(404, "{}"),
        "GET" if last.ends_with('s') => Answer::json(200, r#"{"items":[]}"#),
        "POST" => Answer::json(201, r#"{"id":"9","name":"box"}"#),
        _ => Answer::json(200, r#"{"id":"9","name":"x"}"#),
    }
}

fn mesh(glue: &str) -> Vec<Site> {
    let profile = Profile::parse("random.toml", glue).unwrap_or_else(|error| panic!("{error}\n{glue}"));
    let reactions = SITES.iter().map(|_| Box::new(react) as _).collect();
    let mesh = start(&SITES, &Arc::new(profile), reactions);
    for (name, at) in SITES.iter().zip(&mesh) {
        let replication = &at.replication;
        let usual = || {
            answered(
                200,
                &[],
                r#"{"id":"9"}"#,
                told(vec![Visit::executed(&site("a"), 200)]),
            )
        };
        replication.reply_always(usual);
        let knows = |sites: &[&str]| sites.contains(name);
        for (kind, meta, local, sites) in [
            ("item", "m1", Some("1"), &["a", "b"][..]),
            ("item", "m2", Some("2"), &["b", "c"]),
            ("item", "m3", (*name != "a").then_some("3"), &["a", "b"]),
            ("label", "l1", Some("l1"), &["a", "b"]),
        ] {
            if knows(sites) {
                replication.know("A", kind, meta, local, sites);
            }
        }
        if knows(&["a", "b"]) {
            replication.know_span("A", "room", "r1", &["b", "a"], SpanForm::Container);
            replication.know_span("A", "crew", "w1", &["a", "b"], SpanForm::Divided);
        }
    }
    mesh
}

/// What one site saw of a request.
#[derive(Debug, Default)]
struct Traces {
    /// Requests to its service.
    service: usize,
    /// Those that could change something.
    changes: usize,
    /// Targets of what replication accepted.
    writes: Vec<String>,
}

impl Traces {
    /// What bears the mark: some things are done after an answer, when the next request may be on its way.
    fn take(site: &Site, mark: &str) -> Self {
        let mut seen = site.service.take_seen();
        seen.retain(|seen| seen.header(MARK) == Some(mark));
        let mut writes = site.replication.take_writes();
        writes.retain(|write| {
            write
                .request
                .headers()
                .get(MARK)
                .is_some_and(|value| value == mark)
        });
        Self {
            service: seen.len(),
            changes: seen.iter().filter(|seen| seen.method != "GET").count(),
            writes: writes.iter().map(|write| write.target.to_string()).collect(),
        }
    }

    fn is_touched(&self) -> bool {
        self.service > 0 || !self.writes.is_empty()
    }
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// What all members of a plan touch.
fn touched_by(members: &Value) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let members = members.as_array().into_iter().flatten().map(touched);
    members.fold((BTreeSet::new(), BTreeSet::new()), |(may, must), (more, of)| {
        (&may | &more, &must | &of)
    })
}

/// Where something new is to be.
fn place_of(place: &Value) -> BTreeSet<&str> {
    if let Some(site) = place["site"].as_str() {
        return [site].into();
    }
    let target = place["sites"]
        .as_object()
        .and_then(|target| target.values().next());
    names(&target.expect("a target")["sites"])
}

/// The sites that a plan without replication may touch, and those of which one must be.
fn touched(tree: &Value) -> (BTreeSet<&str>, BTreeSet<&str>) {
    match tree {
        Value::String(local) if local == "local" => (["a"].into(), ["a"].into()),
        Value::Object(plan) => {
            let (kind, inner) = plan.iter().next().expect("a plan");
            match (kind.as_str(), inner) {
                ("forward", Value::String(site)) => ([site.as_str()].into(), [site.as_str()].into()),
                // All sites are up: the first one answers.
                ("fallback", members) => (touched_by(members).0, touched(&members[0]).1),
                ("first-of", members) => touched_by(members),
                ("gather" | "whole", sites) => (names(sites), names(sites)),
                ("latest", inner) if names(&inner["via"]).is_empty() => (["a"].into(), ["a"].into()),
                ("latest", inner) => (names(&inner["via"]), names(&inner["via"])),
                // Where nobody has it, this site says so.
                ("owner", sites) => (&names(sites) | &["a"].into(), &names(sites) | &["a"].into()),
                other => panic!("no plan of sites: {other:?}"),
            }
        }
        other => panic!("no plan: {other}"),
    }
}

/// What is wrong with what happened, if something is.
fn disagreement(explained: &Explained, traces: &[Traces], answer: &Answer) -> Option<String> {
    let is_touched = |site: &str| {
        let place = SITES.iter().position(|name| *name == site).unwrap();
        traces[place].is_touched()
    };
    let all: BTreeSet<&str> = SITES.into_iter().filter(|site| is_touched(site)).collect();
    let receipt = answer.header("cheops-receipt").map(|_| answer.receipt());
    let visits = receipt.iter().flat_map(|receipt| &receipt.sites);
    let asked: BTreeSet<&str> = visits.map(|visit| visit.site.as_str()).collect();
    let writes: Vec<_> = traces.iter().flat_map(|traces| traces.writes.clone()).collect();
    let tree = &explained.tree;
    let wrong = |text: &str| Some(text.to_owned());
    if let Some(refused) = tree.get("refuse") {
        return match refused["code"].as_str() {
            _ if !all.is_empty() => wrong("it was to be refused, and something ran"),
            Some(code) if code == answer.code() => None,
            _ => wrong("it was refused for another reason"),
        };
    }
    // What stays here because nothing says otherwise has none.
    let told = receipt
        .as_ref()
        .map_or_else(|| "local".to_owned(), |receipt| receipt.plan.to_string());
    if Some(&told) != explained.kind.as_ref() {
        return Some(format!("the receipt says {told}"));
    }
    match tree.as_object().and_then(|plan| plan.iter().next()) {
        Some((kind, _)) if kind == "accept" => {
            let is_here = traces[0].writes == [explained.plan.clone()] && writes.len() == 1;
            let is_quiet = traces.iter().all(|traces| traces.service == 0);
            (!is_here || !is_quiet).then(|| "it was to be accepted here, for that target".to_owned())
        }
        Some((kind, inner)) if kind == "hand-over" => {
            let first = inner["to"][0].as_str().unwrap_or_default();
            let is_there = all == [first].into() && writes.len() == 1;
            // What the others know is theirs: they may refuse it, each in its turn.
            let is_refused = all.is_empty() && asked == names(&inner["to"]);
            (!is_there && !is_refused).then(|| format!("{first} was to accept it"))
        }
        Some((kind, inner)) if kind == "make" => {
            let unless_at = names(&inner["unless_at"]);
            let may = &(&place_of(&inner["place"]) | &unless_at) | &["a"].into();
            let changes: usize = traces.iter().map(|traces| traces.changes).sum();
            if !all.is_subset(&may) {
                wrong("a site that has nothing to do with it was asked")
            } else if changes + writes.len() != 1 {
                wrong("it was to be made once")
            } else {
                None
            }
        }
        _ => {
            let (may, must) = touched(tree);
            let changes: usize = traces.iter().map(|traces| traces.changes).sum();
            if !all.is_subset(&may) {
                wrong("a site that the plan does not name was asked")
            } else if all.is_disjoint(&must) && asked.is_disjoint(&must) {
                wrong("no site of the plan was asked")
            } else if all.is_empty() && asked == ["a"].into() {
                wrong("nothing ran, and no other site was asked")
            } else if !traces[0].writes.is_empty() {
                wrong("this site replicates what it was to ask others for")
            } else if changes + writes.len() > 1 {
                wrong("it executed more than once")
            } else {
                None
            }
        }
    }
}

fn sample<T>(runner: &mut TestRunner, strategy: &impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).unwrap().current()
}

fn scope_line(scope: &str) -> String {
    match scope {
        "" => String::new(),
        scope => format!("\nx-scope: {scope}"),
    }
}

#[test]
fn what_is_explained_is_what_happens() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut kinds = BTreeSet::new();
    let mut seen = Vec::new();
    for _ in 0..GLUES {
        let glue = sample(&mut runner, &glue());
        let mesh = mesh(&glue);
        for number in 0..REQUESTS {
            let (method, path, scope) = sample(&mut runner, &request());
            let mut head = format!("{method} {path}\ncontent-type: application/json");
            head += &scope_line(&scope);
            let body = if method == "GET" || method == "DELETE" {
                ""
            } else {
                r#"{"name":"box"}"#
            };
            let take = |mark: &str| -> Vec<_> { mesh.iter().map(|site| Traces::take(site, mark)).collect() };
            let mark = format!("asked-{number}");
            let asked = mesh[0].send(&format!("{head}\n{MARK}: {mark}\ncheops-explain: plan"), body);
            let before = take(&mark);
            assert!(
                !before.iter().any(Traces::is_touched),
                "asked only, and something ran: {head} {before:?}"
            );
            let mark = format!("sent-{number}");
            let answer = mesh[0].send(&format!("{head}\n{MARK}: {mark}"), body);
            let traces = take(&mark);
            if asked.status != 200 {
                // What cannot be read is refused alike.
                assert_eq!(
                    (asked.status, asked.code()),
                    (answer.status, answer.code()),
                    "{head}"
                );
                assert!(
                    traces.iter().all(|traces| !traces.is_touched()),
                    "{head}: {traces:?}"
                );
                continue;
            }
            let explained: Explained = serde_json::from_str(&asked.body).expect("an explanation");
            kinds.insert(
                explained
                    .plan
                    .split(['[', '(', ' '])
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
            if let Some(wrong) = disagreement(&explained, &traces, &answer) {
                panic!("{head}\n{explained:#?}\n{wrong}: {traces:?}\n{answer:?}\n{glue}");
            }
            seen.push((explained, traces, answer));
        }
    }
    // Everything that can be decided was: else this shows less than it seems.
    for kind in [
        "local",
        "forward",
        "fallback",
        "first-of",
        "gather",
        "replicate",
        "cross",
        "hand-over",
        "owner",
        "whole",
        "latest",
        "make",
        "refuse",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    plant(&seen);
}

/// A comparison that finds nothing shows little unless it would find something: every request is judged by what was
/// explained of the next one with another kind of plan, and that must be noticed.
fn plant(seen: &[(Explained, Vec<Traces>, Answer)]) {
    let kind = |explained: &Explained| match &explained.tree {
        Value::Object(plan) => plan.keys().next().cloned(),
        other => other.as_str().map(str::to_owned),
    };
    let mut planted = 0;
    for (at, (own, traces, answer)) in seen.iter().enumerate() {
        let others = seen.iter().cycle().skip(at + 1).take(seen.len());
        let mut others = others.map(|(explained, ..)| explained);
        let Some(other) = others.find(|other| kind(other) != kind(own)) else {
            continue;
        };
        planted += 1;
        assert!(
            disagreement(other, traces, answer).is_some(),
            "{} was taken for {}: {traces:?} {answer:?}",
            own.plan,
            other.plan
        );
    }
    assert!(planted > seen.len() / 2, "{planted} of {}", seen.len());
}

/// A person reads the same through the admin socket.
#[test]
fn the_operator_is_told_the_same() {
    let mesh = mesh(&sample(&mut TestRunner::deterministic(), &glue()));
    for (method, path, scope, plan) in [
        ("PATCH", "/items/m1", "", "replicate(m1)"),
        ("GET", "/items/m3", "", "forward(b)"),
        ("PUT", "/items/m1", "a % b", "replicate(m1)"),
        ("POST", "/items", "a % b", "refuse(set_refused)"),
        ("POST", "/crews", "a % b", "cross[a, b]"),
        ("POST", "/rooms/r1/boxes", "", "make at a, its name reserved at b"),
        ("GET", "/crews/w1", "", "whole[a, b]"),
        ("POST", "/items", "strong(a & b)", "replicate-strong[a, b]"),
        ("GET", "/items/m1", "strong(a & b)", "refuse(set_refused)"),
        ("GET", "/items/i9", "strong(c & b)", "latest[c, b] at c, b"),
    ] {
        let ask = cheops_proxy::ExplainAsk {
            service: "A",
            method,
            path,
            content_type: Some("application/json"),
            scope,
        };
        let told = cheops_proxy::explain_request(&mesh[0].shared, &ask).unwrap();
        assert_eq!(told.plan, plan, "{method} {path} {scope}");
        assert!(!told.notes.is_empty());
        let mut head = format!("{method} {path}\ncontent-type: application/json\ncheops-explain: plan");
        head += &scope_line(scope);
        let asked: Explained = serde_json::from_str(&mesh[0].send(&head, "").body).unwrap();
        assert_eq!(
            (asked.plan, asked.kind),
            (told.plan, told.kind),
            "{method} {path} {scope}"
        );
    }
    let trace = cheops_proxy::ExplainAsk {
        service: "A",
        method: "TRACE",
        path: "/items",
        content_type: None,
        scope: "",
    };
    let told = cheops_proxy::explain_request(&mesh[0].shared, &trace).unwrap();
    assert_eq!(told.plan, "refuse(method_refused)");
    let wrong = mesh[0].send("GET /items\ncheops-explain: everything", "");
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "bad_request"));
}
