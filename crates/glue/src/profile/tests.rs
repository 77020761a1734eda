use cheops_types::VerbClass::{self, Action, Change, Create, ReadCollection, ReadOne};

use super::*;
use crate::{KeyFormat, NextStyle, Paging, Pointer};

fn identify<'p>(profile: &'p Profile, request: &str) -> Identity<'p> {
    let [service, method, path] = *request.split(' ').collect::<Vec<_>>() else {
        panic!("write `service METHOD /path`");
    };
    profile.identify(service, method, path)
}

fn check(profile: &Profile, request: &str, kind: Option<&str>, verb: VerbClass) {
    let identity = identify(profile, request);
    assert_eq!((identity.kind, identity.verb), (kind, verb), "{request}");
}

#[test]
fn the_documented_file_compiles() {
    let book = include_str!("../../../../docs/glue.md");
    let (_, rest) = book.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let profile = Profile::parse("docs/glue.md", text).unwrap();
    check(&profile, "A GET /orders", Some("order"), ReadCollection);
}

#[test]
fn the_example_application() {
    let profile = Profile::example();
    assert_eq!(
        profile.correlation(),
        [Carrier::ScopeHeader, Carrier::Traceparent]
    );
    assert_eq!(
        profile.services().map(|name| &**name).collect::<Vec<_>>(),
        ["A", "B"]
    );
    for (request, kind, verb) in [
        ("A GET /orders", "order", ReadCollection),
        ("A HEAD /orders/", "order", ReadCollection),
        ("A POST /orders", "order", Create),
        ("A GET /orders/7", "order", ReadOne),
        ("A PUT /orders/7", "order", Change),
        ("A DELETE /orders/7", "order", Change),
        ("A POST /orders/7", "order", Action),
        ("A POST /orders/7/ship", "order", Action),
        ("A POST /orders/7/lines/3", "order", Action),
        ("A GET /orders/7/lines", "order", ReadCollection),
        ("A GET /orders/7/lines/3", "order", ReadOne),
        ("A PATCH /orders/7/lines/3", "order", Change),
        ("A OPTIONS /orders", "order", ReadOne),
        ("A GET /hello", "hello", ReadOne),
        ("B GET /string", "string", ReadOne),
        ("B PUT /string", "string", Change),
        ("B GET /items", "item", ReadCollection),
        ("B POST /items", "item", Create),
    ] {
        check(&profile, request, Some(kind), verb);
    }
    let shape = identify(&profile, "A GET /orders").list.unwrap();
    let pointer = |text| Pointer::parse(text).unwrap();
    assert_eq!(
        **shape,
        ListShape {
            items: Items::At(pointer("/items")),
            document: pointer(""),
            forms: Vec::new(),
            paging: Some(Paging {
                style: NextStyle::Token,
                limit: Some("limit".to_owned()),
                token: "page_token".to_owned(),
                next: pointer("/next"),
            }),
            sort: None,
            provenance: Some(Pointer::to_member("@site")),
            watch: None,
        }
    );
    for request in [
        "A GET /hello",
        "A GET /orders/7",
        "A POST /orders",
        "A OPTIONS /orders",
    ] {
        assert_eq!(identify(&profile, request).list, None, "{request}");
    }
}

#[test]
fn what_is_not_described_follows_the_conventions() {
    let example = Profile::example();
    for (profile, service) in [(&example, "A"), (&example, "C"), (&Profile::plain(), "A")] {
        for (request, verb) in [
            ("GET /", ReadCollection),
            ("GET /users", ReadCollection),
            ("HEAD //users//", ReadCollection),
            ("GET /users/7", ReadOne),
            ("GET /users/7/keys", ReadCollection),
            ("POST /users", Create),
            ("POST /users/7", Action),
            ("POST /users/7/keys", Create),
            ("PUT /users/7", Change),
            ("PATCH /users", Change),
            ("DELETE /users/7", Change),
            ("OPTIONS /users", ReadOne),
            ("PROPFIND /users", Action),
        ] {
            check(profile, &format!("{service} {request}"), None, verb);
        }
        let items = |path| profile.identify(service, "GET", path).list.unwrap().items.clone();
        assert_eq!(items("/users"), Items::Presumed);
        assert_eq!(items("/users/7"), Items::Unlikely);
        assert_eq!(profile.identify(service, "PUT", "/users").list, None);
    }
}

#[test]
fn carriers_and_defaults() {
    let text = r#"
application = "cloud"
correlation = ["baggage", "tracestate", { header = "X-Openstack-Request-Id", format = "req-{uuid}" }, { header = "x-id" }]
[[services.compute.resources]]
kind = "server"
collection = "/servers"
list = { items = "", paging = "none", sort = "/created", provenance = "" }
"#;
    let profile = Profile::parse("cloud.toml", text).unwrap();
    let header = |name: &str, format| Carrier::Header {
        name: name.to_owned(),
        format,
    };
    assert_eq!(
        profile.correlation(),
        [
            Carrier::Baggage,
            Carrier::Tracestate,
            header("x-openstack-request-id", KeyFormat::parse("req-{uuid}").unwrap()),
            header("x-id", KeyFormat::default()),
        ]
    );
    check(&profile, "compute GET /servers/7", Some("server"), ReadOne);
    let shape = identify(&profile, "compute GET /servers").list.unwrap();
    assert_eq!(shape.provenance, None);
    assert_eq!(shape.sort, Some(Pointer::parse("/created").unwrap()));
    assert_eq!(shape.items, Items::At(Pointer::parse("").unwrap()));
    let bare = Profile::parse("bare.toml", "application = \"bare\"").unwrap();
    assert_eq!(bare.correlation(), Profile::plain().correlation());
}

/// Checks the first mistake of a file that starts with `application = "x"` on line 1.
pub(super) fn check_error(rest: &str, expect: &str) {
    let error = Profile::parse("x.toml", &format!("application = \"x\"\n{rest}")).unwrap_err();
    assert_eq!(error.to_string(), format!("x.toml:{expect}"), "{rest}");
}

#[test]
fn mistakes_are_told_with_place_and_fix() {
    let resource = |rest: &str| format!("[[services.A.resources]]\nkind = \"k\"\n{rest}");
    let list = |rest: &str| resource(&format!("collection = \"/c\"\nlist = {{ {rest} }}"));
    let paging = |rest: &str| list(&format!("items = \"/items\", paging = {{ {rest} }}"));

    check_error(
        "colour = 1",
        "2:1: unknown key `colour` in the glue file; use `application`, `correlation` or `services`",
    );
    check_error(
        "a = ",
        "2:5: string values must be quoted, expected literal string",
    );
    check_error(
        "correlation = [\"traceparant\"]",
        "2:16: unknown carrier `traceparant` in correlation; did you mean `traceparent`?",
    );
    check_error(
        "correlation = 3",
        "2:15: `correlation` in the glue file must be a list, not a number",
    );
    check_error(
        "correlation = [\"baggage\", \"baggage\"]",
        "2:27: correlation names the same carrier twice; keep the first one",
    );
    check_error(
        "correlation = [{ header = \"X-Scope\" }]",
        "2:27: `X-Scope` is written by agents only; name a header that the application passes on",
    );
    check_error(
        "correlation = [{ header = \"Baggage\" }]",
        "2:27: `baggage` has a form of its own; write `\"baggage\"` instead of the table",
    );
    check_error(
        "correlation = [{ header = \"x-id\", format = \"req\" }]",
        "2:44: `req` is not the format of a key; write fixed text around one `{uuid}` or `{hex}`, as in `req-{uuid}`",
    );
    check_error(
        "[services.\"a b\"]",
        "2:11: `a b` is not a name; use letters, digits, `_`, `.` or `-`, starting with a letter or digit",
    );
    check_error(
        "[services.A]\nresource = []",
        "3:1: unknown key `resource` in services.A; did you mean `resources`?",
    );
    check_error(
        &resource("colection = \"/c\""),
        "4:1: unknown key `colection` in services.A.resources; did you mean `collection`?",
    );
    check_error(
        &resource(""),
        "2:1: the resource `k` has no path; add `collection = \"/…\"`, `item = \"/…/{id}\"` or `singleton = \"/…\"`",
    );
    check_error(
        "[[services.A.resources]]\ncollection = \"/c\"",
        "2:1: services.A.resources has no `kind`; add `kind = …`",
    );
    check_error(
        &resource("collection = \"c\""),
        "4:14: `c` is not a path: a path starts with `/`",
    );
    check_error(
        &resource("item = \"/c\""),
        "4:8: an item's path ends with the place of its id; end it with `/{id}`, or write `singleton = …` if there is only one",
    );
    check_error(
        &resource("collection = \"/c/{id}\""),
        "4:14: a collection's path ends with its name, not with an id; remove the placeholder at its end, or give `item` too if the name may be any",
    );
    check_error(
        &resource("singleton = \"/s\"\nitem = \"/c/{id}\""),
        "4:13: a resource is either a singleton or has a collection and items; make them two entries of `resources`",
    );
    check_error(
        &resource("singleton = \"/s\"\nlist = {}"),
        "5:1: `list` describes a collection, and there is none here; add `collection = \"/…\"` or remove `list`",
    );
    check_error(
        &resource("collection = \"/c\"\n[[services.A.resources]]\nkind = \"other\"\nitem = \"/c/{name}\""),
        "7:8: this path already belongs to the resource `k`; give every path one meaning",
    );
    check_error(
        &list("items = \"items\""),
        "5:18: `items` is not a JSON pointer: write `/member`, `/outer/inner`, or nothing for the whole (`~` is `~0`, `/` is `~1`)",
    );
    check_error(
        &list("sort = \"\""),
        "5:17: `sort` must name a member of each item; write `sort = \"/created\"`, or remove it",
    );
    check_error(
        &paging("style = \"linc\""),
        "5:47: unknown word `linc` in `style`; did you mean `link`?",
    );
    check_error(
        &paging("style = \"token\""),
        "5:37: paging has no `token`; add `token = …`",
    );
    check_error(
        &paging("style = \"token\", token = \"a b\""),
        "5:64: `a b` is not the name of a query parameter; use letters, digits, `-`, `.`, `_`, `~` or `$`",
    );
    check_error(
        &paging("style = \"token\", token = \"t\", next = \"/items/next\""),
        "5:76: the next page cannot be told inside the items, nor around them; point `next` at a member beside the items, or write `paging = \"none\"`",
    );
    check_error(
        &list("paging = { style = \"token\", token = \"t\", next = \"/n\" }"),
        "5:8: a list that is paged must say where its items are; add `items = \"/items\"`",
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = r#"
application = "a b"
correlation = ["what"]
[services.A]
context-free = ["BREW /tea"]
[[services.A.resources]]
kind = "one"
colection = "/one"
[[services.A.resources]]
kind = "two"
collection = "two"
[[services.B.resources]]
kind = "three"
collection = "/three"
meta-id = "word"
"#;
    let errors = Profile::check("x.toml", text);
    let lines: Vec<usize> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 3, 5, 8, 11, 15]);
    assert_eq!(Profile::parse("x.toml", text).unwrap_err(), errors[0]);
    assert_eq!(Profile::check("x.toml", "application = \"x\""), []);
}

#[test]
fn a_mistake_keeps_its_place_in_the_text() {
    let text = "application = \"shop\"\n[[services.A.resources]]\nkind = \"order\"\ncolection = \"/x\"\n\
                [services.B]\neffect-free = [\"GET /x\", 7]\n";
    let errors = Profile::check("f", text);
    let places: Vec<_> = errors.iter().map(|error| &text[error.span.clone()]).collect();
    assert_eq!(places, ["colection", "7"]);
    assert_eq!((errors[0].line, errors[0].column), (4, 1));
}
