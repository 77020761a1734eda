//! Kinds of resources, and the ways in which kubectl writes them.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "kinds",
        shows: "secrets, config maps, deployments, services and custom resources replicate, by nothing but the built-in glue",
        play: kinds,
    },
    Scenario {
        name: "namespace",
        shows: "a replicated namespace and what is made in it arrive in their order",
        play: namespace,
    },
    Scenario {
        name: "server-side-apply",
        shows: "server-side apply makes a resource at both sites and changes it through the other",
        play: server_side_apply,
    },
    Scenario {
        name: "generate-name",
        shows: "a name that the API would choose is the same at both sites",
        play: generate_name,
    },
    Scenario {
        name: "dry-run",
        shows: "a dry run under `&` is answered by one site and leaves nothing",
        play: dry_run,
    },
    Scenario {
        name: "scale",
        shows: "`kubectl scale` of a replicated deployment scales it at every site",
        play: scale,
    },
    Scenario {
        name: "patches",
        shows: "strategic merge, merge and JSON patches, `apply` with a removed member: each arrives as the change it made",
        play: patches,
    },
];

const BOTH: [usize; 2] = [1, 2];
const SCOPE: &str = "--scope=Site1 & Site2";

fn kinds(sites: &mut Sites) -> Result<String> {
    const NS: &str = "kinds";
    sites.namespace(NS)?;
    let metadata = |name: &str| json!({"name": name, "namespace": NS});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("key"), "stringData": {"password": "xyzzy"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("settings"), "data": {"a": "1"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"),
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "nginx"}]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("web"),
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "lamps.example.org"},
            "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "properties": {"spec": {"type": "object", "properties": {"colour": {"type": "string"}}}}}}}]}}),
    ];
    let apply = |objects: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        sites
            .cheops_kubectl(1, ["apply", "-f", "-", SCOPE])
            .input(list.to_string())
            .ok()
    };
    apply(&objects)?;
    for site in BOTH {
        let wait = [
            "wait",
            "--for=condition=Established",
            "crd/lamps.example.org",
            "--timeout=20s",
        ];
        sites.until_is(site, NS, "crd/lamps.example.org", |_| true)?;
        sites.direct(site, wait).ok()?;
    }
    let lamp = json!({"apiVersion": "example.org/v1", "kind": "Lamp", "metadata": metadata("hall"), "spec": {"colour": "purple"}});
    apply(&[lamp])?;
    for (what, own) in [
        ("secret/key", &[][..]),
        ("configmap/settings", &[]),
        ("deployment/web", &[]),
        (
            "service/web",
            &["/spec/clusterIP", "/spec/clusterIPs", "/spec/ports/*/nodePort"],
        ),
        ("crd/lamps.example.org", &[]),
        ("lamp/hall", &[]),
    ] {
        sites.until_equal(&BOTH, NS, what, own)?;
    }
    // Each site's own controllers make the pods of its deployment, and no agent replicates those.
    for site in BOTH {
        sites.until(&format!("Site{site} makes its own pods"), || {
            let pods = sites.direct(site, ["-n", NS, "get", "pods", "-o", "name"]).ok()?;
            Ok((pods.stdout.lines().count() == 2).then_some(()))
        })?;
    }
    sites
        .kubectl(
            2,
            [
                "-n",
                NS,
                "patch",
                "lamp/hall",
                "--type=merge",
                "-p",
                r#"{"spec":{"colour":"violet"}}"#,
            ],
        )
        .ok()?;
    sites.until_is(1, NS, "lamp/hall", |lamp| lamp["spec"]["colour"] == "violet")?;
    sites
        .kubectl(
            2,
            [
                "-n",
                NS,
                "delete",
                "secret/key",
                "configmap/settings",
                "deployment/web",
                "service/web",
                "lamp/hall",
            ],
        )
        .ok()?;
    for what in [
        "secret/key",
        "configmap/settings",
        "deployment/web",
        "service/web",
        "lamp/hall",
    ] {
        sites.until_gone(&BOTH, NS, what)?;
    }
    Ok("6 kinds, a custom one among them, made at Site1, equal, deleted at Site2".to_owned())
}

fn namespace(sites: &mut Sites) -> Result<String> {
    const NS: &str = "together";
    sites.mesh.isolate(2)?;
    sites.cheops_kubectl(1, ["create", "namespace", NS, SCOPE]).ok()?;
    sites
        .cheops_kubectl(
            1,
            [
                "-n",
                NS,
                "create",
                "configmap",
                "inside",
                "--from-literal=a=1",
                SCOPE,
            ],
        )
        .ok()?;
    sites.mesh.rejoin(2)?;
    sites.until_equal(&BOTH, NS, "configmap/inside", &[])?;
    sites
        .kubectl(2, ["delete", "namespace", NS, "--wait=false"])
        .ok()?;
    for site in BOTH {
        sites.until(&format!("the namespace is gone from Site{site}"), || {
            let left = sites
                .direct(site, ["get", "namespace", NS, "--ignore-not-found", "-o", "name"])
                .ok()?;
            Ok(left.stdout.trim().is_empty().then_some(()))
        })?;
    }
    Ok("made while Site2 was away, there in order after it came back, deleted at both".to_owned())
}

fn server_side_apply(sites: &mut Sites) -> Result<String> {
    const NS: &str = "server-side";
    sites.namespace(NS)?;
    let map = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}}).to_string()
    };
    let apply = ["-n", NS, "apply", "--server-side", "-f", "-"];
    sites
        .cheops_kubectl(1, apply)
        .args([SCOPE])
        .input(map("1"))
        .ok()?;
    sites.until_equal(&BOTH, NS, "configmap/settings", &[])?;
    sites
        .kubectl(2, apply)
        .args(["--force-conflicts"])
        .input(map("2"))
        .ok()?;
    sites.until_is(1, NS, "configmap/settings", |map| map["data"]["a"] == "2")?;
    sites.until_equal(&BOTH, NS, "configmap/settings", &[])?;
    Ok("made by PATCH at Site1, changed by PATCH at Site2".to_owned())
}

fn generate_name(sites: &mut Sites) -> Result<String> {
    const NS: &str = "generated";
    sites.namespace(NS)?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "run-"}, "data": {"a": "1"}});
    let created = sites
        .cheops_kubectl(1, ["-n", NS, "create", "-f", "-", "-o", "name", SCOPE])
        .input(map.to_string())
        .ok()?;
    let name = created.said().to_owned();
    ensure!(
        name.starts_with("configmap/run-") && name.len() > "configmap/run-".len(),
        "{created}"
    );
    sites.until_equal(&BOTH, NS, &name, &[])?;
    Ok(format!("{name} at both sites"))
}

fn dry_run(sites: &mut Sites) -> Result<String> {
    const NS: &str = "dry-run";
    sites.namespace(NS)?;
    let create = [
        "-n",
        NS,
        "create",
        "configmap",
        "tried",
        "--from-literal=a=1",
        "--dry-run=server",
        SCOPE,
    ];
    let tried = sites.cheops_kubectl(1, create).ok()?;
    ensure!(
        tried.said() == "configmap/tried created (server dry run)",
        "{tried}"
    );
    sites
        .cheops_kubectl(
            1,
            [
                "-n",
                NS,
                "create",
                "configmap",
                "real",
                "--from-literal=a=1",
                SCOPE,
            ],
        )
        .ok()?;
    sites.until_equal(&BOTH, NS, "configmap/real", &[])?;
    // The same of an update and of a delete of what is replicated.
    let patch = [
        "-n",
        NS,
        "patch",
        "configmap/real",
        "--dry-run=server",
        "-p",
        r#"{"data":{"a":"2"}}"#,
    ];
    sites.kubectl(2, patch).ok()?;
    sites
        .kubectl(2, ["-n", NS, "delete", "configmap/real", "--dry-run=server"])
        .ok()?;
    ensure!(
        sites.set(1, "v1/dry-run/configmaps/tried")?.is_none(),
        "a dry run made a replica set"
    );
    let left = sites.until_equal(&BOTH, NS, "configmap/real", &[])?;
    ensure!(left["data"]["a"] == "1", "a dry run changed it: {left:#}");
    for site in BOTH {
        ensure!(
            sites.read(site, NS, "configmap/tried")?.is_none(),
            "a dry run made it at Site{site}"
        );
    }
    Ok("create, patch and delete, nothing recorded, nothing changed".to_owned())
}

fn scale(sites: &mut Sites) -> Result<String> {
    const NS: &str = "scale";
    sites.namespace(NS)?;
    sites
        .cheops_kubectl(
            1,
            [
                "-n",
                NS,
                "create",
                "deployment",
                "web",
                "--image=nginx",
                "--replicas=0",
                SCOPE,
            ],
        )
        .ok()?;
    sites.until_equal(&BOTH, NS, "deployment/web", &[])?;
    sites
        .kubectl(2, ["-n", NS, "scale", "deployment/web", "--replicas=3"])
        .ok()?;
    for site in BOTH {
        sites.until_is(site, NS, "deployment/web", |web| web["spec"]["replicas"] == 3)?;
    }
    Ok("0 to 3 through Site2, 3 at both".to_owned())
}

fn patches(sites: &mut Sites) -> Result<String> {
    const NS: &str = "patches";
    sites.namespace(NS)?;
    let web = |environment: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "patched"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "patched"}},
                "template": {"metadata": {"labels": {"app": "patched"}},
                    "spec": {"containers": [{"name": "main", "image": "nginx:1", "env": environment}]}}}})
        .to_string()
    };
    let apply = ["-n", NS, "apply", "-f", "-"];
    let both = web(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
    sites.cheops_kubectl(1, apply).args([SCOPE]).input(both).ok()?;
    sites.until_equal(&BOTH, NS, "deployment/patched", &[])?;
    let patch = |site: usize, kind: &str, body: &str| {
        sites
            .kubectl(site, ["-n", NS, "patch", "deployment/patched", kind, "-p", body])
            .ok()?;
        sites.until_equal(&BOTH, NS, "deployment/patched", &[])
    };
    // A strategic merge changes one element of a list; a merge cannot.
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"nginx:2"}]}}}}"#;
    let web_now = patch(2, "--type=strategic", strategic)?;
    ensure!(
        environment(&web_now)? == 2,
        "the patch lost the environment: {web_now:#}"
    );
    patch(1, "--type=merge", r#"{"metadata":{"labels":{"tier":"front"}}}"#)?;
    let json_patch = r#"[{"op":"remove","path":"/spec/template/spec/containers/0/env/0"},{"op":"replace","path":"/metadata/labels/tier","value":"back"}]"#;
    let web_now = patch(2, "--type=json", json_patch)?;
    ensure!(
        environment(&web_now)? == 1,
        "the JSON patch is not there: {web_now:#}"
    );
    ensure!(web_now["metadata"]["labels"]["tier"] == "back", "{web_now:#}");
    // `apply` finds out at another site what an earlier one had and this one has not.
    sites.kubectl(2, apply).input(web(json!([]))).ok()?;
    let web_now = sites.until("what apply took away is gone everywhere", || {
        let now = sites.until_equal(&BOTH, NS, "deployment/patched", &[])?;
        Ok((environment(&now)? == 0).then_some(now))
    })?;
    ensure!(
        web_now["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1",
        "{web_now:#}"
    );
    sites.until_ok(&BOTH, "v1/patches/patched")?;
    Ok("four kinds of patches, equal after each".to_owned())
}

fn environment(deployment: &Value) -> Result<usize> {
    let container = deployment["spec"]["template"]["spec"]["containers"].get(0);
    let container = container.context("it has a container")?;
    Ok(container["env"].as_array().map_or(0, Vec::len))
}
