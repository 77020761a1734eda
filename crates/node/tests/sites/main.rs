//! Whole sites, engine and runner, over the example's glue: an application in memory, and links that call the
//! other site's coordinator.

mod application;
mod documents;
mod objects;
mod world;

use std::time::Duration;

use cheops_node::model::SetHint;
use cheops_plan::{Standing, Target};
use cheops_ports::{Coordinator as _, Prefer, Reply, Told, Write};
use cheops_types::{KeptBody, Outcome};
use serde_json::json;

use world::{World, service, site};

const EVERYWHERE: Prefer = Prefer {
    wait_s: Some(20),
    held: None,
    respond_async: false,
    strict: false,
};

fn write(of: &str, kind: &str, target: Target, line: (&str, &str), body: &serde_json::Value) -> Write {
    Write {
        service: service(of),
        kind: kind.to_owned(),
        target,
        request: http::Request::builder()
            .method(line.0)
            .uri(line.1)
            .header("content-type", "application/json")
            .header("authorization", "Bearer secret-token")
            .body(KeptBody::Inline(body.to_string().into()))
            .unwrap(),
        scope: String::new(),
        prefer: EVERYWHERE,
        from: None,
    }
}

fn both() -> Target {
    Target::new(["a", "b"].map(site).to_vec())
}

fn answered(reply: Reply) -> (u16, Told) {
    match reply {
        Reply::Answered { response, told } => (response.status().as_u16(), told),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_resource_lives_at_two_sites() {
    World::run(["a", "b"], async |world| {
        // An item first, so that an order can refer to it by what all sites call it.
        let create = write("B", "item", both(), ("POST", "/items"), &json!({"n": 1}));
        let (status, item) = answered(world.node("a").write(create).await);
        assert_eq!((status, item.held, item.complete), (201, 2, true), "{item:?}");
        let reference: u64 = item.set.parse().unwrap();
        let create = write(
            "A",
            "order",
            both(),
            ("POST", "/orders"),
            &json!({"item": reference, "n": 1}),
        );
        let (status, order) = answered(world.node("b").write(create).await);
        assert_eq!((status, order.complete), (201, true), "{order:?}");

        for name in ["a", "b"] {
            let node = world.node(name);
            let known = |service, kind, id: &str| node.find(service, kind, id, id).unwrap().unwrap();
            let item = known("B", "item", &item.set).local.unwrap();
            let order = known("A", "order", &order.set).local.unwrap();
            let stored = world
                .application(name)
                .get("A", &format!("/orders/{order}"))
                .unwrap();
            // Every site refers to its own item.
            assert_eq!(stored["item"], item.parse::<u64>().unwrap(), "{name}");
            assert!(stored["ref"].is_string(), "{name}");
        }
        let locals: Vec<_> = ["a", "b"]
            .map(|name| {
                let known = world
                    .node(name)
                    .find("A", "order", &order.set, &order.set)
                    .unwrap();
                known.unwrap().local
            })
            .into();
        assert_ne!(locals[0], locals[1]);

        // A change through either site, by the meta-id or by the local id there.
        let local = locals[1].clone().unwrap();
        for (at, id, n) in [("a", &*order.set, 2), ("b", &*local, 3)] {
            let change = write(
                "A",
                "order",
                Target::set(order.set.clone()),
                ("PATCH", &format!("/orders/{id}")),
                &json!({"n": n}),
            );
            let (status, told) = answered(world.node(at).write(change).await);
            assert_eq!((status, told.complete), (200, true), "{told:?}");
            for (name, local) in ["a", "b"].into_iter().zip(&locals) {
                let path = format!("/orders/{}", local.as_deref().unwrap());
                assert_eq!(world.application(name).get("A", &path).unwrap()["n"], n, "{name}");
            }
        }

        // Gone at both.
        let delete = write(
            "A",
            "order",
            Target::set(order.set.clone()),
            ("DELETE", &format!("/orders/{}", order.set)),
            &json!(null),
        );
        let (status, told) = answered(world.node("a").write(delete).await);
        assert_eq!((status, told.complete), (204, true), "{told:?}");
        for name in ["a", "b"] {
            assert!(world.application(name).all("A", "/orders").is_empty(), "{name}");
            let known = world
                .node(name)
                .find("A", "order", &order.set, &order.set)
                .unwrap();
            assert_eq!(known.unwrap().standing, Standing::Deleted, "{name}");
        }
        // Every write had its caller's credential.
        assert_eq!(world.application("b").strangers(), 0);
    });
}

#[test]
fn a_long_body_is_fetched_by_the_other_site() {
    World::run(["a", "b"], async |world| {
        let create = write("B", "file", both(), ("POST", "/files"), &json!({"name": "x"}));
        let (status, file) = answered(world.node("a").write(create).await);
        assert_eq!((status, file.complete), (201, true), "{file:?}");

        let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
        let path = format!("/files/{}/data", file.set);
        let put = put_long(world, &file, &content, EVERYWHERE).await;
        let (status, told) = answered(world.node("a").write(put).await);
        assert_eq!((status, told.complete), (204, true), "{told:?}");
        for name in ["a", "b"] {
            assert!(
                world.application(name).data("B", &path).unwrap() == content,
                "{name}"
            );
        }
    });
}

/// A write of a file's data that is too long to be a part of its operation.
async fn put_long(world: &World, file: &Told, content: &[u8], prefer: Prefer) -> Write {
    let mut spooling = world.node("a").spool().unwrap();
    for piece in content.chunks(100_000) {
        spooling.write(piece).unwrap();
    }
    let body = spooling.finish().await.unwrap();
    let path = format!("/files/{}/data", file.set);
    let target = Target::set(file.set.clone());
    let mut write = write("B", "file", target, ("PUT", &path), &json!(null));
    let content_type = http::HeaderValue::from_static("application/octet-stream");
    write
        .request
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, content_type);
    *write.request.body_mut() = body;
    Write { prefer, ..write }
}

#[test]
fn a_site_without_the_payload_does_not_count_as_a_holder() {
    World::run(["a", "b"], async |world| {
        let create = write("B", "file", both(), ("POST", "/files"), &json!({"name": "plan"}));
        let (_, file) = answered(world.node("a").write(create).await);
        let held = |wait_s| Prefer {
            wait_s,
            held: Some(2),
            ..Prefer::default()
        };
        world.cut_payloads(true);
        let put = put_long(world, &file, &vec![1; 200_000], held(Some(1))).await;
        let (status, told) = answered(world.node("a").write(put).await);
        assert_eq!((status, told.held, told.complete), (204, 1, false), "{told:?}");
        assert_eq!(told.sites[1].error.as_deref(), Some("delivery"), "{told:?}");
        world.cut_payloads(false);
        let put = put_long(world, &file, &vec![2; 200_000], held(None)).await;
        let (status, told) = answered(world.node("a").write(put).await);
        assert_eq!((status, told.held, told.complete), (204, 2, true), "{told:?}");
    });
}

#[test]
fn a_site_that_was_away_catches_up() {
    World::run(["a", "b"], async |world| {
        world.cut("b", true);
        let create = Write {
            prefer: Prefer::default(),
            ..write("A", "order", both(), ("POST", "/orders"), &json!({"n": 1}))
        };
        let (status, order) = answered(world.node("a").write(create).await);
        assert_eq!((status, order.held), (201, 1));
        assert_eq!(order.sites[1].outcome, Outcome::Pending);
        assert!(world.application("b").all("A", "/orders").is_empty());

        world.cut("b", false);
        world.node("a").peer_up(&site("b"));
        let change = write(
            "A",
            "order",
            Target::set(order.set.clone()),
            ("PATCH", &format!("/orders/{}", order.set)),
            &json!({"n": 2}),
        );
        let (_, told) = answered(world.node("a").write(change).await);
        assert!(told.complete, "{told:?}");
        let all = world.application("b").all("A", "/orders");
        assert_eq!(all.len(), 1);
        assert_eq!(all[0]["n"], 2);
    });
}

#[test]
fn an_answer_that_was_dropped_comes_when_its_site_can_reach_the_other_one() {
    World::run_once_told(["a", "b"], async |world| {
        let create = write("A", "order", both(), ("POST", "/orders"), &json!({"n": 1}));
        let (_, order) = answered(world.node("a").write(create).await);
        assert!(order.complete, "{order:?}");
        world.mute("b", true);
        let path = format!("/orders/{}", order.set);
        let change = |n| {
            let target = Target::set(order.set.clone());
            let body = json!({ "n": n });
            write("A", "order", target, ("PATCH", &path), &body)
        };
        let unanswered = Write {
            prefer: Prefer {
                wait_s: Some(2),
                ..change(2).prefer
            },
            ..change(2)
        };
        let (_, told) = answered(world.node("a").write(unanswered).await);
        assert!(!told.complete, "{told:?}");
        assert_eq!(world.application("b").all("A", "/orders")[0]["n"], 2);
        // Nothing is left to do there; only the other site waits.
        world.mute("b", false);
        world.node("b").peer_up(&site("a"));
        let state = async || {
            let operator = world.node("a").operator();
            let detail = operator.set(&order.set, &SetHint::default()).await.unwrap();
            serde_json::to_value(detail).unwrap()["set"]["state"].clone()
        };
        let told = async {
            while state().await != "ok" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), told).await.unwrap();
    });
}
