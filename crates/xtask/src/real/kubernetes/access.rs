//! Who may do what is the API's to say, at each site.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::{Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "can-i",
        shows: "`kubectl auth can-i` answers an unprivileged account the same with and without Cheops in front",
        play: can_i,
    },
    Scenario {
        name: "may-not-at-site2",
        shows: "an account without rights at Site2: done at Site1, refused at Site2 as Kubernetes refuses it, and shown",
        play: may_not_at_site2,
    },
    Scenario {
        name: "client-certificate",
        shows: "a client certificate counts through the agent, also for what is replicated; its headers are never believed",
        play: client_certificate,
    },
    // The last one: the API server of Site2 is restarted twice.
    Scenario {
        name: "ended-token",
        shows: "a token that ended during a cut does not stop the catch-up",
        play: ended_token,
    },
];

const USER: &str = "--token=user-token";
const BOTH: [usize; 2] = [1, 2];
const SCOPE: &str = "--scope=Site1 & Site2";

fn can_i(sites: &mut Sites) -> Result<String> {
    const NS: &str = "can-i";
    sites.namespace(NS)?;
    grant(sites, 1, NS, "get,list", "--user=user")?;
    let questions: &[&[&str]] = &[
        &["get", "configmaps"],
        &["create", "configmaps"],
        &["delete", "pods"],
        &["*", "*"],
        &["get", "nodes"],
        &["--list"],
    ];
    let mut answers = Vec::new();
    for question in questions {
        let args = [&["-n", NS, USER, "auth", "can-i"], *question].concat();
        let direct = sites.direct(1, &args).output()?;
        let through = sites.kubectl(1, &args).output()?;
        ensure!(
            direct == through,
            "directly: {direct}\nthrough the agent: {through}"
        );
        // It is one question to one API server, however many sites the scope has.
        let scoped = sites.cheops_kubectl(1, [&args[..], &[SCOPE]].concat()).output()?;
        ensure!(
            (direct.code, &direct.stdout) == (scoped.code, &scoped.stdout),
            "directly: {direct}\nwith a scope: {scoped}"
        );
        answers.push(direct.said().lines().next().unwrap_or_default().to_owned());
    }
    ensure!(
        answers[..2] == ["yes", "no"],
        "the role does not count: {answers:?}"
    );
    Ok(format!(
        "{} questions, the same answers directly, through the agent and under a scope",
        questions.len()
    ))
}

/// Lets somebody do something with config maps.
fn grant(sites: &Sites, site: usize, namespace: &str, verbs: &str, whom: &str) -> Result<()> {
    let verbs = format!("--verb={verbs}");
    let role = [
        "-n",
        namespace,
        "create",
        "role",
        "maps",
        &verbs,
        "--resource=configmaps",
    ];
    sites.direct(site, role).ok()?;
    let binding = [
        "-n",
        namespace,
        "create",
        "rolebinding",
        "maps",
        "--role=maps",
        whom,
    ];
    sites.direct(site, binding).ok()?;
    Ok(())
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '1'}}\n")
}

fn may_not_at_site2(sites: &mut Sites) -> Result<String> {
    const NS: &str = "may-not";
    const KEY: &str = "v1/may-not/configmaps/limited";
    sites.namespace(NS)?;
    grant(sites, 1, NS, "get,create,update,patch,delete", "--user=user")?;
    let created = sites
        .cheops_kubectl(1, ["-n", NS, USER, "create", "-f", "-", SCOPE])
        .input(config_map("limited"))
        .ok()?;
    ensure!(created.said() == "configmap/limited created", "{created}");
    ensure!(
        sites.read(1, NS, "configmap/limited")?.is_some(),
        "it is not at Site1"
    );
    // In Kubernetes' own words, at both sites, and as a person sees it.
    let words = r#"configmaps is forbidden: User "user" cannot create resource "configmaps""#;
    for site in BOTH {
        sites.until(&format!("Site{site} says why Site2 has none"), || {
            let shown = sites.mesh.site(site).cheops(["replicas", "show", KEY]).ok()?;
            ensure!(shown.stdout.contains(words), "{shown}");
            ensure!(
                shown.stdout.contains("degraded"),
                "it is not called degraded: {shown}"
            );
            Ok(Some(()))
        })?;
    }
    ensure!(
        sites.read(2, NS, "configmap/limited")?.is_none(),
        "it is at Site2"
    );
    // The same account with the right, and the set is whole.
    grant(sites, 2, NS, "get,create,update,patch,delete", "--user=user")?;
    let waiting = sites.mesh.site(2).cheops(["ops", "ls", "--json"]).json()?;
    let waiting = waiting["operations"].as_array().context("no operations")?;
    for operation in waiting {
        let id = operation["id"].as_str().context("an operation has an id")?;
        sites.mesh.site(2).cheops(["ops", "retry", id]).ok()?;
    }
    sites.until_equal(&BOTH, NS, "configmap/limited", &[])?;
    sites.until_ok(&BOTH, KEY)?;
    Ok("degraded with Kubernetes' own reason; whole once the account may".to_owned())
}

fn client_certificate(sites: &mut Sites) -> Result<String> {
    const NS: &str = "certificate";
    sites.namespace(NS)?;
    for site in BOTH {
        grant(sites, site, NS, "get,create,delete", "--group=painters")?;
    }
    // Without the administrator's token, which the configuration has.
    let server = sites.server(1, true);
    let as_alice = |args: &[&str]| {
        let [certificate, key] = sites.clients.alice();
        let trust = format!("--certificate-authority={}", sites.mesh_ca().display());
        let whom = [
            "--kubeconfig=/dev/null",
            &format!("--server={server}"),
            &trust,
            &certificate,
            &key,
        ]
        .map(str::to_owned);
        let args = args.iter().map(|&arg| arg.to_owned());
        args.chain(whom).collect::<Vec<_>>()
    };
    for (question, answer) in [(["create", "configmaps"], "yes"), (["delete", "pods"], "no")] {
        let args = [&["-n", NS, "auth", "can-i"], &question[..]].concat();
        let said = sites.kubectl(1, as_alice(&args)).output()?;
        ensure!(said.said() == answer, "{said}");
    }
    sites
        .cheops_kubectl(1, as_alice(&["-n", NS, "create", "-f", "-", SCOPE]))
        .input(config_map("painted"))
        .ok()?;
    sites.until_equal(&BOTH, NS, "configmap/painted", &[])?;
    let refused = sites.kubectl(1, as_alice(&["-n", NS, "get", "pods"])).fails()?;
    ensure!(
        refused.stderr.contains(r#"User "alice" cannot list"#),
        "{refused}"
    );
    // Whoever says to be alice without the certificate is nobody.
    for spelling in ["X-Remote-User", "x-remote-user", "X_Remote_User"] {
        let spoofed = sites
            .curl(1, &format!("/api/v1/namespaces/{NS}/configmaps/painted"))
            .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
            .args([
                "--header",
                &format!("{spelling}: alice"),
                "--header",
                "X-Remote-Group: painters",
            ])
            .ok()?;
        ensure!(
            matches!(spoofed.said(), "401" | "403"),
            "{spelling} was believed: {spoofed}"
        );
    }
    Ok(
        "alice's rights and no others, here and for the replica at Site2; spoofed headers are nobody's"
            .to_owned(),
    )
}

fn ended_token(sites: &mut Sites) -> Result<String> {
    const NS: &str = "ended-token";
    sites.namespace(NS)?;
    for site in BOTH {
        grant(sites, site, NS, "get,create,update,patch,delete", "--user=user")?;
    }
    sites.mesh.isolate(2)?;
    sites
        .cheops_kubectl(1, ["-n", NS, USER, "create", "-f", "-", SCOPE])
        .input(config_map("late"))
        .ok()?;
    let patch = [
        "-n",
        NS,
        USER,
        "patch",
        "configmap/late",
        "--type=merge",
        "-p",
        r#"{"data":{"a":"2"}}"#,
    ];
    sites.kubectl(1, patch).ok()?;
    let tokens = sites.dir.join("testbed/site2/tokens.csv");
    let before = fs::read_to_string(&tokens)?;
    let without: String = before
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("user-token"))
        .collect();
    fs::write(&tokens, without)?;
    sites.restart_api_server(2)?;
    let ended = sites.direct(2, ["-n", NS, USER, "get", "configmaps"]).fails()?;
    ensure!(
        ended.stderr.contains("Unauthorized"),
        "the token still counts: {ended}"
    );
    sites.mesh.rejoin(2)?;
    let caught_up = sites.until_is(2, NS, "configmap/late", |map| map["data"]["a"] == "2");
    let forwarded = refused_at_site2(sites);
    fs::write(&tokens, before)?;
    sites.restart_api_server(2)?;
    caught_up?;
    forwarded?;
    sites.until_ok(&BOTH, "v1/ended-token/configmaps/late")?;
    Ok(
        "made and changed at Site1, the token ended at Site2, both arrived there in the caller's name"
            .to_owned(),
    )
}

/// What is only forwarded has nobody's name but its caller's: the other site's 401 is the answer, and the receipt says
/// whose it is.
fn refused_at_site2(sites: &Sites) -> Result<()> {
    let get = ["-n", "ended-token", USER, "get", "configmaps", "--scope=Site2"];
    let unauthorized = sites.cheops_kubectl(1, get).fails()?;
    ensure!(
        unauthorized.stderr.contains("Unauthorized"),
        "Site2's answer did not reach the caller: {unauthorized}"
    );
    let answer = sites
        .curl(1, "/api/v1/namespaces/ended-token/configmaps")
        .args(["--dump-header", "-", "--output", "/dev/null"])
        .args([
            "--header",
            "Authorization: Bearer user-token",
            "--header",
            "X-Scope: Site2",
        ])
        .ok()?;
    let receipt = answer
        .stdout
        .lines()
        .find(|line| line.starts_with("cheops-receipt:"));
    let receipt = receipt.with_context(|| format!("no receipt: {answer}"))?;
    ensure!(
        receipt.contains(r#""Site2""#) && receipt.contains("status=401"),
        "the receipt does not say whose the refusal is: {receipt}"
    );
    Ok(())
}
