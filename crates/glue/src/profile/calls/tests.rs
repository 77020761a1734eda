use crate::{ByCredential, ContextFree, Profile, profile::tests::check_error};

const CLOUD: &str = r#"
application = "cloud"

[services.identity]
discovery = ["/", "/v3"]
context-free = [
    "POST /v3/auth/tokens",
    { request = "GET /v3/auth/tokens", workflow = { header = "X-Subject-Token", credential = "X-Auth-Token" } },
    "/open/*",
]
effect-free = ["POST /reviews/{kind}"]
stream = ["?watch", "/events/*"]

[[services.identity.resources]]
kind = "project"
collection = "/v3/projects"
"#;

#[test]
fn listed_requests() {
    let profile = Profile::parse("cloud.toml", CLOUD).unwrap();
    let free = |method, path| profile.context_free("identity", method, path);
    let plain = ContextFree {
        is_remembered: false,
        workflow: None,
        site_owned: Vec::new(),
    };
    let remembered = ContextFree {
        is_remembered: true,
        ..plain.clone()
    };
    assert_eq!(free("GET", "/v3/"), Some(&remembered));
    assert_eq!(free("HEAD", "/"), Some(&remembered));
    assert_eq!(free("POST", "/"), None);
    assert_eq!(free("POST", "/v3/auth/tokens"), Some(&plain));
    assert_eq!(free("GET", "/open/api/v2"), Some(&plain));
    assert_eq!(free("GET", "/open"), None);
    assert_eq!(free("GET", "/v3/projects"), None);
    assert_eq!(profile.context_free("other", "GET", "/"), None);
    let by_credential = ByCredential {
        header: "x-subject-token".to_owned(),
        credential: "x-auth-token".to_owned(),
    };
    let workflow = free("GET", "/v3/auth/tokens").unwrap().workflow.as_ref();
    assert_eq!(workflow, Some(&by_credential));
    let all: Vec<_> = profile.by_credential().collect();
    assert_eq!(all.len(), 1);
    assert_eq!((&**all[0].0, all[0].1), ("identity", &by_credential));

    assert!(profile.is_effect_free("identity", "POST", "/reviews/access"));
    assert!(!profile.is_effect_free("identity", "PUT", "/reviews/access"));
    assert!(!profile.is_effect_free("other", "POST", "/reviews/access"));
    assert!(profile.is_stream("identity", "/v3/projects", Some("watch=1")));
    assert!(profile.is_stream("identity", "/events/now", None));
    assert!(!profile.is_stream("identity", "/v3/projects", None));
}

#[test]
fn mistakes() {
    let service = |rest: &str| format!("[services.A]\n{rest}");
    check_error(
        &service("context-free = [\"SUBSCRIBE /a\"]"),
        "3:17: unknown method `SUBSCRIBE` in `context-free`; use `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`",
    );
    check_error(
        &service("context-free = [\"POTS /a\"]"),
        "3:17: unknown method `POTS` in `context-free`; did you mean `POST`?",
    );
    check_error(
        &service("context-free = [\"a\"]"),
        "3:17: `a` is not a path: a path starts with `/`",
    );
    check_error(
        &service("context-free = [\"/a/*/b\"]"),
        "3:17: `/a/*/b` is not a path: `*` stands for everything below, and cannot stand here",
    );
    check_error(
        &service("context-free = [\"/a\", \"HEAD /a\"]"),
        "3:23: `context-free` names the same request twice; keep the first one",
    );
    check_error(
        &service("context-free = [\"/a\"]\ndiscovery = [\"/a\"]"),
        "4:14: `discovery` names the same request twice; keep the first one",
    );
    check_error(
        &service("context-free = [{ request = \"/a\", workflow = { header = \"X-A\" } }]"),
        "3:46: `workflow` has no `credential`; add `credential = …`",
    );
    check_error(
        &service("effect-free = [\"/search\"]"),
        "3:16: a `GET` never has an effect; name the method too, as in `\"POST /search\"`",
    );
    check_error(
        &service("stream = [\"watch\"]"),
        "3:11: `watch` is neither a parameter nor a path; write a query parameter as `\"?watch\"`, a path as `\"/events/*\"`",
    );
    check_error(
        &service("stream = [\"?a b\"]"),
        "3:11: `a b` is not the name of a query parameter; use letters, digits, `-`, `.`, `_`, `~` or `$`",
    );
    for free in ["/c", "/{any}", "/*", "POST /c/{id}"] {
        check_error(
            &format!(
                "[services.A]\ncontext-free = [\"{free}\"]\n[[services.A.resources]]\nkind = \"k\"\ncollection = \"/c\""
            ),
            "3:17: paths of the resource `k` would belong to no workflow; name a narrower path here, or do not describe it as a resource",
        );
    }
}
