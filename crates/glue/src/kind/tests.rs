mod writes;

use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::Profile;

const CLOUD: &str = r#"
application = "cloud"
[[services.A.resources]]
kind = "volume"
collection = "/volumes"
item = "/volumes/{id}"
list = { items = "/volumes", paging = { style = "token", token = "marker", next = "/next" } }
id = "/volume/id"
meta-id = { integer = [1_000_000_000, 2_000_000_000] }
marker = { pointer = "/volume/metadata/operation" }
record-headers = ["X-Version", "Content-Type"]
credentials = ["X-Token"]
preconditions = ["X-If-Version", "/volume/version"]
ignore = ["/volume/created"]
site-owned = ["/volume/host", "/volume/ports/*/node"]
references = [{ pointer = "/volume/image", kind = "image" }, { pointer = "/volume/tags/*", kind = "tag" }]
links = ["/volume/self"]
patch = { "application/json-patch+json" = "action", "application/apply" = "replace", "application/json" = "action" }
parts = ["/data/{part}"]
actions = [
    { path = "/grow", commutes = true, touches = ["/volume/size"] },
    { path = "/check", effect-free = true },
    { path = "/reset", method = "PUT", idempotent = true },
]
effect-free = ["dryRun=All", "preview"]
answers = { "409" = "blocked", "5xx" = "retry", "503" = "unknown", create = { "409" = "done" }, delete = { "4xx" = "done" } }

[[services.A.resources]]
kind = "image"
collection = "/images"
chosen-by = "client"
name = "/name"

[[services.A.resources]]
kind = "tag"
collection = "/volumes/{volume}/tags"
chosen-by = "settable"
idempotency-key = "Idempotency-Key"
"#;

fn kind(name: &str) -> Kind {
    let cloud = Profile::parse("cloud.toml", CLOUD).unwrap();
    cloud.kind("A", name).into_owned()
}

fn plain() -> Kind {
    Profile::plain().kind("A", "/orders").into_owned()
}

const ACTION: Effect = Effect::Action {
    commutes: false,
    idempotent: false,
};
const AGAIN: Effect = Effect::Action {
    commutes: false,
    idempotent: true,
};

#[test]
fn effects_by_convention() {
    let check = |method, below, content_type, expect| {
        assert_eq!(
            plain().effect(method, below, content_type),
            expect,
            "{method} {below:?}"
        );
    };
    check("GET", None, None, Effect::Read);
    check("HEAD", Some("/x"), None, Effect::Read);
    check("OPTIONS", Some(""), None, Effect::Read);
    check("POST", None, None, Effect::Create);
    check("DELETE", None, None, AGAIN);
    check("PATCH", None, None, ACTION);
    check("PUT", Some(""), None, Effect::Replace);
    check("PATCH", Some(""), None, Effect::Merge);
    check(
        "PATCH",
        Some(""),
        Some("application/json; charset=utf-8"),
        Effect::Merge,
    );
    check(
        "PATCH",
        Some(""),
        Some("Application/Merge-Patch+JSON"),
        Effect::Merge,
    );
    check("PATCH", Some(""), Some("application/json-patch+json"), ACTION);
    check("PATCH", Some(""), Some("text/plain"), ACTION);
    check("DELETE", Some(""), None, Effect::Delete);
    check("POST", Some(""), None, ACTION);
    check("POST", Some("/ship"), None, ACTION);
    check("PUT", Some("/lines/3"), None, AGAIN);
    check("DELETE", Some("/lines/3"), None, AGAIN);
    check("PATCH", Some("/lines/3"), None, AGAIN);
    check("PROPPATCH", Some(""), None, ACTION);
    assert_eq!(plain().recognise(false), Recognise::Nothing);
    assert_eq!(plain().id_rule(), IdRule::Server);
    assert_eq!(plain().meta_format(), MetaFormat::Uuid);
    assert_eq!(plain().recorded_headers(), ["content-type"]);
    assert!(!plain().is_effect_free(Some("dryRun=All")));
    assert_eq!(plain().meaning(&Effect::Create, 409), None);
}

#[test]
fn effects_by_glue() {
    let check = |method, below, content_type, expect| {
        assert_eq!(
            kind("volume").effect(method, Some(below), content_type),
            expect,
            "{method} {below}"
        );
    };
    let grow = Effect::Action {
        commutes: true,
        idempotent: false,
    };
    check("POST", "/grow", None, grow);
    check("PUT", "/grow", None, AGAIN);
    check("POST", "/check", None, Effect::Free);
    check("PUT", "/reset", None, AGAIN);
    check("PUT", "/data/3", None, Effect::Replace);
    check("PUT", "/data", None, AGAIN);
    check("DELETE", "/data/3", None, AGAIN);
    check("PATCH", "", Some("application/apply"), Effect::Replace);
    check("PATCH", "", Some("application/json"), ACTION);
    check("PATCH", "", Some("application/merge-patch+json"), Effect::Merge);
    let free = |query| kind("volume").is_effect_free(Some(query));
    assert!(free("x=1&dry%52un=All"));
    assert!(free("preview"));
    assert!(free("preview=no"));
    assert!(!free("dryRun=None"));
    assert!(!free("xdryRun=All"));
    assert!(!kind("volume").is_effect_free(None));
}

#[test]
fn answers_have_meanings() {
    let check = |effect: Effect, status, expect| {
        assert_eq!(
            kind("volume").meaning(&effect, status),
            expect,
            "{effect:?} {status}"
        );
    };
    check(Effect::Replace, 409, Some(Meaning::Blocked));
    check(Effect::Create, 409, Some(Meaning::Done));
    check(Effect::Delete, 409, Some(Meaning::Done));
    check(ACTION, 500, Some(Meaning::Retry));
    check(ACTION, 503, Some(Meaning::Unknown));
    check(Effect::Delete, 503, Some(Meaning::Unknown));
    check(Effect::Merge, 404, None);
    check(Effect::Read, 409, None);
}

#[test]
fn operations_touch_parts() {
    let volume = kind("volume");
    let parts = |parts: &[&str]| Touches::Parts(parts.iter().map(|part| (*part).to_owned()).collect());
    let merge = |body: &str| volume.touches(&Effect::Merge, "", body.as_bytes());
    assert_eq!(volume.touches(&Effect::Replace, "", b""), parts(&[""]));
    assert_eq!(volume.touches(&Effect::Create, "", b"{}"), Touches::Whole);
    assert_eq!(volume.touches(&Effect::Delete, "", b""), Touches::Whole);
    assert_eq!(
        volume.touches(&Effect::Replace, "/data/3", b""),
        parts(&["@/data/3"])
    );
    let grow = volume.effect("POST", Some("/grow"), None);
    assert_eq!(volume.touches(&grow, "/grow", b""), parts(&["/volume/size"]));
    assert_eq!(volume.touches(&ACTION, "/other", b""), Touches::Whole);
    assert_eq!(
        merge(r#"{"a":{"b":1,"c":{"d":null}},"e":{},"a/b":{"~":[{"x":1}]}}"#),
        parts(&["/a/b", "/a/c/d", "/a~1b/~0", "/e"])
    );
    assert_eq!(merge("{}"), Touches::Parts(BTreeSet::new()));
    for whole in ["[1]", "3", "", "{"] {
        assert_eq!(merge(whole), Touches::Whole, "{whole}");
    }
    let many: Vec<_> = (0..300).map(|n| format!("\"{n}\":1")).collect();
    assert_eq!(merge(&format!("{{{}}}", many.join(","))), Touches::Whole);
}

#[test]
fn headers_and_ids_of_glue() {
    let volume = kind("volume");
    assert_eq!(volume.recorded_headers(), ["content-type", "x-version"]);
    assert_eq!(volume.credential_headers(), ["x-token"]);
    assert!(volume.precondition_headers().contains(&"x-if-version".to_owned()));
    assert!(volume.precondition_headers().contains(&"if-match".to_owned()));
    assert_eq!(
        volume.meta_format(),
        MetaFormat::Integer {
            first: 1_000_000_000,
            last: 2_000_000_000
        }
    );
    assert_eq!(volume.recognise(false), Recognise::Marker);
    let given = br#"{"volume":{"metadata":{"operation":"mine"}}}"#;
    assert_eq!(volume.recognise_in(false, given), Recognise::Nothing);
    for free in [&b""[..], b"{}", br#"{"volume":{"metadata":null}}"#] {
        assert_eq!(volume.recognise_in(false, free), Recognise::Marker);
    }
    assert_eq!(volume.recognise_in(false, br#"{"volume":3}"#), Recognise::Nothing);
    let tag = kind("tag");
    assert_eq!(tag.recognise(false), Recognise::ChosenId);
    let header = "idempotency-key";
    assert_eq!(tag.recognise(true), Recognise::Key { header });
    assert_eq!(kind("image").recognise(true), Recognise::Nothing);
}

#[test]
fn answers_tell_ids() {
    let check = |kind: &Kind, location: Option<&str>, body: &str, expect: Option<&str>| {
        let id = kind.id_in_answer(location, body.as_bytes());
        assert_eq!(id.as_deref(), expect, "{location:?} {body}");
    };
    let plain = plain();
    check(
        &plain,
        Some("http://h/v1/orders/a%2Fb?x"),
        r#"{"id":7}"#,
        Some("a/b"),
    );
    check(&plain, Some("/orders/42"), "", Some("42"));
    check(&plain, None, r#"{"id":7}"#, Some("7"));
    check(&plain, None, r#"{"id":"x"}"#, Some("x"));
    check(&plain, None, r#"{"name":"x"}"#, None);
    check(&plain, None, "created", None);
    let volume = kind("volume");
    check(&volume, Some("/volumes/1"), r#"{"volume":{"id":2}}"#, Some("2"));
    check(&volume, Some("/volumes/1"), r#"{"id":2}"#, Some("1"));
    check(&volume, Some("/tasks/1"), r#"{"id":2}"#, None);
    let image = kind("image");
    check(&image, None, r#"{"name":"x","id":3}"#, Some("x"));
    check(&image, Some("/images/y"), "", Some("y"));
    check(&image, Some("/tasks/9"), r#"{"name":"x"}"#, Some("x"));
    assert_eq!(image.name_in_request(br#"{"name":"x"}"#).as_deref(), Some("x"));
    assert_eq!(
        kind("tag").name_in_request(br#"{"id":"t"}"#).as_deref(),
        Some("t")
    );
    assert_eq!(kind("tag").name_in_request(br#"{"name":"t"}"#), None);
    assert_eq!(volume.name_in_request(br#"{"volume":{"id":2}}"#), None);
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8(bytes.as_ref().to_vec()).unwrap()
}

#[test]
fn bodies_get_ids_and_markers() {
    let volume = kind("volume");
    let marked = volume
        .with_marker(br#"{ "volume": {"size": 1.50} }"#, "t-1")
        .unwrap();
    assert_eq!(
        text(marked),
        r#"{ "volume": {"size": 1.50,"metadata":{"operation":"t-1"}} }"#
    );
    assert_eq!(text(kind("tag").with_id(b"", "i").unwrap()), r#"{"id":"i"}"#);
    assert_eq!(
        text(kind("tag").with_id(br#"{"id":null}"#, "i").unwrap()),
        r#"{"id":"i"}"#
    );
    let numbered = |id: &str| text(volume.with_id(b"{}", id).unwrap());
    assert_eq!(numbered("7"), r#"{"id":7}"#);
    // A peer chooses the names of its sets.
    assert_eq!(numbered(r#"7,"admin":true"#), r#"{"id":"7,\"admin\":true"}"#);
    assert_eq!(text(plain().with_marker(b"x", "t").unwrap()), "x");
    assert!(volume.with_marker(b"<volume/>", "t").is_err());
    let body = br#"{"volume":{"version":3,"size":1}}"#;
    assert_eq!(
        text(volume.without_preconditions(body).unwrap()),
        r#"{"volume":{"size":1}}"#
    );
    let body = br#"{ "volume" : {"size":1} }"#;
    assert_eq!(*volume.without_preconditions(body).unwrap(), *body);
    assert_eq!(*volume.without_preconditions(b"").unwrap(), *b"");
    assert!(volume.without_preconditions(b"{").is_err());
    assert_eq!(*plain().without_preconditions(b"{").unwrap(), *b"{");
}

#[test]
fn references_are_found() {
    let body = br#"{"volume":{"image":"i","tags":["a",3,null,{"x":1}]},"image":"no"}"#;
    let found = kind("volume").references(body);
    let found: Vec<_> = found
        .iter()
        .map(|it| (&*it.service, &*it.kind, &*it.id))
        .collect();
    assert_eq!(found, [("A", "image", "i"), ("A", "tag", "a"), ("A", "tag", "3")]);
    assert_eq!(kind("volume").references(b"{"), []);
    assert!(kind("volume").reads_request_body(&Effect::Create));
    assert!(!plain().reads_request_body(&Effect::Create));
}

const HERE: &str = r#"{"volume":{"id":7,"size":1.50,"created":"now","host":"h1","version":9,
    "ports":[{"n":1,"node":11},{"n":2,"node":12}],"self":"/volumes/7","metadata":{"operation":"t","k":"v"}}}"#;

#[test]
fn equal_replicas_compare_equal() {
    let volume = kind("volume");
    let there = r#"{"volume":{"metadata":{"k":"v","operation":"u"},"self":"/volumes/8","id":"8",
        "ports":[{"node":1,"n":1},{"n":2}],"size":1.50,"created":"then","version":1}}"#;
    let comparable = |body: &str| text(volume.comparable(body.as_bytes()).unwrap());
    assert_eq!(comparable(HERE), comparable(there));
    assert_eq!(
        comparable(HERE),
        r#"{"volume":{"metadata":{"k":"v"},"ports":[{"n":1},{"n":2}],"size":1.50}}"#
    );
    assert_ne!(comparable(HERE), comparable(&HERE.replace("1.50", "1.51")));
    assert_ne!(comparable(HERE), comparable(&HERE.replace("\"n\":2", "\"n\":3")));
    assert!(volume.comparable(b"").is_err());
    // An id that all sites share is part of what is compared.
    let image = kind("image");
    let of = |name: &str| {
        image
            .comparable(format!("{{\"name\":\"{name}\"}}").as_bytes())
            .unwrap()
    };
    assert_ne!(of("a"), of("b"));
}

#[test]
fn state_travels_without_what_is_of_one_replica() {
    let volume = kind("volume");
    let state = volume.portable(HERE.as_bytes()).unwrap();
    assert_eq!(
        text(&state),
        r#"{"volume":{"size":1.50,"ports":[{"n":1},{"n":2}],"self":"/volumes/7","metadata":{"k":"v"}}}"#
    );
    let create = volume.create_from("", &state);
    assert_eq!((&*create.method, &*create.path), ("POST", "/volumes"));
    assert_eq!(create.body, state);
    let current = r#"{"volume":{"id":8,"size":2,"host":"h2","version":1,"created":"then","ports":[{"node":21}],"gone":1}}"#;
    let Ok(Changed::Request(update)) = volume.overwrite_from("8", &state, current.as_bytes()) else {
        panic!("they differ");
    };
    assert_eq!((&*update.method, &*update.path), ("PUT", "/volumes/8"));
    assert_eq!(update.content_type, "application/json");
    assert_eq!(
        text(update.body),
        r#"{"volume":{"size":1.50,"ports":[{"n":1,"node":21},{"n":2}],"self":"/volumes/7","metadata":{"k":"v"},"id":8,"created":"then","host":"h2","version":1}}"#
    );
    let empty = volume.overwrite_from("8", b"{}", br#"{"volume":{"id":8,"size":1}}"#);
    let Ok(Changed::Request(empty)) = empty else {
        panic!("they differ");
    };
    assert_eq!(text(empty.body), r#"{"volume":{"id":8}}"#);
}

#[test]
fn keys_make_paths() {
    let tag = kind("tag");
    assert_eq!(tag.item_path("7/a%2Fb"), "/volumes/7/tags/a%2Fb");
    assert_eq!(tag.collection_path("7/"), "/volumes/7/tags");
    assert_eq!(kind("volume").item_path("a/b c"), "/volumes/a%2Fb%20c");
    assert_eq!(plain().item_path("7"), "/orders/7");
    assert_eq!(plain().collection_path("7"), "/orders");
    let nested = Profile::plain().kind("A", "/my%20orders/{id}/lines").into_owned();
    assert_eq!(nested.item_path("7/3"), "/my%20orders/7/lines/3");
    assert_eq!(nested.collection_path("7/3"), "/my%20orders/7/lines");
}

#[test]
fn addresses() {
    let cloud = Profile::parse("cloud.toml", CLOUD).unwrap();
    let show = |address: &crate::Address<'_>| {
        let key = address.key.as_deref().unwrap_or("-");
        let id = address.id.as_deref().unwrap_or("-");
        format!("{} {id} {key} {}", address.kind, address.below)
    };
    let check = |path: &str, expect: Option<&str>, within: &[&str]| {
        let address = cloud.address("A", path);
        assert_eq!(address.as_ref().map(show).as_deref(), expect, "{path}");
        let found: Vec<_> = cloud.within("A", path).iter().map(show).collect();
        assert_eq!(found, within, "{path}");
    };
    check("/volumes", Some("volume - - "), &[]);
    check("/volumes/7", Some("volume 7 7 "), &["volume 7 7 "]);
    check("/volumes/7/", Some("volume 7 7 "), &["volume 7 7 "]);
    check(
        "/volumes/7//grow/",
        Some("volume 7 7 /grow"),
        &["volume 7 7 /grow"],
    );
    check("/volumes/7/tags", Some("tag - - "), &["volume 7 7 /tags"]);
    check(
        "/volumes/7/tags/a%2Fb/x",
        Some("tag a/b 7/a%2Fb /x"),
        &["tag a/b 7/a%2Fb /x", "volume 7 7 /tags/a%2Fb/x"],
    );
    check("/users", Some("/users - - "), &[]);
    check("/users/7", Some("/users 7 7 "), &["/users 7 7 "]);
    check(
        "/users/7/keys",
        Some("/users/{id}/keys - - "),
        &["/users 7 7 /keys"],
    );
    check(
        "/users/7/keys/3",
        Some("/users/{id}/keys 3 7/3 "),
        &["/users/{id}/keys 3 7/3 ", "/users 7 7 /keys/3"],
    );
    check("//users//7", Some("/users 7 7 "), &["/users 7 7 "]);
    check("/%75sers/7", Some("/users 7 7 "), &["/users 7 7 "]);
    check("/", None, &[]);
    let example = Profile::example();
    assert!(example.address("A", "/hello").is_none());
    assert!(example.address("A", "/hello/x").is_none());
    let tags = cloud.address("A", "/volumes/7/tags").unwrap();
    assert_eq!(tags.key_of("a/b"), "7/a%2Fb");
    assert_eq!(tags.effect("POST", None), Effect::Create);
    assert_eq!(
        cloud.address("A", "/volumes/7").unwrap().effect("POST", None),
        ACTION
    );
}

#[test]
fn markers_are_searched_for() {
    let read = |search: &Search, body: &str| search.read(Bytes::copy_from_slice(body.as_bytes()));
    // The marker stands in each item as it does in the document.
    let volume = kind("volume");
    let search = volume.marker_search("", "t 1").unwrap();
    assert_eq!(search.path, "/volumes");
    let Ok(Sighting::Next(next)) = read(&search, r#"{"volumes":[{"volume":{"id":1}}],"next":"a b"}"#) else {
        panic!("there is a next page");
    };
    assert_eq!(next.path, "/volumes?marker=a%20b");
    let marked = r#"{"volumes":[{"volume":{"id":2,"metadata":{"operation":"t 1"}}}],"next":"c"}"#;
    assert!(matches!(read(&next, marked), Ok(Sighting::Found(id)) if id == "2"));
    assert!(matches!(read(&next, r#"{"volumes":[]}"#), Ok(Sighting::Nowhere)));
    assert!(read(&next, "{}").is_err());

    let example = Profile::example();
    let order = example.kind("A", "order");
    let search = order.marker_search("", "t&1").unwrap();
    assert_eq!(search.path, "/orders?ref=t%261");
    let Ok(Sighting::Next(next)) = read(&search, r#"{"items":[{"id":1,"ref":"other"}],"next":"5"}"#) else {
        panic!("there is a next page");
    };
    assert_eq!(next.path, "/orders?ref=t%261&page_token=5");
    assert!(plain().marker_search("", "t").is_none());
}
