//! Patches that become differences, documents within bodies, names that are completed or taken.

use cheops_glue::Profile;
use cheops_plan::Target;
use cheops_ports::{Coordinator as _, Reply, Told, Write};
use cheops_types::{KeptBody, Outcome};
use serde_json::{Value, json};

use crate::{
    EVERYWHERE, answered, both,
    objects::{GLUE, Objects},
    world::{World, service},
};

const MERGE: &str = "application/merge-patch+json";
const LIST: &str = "application/json-patch+json";
const APPLY: &str = "application/apply+yaml";
const JSON: &str = "application/json";

fn run(test: impl AsyncFnOnce(&World<Objects>)) {
    let profile = Profile::parse("objects.toml", GLUE).unwrap();
    World::run_with(profile, Objects::new, ["a", "b"], test);
}

fn write(kind: &str, target: Target, line: (&str, &str), content_type: &str, body: &Value) -> Write {
    Write {
        service: service("A"),
        kind: kind.to_owned(),
        target,
        request: http::Request::builder()
            .method(line.0)
            .uri(line.1)
            .header("content-type", content_type)
            .header("authorization", "Bearer secret-token")
            .body(KeptBody::Inline(body.to_string().into()))
            .unwrap(),
        scope: String::new(),
        prefer: EVERYWHERE,
        from: None,
    }
}

async fn accepted(world: &World<Objects>, at: &str, write: Write) -> (u16, Told) {
    let (status, told) = answered(world.node(at).write(write).await);
    assert!(told.complete, "{status} {told:?}");
    (status, told)
}

async fn object(world: &World<Objects>, body: &Value) -> Target {
    let create = write("object", both(), ("POST", "/objects"), JSON, body);
    let (status, told) = accepted(world, "a", create).await;
    assert_eq!(status, 201);
    Target::set(told.set)
}

fn at_both(world: &World<Objects>, path: &str, name: &str) -> [Value; 2] {
    ["a", "b"].map(|site| world.application(site).get(path).unwrap()[name].clone())
}

#[test]
fn a_patch_reaches_the_others_as_the_difference_that_it_made() {
    run(async |world| {
        let set = object(world, &json!({"name": "x", "tags": ["one"], "size": 1})).await;
        // Once more it would add once more.
        let patch = json!([{"op": "add", "path": "/tags/-", "value": "two"}]);
        let change = write("object", set.clone(), ("PATCH", "/objects/x"), LIST, &patch);
        assert_eq!(accepted(world, "b", change).await.0, 200);
        assert_eq!(
            at_both(world, "/objects/x", "tags"),
            [json!(["one", "two"]), json!(["one", "two"])]
        );
        // Something below the item that changes it.
        let scale = write(
            "object",
            set.clone(),
            ("PUT", "/objects/x/scale"),
            JSON,
            &json!({"value": 3}),
        );
        accepted(world, "a", scale).await;
        assert_eq!(at_both(world, "/objects/x", "scale"), [json!(3), json!(3)]);
        assert_eq!(
            at_both(world, "/objects/x", "address"),
            [json!("10.0.0.1"), json!("10.0.1.1")]
        );
        let writes = world.application("a").writes();
        assert_eq!(
            writes,
            ["POST /objects", "PATCH /objects/x", "PUT /objects/x/scale"]
        );
        let writes = world.application("b").writes();
        assert_eq!(writes, ["POST /objects", "PATCH /objects/x", "PATCH /objects/x"]);
    });
}

#[test]
fn differences_of_cut_sites_are_merged() {
    run(async |world| {
        let set = object(world, &json!({"name": "x", "tags": ["one"], "size": 1})).await;
        world.cut("b", true);
        for (at, path, value) in [("a", "/tags/-", json!("two")), ("b", "/size", json!(2))] {
            let patch = json!([{"op": "add", "path": path, "value": value}]);
            let mut change = write("object", set.clone(), ("PATCH", "/objects/x"), LIST, &patch);
            change.prefer.wait_s = None;
            assert_eq!(answered(world.node(at).write(change).await).0, 200);
        }
        world.cut("b", false);
        let last = write(
            "object",
            set,
            ("PATCH", "/objects/x"),
            MERGE,
            &json!({"last": true}),
        );
        accepted(world, "a", last).await;
        assert_eq!(
            at_both(world, "/objects/x", "tags"),
            [json!(["one", "two"]), json!(["one", "two"])]
        );
        assert_eq!(at_both(world, "/objects/x", "size"), [json!(2), json!(2)]);
    });
}

#[test]
fn a_replace_leaves_each_site_its_own() {
    run(async |world| {
        let set = object(world, &json!({"name": "x", "size": 1, "old": 1})).await;
        // With all that a read has shown, as clients do.
        let mut whole = world.application("b").get("/objects/x").unwrap();
        whole["size"] = json!(2);
        whole.as_object_mut().unwrap().shift_remove("old");
        let replace = || write("object", set.clone(), ("PUT", "/objects/x"), JSON, &whole);
        assert_eq!(accepted(world, "b", replace()).await.0, 200);
        assert_eq!(at_both(world, "/objects/x", "size"), [json!(2), json!(2)]);
        assert_eq!(at_both(world, "/objects/x", "old"), [json!(null), json!(null)]);
        assert_eq!(
            at_both(world, "/objects/x", "address"),
            [json!("10.0.0.1"), json!("10.0.1.1")]
        );
        // The version that it names is no longer the one.
        let (status, told) = answered(world.node("b").write(replace()).await);
        assert_eq!((status, told.held), (409, 0));
    });
}

#[test]
fn a_write_to_a_free_name_is_a_create() {
    run(async |world| {
        for (name, method, content_type) in [("x", "PATCH", APPLY), ("y", "PUT", JSON)] {
            let path = format!("/objects/{name}");
            let apply = write(
                "object",
                both(),
                (method, &path),
                content_type,
                &json!({"name": name, "size": 1}),
            );
            assert_eq!(accepted(world, "a", apply).await.0, 201);
            assert_eq!(at_both(world, &path, "size"), [json!(1), json!(1)]);
            assert_eq!(
                at_both(world, &path, "address"),
                [json!("10.0.0.1"), json!("10.0.1.1")]
            );
        }
        assert_eq!(
            world.application("b").writes(),
            ["POST /objects", "POST /objects"]
        );
    });
}

#[test]
fn a_name_that_something_else_has_is_left_alone() {
    run(async |world| {
        let mine = json!({"name": "x", "mine": true});
        world.application("a").put("/objects/x", mine.clone());
        let apply = |at: &str| {
            let apply = write(
                "object",
                both(),
                ("PATCH", "/objects/x"),
                APPLY,
                &json!({"name": "x", "size": 1}),
            );
            world.node(at).write(apply)
        };
        // Where it is accepted nothing happens at all.
        let Reply::Answered { response, .. } = apply("a").await else {
            panic!("it has an answer");
        };
        assert_eq!(response.status(), 409);
        assert!(String::from_utf8_lossy(response.body()).contains("cheops replicas adopt"));
        assert!(world.application("b").get("/objects/x").is_none());
        // Elsewhere it is refused, and shown.
        let (status, told) = answered(apply("b").await);
        assert_eq!((status, told.complete), (201, false), "{told:?}");
        assert_eq!(told.sites[1].error.as_deref(), Some("replica_refused"));
        assert_eq!(world.application("a").get("/objects/x"), Some(mine));
    });
}

#[test]
fn what_one_site_refuses_is_undone_with_the_rights_of_its_caller() {
    run(async |world| {
        world.application("b").put("/objects/x", json!({"name": "x"}));
        for (method, path) in [("POST", "/objects"), ("PUT", "/objects/x")] {
            let mut create = write("object", both(), (method, path), JSON, &json!({"name": "x"}));
            create.prefer.strict = true;
            let Reply::Failed { problem, .. } = world.node("a").write(create).await else {
                panic!("all or nothing");
            };
            assert!(problem.detail.contains("undone"), "{}", problem.detail);
            assert!(world.application("a").get("/objects/x").is_none());
        }
        assert_eq!(
            world.application("a").writes().last().unwrap(),
            "DELETE /objects/x"
        );
        assert_eq!(world.application("a").strangers(), 0);
    });
}

#[test]
fn a_name_is_completed_once_for_all_sites() {
    run(async |world| {
        world.application("a").take_names(2);
        let create = || {
            write(
                "object",
                both(),
                ("POST", "/objects"),
                JSON,
                &json!({"begin": "web-"}),
            )
        };
        assert_eq!(accepted(world, "a", create()).await.0, 201);
        let names = ["a", "b"].map(|site| {
            let all = world.application(site).all("/objects");
            assert_eq!(all.len(), 1);
            all[0]["name"].as_str().unwrap().to_owned()
        });
        assert_eq!(names[0], names[1]);
        assert!(
            names[0].starts_with("web-") && names[0].len() == 9,
            "{}",
            names[0]
        );
        assert_eq!(world.application("a").writes().len(), 3);
        // There is an end to it.
        world.application("a").take_names(100);
        assert_eq!(answered(world.node("a").write(create()).await).0, 409);
        assert_eq!(world.application("a").writes().len(), 3 + 8);
    });
}

#[test]
fn a_create_waits_for_a_name_that_is_about_to_be_free() {
    run(async |world| {
        world
            .application("b")
            .put("/objects/x", json!({"name": "x", "leaving": "soon"}));
        let mut create = write(
            "object",
            both(),
            ("POST", "/objects"),
            JSON,
            &json!({"name": "x"}),
        );
        create.prefer.wait_s = None;
        let (status, told) = answered(world.node("a").write(create).await);
        assert_eq!(status, 201);
        // It has been tried before the name is free.
        while world.application("b").writes().is_empty() {
            tokio::task::yield_now().await;
        }
        world.application("b").remove("/objects/x");
        let set = Target::set(told.set);
        let change = write("object", set, ("PATCH", "/objects/x"), MERGE, &json!({"size": 1}));
        accepted(world, "a", change).await;
        assert_eq!(at_both(world, "/objects/x", "size"), [json!(1), json!(1)]);
    });
}

#[test]
fn a_wrapped_document_is_followed_until_it_is_done() {
    run(async |world| {
        object(world, &json!({"name": "x"})).await;
        let body = json!({"server": {"size": 1, "object": "x"}});
        let create = write("server", both(), ("POST", "/servers"), JSON, &body);
        let (status, told) = accepted(world, "a", create).await;
        assert_eq!(status, 202);
        let paths = ["a", "b"].map(|site| {
            let known = world
                .node(site)
                .find("A", "server", &told.set, &told.set)
                .unwrap();
            format!("/servers/{}", known.unwrap().local.unwrap())
        });
        let both_have = |name: &str, value: Value| {
            for (site, path) in ["a", "b"].into_iter().zip(&paths) {
                assert_eq!(world.application(site).get(path).unwrap()[name], value, "{site}");
            }
        };
        both_have("status", json!("ACTIVE"));
        both_have("object", json!("x"));
        let set = Target::set(told.set.clone());
        let path = format!("/servers/{}", told.set);
        let change = write(
            "server",
            set.clone(),
            ("PUT", &path),
            JSON,
            &json!({"server": {"size": 2}}),
        );
        accepted(world, "b", change).await;
        both_have("size", json!(2));
        let list = json!([{"op": "add", "path": "/label", "value": "l"}]);
        accepted(world, "a", write("server", set, ("PATCH", &path), LIST, &list)).await;
        both_have("label", json!("l"));
    });
}

#[test]
fn what_is_not_done_in_time_is_told() {
    run(async |world| {
        let mut create = write(
            "server",
            both(),
            ("POST", "/servers"),
            JSON,
            &json!({"server": {"size": 1}}),
        );
        create.prefer.wait_s = Some(0);
        let (status, told) = answered(world.node("a").write(create).await);
        assert_eq!((status, told.complete), (202, false));
        assert_eq!(told.sites[0].outcome, Outcome::Pending);
        assert_eq!(told.sites[0].error.as_deref(), Some("BUILD"));
    });
}
