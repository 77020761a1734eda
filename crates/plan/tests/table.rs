//! Every cell of the method × operator table, and the rules around it.

#[path = "support/mesh.rs"]
mod mesh;
#[path = "support/request.rs"]
mod request;

use cheops_plan::{Request, Silent, asked};
use cheops_scope::{ParseLimits, Scope, read};
use cheops_types::{Code, Problem, ServiceName, VerbClass};
use mesh::Mesh;
use request::of_user;

const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};
const VERBS: [VerbClass; 5] = [
    VerbClass::ReadOne,
    VerbClass::ReadCollection,
    VerbClass::Create,
    VerbClass::Change,
    VerbClass::Action,
];

/// Here is `p`; `n` is 4 ms away, `l` 6 ms, `r` 9 ms, the distance to `x` is unknown.
fn mesh() -> Mesh {
    Mesh::new("p", &["p", "n", "l", "r", "x"])
        .distance("p", "n", 4_000)
        .distance("p", "l", 6_000)
        .distance("p", "r", 9_000)
        .distance("n", "r", 1_000)
        .distance("n", "l", 7_000)
}

fn planned(text: &str, verb: VerbClass, mesh: &Mesh) -> String {
    let scope = read(text, &LIMITS, None).unwrap_or_else(|error| panic!("{text}: {error}"));
    let service = ServiceName::new("s").unwrap();
    match asked(&of_user(&service, verb, Some(&scope)), mesh, &mut Silent) {
        Ok(asked) => asked.to_string(),
        Err(problem) => problem.code.to_string(),
    }
}

/// The plans in the order of the table's columns.
fn check_row(text: &str, plans: [&str; 5]) {
    for (verb, expected) in VERBS.into_iter().zip(plans) {
        assert_eq!(
            planned(text, verb, &mesh()),
            expected,
            "{text} on {}",
            verb.as_str()
        );
    }
}

/// The same plan for every verb class.
fn check(text: &str, expected: &str) {
    check_row(text, [expected; 5]);
}

#[test]
fn site() {
    check("p", "local");
    check("n", "forward(n)");
    check("s: n, t: l", "forward(n)");
    check("t: l", "local");
}

#[test]
fn otherwise() {
    check("r ; n", "fallback[forward(r), forward(n)]");
    check("n ; p ; l", "fallback[forward(n), local, forward(l)]");
    check("(n ; p) ; l", "fallback[forward(n), local, forward(l)]");
    check("n ; l | p", "fallback[forward(n), first-of[local, forward(l)]]");
    check("n ; n", "forward(n)");
}

#[test]
fn first() {
    check("r | l | n", "first-of[forward(n), forward(l), forward(r)]");
    check("r | p", "first-of[local, forward(r)]");
    check("x | r", "first-of[forward(r), forward(x)]");
    check("r | r", "forward(r)");
    check(
        "(r ; l) | n",
        "first-of[forward(n), fallback[forward(r), forward(l)]]",
    );
    check("!(p & n & x) | n", "first-of[forward(n), forward(l), forward(r)]");
}

#[test]
fn down_sites_are_last_under_first_and_stay_under_otherwise() {
    let mesh = mesh().down("n");
    for verb in VERBS {
        assert_eq!(
            planned("n | r | x", verb, &mesh),
            "first-of[forward(r), forward(x), forward(n)]"
        );
        assert_eq!(planned("n ; r", verb, &mesh), "fallback[forward(n), forward(r)]");
        assert_eq!(
            planned("(n ; r) | l", verb, &mesh),
            "first-of[forward(l), fallback[forward(n), forward(r)]]"
        );
        assert_eq!(
            planned("(n ; l) | r", verb, &mesh),
            "first-of[fallback[forward(n), forward(l)], forward(r)]"
        );
    }
}

#[test]
fn both() {
    let (gather, replicate) = ("gather[r, n]", "replicate[r, n]");
    check_row("r & n", [gather, gather, replicate, replicate, replicate]);
    check_row(
        "eventual(r & n)",
        [gather, gather, replicate, replicate, replicate],
    );
    let (gather, replicate) = ("gather[p, n]", "replicate[p, n]");
    check_row("p & n", [gather, gather, replicate, replicate, replicate]);
}

#[test]
fn all() {
    let (gather, replicate) = ("gather[p, n, l, r, x]", "replicate[p, n, l, r, x]");
    check_row("all()", [gather, gather, replicate, replicate, replicate]);
    let (gather, replicate) = ("gather[r, p, n, l, x]", "replicate[r, p, n, l, x]");
    check_row("r & all()", [gather, gather, replicate, replicate, replicate]);
    for verb in VERBS {
        assert_eq!(planned("all()", verb, &Mesh::new("p", &["p"])), "local");
    }
}

#[test]
fn strong() {
    let (latest, gather, replicate) = ("latest[r, n]", "gather[r, n]", "replicate-strong[r, n]");
    check_row("strong(r & n)", [latest, gather, replicate, replicate, replicate]);
    let gather = "gather[p, n, l, r, x]";
    let (latest, replicate) = ("latest[p, n, l, r, x]", "replicate-strong[p, n, l, r, x]");
    check_row("strong(all())", [latest, gather, replicate, replicate, replicate]);
    check("strong(r % n)", "not_available");
    for verb in VERBS {
        assert_eq!(
            planned("strong(r)", verb, &Mesh::new("p", &["p", "r"])),
            "forward(r)"
        );
    }
}

#[test]
fn cross() {
    check("r % n", "cross[r, n]");
    check("eventual(p % n)", "cross[p, n]");
    check("n % all()", "cross[n, p, l, r, x]");
}

#[test]
fn several_sites_inside_an_order_are_for_reads() {
    let (read, refused) = ("fallback[gather[r, n], forward(l)]", "not_available");
    check_row("r & n ; l", [read, read, refused, refused, refused]);
    let read = "first-of[forward(l), gather[n, r]]";
    check_row("n & r | l", [read, read, refused, refused, refused]);
    check("r % n ; l", refused);
}

#[test]
fn except() {
    check("!p", "first-of[forward(n), forward(l), forward(r), forward(x)]");
    check("!n", "first-of[local, forward(l), forward(r), forward(x)]");
    check("!(n & l)", "first-of[local, forward(r), forward(x)]");
    check("!(n ; l | r)", "first-of[local, forward(x)]");
    check("!(p & n & l & r)", "forward(x)");
    check("!(p & n & l & r & x)", "no_site_left");
    let mesh = mesh().down("n").down("x");
    for verb in VERBS {
        assert_eq!(planned("!p", verb, &mesh), "first-of[forward(l), forward(r)]");
        assert_eq!(planned("!(p & l & r)", verb, &mesh), "no_site_left");
    }
}

#[test]
fn around() {
    check("around(p, 6ms)", "fallback[local, forward(n), forward(l)]");
    check("around(n, 4ms)", "fallback[forward(n), forward(r), local]");
    check("around(n, 500us)", "forward(n)");
    check("around(x, 60s)", "forward(x)");
    check(
        "around(p, 6ms) ; r ; n",
        "fallback[local, forward(n), forward(l), forward(r)]",
    );
    check(
        "around(r, 1ms) | l",
        "first-of[forward(l), fallback[forward(r), forward(n)]]",
    );
}

#[test]
fn no_scope_is_local() {
    let service = ServiceName::new("s").unwrap();
    for verb in VERBS {
        let asked = asked(&of_user(&service, verb, None), &mesh(), &mut Silent);
        assert_eq!(asked.unwrap().to_string(), "local");
    }
}

#[test]
fn unknown_sites_are_refused() {
    for text in ["zz", "p & zz", "n ; zz", "!zz", "around(zz, 1ms)"] {
        check(text, Code::UnknownSite.as_str());
    }
}

/// What is asked for, and why.
fn told(
    text: &str,
    verb: VerbClass,
    one_site: Option<&'static str>,
    mesh: &Mesh,
) -> (Result<String, Problem>, Vec<String>) {
    let (service, scope) = (ServiceName::new("s").unwrap(), scope(text));
    let request = Request {
        one_site,
        ..of_user(&service, verb, Some(&scope))
    };
    let mut reasons = Vec::new();
    let asked = asked(&request, mesh, &mut reasons);
    (asked.map(|asked| asked.to_string()), reasons)
}

fn scope(text: &str) -> Scope {
    read(text, &LIMITS, None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn reasons() {
    let mesh = mesh().down("l");
    let (asked, reasons) = told("s: around(n, 4ms) ; l, t: r", VerbClass::Create, None, &mesh);
    assert_eq!(
        asked.unwrap(),
        "fallback[forward(n), forward(r), local, forward(l)]"
    );
    assert_eq!(
        reasons,
        [
            "`around(n, 4ms) ; l` is tried from left to right; the next only if the one before certainly did not execute",
            "`around(n, 4ms)` is n, then the sites within 4ms of it, nearest first",
            "p is 4.0 ms from n: within 4ms",
            "l is 7.0 ms from n: too far",
            "r is 1.0 ms from n: within 4ms",
            "the distance from n to x is not known: left out",
            "`l` is another site, down, 6.0 ms away",
        ]
    );
    let (_, reasons) = told("t: n", VerbClass::ReadOne, None, &mesh);
    assert_eq!(
        reasons,
        ["the scope does not name s: that of this site is meant, p"]
    );
}

#[test]
fn one_site_is_enough_for_some_requests() {
    let why = Some("it changes nothing");
    let one = |text: &str, verb: VerbClass| told(text, verb, why, &mesh()).0.unwrap();
    for verb in VERBS {
        for (text, as_for) in [
            ("r & p & n", "p"),
            ("r & x & n", "n"),
            ("l % r", "l"),
            ("r", "r"),
            ("r ; n", "r ; n"),
            ("l | n", "n | l"),
        ] {
            assert_eq!(one(text, verb), planned(as_for, verb, &mesh()), "{text}");
        }
    }
    let read = VerbClass::ReadOne;
    assert_eq!(one("(r & n) ; p", read), planned("n ; p", read, &mesh()));

    let (asked, reasons) = told("r & n", VerbClass::Create, why, &mesh());
    assert_eq!(asked.unwrap(), planned("n", VerbClass::Create, &mesh()));
    assert_eq!(
        reasons,
        ["it changes nothing: one site is enough, this one if it is among them, else the nearest"]
    );
    let (_, reasons) = told("n", VerbClass::Create, why, &mesh());
    assert_eq!(reasons[0], "it changes nothing");
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}
