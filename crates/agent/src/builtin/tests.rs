use cheops_types::VerbClass::{Action, Change, Create, ReadCollection, ReadOne};

use super::*;

#[test]
fn every_built_in_file_compiles_and_is_called_by_its_application() {
    for built_in in BUILT_IN {
        assert_eq!(built_in.profile().application(), built_in.name);
        assert_eq!(BuiltIn::find(built_in.name), Some(built_in));
    }
    assert_eq!(BuiltIn::find("nothing"), None);
}

/// Checks lines of `service METHOD /path = kind, verb, key`; `-` where there is none.
fn check(name: &str, lines: &str) {
    let profile = BuiltIn::find(name).unwrap().profile();
    let verb = |word: &str| match word {
        "list" => ReadCollection,
        "read" => ReadOne,
        "create" => Create,
        "change" => Change,
        "action" => Action,
        other => panic!("no verb {other}"),
    };
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, expect) = line.split_once(" = ").unwrap();
        let [service, method, path] = *request.split(' ').collect::<Vec<_>>() else {
            panic!("{line}");
        };
        let [kind, word, key] = *expect.split(", ").collect::<Vec<_>>() else {
            panic!("{line}");
        };
        let identity = profile.identify(service, method, path);
        let address = profile.address(service, path);
        let found = address.as_ref().and_then(|address| address.key.as_deref());
        assert_eq!(
            (identity.kind.unwrap_or("-"), identity.verb, found.unwrap_or("-")),
            (kind, verb(word), key),
            "{line}"
        );
    }
}

#[test]
fn paths_of_kubernetes() {
    check(
        "kubernetes",
        "
        kubernetes GET /api/v1/namespaces = namespace, list, -
        kubernetes POST /api/v1/namespaces = namespace, create, -
        kubernetes GET /api/v1/namespaces/x = namespace, read, v1/x
        kubernetes PUT /api/v1/namespaces/x/status = namespace, change, v1/x
        kubernetes PUT /api/v1/namespaces/x/finalize = namespace, change, v1/x
        kubernetes GET /api/v1/namespaces/x/pods = namespaced, list, -
        kubernetes POST /api/v1/namespaces/x/pods = namespaced, create, -
        kubernetes PATCH /api/v1/namespaces/x/pods/p = namespaced, change, v1/x/pods/p
        kubernetes GET /api/v1/namespaces/x/pods/p/log = namespaced, read, v1/x/pods/p
        kubernetes POST /api/v1/namespaces/x/pods/p/exec = namespaced, action, v1/x/pods/p
        kubernetes GET /api/v1/namespaces/x/services/s:80/proxy/a/b = namespaced, read, v1/x/services/s:80
        kubernetes GET /api/v1/pods = cluster, list, -
        kubernetes GET /api/v1/nodes/n = cluster, read, v1/nodes/n
        kubernetes GET /api/v1/nodes/n/proxy/stats = cluster, read, v1/nodes/n
        kubernetes GET /apis/apps/v1/daemonsets = group-cluster, list, -
        kubernetes PUT /apis/apps/v1/namespaces/x/daemonsets/web = group-namespaced, change, apps/v1/x/daemonsets/web
        kubernetes GET /apis/apps/v1/deployments = deployments-of-all, list, -
        kubernetes GET /apis/apps/v1/namespaces/x/deployments = deployment, list, -
        kubernetes PUT /apis/apps/v1/namespaces/x/deployments/web = deployment, change, v1/x/web
        kubernetes PATCH /apis/apps/v1/namespaces/x/deployments/web/scale = deployment, change, v1/x/web
        kubernetes DELETE /apis/example.org/v1/widgets/w = group-cluster, change, example.org/v1/widgets/w
        ",
    );
}

#[test]
fn requests_of_kubernetes_that_are_no_resources() {
    let profile = BuiltIn::find("kubernetes").unwrap().profile();
    let service = "kubernetes";
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
        "/openapi/v2",
    ] {
        assert!(profile.context_free(service, "GET", path).is_some(), "{path}");
    }
    for path in [
        "/api/v1/pods",
        "/apis/apps/v1/deployments",
        "/api/v1/namespaces/x/pods/p",
    ] {
        assert!(profile.context_free(service, "GET", path).is_none(), "{path}");
    }
    for path in [
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/namespaces/x/localsubjectaccessreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/api/v1/namespaces/x/serviceaccounts/default/token",
    ] {
        assert!(profile.is_effect_free(service, "POST", path), "{path}");
    }
    assert!(!profile.is_effect_free(service, "POST", "/api/v1/namespaces/x/serviceaccounts"));
    assert!(profile.is_stream(service, "/api/v1/pods", Some("watch=true")));
    assert!(profile.is_stream(service, "/api/v1/watch/namespaces/x/pods", None));
    assert!(profile.is_stream(service, "/api/v1/namespaces/x/pods/p/log", Some("follow=true")));
    assert!(!profile.is_stream(service, "/api/v1/pods", Some("watch=false&limit=500")));
    // What is listed without its namespace is told apart by it.
    let all = profile.address(service, "/api/v1/pods").unwrap();
    let (kind, _, key) = all
        .resource_in(r#"{"metadata":{"name":"p","namespace":"x"}}"#)
        .unwrap();
    assert_eq!((kind, &*key), ("namespaced", "v1/x/pods/p"));
}

#[test]
fn paths_of_openstack() {
    check(
        "openstack",
        "
        identity GET /v3/projects = project, list, -
        identity PATCH /v3/users/u = user, change, u
        image POST /v2/images = image, create, -
        image PUT /v2/images/i/file = image, change, i
        image GET /v2/images/i/members = member, list, -
        image PUT /v2/images/i/members/p = member, change, i/p
        image POST /v2/images/i/import = image, action, i
        compute GET /v2.1/servers = server, list, -
        compute GET /v2.1/servers/detail = server, list, -
        compute GET /v2.1/0af3/servers/detail = server, list, -
        compute DELETE /v2.1/servers/s = server, change, s
        compute GET /v2.1/0af3/servers/s = server, read, s
        compute POST /v2.1/servers/s/action = server, action, s
        compute GET /v2.1/servers/s/os-interface = interface, list, -
        compute GET /v2.1/flavors/detail = flavor, list, -
        compute POST /v2.1/os-keypairs = keypair, create, -
        compute GET /v2.1/limits = limits, read, -
        network GET /v2.0/networks = network, list, -
        network PUT /v2.0/ports/p = port, change, p
        network PUT /v2.0/routers/r/add_router_interface = router, change, r
        placement GET /resource_providers = resource-provider, list, -
        ",
    );
    let profile = BuiltIn::find("openstack").unwrap().profile();
    for (service, path) in [
        ("identity", "/v3/"),
        ("image", "/versions"),
        ("compute", "/v2.1/"),
        ("network", "/"),
        ("placement", "/"),
    ] {
        let free = profile.context_free(service, "GET", path);
        assert!(free.is_some_and(|free| free.is_remembered), "{service} {path}");
    }
    let validation = profile
        .context_free("identity", "HEAD", "/v3/auth/tokens")
        .unwrap();
    assert!(validation.workflow.is_some());
    assert!(profile.context_free("compute", "GET", "/v2.1/servers").is_none());
}

#[test]
fn what_spans_sites_in_kubernetes() {
    let profile = BuiltIn::find("kubernetes").unwrap().profile();
    let service = "kubernetes";
    for path in [
        "/api/v1/namespaces/x/pods",
        "/api/v1/namespaces/x/pods/p/log",
        "/apis/apps/v1/namespaces/x/deployments/web",
        "/apis/example.org/v1/namespaces/x/widgets/w/status",
    ] {
        let containers = profile.containers(service, path);
        let told: Vec<_> = containers
            .iter()
            .map(|it| format!("{} {}", it.kind, it.key))
            .collect();
        assert_eq!(told, ["namespace v1/x"], "{path}");
    }
    for path in [
        "/api/v1/namespaces/x",
        "/api/v1/nodes/n",
        "/apis/apps/v1/deployments",
    ] {
        assert!(profile.containers(service, path).is_empty(), "{path}");
    }
    assert!(profile.is_per_site(service, "/api/v1/namespaces/x/configmaps/kube-root-ca.crt"));
    assert!(!profile.is_per_site(service, "/api/v1/namespaces/x/configmaps/mine"));
    let taken = profile
        .kind(service, "namespaced")
        .refusal_of_taken("v1/x/pods/yellow")
        .unwrap();
    assert!(
        String::from_utf8(taken.body)
            .unwrap()
            .contains(r#"pods \"yellow\" already exists"#)
    );
    assert!(profile.kind(service, "deployment").is_divisible());
}
