//! One resource that spans sites: namespaces, and deployments whose replicas are divided.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Scenario, Sites, sites::SOON};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "cross-table",
        shows: "a namespace spans Site1 and Site2: pods made at either from the other, listed as one, a taken name refused as Kubernetes does",
        play: table,
    },
    Scenario {
        name: "cross-children",
        shows: "what is in a namespace that spans sites is changed, scaled and deleted from anywhere; its own things stay per site",
        play: children,
    },
    Scenario {
        name: "cross-watch",
        shows: "`kubectl get pods -w` in a namespace that spans sites shows the pods of both as they come",
        play: watch,
    },
    Scenario {
        name: "cross-missing-site",
        shows: "while a site is away its part of a list is missing and told, and no name is given away without the prime site",
        play: missing,
    },
    Scenario {
        name: "cross-deployment",
        shows: "a deployment of 10 runs 5 + 5, scaled to 7 it runs 4 + 3, and 7 at one site after the other was lost",
        play: deployment,
    },
];

/// As the report writes it.
const CROSS: &str = "-scope{Site1%Site2}";
const BOTH: [usize; 2] = [1, 2];

fn namespace(sites: &Sites, name: &str) -> Result<()> {
    let created = sites.cheops_kubectl(1, ["create", "ns", name, CROSS]).ok()?;
    ensure!(created.said() == format!("namespace/{name} created"), "{created}");
    for site in BOTH {
        // No pod is accepted before the namespace has its service account, and that a token.
        sites.until_is(site, name, "serviceaccount/default", |account| {
            account["secrets"]
                .as_array()
                .is_some_and(|secrets| !secrets.is_empty())
        })?;
    }
    Ok(())
}

fn run(sites: &Sites, site: usize, ns: &str, pod: &str, more: &[&str]) -> Result<()> {
    let args = ["run", pod, "-n", ns, "--image=nginx", "--restart=Never"];
    let created = sites.cheops_kubectl(site, [&args, more].concat()).ok()?;
    ensure!(created.said() == format!("pod/{pod} created"), "{created}");
    Ok(())
}

fn names(sites: &Sites, site: usize, ns: &str, what: &str) -> Result<Vec<String>> {
    let list = sites.kubectl(site, ["get", what, "-n", ns, "-o", "name"]).ok()?;
    let mut names: Vec<String> = list
        .stdout
        .lines()
        .map(|line| line.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn table(sites: &mut Sites) -> Result<String> {
    const NS: &str = "foo";
    namespace(sites, NS)?;
    run(sites, 2, NS, "blue", &["-scope{Site1}"])?;
    run(sites, 1, NS, "yellow", &["-scope{Site2}"])?;
    ensure!(sites.read(1, NS, "pod/blue")?.is_some(), "blue is not at Site1");
    ensure!(sites.read(2, NS, "pod/blue")?.is_none(), "blue is at Site2");
    ensure!(
        sites.read(2, NS, "pod/yellow")?.is_some(),
        "yellow is not at Site2"
    );
    for site in BOTH {
        let listed = names(sites, site, NS, "pods")?;
        ensure!(
            listed == ["blue", "yellow"],
            "the pods from Site{site}: {listed:?}"
        );
    }
    let table = sites.kubectl(1, ["get", "pods", "-n", NS]).ok()?.stdout;
    let yellow = table.lines().find(|line| line.starts_with("yellow"));
    ensure!(
        yellow.is_some_and(|row| row.ends_with("Site2")),
        "the table does not tell sites: {table}"
    );
    // kubectl itself, without a scope, and whatever it sends.
    let expected = sites
        .direct(2, ["run", "yellow", "-n", NS, "--image=nginx", "--restart=Never"])
        .fails()?;
    let refused = sites
        .kubectl(1, ["run", "yellow", "-n", NS, "--image=nginx", "--restart=Never"])
        .fails()?;
    ensure!(
        refused.stderr == expected.stderr && refused.stderr.contains("AlreadyExists"),
        "refused in other words than Kubernetes\': {refused} instead of {expected}"
    );
    Ok("blue at Site1 from Site2, yellow at Site2 from Site1, both listed from either, the second yellow: AlreadyExists".to_owned())
}

fn children(sites: &mut Sites) -> Result<String> {
    const NS: &str = "cross-children";
    namespace(sites, NS)?;
    run(sites, 2, NS, "far", &[])?;
    sites.kubectl(1, ["label", "pod", "far", "-n", NS, "a=b"]).ok()?;
    let far = sites.read(2, NS, "pod/far")?.context("far is there")?;
    ensure!(
        far["metadata"]["labels"]["a"] == "b",
        "the label did not arrive: {far}"
    );
    let made = [
        "create",
        "deployment",
        "web",
        "-n",
        NS,
        "--image=nginx",
        "--replicas=2",
    ];
    sites.kubectl(2, made).ok()?;
    sites
        .kubectl(1, ["scale", "deployment", "web", "-n", NS, "--replicas=3"])
        .ok()?;
    sites.until_is(2, NS, "deployment/web", |web| web["spec"]["replicas"] == 3)?;
    ensure!(
        sites.read(1, NS, "deployment/web")?.is_none(),
        "the deployment is at Site1 too"
    );
    // Applied from elsewhere, it is changed where it is; what is new is made here.
    let config = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": NS },
            "data": { "a": value },
        })
    };
    for (site, value) in [(2, "1"), (1, "2")] {
        let applied = sites
            .kubectl(site, ["apply", "-f", "-"])
            .input(config(value).to_string());
        applied.ok()?;
    }
    let server_side = sites.kubectl(1, ["apply", "--server-side", "--force-conflicts", "-f", "-"]);
    server_side.input(config("3").to_string()).ok()?;
    let settings = sites
        .read(2, NS, "configmap/settings")?
        .context("the config map is there")?;
    ensure!(settings["data"]["a"] == "3", "{settings}");
    ensure!(
        sites.read(1, NS, "configmap/settings")?.is_none(),
        "a second one was made at Site1"
    );
    // What each site has by itself is read here and listed per site.
    let own = sites
        .kubectl(
            1,
            ["get", "configmap", "kube-root-ca.crt", "-n", NS, "-o", "json"],
        )
        .json()?;
    let direct = sites
        .read(1, NS, "configmap/kube-root-ca.crt")?
        .context("every namespace has one")?;
    ensure!(
        own["metadata"]["uid"] == direct["metadata"]["uid"],
        "another site's was read"
    );
    let listed = names(sites, 1, NS, "configmaps")?;
    ensure!(
        listed == ["kube-root-ca.crt", "kube-root-ca.crt", "settings"],
        "{listed:?}"
    );
    sites
        .kubectl(1, ["delete", "pod/far", "-n", NS, "--wait=false"])
        .ok()?;
    sites.until_gone(&[2], NS, "pod/far")?;
    run(sites, 1, NS, "far", &[])?;
    sites
        .kubectl(2, ["delete", "namespace", NS, "--wait=false"])
        .ok()?;
    sites.until_gone(&BOTH, "default", &format!("namespace/{NS}"))?;
    Ok("label, scale, apply and delete at the owner from the other site; kube-root-ca.crt per site; the namespace gone at both".to_owned())
}

fn watch(sites: &mut Sites) -> Result<String> {
    const NS: &str = "cross-watch";
    namespace(sites, NS)?;
    run(sites, 1, NS, "before", &[])?;
    let args = ["get", "pods", "-n", NS, "--watch", "--output-watch-events"];
    let mut watch = sites.kubectl(1, args).follow()?;
    watch.line("before", SOON)?;
    for (site, pod) in [(1, "near"), (2, "far"), (1, "near-2"), (2, "far-2")] {
        run(sites, site, NS, pod, &[])?;
        let line = watch.line(pod, SOON)?;
        ensure!(
            line.ends_with(&format!("Site{site}")),
            "the event does not tell its site: {line}"
        );
    }
    // From a list's version on, nothing twice: a raw list and watch, as controllers do it.
    let path = format!("/api/v1/namespaces/{NS}/pods");
    let list = sites.kubectl(2, ["get", "--raw", &path]).json()?;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .context("a list has a version")?;
    let raw = format!("{path}?watch=1&resourceVersion={version}");
    let mut events = sites.kubectl(2, ["get", "--raw", &raw]).follow()?;
    run(sites, 1, NS, "last", &[])?;
    let event: Value = serde_json::from_str(&events.line("\"ADDED\"", SOON)?)?;
    ensure!(
        event["object"]["metadata"]["name"] == "last",
        "an old pod is told again: {event}"
    );
    Ok("5 pods of two sites as they came, with their sites; a raw watch goes on from a merged list\'s version".to_owned())
}

fn missing(sites: &mut Sites) -> Result<String> {
    const NS: &str = "cross-missing";
    namespace(sites, NS)?;
    run(sites, 1, NS, "here", &[])?;
    run(sites, 2, NS, "there", &[])?;
    sites.mesh.isolate(2)?;
    let listed = names(sites, 1, NS, "pods")?;
    ensure!(listed == ["here"], "{listed:?}");
    let head = sites
        .curl(1, &format!("/api/v1/namespaces/{NS}/pods"))
        .args(["--dump-header", "-", "--output", "/dev/null"])
        .args(["--header", "Authorization: Bearer admin-token"])
        .ok()?;
    let receipt = head
        .stdout
        .lines()
        .find(|line| line.starts_with("cheops-receipt:"));
    let receipt = receipt.with_context(|| format!("no receipt: {head}"))?;
    ensure!(
        receipt.contains("\"Site2\";outcome=not-executed"),
        "the receipt does not name the missing site: {receipt}"
    );
    // Site1 gives names away, and goes on.
    run(sites, 1, NS, "more", &[])?;
    let refused = sites
        .cheops_kubectl(
            2,
            [
                "run",
                "other",
                "-n",
                NS,
                "--image=nginx",
                "--restart=Never",
                "--scope=Site2",
            ],
        )
        .fails()?;
    ensure!(refused.stderr.contains("reserved"), "{refused}");
    sites.mesh.rejoin(2)?;
    run(sites, 2, NS, "other", &[])?;
    Ok(
        "one of two pods listed, Site2 named in the receipt; Site2 makes nothing until Site1 is back"
            .to_owned(),
    )
}

fn deployment(sites: &mut Sites) -> Result<String> {
    const NS: &str = "cross-deploy";
    sites.namespace(NS)?;
    let parts = |expect: [u64; 2]| -> Result<()> {
        for (site, part) in BOTH.into_iter().zip(expect) {
            sites.until_is(site, NS, "deployment/web", |web| web["spec"]["replicas"] == part)?;
        }
        Ok(())
    };
    let whole = |site: usize| -> Result<Value> {
        let web = sites
            .kubectl(site, ["get", "deployment", "web", "-n", NS, "-o", "json"])
            .json()?;
        Ok(web["spec"]["replicas"].clone())
    };
    let made = [
        "create",
        "deployment",
        "web",
        "-n",
        NS,
        "--image=nginx",
        "--replicas=10",
        CROSS,
    ];
    sites.cheops_kubectl(1, made).ok()?;
    parts([5, 5])?;
    for site in BOTH {
        ensure!(whole(site)? == 10, "Site{site} does not show the whole");
    }
    // Its pods are made by each site\'s own controllers.
    for site in BOTH {
        sites.until("5 pods", || {
            let pods = sites.direct(site, ["get", "pods", "-n", NS, "-o", "name"]).ok()?;
            Ok((pods.stdout.lines().count() == 5).then_some(()))
        })?;
    }
    sites.until("the sum of what is there", || {
        let web = sites
            .kubectl(2, ["get", "deployment", "web", "-n", NS, "-o", "json"])
            .json()?;
        Ok((web["status"]["replicas"] == 10).then_some(()))
    })?;
    sites
        .kubectl(2, ["scale", "deployment", "web", "-n", NS, "--replicas=7"])
        .ok()?;
    parts([4, 3])?;
    ensure!(whole(1)? == 7, "the whole is not what it was scaled to");
    let patch = [
        "patch",
        "deployment",
        "web",
        "-n",
        NS,
        "-p",
        "{\"spec\":{\"replicas\":8}}",
    ];
    sites.kubectl(1, patch).ok()?;
    parts([4, 4])?;
    sites
        .kubectl(1, ["scale", "deployment", "web", "-n", NS, "--replicas=7"])
        .ok()?;
    parts([4, 3])?;
    // Site2 is lost; its part goes to Site1.
    sites.mesh.isolate(2)?;
    let removed = [
        "cross",
        "remove-site",
        &format!("v1/{NS}/web"),
        "Site2",
        "--force",
        "--rebalance",
    ];
    sites.mesh.site(1).cheops(removed).ok()?;
    sites.until_is(1, NS, "deployment/web", |web| web["spec"]["replicas"] == 7)?;
    Ok("10 = 5 + 5, scaled at Site2 to 7 = 4 + 3, Site2 lost and rebalanced: 7 at Site1".to_owned())
}
