//! Documents within bodies, and how they are written.

use serde_json::{Value, json};

use super::super::*;
use crate::{Address, Ids, Own, Profile};

const APPLICATION: &str = r#"
application = "rack"
[[services.A.resources]]
kind = "server"
collection = "/servers"
list = { items = "/servers" }
document = "/server"
meta-id = "hex"
marker = { pointer = "/metadata/operation" }
preconditions = ["/version"]
ignore = ["/status"]
site-owned = ["/host"]
references = [{ pointer = "/image", kind = "image" }]
put = "merge"
update = { method = "PUT", form = "merge", content-type = "application/json" }
state = { pointer = "/status", done = ["ACTIVE"], failed = ["ERROR"] }

[[services.A.resources]]
kind = "image"
collection = "/images"
chosen-by = "settable"
patch = { "application/x-json-patch" = "difference" }
update = { form = "json-patch", content-type = "application/x-json-patch" }
ignore = ["/updated"]

[[services.A.resources]]
kind = "object"
collection = "/objects"
chosen-by = "client"
name = "/metadata/name"
generate = "/metadata/generateName"
upsert = ["PUT", "PATCH application/apply+yaml"]
preconditions = ["/metadata/version", "/preconditions"]
ignore = ["/notes/seen"]
site-owned = [
    { pointer = "/spec/address", unless = ["None"] },
    { pointer = "/spec/addresses", unless = ["None"] },
    "/spec/ports/*/node",
    { pointer = "/spec/volumes/*", where = { "/name" = "token-?????", "/secret/name" = "t-*" } },
    { pointer = "/spec/containers/*/mounts/*", where = { "/name" = "token-?????", "/path" = "/run/token" } },
]
patch = { "application/strategic+json" = "difference", "application/json-patch+json" = "difference", "application/apply+yaml" = "difference" }
update = { form = "merge" }
leaving = "/metadata/deleted"
effect-free = ["dryRun", "/dryRun"]
actions = [
    { path = "/scale", method = "PUT", as = "difference" },
    { path = "/scale", method = "PATCH", as = "difference" },
    { path = "/status", method = "PUT", as = "local" },
]
"#;

fn profile() -> Profile {
    Profile::parse("rack.toml", APPLICATION).unwrap()
}

fn kind(name: &str) -> Kind {
    profile().kind("A", name).into_owned()
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn request(changed: Result<Changed, crate::NotJson>) -> Rendered {
    match changed {
        Ok(Changed::Request(rendered)) => rendered,
        other => panic!("{other:?}"),
    }
}

struct Known;

impl Ids for Known {
    fn map(&self, _: &str, kind: &str, id: &str, _: &str) -> Option<String> {
        Some(format!("{kind}-{id}"))
    }
}

#[test]
fn pointers_begin_at_the_document() {
    let server = kind("server");
    let body = br#"{"server":{"id":"7","image":"i"},"image":"no","id":"no"}"#;
    assert_eq!(server.id_in_answer(None, body).as_deref(), Some("7"));
    assert_eq!(server.id_in_answer(None, br#"{"id":"7"}"#), None);
    assert_eq!(server.id_of_item(r#"{"id":"7"}"#).as_deref(), Some("7"));
    assert_eq!(server.references(body).len(), 1);
    assert_eq!(server.references(br#"{"image":"i"}"#), []);
    let marked = server.with_marker(br#"{"server":{"name":"a"}}"#, "t").unwrap();
    assert_eq!(
        value(&marked),
        json!({"server": {"name": "a", "metadata": {"operation": "t"}}})
    );
    let plain = server.without_preconditions(br#"{"server":{"version":1,"a":2},"version":1}"#);
    assert_eq!(value(&plain.unwrap()), json!({"server": {"a": 2}, "version": 1}));
    assert_eq!(server.meta_format(), MetaFormat::Hex);
}

#[test]
fn ids_are_exchanged_in_the_document_alone() {
    let profile = profile();
    let map = |path, body: &str| {
        let address: Address<'_> = profile.address("A", path).unwrap();
        let mapped = address.map_body(body.as_bytes(), Own::Map, &Known).unwrap();
        String::from_utf8(mapped.into_owned()).unwrap()
    };
    assert_eq!(
        map("/servers/7", r#"{"id":"7","server":{"id":"7","image":"i"}}"#),
        r#"{"id":"7","server":{"id":"server-7","image":"image-i"}}"#
    );
    assert_eq!(map("/servers/7", r#"{"id":"7"}"#), r#"{"id":"7"}"#);
    // Items of lists are documents themselves.
    let address = profile.address("A", "/servers").unwrap();
    let shape = profile.identify("A", "GET", "/servers").list.unwrap();
    let list = address.map_list(shape, r#"{"servers":[{"id":"7"}]}"#.into(), 9, &Known);
    assert_eq!(list.unwrap().body, r#"{"servers":[{"id":"server-7"}]}"#);
}

#[test]
fn states_are_wrapped_again() {
    let server = kind("server");
    let here =
        json!({"server": {"id": "7", "name": "a", "host": "h1", "status": "ACTIVE", "size": 1}, "x": 1});
    assert_eq!(
        value(&server.comparable(&bytes(&here)).unwrap()),
        json!({"name": "a", "size": 1})
    );
    let state = server.portable(&bytes(&here)).unwrap();
    assert_eq!(value(&state), json!({"server": {"name": "a", "size": 1}}));
    let there = json!({"server": {"id": "8", "name": "b", "host": "h2", "status": "BUILD", "gone": 1}});
    let update = request(server.overwrite_from("8", &state, &bytes(&there)));
    assert_eq!((&*update.method, &*update.path), ("PUT", "/servers/8"));
    assert_eq!(
        value(&update.body),
        json!({"server": {"name": "a", "size": 1, "gone": null}})
    );
    let same = json!({"server": {"id": "8", "name": "a", "host": "h2", "size": 1}});
    assert_eq!(
        server.overwrite_from("8", &state, &bytes(&same)),
        Ok(Changed::Nothing)
    );
    assert!(server.portable(br#"{"name":"a"}"#).is_err());
    assert_eq!(server.effect("PUT", Some(""), None), Effect::Merge);
    assert_eq!(
        server.touches(&Effect::Merge, "", br#"{"server":{"name":"x"}}"#),
        Touches::Parts(["/name".to_owned()].into())
    );
}

#[test]
fn patches_become_the_difference_that_they_made() {
    let object = kind("object");
    for (content_type, idempotent) in [
        ("application/strategic+json", true),
        ("application/apply+yaml", true),
        ("application/json-patch+json", false),
    ] {
        let effect = object.effect("PATCH", Some(""), Some(content_type));
        assert_eq!(effect, Effect::Difference { idempotent }, "{content_type}");
    }
    let scale = object.effect("PATCH", Some("/scale"), Some("application/json-patch+json"));
    assert_eq!(scale, Effect::Difference { idempotent: false });
    assert_eq!(object.effect("PUT", Some("/status"), None), Effect::Free);
    let before = json!({"metadata": {"name": "a", "version": "1"}, "spec": {"size": 1, "ports": [{"n": 1, "node": 31}], "old": 1}});
    let after = json!({"metadata": {"name": "a", "version": "2"}, "spec": {"size": 2, "ports": [{"n": 1, "node": 31}, {"n": 2, "node": 32}]}});
    let recorded = object.difference(&bytes(&before), &bytes(&after)).unwrap();
    assert_eq!(
        (&*recorded.method, &*recorded.content_type),
        ("PATCH", "application/merge-patch+json")
    );
    assert_eq!(
        value(&recorded.body),
        json!({"spec": {"size": 2, "ports": [{"n": 1}, {"n": 2}], "old": null}})
    );
    // What each site has its own value for keeps it.
    assert!(object.merge_needs_current(Some("application/merge-patch+json"), &recorded.body));
    let here = json!({"metadata": {"name": "a", "version": "9"}, "spec": {"size": 1, "ports": [{"n": 1, "node": 41}], "mine": 1}});
    let update = request(object.merge_into("a", &recorded.body, &bytes(&here)));
    assert_eq!(
        value(&update.body),
        json!({"spec": {"size": 2, "ports": [{"n": 1, "node": 41}, {"n": 2}]}})
    );
    let small = br#"{"spec":{"size":3}}"#;
    assert!(!object.merge_needs_current(Some("application/merge-patch+json"), small));
    let nothing = object.difference(&bytes(&before), &bytes(&before)).unwrap();
    assert_eq!(nothing.body, b"{}");
    assert_eq!(
        object.touches(&Effect::Merge, "", &nothing.body),
        Touches::Parts(std::collections::BTreeSet::new())
    );
}

#[test]
fn an_application_without_merge_patches_gets_its_own() {
    let image = kind("image");
    let before = json!({"id": "i", "name": "a", "tags": ["x"], "updated": 1});
    let after = json!({"id": "i", "name": "b", "tags": ["x", "y"], "updated": 2});
    let recorded = image.difference(&bytes(&before), &bytes(&after)).unwrap();
    let content_type = Some(&*recorded.content_type);
    assert!(image.merge_needs_current(content_type, &recorded.body));
    assert_eq!(
        image.effect(&recorded.method, Some(""), content_type),
        Effect::Merge
    );
    let here = json!({"id": "i", "name": "a", "updated": 7});
    let update = request(image.merge_into("i", &recorded.body, &bytes(&here)));
    assert_eq!(update.content_type, "application/x-json-patch");
    assert_eq!(
        value(&update.body),
        json!([
            {"op": "replace", "path": "/name", "value": "b"},
            {"op": "add", "path": "/tags", "value": ["x", "y"]},
        ])
    );
    let done = json!({"id": "i", "name": "b", "tags": ["x", "y"], "updated": 8});
    assert_eq!(
        image.merge_into("i", &recorded.body, &bytes(&done)),
        Ok(Changed::Nothing)
    );
}

#[test]
fn some_values_are_for_all_sites() {
    let object = kind("object");
    let state = |spec: Value| value(&object.portable(&bytes(&json!({"spec": spec}))).unwrap());
    assert_eq!(
        state(json!({"size": 1, "address": "10.0.0.1", "addresses": ["10.0.0.1"]})),
        json!({"spec": {"size": 1}})
    );
    let headless = json!({"address": "None", "addresses": ["None"]});
    assert_eq!(state(headless.clone()), json!({"spec": headless}));
    let current = json!({"spec": {"address": "10.0.0.2", "addresses": ["10.0.0.2"]}});
    let update = request(object.overwrite_from("a", &bytes(&json!({"spec": headless})), &bytes(&current)));
    assert_eq!(value(&update.body), json!({"spec": headless}));
}

#[test]
fn elements_can_be_one_sites_own() {
    let object = kind("object");
    let own =
        |suffix: &str| json!({"name": format!("token-{suffix}"), "secret": {"name": format!("t-{suffix}")}});
    let mount = |suffix: &str| json!({"name": format!("token-{suffix}"), "path": "/run/token"});
    let data = json!({"name": "data"});
    // Not what the site adds: it looks so in one way only.
    let near = json!({"name": "token-abcde", "path": "/mine"});
    let here = json!({"spec": {
        "volumes": [data, own("aaaaa")],
        "containers": [{"mounts": [mount("aaaaa")]}, {"mounts": [near, mount("aaaaa")]}],
    }});
    let there = json!({"spec": {
        "volumes": [own("bbbbb"), data],
        "containers": [{"mounts": [mount("bbbbb")]}, {"mounts": [near, mount("bbbbb")]}],
    }});
    let without = json!({"spec": {"volumes": [data], "containers": [{}, {"mounts": [near]}]}});
    assert_eq!(value(&object.portable(&bytes(&here)).unwrap()), without);
    let compared = |value| object.comparable(&bytes(value)).unwrap();
    assert_eq!(compared(&here), compared(&there));
    assert_eq!(compared(&here), compared(&without));
    assert_eq!(
        object.overwrite_from("a", &bytes(&without), &bytes(&here)),
        Ok(Changed::Nothing)
    );
    assert_eq!(
        object.overwrite_from("a", &bytes(&here), &bytes(&there)),
        Ok(Changed::Nothing)
    );
    let mut more = without.clone();
    more["spec"]["volumes"] = json!([data, {"name": "logs"}]);
    let update = request(object.overwrite_from("a", &bytes(&more), &bytes(&there)));
    assert_eq!(
        value(&update.body),
        json!({"spec": {"volumes": [own("bbbbb"), data, {"name": "logs"}]}})
    );
    more["spec"]["volumes"] = json!([own("ccccc")]);
    let update = request(object.overwrite_from("a", &bytes(&more), &bytes(&here)));
    assert_eq!(value(&update.body), json!({"spec": {"volumes": [own("aaaaa")]}}));
    assert!(object.merge_needs_current(None, &bytes(&json!({"spec": {"volumes": []}}))));
    assert!(!object.merge_needs_current(None, &bytes(&json!({"spec": {"replicas": 2}}))));
}

#[test]
fn what_nothing_is_left_of_is_as_good_as_absent() {
    let object = kind("object");
    let compared = |value| object.comparable(&bytes(&value)).unwrap();
    let absent = compared(json!({"spec": {"size": 1}}));
    assert_eq!(
        compared(json!({"spec": {"size": 1}, "notes": {"seen": true}})),
        absent
    );
    assert_eq!(
        compared(
            json!({"spec": {"size": 1, "volumes": [{"name": "token-12345", "secret": {"name": "t-12345"}}]}})
        ),
        absent
    );
    // These were empty before.
    assert_ne!(compared(json!({"spec": {"size": 1, "volumes": []}})), absent);
    assert_ne!(compared(json!({"spec": {"size": 1}, "notes": {}})), absent);
}

#[test]
fn names_are_completed_and_taken_from_the_path() {
    let object = kind("object");
    let beginning = |body: &str| object.name_to_complete(body.as_bytes());
    assert_eq!(
        beginning(r#"{"metadata":{"generateName":"web-"}}"#).as_deref(),
        Some("web-")
    );
    assert_eq!(
        beginning(r#"{"metadata":{"generateName":"web-","name":"x"}}"#),
        None
    );
    assert_eq!(
        beginning(r#"{"metadata":{"generateName":"web-","name":""}}"#).as_deref(),
        Some("web-")
    );
    assert_eq!(beginning(r#"{"metadata":{"generateName":""}}"#), None);
    assert_eq!(kind("image").name_to_complete(br#"{"generateName":"x"}"#), None);
    assert!(object.is_upsert("PUT", Some("application/json")));
    assert!(object.is_upsert("PATCH", Some("application/apply+YAML; charset=utf-8")));
    assert!(!object.is_upsert("PATCH", Some("application/json")));
    assert!(!object.is_upsert("PATCH", None));
    assert!(!kind("image").is_upsert("PUT", None));
}

#[test]
fn bodies_can_say_that_nothing_is_to_happen() {
    let object = kind("object");
    assert!(object.is_effect_free_body(br#"{"dryRun":["All"]}"#));
    for body in [
        &b""[..],
        b"{}",
        br#"{"dryRun":[]}"#,
        br#"{"dryRun":null}"#,
        b"dryRun",
    ] {
        assert!(!object.is_effect_free_body(body));
    }
    assert!(object.reads_request_body(&Effect::Delete));
    assert!(!kind("image").reads_request_body(&Effect::Delete));
}

#[test]
fn resources_tell_how_far_they_are() {
    let server = kind("server");
    let stage = |status: &str| server.stage(&bytes(&json!({"server": {"status": status}})));
    assert!(server.is_asynchronous());
    assert_eq!(stage("ACTIVE"), Stage::Done);
    assert_eq!(stage("BUILD"), Stage::UnderWay("BUILD".to_owned()));
    assert_eq!(stage("ERROR"), Stage::Failed("ERROR".to_owned()));
    assert_eq!(server.stage(b"?"), Stage::UnderWay(String::new()));
    assert_eq!(kind("image").stage(b"{}"), Stage::Done);
    let object = kind("object");
    assert!(object.is_leaving(br#"{"metadata":{"deleted":"now"}}"#));
    assert!(!object.is_leaving(br#"{"metadata":{"deleted":null}}"#));
    assert!(!kind("image").can_be_leaving());
}
