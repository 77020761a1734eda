//! What does not end with one answer: watches, logs, commands in containers, forwarded ports.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Scenario, Sites, kubelet::Kubelet, sites::SOON};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "watch",
        shows: "`kubectl get --watch` shows each change at once and survives `cheops reload`",
        play: watch,
    },
    Scenario {
        name: "logs-exec-port-forward",
        shows: "a growing log, a command's input and output, and a forwarded port pass the agent",
        play: node,
    },
];

/// A change of a watched resource is told within this time, however slow the machine; a buffered answer never is.
const AT_ONCE: Duration = Duration::from_secs(5);
const CHANGES: usize = 5;

fn watch(sites: &mut Sites) -> Result<String> {
    const NS: &str = "watch";
    sites.namespace(NS)?;
    // Replicas among what is watched change nothing about it.
    sites
        .cheops_kubectl(
            1,
            [
                "-n",
                NS,
                "create",
                "configmap",
                "replicated",
                "--scope=Site1 & Site2",
            ],
        )
        .ok()?;
    let mut watch = sites
        .kubectl(
            1,
            ["-n", NS, "get", "configmaps", "--watch", "--output-watch-events"],
        )
        .follow()?;
    sites.direct(1, ["-n", NS, "create", "configmap", "first"]).ok()?;
    watch.line("first", SOON)?;
    let mut slowest = Duration::ZERO;
    for change in 0..CHANGES {
        if change == CHANGES / 2 {
            sites.mesh.site(1).cheops(["reload"]).ok()?;
        }
        let name = format!("later-{change}");
        sites.direct(1, ["-n", NS, "create", "configmap", &name]).ok()?;
        let made = Instant::now();
        watch.line(&name, AT_ONCE)?;
        slowest = slowest.max(made.elapsed());
    }
    sites
        .kubectl(2, ["-n", NS, "label", "configmap", "replicated", "from=Site2"])
        .ok()?;
    watch.line("replicated", SOON)?;
    watch.goes_on()?;
    Ok(format!(
        "{CHANGES} changes, none told later than {} ms after it was made, one reload in between; a replica's too",
        slowest.as_millis()
    ))
}

fn node(sites: &mut Sites) -> Result<String> {
    const NS: &str = "node";
    sites.namespace_for_pods(NS)?;
    let kubelet = Kubelet::start(&sites.dir.join("testbed/site1/pki"))?;
    place_pod(sites, NS, kubelet.addr)?;

    kubelet.log("one");
    let logs = sites.kubectl(1, ["-n", NS, "logs", "placed"]).ok()?;
    ensure!(logs.stdout == "one\n", "{logs}");
    let mut follow = sites
        .kubectl(1, ["-n", NS, "logs", "--follow", "placed"])
        .follow()?;
    follow.line("one", SOON)?;
    kubelet.log("two");
    follow.line("two", AT_ONCE)?;

    let text = "what goes in\ncomes out\n";
    let exec = ["-n", NS, "exec", "--stdin", "placed", "--", "cat"];
    let here = sites.kubectl(1, exec).input(text).ok()?;
    ensure!(here.stdout == text, "{here}");
    // From the other site, through the forwarder of `cheops kubectl` and two agents.
    let exec = [
        "--scope=Site1",
        "-n",
        NS,
        "exec",
        "--stdin",
        "placed",
        "--",
        "cat",
    ];
    let there = sites.cheops_kubectl(2, exec).input(text).ok()?;
    ensure!(there.stdout == text, "{there}");

    let mut forward = sites
        .kubectl(1, ["-n", NS, "port-forward", "pod/placed", ":80"])
        .follow()?;
    let line = forward.line("Forwarding from 127.0.0.1:", SOON)?;
    let local: SocketAddr = line
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .with_context(|| format!("no address in `{line}`"))?;
    // The client opens a stream on the upgraded connection when somebody connects to the port.
    let mut caller = TcpStream::connect(local)?;
    caller.write_all(b"anybody there?")?;
    let first = sites.until("the forwarded port's first bytes", || Ok(kubelet.forwarded()))?;
    ensure!(
        first == [0x80, 3, 0, 1],
        "no SPDY/3.1 stream was opened, but {first:?}"
    );
    Ok(
        "log followed, WebSocket repeated its input, here and from Site2, SPDY/3.1 opened a stream"
            .to_owned(),
    )
}

/// A node at the kubelet's address and a running pod on it.
fn place_pod(sites: &Sites, namespace: &str, kubelet: SocketAddr) -> Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "placed"},
        "spec": {"nodeName": "here", "containers": [{"name": "main", "image": "none"}]}});
    for object in [&node, &pod] {
        sites
            .direct(1, ["-n", namespace, "create", "-f", "-"])
            .input(object.to_string())
            .ok()?;
    }
    let listens = json!({"status": {"addresses": [{"type": "InternalIP", "address": kubelet.ip()}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}}});
    let runs = json!({"status": {"phase": "Running"}});
    for (what, status) in [("node/here", listens), ("pod/placed", runs)] {
        let args = [
            "-n",
            namespace,
            "patch",
            what,
            "--subresource=status",
            "--type=merge",
            "-p",
        ];
        sites.direct(1, args).args([status.to_string()]).ok()?;
    }
    Ok(())
}
