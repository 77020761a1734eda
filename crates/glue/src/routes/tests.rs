use proptest::prelude::*;

use super::*;
use crate::pattern::Overlap;

fn routes(paths: &[(&str, Role)]) -> Routes<()> {
    let mut routes = Routes::new();
    for (path, role) in paths {
        routes
            .insert(&Pattern::parse(path).unwrap(), target(path, *role))
            .unwrap();
    }
    routes
}

fn target(path: &str, role: Role) -> Target<()> {
    Target {
        kind: path.into(),
        role,
        below: None,
        extra: (),
    }
}

fn found(routes: &Routes<()>, path: &str) -> String {
    match routes.find(path) {
        Some(Match::Exact(target)) => target.kind.to_string(),
        Some(Match::Below { target, depth, .. }) => format!("{depth} below {}", target.kind),
        None => "-".to_owned(),
    }
}

fn check(routes: &Routes<()>, path: &str, expect: &str) {
    assert_eq!(found(routes, path), expect, "{path}");
}

#[test]
fn the_most_specific_path_wins() {
    let routes = routes(&[
        ("/servers", Role::Collection),
        ("/servers/{id}", Role::One),
        ("/servers/detail", Role::Collection),
        ("/servers/{id}/volumes", Role::Collection),
        ("/servers/{id}/volumes/{volume}", Role::One),
        ("/{tenant}/special", Role::One),
    ]);
    check(&routes, "/servers", "/servers");
    check(&routes, "//servers/", "/servers");
    check(&routes, "/s%65rvers", "/servers");
    check(&routes, "/servers/7", "/servers/{id}");
    check(&routes, "/servers/detail", "/servers/detail");
    check(&routes, "/servers/special", "/servers/{id}");
    check(&routes, "/other/special", "/{tenant}/special");
    check(&routes, "/servers/7/volumes/3", "/servers/{id}/volumes/{volume}");
    check(&routes, "/servers/detail/volumes", "/servers/{id}/volumes");
    check(&routes, "/servers/7/action", "1 below /servers/{id}");
    check(
        &routes,
        "/servers/7/volumes/3/a/b",
        "2 below /servers/{id}/volumes/{volume}",
    );
    check(&routes, "/", "-");
    check(&routes, "/health", "-");
}

#[test]
fn a_generic_tree_tells_containers_from_their_contents() {
    let mut routes = routes(&[
        ("/api/{version}/{resource}", Role::Collection),
        ("/api/{version}/{resource}/{name}", Role::One),
        ("/api/{version}/spaces", Role::Collection),
        ("/api/{version}/spaces/{name}", Role::One),
        ("/api/{version}/spaces/{space}/{resource}", Role::Collection),
        ("/api/{version}/spaces/{space}/{resource}/{name}", Role::One),
    ]);
    let below = Target {
        below: Some(4),
        ..target("space", Role::One)
    };
    let status = Pattern::parse("/api/{version}/spaces/{name}/status").unwrap();
    routes.insert(&status, below).unwrap();
    check(&routes, "/api/v1/nodes", "/api/{version}/{resource}");
    check(&routes, "/api/v1/nodes/a", "/api/{version}/{resource}/{name}");
    check(
        &routes,
        "/api/v1/nodes/a/status",
        "1 below /api/{version}/{resource}/{name}",
    );
    check(&routes, "/api/v1/spaces/x", "/api/{version}/spaces/{name}");
    check(
        &routes,
        "/api/v1/spaces/x/pods",
        "/api/{version}/spaces/{space}/{resource}",
    );
    check(&routes, "/api/v1/spaces/x/status", "1 below space");
    check(
        &routes,
        "/api/v1/spaces/x/pods/p/log",
        "1 below /api/{version}/spaces/{space}/{resource}/{name}",
    );
    check(&routes, "/api/v1", "-");
}

#[test]
fn one_path_has_one_meaning() {
    let mut routes = routes(&[("/orders/{id}", Role::One)]);
    let other = routes
        .insert(&Pattern::parse("/orders/{name}").unwrap(), target("x", Role::One))
        .unwrap_err();
    assert_eq!(&*other.kind, "/orders/{id}");
}

/// Patterns and paths of few words, so that they often meet.
fn pattern() -> impl Strategy<Value = String> {
    let segment = prop_oneof![Just("a"), Just("b"), Just("f0"), Just("{x}"), Just("{x:hex}")];
    let last = prop_oneof![4 => Just(""), 1 => Just("/*")];
    (proptest::collection::vec(segment, 0..4), last).prop_map(|(segments, last)| {
        let path = segments
            .iter()
            .fold(String::new(), |path, segment| path + "/" + segment);
        match path + last {
            empty if empty.is_empty() => "/".to_owned(),
            path => path,
        }
    })
}

fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        Just("a"),
        Just("%61"),
        Just("b"),
        Just("f0"),
        Just("zz"),
        Just(""),
        Just("%"),
        Just("é")
    ];
    proptest::collection::vec(segment, 0..6).prop_map(|segments| format!("/{}", segments.join("/")))
}

proptest! {
    #[test]
    fn a_lookup_finds_what_a_naive_search_finds(
        patterns in proptest::collection::vec(pattern(), 1..8),
        path in path(),
    ) {
        let mut routes = Routes::new();
        let mut known: Vec<Pattern> = Vec::new();
        for text in &patterns {
            let pattern = Pattern::parse_open(text).unwrap();
            // As in glue files: no two patterns leave open which one is meant.
            let is_clear = known.iter().all(|other| {
                !matches!(pattern.overlap(other), Overlap::Same | Overlap::Unclear)
            });
            if is_clear {
                routes.insert(&pattern, target(text, Role::Collection)).unwrap();
                known.push(pattern);
            }
        }
        let matching: Vec<&Pattern> = known.iter().filter(|pattern| pattern.matches(&path)).collect();
        let best = matching.iter().find(|one| {
            matching.iter().all(|other| matches!(one.overlap(other), Overlap::Same | Overlap::First))
        });
        prop_assert_eq!(matching.is_empty(), best.is_none(), "no most specific one");
        let text = best.map(|best| {
            let text = |text: &&String| Pattern::parse_open(text).unwrap() == **best;
            patterns.iter().find(text).unwrap().clone()
        });
        prop_assert_eq!(found(&routes, &path), text.unwrap_or_else(|| "-".to_owned()));
    }

    #[test]
    fn odd_paths_do_no_harm(path in any::<String>()) {
        let routes = routes(&[("/", Role::Collection), ("/{a}/b", Role::One), ("/{a}/b/{c}", Role::One)]);
        routes.find(&path);
    }
}
