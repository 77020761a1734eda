use cheops_types::VerbClass::{self, Action, Change, Create, ReadCollection, ReadOne};

use crate::{Profile, json, profile::tests::check_error};

/// An application whose kinds differ in their paths only.
const GENERIC: &str = r#"
application = "generic"

[[services.A.resources]]
kind = "object"
collection = "/api/{version}/{resource}"
item = "/api/{version}/{resource}/{name}"
below = ["/*"]
deeper = { kind = "inner", placeholder = "space", pointer = "/meta/space" }
list = { items = "/list", provenance = "/meta/site", forms = [{ items = "/rows", document = "/object" }] }
chosen-by = "client"
name = "/meta/name"

[[services.A.resources]]
kind = "inner"
like = "object"
collection = "/api/{version}/spaces/{space}/{resource}"
item = "/api/{version}/spaces/{space}/{resource}/{name}"
below = ["/*"]

[[services.A.resources]]
kind = "space"
like = "object"
collection = "/api/{version}/spaces"
item = "/api/{version}/spaces/{space}"
below = ["/status"]
ignore = ["/meta/seen"]
"#;

fn check(profile: &Profile, request: &str, kind: &str, verb: VerbClass, key: Option<&str>) {
    let (method, path) = request.split_once(' ').unwrap();
    let identity = profile.identify("A", method, path);
    assert_eq!((identity.kind, identity.verb), (Some(kind), verb), "{request}");
    let address = profile.address("A", path).unwrap();
    assert_eq!((&*address.kind, address.key.as_deref()), (kind, key), "{request}");
}

#[test]
fn kinds_that_differ_in_their_paths_only() {
    let profile = Profile::parse("generic.toml", GENERIC).unwrap();
    for (request, kind, verb, key) in [
        ("GET /api/v1/nodes", "object", ReadCollection, None),
        ("POST /api/v1/nodes", "object", Create, None),
        ("DELETE /api/v1/nodes/a", "object", Change, Some("v1/nodes/a")),
        (
            "GET /api/v1/nodes/a/proxy/x/y",
            "object",
            ReadOne,
            Some("v1/nodes/a"),
        ),
        ("POST /api/v1/spaces", "space", Create, None),
        ("GET /api/v1/spaces/x", "space", ReadOne, Some("v1/x")),
        ("PUT /api/v1/spaces/x/status", "space", Change, Some("v1/x")),
        ("GET /api/v1/spaces/x/pods", "inner", ReadCollection, None),
        (
            "GET /api/v1/spaces/x/pods/p",
            "inner",
            ReadOne,
            Some("v1/x/pods/p"),
        ),
        (
            "GET /api/v1/spaces/x/pods/p/log",
            "inner",
            ReadOne,
            Some("v1/x/pods/p"),
        ),
        (
            "POST /api/v1/spaces/x/pods/p/bind/now",
            "inner",
            Action,
            Some("v1/x/pods/p"),
        ),
    ] {
        check(&profile, request, kind, verb, key);
    }
    let within = profile.within("A", "/api/v1/spaces/x/pods/p/log");
    let within: Vec<_> = within
        .iter()
        .map(|at| (&*at.kind, at.key.as_deref(), at.below))
        .collect();
    assert_eq!(
        within,
        [
            ("inner", Some("v1/x/pods/p"), "/log"),
            ("space", Some("v1/x"), "/pods/p/log")
        ]
    );
    let inner = profile.kind("A", "inner");
    assert_eq!(inner.item_path("v1/x/pods/p"), "/api/v1/spaces/x/pods/p");
    assert_eq!(inner.collection_path("v1/x/pods/p"), "/api/v1/spaces/x/pods");
    assert_eq!(
        inner.name_in_request(br#"{"meta":{"name":"p"}}"#).as_deref(),
        Some("p")
    );
}

#[test]
fn a_list_may_show_what_stands_deeper() {
    let profile = Profile::parse("generic.toml", GENERIC).unwrap();
    let all = profile.address("A", "/api/v1/pods").unwrap();
    assert_eq!(all.kinds().collect::<Vec<_>>(), ["object", "inner"]);
    for (document, expect) in [
        (r#"{"meta":{"space":"x"}}"#, ("inner", "v1/x/pods/p")),
        (r#"{"meta":{"space":""}}"#, ("object", "v1/pods/p")),
        ("{}", ("object", "v1/pods/p")),
        ("null", ("object", "v1/pods/p")),
    ] {
        let (kind, key) = all.owner(json::read(document).unwrap(), "p");
        assert_eq!((kind, &*key), expect, "{document}");
    }
    let one = profile.address("A", "/api/v1/spaces/x/pods").unwrap();
    assert_eq!(one.kinds().collect::<Vec<_>>(), ["inner"]);
    let (kind, key) = one.owner(json::read(r#"{"meta":{"space":"x"}}"#).unwrap(), "p");
    assert_eq!((kind, &*key), ("inner", "v1/x/pods/p"));
}

#[test]
fn what_stands_in_front_tells_nothing() {
    let text = r#"
application = "cloud"
[services.A]
prefixes = ["/v2", "/v2/{project:hex}"]
[[services.A.resources]]
kind = "server"
collection = "/servers"
[[services.A.resources]]
kind = "server"
collection = "/servers/detail"
item = "/servers/{id}"
"#;
    let profile = Profile::parse("cloud.toml", text).unwrap();
    for (request, verb, key) in [
        ("GET /v2/servers/7", ReadOne, Some("7")),
        ("GET /v2/0af-3/servers/7", ReadOne, Some("7")),
        ("GET /v2/servers/detail", ReadCollection, None),
        ("GET /v2/f/servers/detail", ReadCollection, None),
        ("POST /v2/f/servers/7/action", Action, Some("7")),
    ] {
        check(&profile, request, "server", verb, key);
    }
    assert_eq!(profile.kind("A", "server").item_path("7"), "/v2/servers/7");
    assert_eq!(profile.identify("A", "GET", "/v2/other/servers").kind, None);
}

#[test]
fn mistakes() {
    let entries = |entries: &[&str]| -> String {
        let entry = |(place, entry): (usize, &&str)| {
            let entry = entry.replace('\'', "\"");
            format!("[[services.A.resources]]\nkind = \"k{place}\"\n{entry}\n")
        };
        entries.iter().enumerate().map(entry).collect()
    };
    check_error(
        &entries(&[
            "collection = '/a'",
            "collection = '/{x}/b'\nitem = '/{x}/b/c/{id}'",
        ]),
        "7:14: `/{x}/b` and `/a/{id}` of the resource `k0` match the same paths, and neither is more specific; describe `/a/b` as well, or narrow a placeholder, as in `{project:hex}`",
    );
    check_error(
        &entries(&["collection = '/a'\nlike = 'k2'", "collection = '/b'"]),
        "5:8: no kind `k2` is described here; did you mean `k0`?",
    );
    check_error(
        &entries(&["collection = '/a'\nlike = 'k0'"]),
        "5:8: a kind is always like itself; remove `like`: entries of one kind share their keys",
    );
    check_error(
        &entries(&[
            "collection = '/a'",
            "collection = '/b'\nlike = 'k0'",
            "collection = '/c'\nlike = 'k1'",
        ]),
        "12:8: `k1` is itself like `k0`; write `like = \"k0\"`",
    );
    check_error(
        &entries(&["singleton = '/a'\nbelow = ['/b']"]),
        "5:10: `below` is about items, and what exists once is none; describe the path as a singleton of its own",
    );
    check_error(
        &entries(&["collection = '/a'\nbelow = ['/']"]),
        "5:10: `below` names paths below the item; write `/status`, or `/*` for all of them",
    );
    check_error(
        &entries(&["collection = '/a'\nitem = '/a/*'"]),
        "5:8: `/a/*` is not a path: `*` stands for everything below, and cannot stand here",
    );
    check_error(
        &entries(&["collection = '/{p:int}/a'"]),
        "4:14: `/{p:int}/a` is not a path: `{p:int}` is not a segment: the only class of a placeholder is `hex`, as in `{project:hex}`",
    );
    let deeper = |deeper: &str| {
        entries(&[
            &format!("collection = '/{{v}}/a'\ndeeper = {{ {deeper} }}"),
            "collection = '/{v}/in/{s}/a'",
        ])
    };
    check_error(
        &deeper("kind = 'k3', placeholder = 's', pointer = '/s'"),
        "5:10: no kind `k3` is described; did you mean `k0`?",
    );
    check_error(
        &deeper("kind = 'k1', placeholder = 'z', pointer = '/s'"),
        "5:10: nothing tells `{s}` of `/{v}/in/{s}/a/{id}` for the items of `/{v}/a`; use the same names for placeholders that mean the same",
    );
    check_error(
        &deeper("kind = 'k1', placeholder = 's'"),
        "5:10: `deeper` has no `pointer`; add `pointer = …`",
    );
    check_error(
        "[services.A]\nprefixes = [\"/{p}\"]",
        "3:13: the first prefix is the one that the agent uses itself; put one without placeholders first",
    );
    let form = |form: &str| {
        entries(&[&format!(
            "collection = '/a'\nlist = {{ items = '/items', forms = [{{ {form} }}] }}"
        )])
    };
    check_error(
        &form("items = '/items'"),
        "5:47: another form has its items there; forms are told apart by where their items are",
    );
    check_error(
        &form("items = '/rows', cells = '/cells'"),
        "5:37: `forms` has no `column`; add `column = …`",
    );
    check_error(
        &form("items = '/rows', columns = '/c', cells = '/cells', column = 'x'"),
        "5:99: `column` is not JSON: expected value at line 1 column 1; write the definition of a column as the application does, in single quotes",
    );
}
