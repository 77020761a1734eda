use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Items;

const SHOP: &str = r#"
application = "shop"
[[services.A.resources]]
kind = "order"
collection = "/orders"
references = [
    { pointer = "/item", kind = "item", service = "B" },
    { pointer = "/lines/*/item", kind = "item", service = "B" },
    { query = "item", kind = "item", service = "B" },
]
links = ["/self", "/links/*"]
actions = [{ path = "/ship", commutes = true }]
parts = ["/photo"]
[[services.A.resources]]
kind = "line"
collection = "/orders/{order}/lines"
id = "/number"
[[services.A.resources]]
kind = "report"
item = "/of/{tenant}/reports/{id}"
[[services.B.resources]]
kind = "item"
collection = "/items"
"#;

fn shop() -> Profile {
    Profile::parse("shop.toml", SHOP).unwrap()
}

/// Keys as `service kind key`.
#[derive(Debug, Default)]
struct Map(BTreeMap<String, String>);

impl Map {
    fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
        Self(pairs.iter().map(owned).collect())
    }
}

impl Ids for Map {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        let is_last = key.ends_with(&key::join(&[""], id));
        assert!(key == id || is_last, "{key} is the key of {id}");
        self.0.get(&format!("{service} {kind} {key}")).cloned()
    }
}

#[test]
fn paths() {
    let shop = shop();
    let map = Map::of(&[
        ("A order 7", "meta 1"),
        ("A line 7/3", "meta-3"),
        ("A line 8/3", "other"),
        ("A report t/9", "nine"),
        ("B item 5", "a&b"),
        ("A /users é/f", "u/1"),
        ("A /users/{id}/keys é%2Ff/2", "k"),
    ]);
    let check = |path: &str, expect: &str| assert_eq!(shop.map_path("A", path, Own::Map, &map), expect);
    check("/orders/7", "/orders/meta%201");
    check("//orders//%37/?x=7#y", "//orders//meta%201/?x=7#y");
    check("/orders/70?item=5", "/orders/70?item=a%26b");
    check(
        "/orders?a=5&it%65m=5&item=6&item=5&item",
        "/orders?a=5&it%65m=a%26b&item=6&item=a%26b&item",
    );
    check("/orders/7/ship", "/orders/meta%201/ship");
    check("/orders/7/lines", "/orders/meta%201/lines");
    check("/orders/7/lines/3", "/orders/meta%201/lines/meta-3");
    check("/orders/8/lines/3/x", "/orders/8/lines/other/x");
    check("/of/t/reports/9", "/of/t/reports/nine");
    check("/of/u/reports/9", "/of/u/reports/9");
    check("/users/%C3%A9%2Ff", "/users/u%2F1");
    check("/users/%C3%A9%2Ff/keys/2", "/users/u%2F1/keys/k");
    check("/", "/");
    check("", "");

    let own = |own| shop.map_path("A", "/orders/7/lines/3?x", own, &map);
    assert_eq!(own(Own::Keep), "/orders/meta%201/lines/3?x");
    assert_eq!(own(Own::Hole), "/orders/meta%201/lines/{id}?x");
    assert_eq!(own(Own::Put("a/b")), "/orders/meta%201/lines/a%2Fb?x");
    let filled = shop.map_path("A", "/orders/{id}/ship?{id}", Own::Put("42"), &map);
    assert_eq!(filled, "/orders/42/ship?{id}");
}

#[test]
fn urls() {
    let shop = shop();
    let map = Map::of(&[("A order 7", "m")]);
    let check = |url: &str, expect: Option<&str>| assert_eq!(shop.map_url("A", url, &map).as_deref(), expect);
    check("http://host:80/orders/7?x", Some("http://host:80/orders/m?x"));
    check("/orders/7#7", Some("/orders/m#7"));
    check("http://host/orders/8", None);
    check("orders/7", None);
    check("mailto:7", None);
}

#[test]
fn bodies() {
    let shop = shop();
    let map = Map::of(&[("A order 7", "m"), ("B item 5", "50"), ("B item x", "y\"z")]);
    let address = shop.address("A", "/orders/7").unwrap();
    let check = |own, body: &str, expect: &str| {
        let mapped = address.map_body(body.as_bytes(), own, &map).unwrap();
        assert_eq!(String::from_utf8_lossy(&mapped), expect);
    };
    let order = r#" {"id" : 7, "item":5.0, "item":5,"lines":[ {"item": "5"},{"item":"\u0078"}, 3, {"item":null}],
        "self":"http://h/orders/7","links":{"a":"/orders/7","b":7},"n":1.50} "#;
    check(
        Own::Map,
        order,
        r#" {"id" : "m", "item":5.0, "item":50,"lines":[ {"item": "50"},{"item":"y\"z"}, 3, {"item":null}],
        "self":"http://h/orders/m","links":{"a":"/orders/m","b":7},"n":1.50} "#,
    );
    check(Own::Keep, r#"{"id":7}"#, r#"{"id":7}"#);
    check(Own::Hole, r#"{"id":7,"x":"7"}"#, r#"{"id":0,"x":"7"}"#);
    check(Own::Hole, r#"{"id":"7"}"#, r#"{"id":"{id}"}"#);
    check(Own::Put("42"), r#"{"id":0}"#, r#"{"id":42}"#);
    check(Own::Put("42"), r#"{"id":"{id}"}"#, r#"{"id":"42"}"#);
    check(Own::Put("m"), r#"{"id":0}"#, r#"{"id":"m"}"#);
    check(Own::Map, "[7]", "[7]");
    check(Own::Map, "", "");
    for broken in ["{", "<order/>", r#"{"id":7} x"#] {
        assert!(
            address.map_body(broken.as_bytes(), Own::Map, &map).is_err(),
            "{broken}"
        );
    }
    assert!(address.map_body(b"\xff", Own::Map, &map).is_err());
}

#[test]
fn the_own_id_has_the_parents_of_its_address() {
    let shop = shop();
    let map = Map::of(&[("A line 7/3", "m")]);
    for (path, expect) in [
        ("/orders/7/lines", r#"{"number":"m","id":3}"#),
        ("/orders/7/lines/3", r#"{"number":"m","id":3}"#),
        ("/orders/8/lines", r#"{"number":3,"id":3}"#),
    ] {
        let address = shop.address("A", path).unwrap();
        let mapped = address
            .map_body(br#"{"number":3,"id":3}"#, Own::Map, &map)
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&mapped), expect, "{path}");
    }
}

#[test]
fn below_a_resource_only_its_own_id_is_taken_for_it() {
    let shop = shop();
    let map = Map::of(&[("A order 7", "m"), ("A order 3", "n")]);
    let mapped = |path, body: &str| {
        let address = &shop.within("A", path)[0];
        assert_eq!(address.kind, "order");
        let mapped = address
            .map_body(body.as_bytes(), address.own_for("POST"), &map)
            .unwrap();
        String::from_utf8_lossy(&mapped).into_owned()
    };
    assert_eq!(mapped("/orders/7/ship", r#"{"id":7}"#), r#"{"id":"m"}"#);
    assert_eq!(mapped("/orders/7/notes", r#"{"id":3}"#), r#"{"id":3}"#);
    assert_eq!(mapped("/orders/{id}/ship", r#"{"id":"3"}"#), r#"{"id":"n"}"#);
    assert_eq!(shop.within("A", "/orders/7/notes/7")[0].own_for("GET"), Own::Keep);
    assert_eq!(shop.within("A", "/orders/7")[0].own_for("GET"), Own::Map);
}

#[test]
fn parts_are_left_alone() {
    let shop = shop();
    let map = Map::of(&[("A order 7", "m"), ("B item 5", "50")]);
    let photo = shop.address("A", "/orders/7/photo").unwrap();
    for body in [&br#"{"id":7,"item":5}"#[..], b"\xff\xd8"] {
        assert_eq!(*photo.map_body(body, Own::Map, &map).unwrap(), *body);
    }
    assert_eq!(photo.effect("PUT", None), Effect::Replace);
    assert!(!photo.reads_request_body(&Effect::Replace));
    assert!(
        shop.address("A", "/orders/7")
            .unwrap()
            .reads_request_body(&Effect::Replace)
    );
}

#[test]
fn lists_tell_their_replicas() {
    let shop = shop();
    let map = Map::of(&[("A order 7", "m"), ("A order 8", "8"), ("B item 5", "50")]);
    let address = shop.address("A", "/orders").unwrap();
    let shape = ListShape::plain(Items::Presumed);
    let list = |body: &'static str| {
        let mapped = address
            .map_list(&shape, Bytes::from_static(body.as_bytes()), usize::MAX, &map)
            .unwrap();
        (
            String::from_utf8_lossy(&mapped.body).into_owned(),
            mapped.replicas,
        )
    };
    let (body, replicas) =
        list(r#"{"items":[ {"id":6,"item":5}, {"id":7} ,{"id":8}, 7, {"x":7}],"id-of":7}"#);
    assert_eq!(
        body,
        r#"{"items":[ {"id":6,"item":50}, {"id":"m"} ,{"id":8}, 7, {"x":7}],"id-of":7}"#
    );
    assert_eq!(replicas, [1, 2]);
    assert_eq!(list(r#"[ {"id":9} ]"#), (r#"[ {"id":9} ]"#.to_owned(), vec![]));
    let broken = address.map_list(&shape, Bytes::from_static(b"{"), 9, &map);
    assert!(matches!(broken, Err(NotAList::NotJson(_))));
}

/// Ids that look like those of applications, and some that do not.
fn ids() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]{1,4}", "[a-z/%é \"\\\\.{}]{1,6}"]
}

/// Values as JSON or not, also with members that repeat, in text.
fn documents() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        ids().prop_map(|id| json!(id).to_string()),
        "[1-9][0-9]{0,3}",
        Just("null".to_owned()),
        Just("-1.50e3".to_owned()),
    ];
    let names = prop_oneof![
        Just("id"),
        Just("item"),
        Just("lines"),
        Just("self"),
        Just("links"),
        Just("x")
    ];
    scalar.prop_recursive(4, 40, 4, move |inner| {
        let member = (names.clone(), inner.clone()).prop_map(|(name, value)| format!("\"{name}\" : {value}"));
        prop_oneof![
            proptest::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(" ,"))),
            proptest::collection::vec(inner, 0..4).prop_map(|elements| format!("[ {} ]", elements.join(","))),
        ]
    })
}

/// Every id becomes another one that is none of the first ones, and back.
struct Prefix {
    back: bool,
}

impl Ids for Prefix {
    fn map(&self, _: &str, _: &str, id: &str, _: &str) -> Option<String> {
        let is_number = |id: &str| id.bytes().all(|b| b.is_ascii_digit()) && !id.starts_with('0');
        match (self.back, id.strip_prefix("m-"), id.strip_prefix("90000")) {
            (false, ..) if is_number(id) => Some(format!("90000{id}")),
            (false, ..) => Some(format!("m-{id}")),
            (true, Some(id), _) => Some(id.to_owned()),
            (true, None, Some(number)) => Some(number.to_owned()),
            (true, None, None) => None,
        }
    }
}

/// Whether something that looks like an id of the application stands where an id of a replica must.
fn leaks(value: &Value) -> bool {
    let is_shown = |value: &Value| match value {
        Value::String(id) => id.starts_with("m-") || id.starts_with("90000"),
        Value::Number(number) => {
            let text = number.to_string();
            text.starts_with("90000") || !text.bytes().all(|b| b.is_ascii_digit())
        }
        _ => true,
    };
    let at = |value: &Value, name: &str| value.get(name).is_some_and(|id| !is_shown(id));
    let lines = value.get("lines").map(|lines| match lines {
        Value::Array(lines) => lines.iter().any(|line| at(line, "item")),
        Value::Object(lines) => lines.values().any(|line| at(line, "item")),
        _ => false,
    });
    at(value, "id") || at(value, "item") || lines.unwrap_or_default()
}

/// A document whose link has nothing escaped.
fn with_plain_link(mut document: Value) -> Value {
    let mut plain = |value: &mut Value| {
        if let Value::String(link) = value {
            *link = percent::decode_text(link).into_owned();
        }
    };
    if let Some(link) = document.get_mut("self") {
        plain(link);
    }
    match document.get_mut("links") {
        Some(Value::Array(links)) => links.iter_mut().for_each(&mut plain),
        Some(Value::Object(links)) => links.values_mut().for_each(&mut plain),
        _ => {}
    }
    document
}

proptest! {
    #[test]
    fn without_replicas_nothing_changes(path in "[/a-z0-9%?&=#.{}é+ ]{0,40}", body in documents(), noise: Vec<u8>) {
        let shop = shop();
        let none = Map::default();
        for service in ["A", "B", "C"] {
            prop_assert_eq!(shop.map_path(service, &path, Own::Map, &none), &*path);
            prop_assert_eq!(shop.map_url(service, &path, &none), None);
        }
        for at in ["/orders", "/orders/7", "/orders/7/lines/3", "/users/7"] {
            let address = shop.address("A", at).unwrap();
            let mapped = address.map_body(body.as_bytes(), Own::Map, &none).unwrap();
            prop_assert!(matches!(mapped, Cow::Borrowed(_)));
            prop_assert_eq!(&*mapped, body.as_bytes());
            let _ = address.map_body(&noise, Own::Map, &none);
        }
    }

    #[test]
    fn paths_come_back(ids in proptest::collection::vec(ids(), 3), query in "[a-z=&%]{0,10}") {
        let segment = |id: &String| encoded(id);
        let query_value = { let mut out = String::new(); percent::encode_into(&mut out, &ids[2]); out };
        for path in [
            format!("/orders/{}?{query}&item={query_value}", segment(&ids[0])),
            format!("/orders/{}/lines/{}/x", segment(&ids[0]), segment(&ids[1])),
            format!("/of/{}/reports/{}#{query}", segment(&ids[0]), segment(&ids[1])),
            format!("/users/{}/keys/{}", segment(&ids[0]), segment(&ids[1])),
        ] {
            let shop = shop();
            let there = shop.map_path("A", &path, Own::Map, &Prefix { back: false });
            prop_assert_ne!(&there, &path);
            prop_assert_eq!(shop.map_path("A", &there, Own::Map, &Prefix { back: true }), path);
        }
    }

    #[test]
    fn bodies_come_back_and_nothing_leaks(body in documents()) {
        let shop = shop();
        let address = shop.address("A", "/orders/7").unwrap();
        let there = address.map_body(body.as_bytes(), Own::Map, &Prefix { back: false }).unwrap();
        let value: Value = serde_json::from_slice(&there).unwrap();
        prop_assert!(!leaks(&value), "{}", value);
        let back = address.map_body(&there, Own::Map, &Prefix { back: true }).unwrap();
        // Texts may be escaped in another way, and links too; what they say is the same.
        let before: Value = serde_json::from_str(&body).unwrap();
        let back: Value = serde_json::from_slice(&back).unwrap();
        prop_assert_eq!(with_plain_link(back), with_plain_link(before));
    }

    #[test]
    fn a_hole_is_filled_with_what_was_there(id in ids(), number in 1_u32..9999) {
        let shop = shop();
        let none = Map::default();
        for body in [json!({"id": id, "x": id}).to_string(), json!({"id": number}).to_string()] {
            let own = serde_json::from_str::<Value>(&body).unwrap()["id"].to_string();
            let own = own.parse::<u32>().map_or(id.clone(), |number| number.to_string());
            let address = shop.address("A", "/orders/7").unwrap();
            let holed = address.map_body(body.as_bytes(), Own::Hole, &none).unwrap();
            let filled = address.map_body(&holed, Own::Put(&own), &none).unwrap();
            prop_assert_eq!(&*filled, body.as_bytes());
        }
        let path = format!("/orders/{}/ship?x=1", encoded(&id));
        let holed = shop.map_path("A", &path, Own::Hole, &none);
        prop_assert_eq!(&holed, "/orders/{id}/ship?x=1");
        prop_assert_eq!(shop.map_path("A", &holed, Own::Put(&id), &none), path);
    }
}
