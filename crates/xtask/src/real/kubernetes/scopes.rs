//! Reading across sites, wrong scopes, and what kubectl keeps between two commands.

use anyhow::{Result, ensure};

use super::{super::Run, Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "merged-get",
        shows: "`get pods` with {Site1 & Site2} lists both sites' pods, replicas once, and says what is missing",
        play: merged_get,
    },
    Scenario {
        name: "forward",
        shows: "one site in a scope: everything is done there, from anywhere",
        play: forward,
    },
    Scenario {
        name: "wrong-scope",
        shows: "a wrong scope is explained by kubectl's own error, and nothing runs",
        play: wrong_scope,
    },
    Scenario {
        name: "path-readings",
        shows: "a write that the API server reads in another way than the agent is refused, and changes no replica",
        play: path_readings,
    },
    Scenario {
        name: "discovery-cache",
        shows: "the second scoped command uses what kubectl has cached of the first",
        play: discovery_cache,
    },
];

const BOTH: &str = "--scope={Site1 & Site2}";

/// The API server decodes a path before it splits it: `configmaps%2Fplan` is the config map `plan`.
fn path_readings(sites: &mut Sites) -> Result<String> {
    const NS: &str = "paths";
    sites.namespace(NS)?;
    let made = [
        "-n",
        NS,
        "create",
        "configmap",
        "plan",
        "--from-literal=n=1",
        BOTH,
    ];
    sites.cheops_kubectl(1, made).ok()?;
    for site in [1, 2] {
        sites.until_is(site, NS, "configmap/plan", |plan| plan["data"]["n"] == "1")?;
    }
    let changed = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"plan","namespace":"{NS}"}},"data":{{"n":"2"}}}}"#
    );
    let readings = [
        format!("/api/v1/namespaces/{NS}/configmaps%2Fplan"),
        format!("/api/v1/namespaces/{NS}/configmaps/x%2F..%2Fplan"),
    ];
    // kubectl decodes a path before it sends it.
    let put = |run: Run| {
        let answer = run
            .args(["--path-as-is", "--request", "PUT", "--data", &changed])
            .args(["--header", "Authorization: Bearer admin-token"])
            .args(["--header", "Content-Type: application/json"])
            .args(["--write-out", "\n%{http_code}"])
            .ok()?;
        Ok::<_, anyhow::Error>(answer.stdout)
    };
    for path in &readings {
        let refused = put(sites.curl(1, path))?;
        let is_refused = refused.ends_with("400") && refused.contains("path_ambiguous");
        ensure!(is_refused, "the agent passed it on: {refused}");
    }
    for site in [1, 2] {
        let plan = sites.until_is(site, NS, "configmap/plan", |_| true)?;
        ensure!(plan["data"]["n"] == "1", "Site{site} has {plan:#}");
    }
    // It is no idle fear: asked itself, the API server takes the first of them.
    let taken = put(sites.curl_direct(2, &readings[0]))?;
    let verb = if taken.ends_with("200") {
        "takes"
    } else {
        "refuses"
    };
    Ok(format!(
        "{} readings of one path refused; the API server itself {verb} the first",
        readings.len()
    ))
}

fn merged_get(sites: &mut Sites) -> Result<String> {
    const NS: &str = "merged";
    sites.namespace_for_pods(NS)?;
    for site in sites.all() {
        let name = format!("only-{site}");
        sites
            .direct(site, ["-n", NS, "run", &name, "--image=nginx"])
            .ok()?;
    }
    sites
        .cheops_kubectl(1, ["-n", NS, "run", "everywhere", "--image=nginx", BOTH])
        .ok()?;
    sites.until_is(2, NS, "pod/everywhere", |_| true)?;
    let names = |args: &[&str]| {
        let list = sites
            .cheops_kubectl(1, [&["-n", NS, "get", "pods", BOTH], args].concat())
            .ok()?;
        Ok::<_, anyhow::Error>(list.stdout)
    };
    let names_of = |text: &str| {
        let mut names: Vec<_> = text
            .lines()
            .map(|line| line.trim_start_matches("pod/").to_owned())
            .collect();
        names.sort();
        names
    };
    let expected = ["everywhere", "only-1", "only-2"];
    let listed = names_of(&names(&["-o", "name"])?);
    ensure!(listed == expected, "-o name: {listed:?}");
    // A table, as people see it; and page by page.
    let table = names(&["--no-headers"])?;
    let listed = names_of(
        &table
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect::<Vec<_>>()
            .join("\n"),
    );
    ensure!(listed == expected, "a table: {table}");
    let row = table
        .lines()
        .find(|line| line.starts_with("only-2"))
        .unwrap_or_default();
    ensure!(row.ends_with("Site2"), "the row does not tell its site: {table}");
    let listed = names_of(&names(&["-o", "name", "--chunk-size=1"])?);
    ensure!(listed == expected, "page by page: {listed:?}");
    // A site that is away does not hide the others.
    sites.mesh.isolate(2)?;
    let partial = names_of(&names(&["-o", "name"])?);
    ensure!(
        partial == ["everywhere", "only-1"],
        "while Site2 is away: {partial:?}"
    );
    Ok(
        "3 pods of two sites, a replica once, as names, as a table and by pages; 2 while Site2 was away"
            .to_owned(),
    )
}

fn forward(sites: &mut Sites) -> Result<String> {
    const NS: &str = "forward";
    sites.namespace(NS)?;
    sites
        .cheops_kubectl(
            1,
            [
                "-n",
                NS,
                "create",
                "configmap",
                "there",
                "--from-literal=a=1",
                "--scope=Site2",
            ],
        )
        .ok()?;
    ensure!(
        sites.read(2, NS, "configmap/there")?.is_some(),
        "it is not at Site2"
    );
    ensure!(
        sites.read(1, NS, "configmap/there")?.is_none(),
        "it is at Site1 too"
    );
    let get = ["-n", NS, "get", "configmap", "there", "-o", "name"];
    sites.kubectl(1, get).fails()?;
    let got = sites.cheops_kubectl(1, get).args(["--scope=Site2"]).ok()?;
    ensure!(got.said() == "configmap/there", "{got}");
    let mut watch = sites
        .cheops_kubectl(1, ["-n", NS, "get", "configmaps", "--watch", "--scope=Site2"])
        .follow()?;
    watch.line("there", super::sites::SOON)?;
    sites.direct(2, ["-n", NS, "create", "configmap", "later"]).ok()?;
    watch.line("later", super::sites::SOON)?;
    sites
        .cheops_kubectl(1, ["-n", NS, "delete", "configmap", "there", "--scope=Site2"])
        .ok()?;
    ensure!(
        sites.read(2, NS, "configmap/there")?.is_none(),
        "it is still there"
    );
    Ok("create, get, watch and delete at Site2 from Site1".to_owned())
}

fn wrong_scope(sites: &mut Sites) -> Result<String> {
    const NS: &str = "wrong-scope";
    sites.namespace(NS)?;
    // A scope, and what its explanation must contain.
    let wrong: &[(&str, &[&str])] = &[
        ("Site1 & Sitee2", &["Sitee2", "did you mean", "Site2"]),
        ("Site1 &", &["Site1 &"]),
        ("compute: Site1", &["compute", "kubernetes"]),
        ("(Site1", &["("]),
    ];
    for (scope, parts) in wrong {
        let scope = format!("--scope={scope}");
        let refused = sites
            .cheops_kubectl(1, ["-n", NS, "create", "configmap", "never", scope.as_str()])
            .fails()?;
        for part in *parts {
            ensure!(refused.stderr.contains(part), "`{part}` is missing: {refused}");
        }
        ensure!(
            !refused.stderr.contains("unknown)"),
            "kubectl has no words for it: {refused}"
        );
    }
    for site in sites.all() {
        ensure!(
            sites.read(site, NS, "configmap/never")?.is_none(),
            "something ran at Site{site}"
        );
    }
    Ok(format!(
        "{} wrong scopes, each explained, nothing made",
        wrong.len()
    ))
}

fn discovery_cache(sites: &mut Sites) -> Result<String> {
    let requests = || {
        let seen = sites.cheops_kubectl(1, ["get", "pods", "-v=6", BOTH]).ok()?;
        let asked = seen.stderr.lines().filter(|line| line.contains("GET http"));
        Ok::<_, anyhow::Error>(asked.map(str::to_owned).collect::<Vec<_>>())
    };
    requests()?;
    let second = requests()?;
    ensure!(
        second.len() == 1 && second[0].contains("/pods"),
        "the second command asked again:\n{}",
        second.join("\n")
    );
    Ok("one request, for the list itself".to_owned())
}
