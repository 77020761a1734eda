//! An agent's life: how it starts, changes and ends.

use std::{
    fs,
    net::TcpStream,
    process::Output,
    sync::{Mutex, mpsc},
    time::Instant,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    harness::{DEADLINE, Mesh, Port, Site, cheops, until},
    wire::{Service, Wire, ask, get, ok},
};

fn run(args: &[&str]) -> Output {
    cheops().args(args).output().unwrap()
}

/// Runs a command that must fail, and gives what it says.
#[track_caller]
fn fails(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn refuses(addr: std::net::SocketAddr) -> bool {
    TcpStream::connect(addr).is_err()
}

async fn generation(site: &Site) -> u64 {
    site.ask("/v1/status").await["generation"].as_u64().unwrap()
}

/// A service that answers `/held` when the test says so.
fn holding() -> (Service, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let service = Service::answering(move |request| {
        if request.line.contains("/held") {
            let _ = released.lock().unwrap().recv_timeout(DEADLINE);
        }
        ok("answered")
    });
    (service, release)
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_key_and_a_remedy() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("cheops.toml");
    let text = format!(
        "site = \"site1\"\n[services.A]\npublic = \"{address}\"\nupstream = \"http://127.0.0.1:1\"\n"
    );
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let said = fails(&["run", "-c", config]);
    for part in [address.as_str(), "services.A.public", "stop that program", config] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

#[tokio::test]
async fn a_data_directory_has_one_agent() {
    let mesh = Mesh::of(1).start().await;
    let dir = mesh.site(1).dir();
    let second = dir.join("second.toml");
    let text = "site = \"site1\"\ndata_dir = \"data\"\n[services.A]\npublic = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\n";
    fs::write(&second, text).unwrap();
    let said = fails(&["run", "-c", second.to_str().unwrap()]);
    let data = dir.join("data").display().to_string();
    for part in ["already runs", data.as_str(), "data_dir"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert_eq!(mesh.site(1).ask("/v1/status").await["site"], "site1");
}

#[tokio::test]
async fn a_reload_changes_what_is_different_and_nothing_else() {
    let (first, second) = (Service::saying("first"), Service::saying("second"));
    let mesh = Mesh::of(1).upstream(1, "A", first.addr()).start().await;
    let site = mesh.site(1);
    let (stays, goes) = (site.public("A"), site.internal("B"));
    let mut kept = Wire::connect(stays);
    kept.send(get("/", ""));
    assert_eq!(kept.answer().text(), "first");
    let mut ending = Wire::connect(goes);
    ending.send(get("/string", ""));
    assert_eq!(ending.answer().text(), "from site 1");

    let new = Port::reserve();
    site.edit_config(|text| {
        let text = text.replace(&first.addr().to_string(), &second.addr().to_string());
        let text = text.replace(&format!("internal = \"{goes}\"\n"), "");
        format!(
            "{text}\n[services.C]\npublic = \"{}\"\nupstream = \"http://{}\"\n",
            new.addr(),
            first.addr()
        )
    });
    let before = generation(site).await;
    site.hang_up();
    until("the reload", || async { generation(site).await > before }).await;

    kept.send(get("/", ""));
    assert_eq!(
        kept.answer().text(),
        "second",
        "a connection was lost or an old service asked"
    );
    assert_eq!(ask(new.addr(), get("/", "")).text(), "first");
    assert_eq!(
        ending.rest(),
        b"",
        "a connection of a listener that is gone stays"
    );
    until("the old listener is gone", || async { refuses(goes) }).await;
    assert_eq!(ask(site.public("B"), get("/string", "")).text(), "from site 1");
}

#[tokio::test]
async fn a_broken_file_changes_nothing() {
    let service = Service::saying("as before");
    let mesh = Mesh::of(1).upstream(1, "A", service.addr()).start().await;
    let site = mesh.site(1);
    let good = fs::read_to_string(site.config_path()).unwrap();
    let before = generation(site).await;
    let mut kept = Wire::connect(site.public("A"));
    let public = site.public("A").to_string();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = held.local_addr().unwrap().to_string();
    for (broken, told) in [
        (good.replace("[services.A]", "[services.A"), "not TOML"),
        (
            good.replace("workers = 2", "workers = 3"),
            "`workers` cannot change",
        ),
        (good.replace("\"site1\"", "\"site9\""), "site"),
        (
            good.replace("upstream = ", "upstraem = "),
            "did you mean `upstream`",
        ),
        // A port that is taken shows only when everything else was found good.
        (good.replace(&public, &busy), "is taken by another program"),
    ] {
        assert_ne!(broken, good, "{told}");
        site.edit_config(|_| broken);
        let admin = site.dir().join("data/admin.sock");
        let said = fails(&["reload", "--admin", admin.to_str().unwrap()]);
        assert!(said.contains(told), "{told}: {said}");
        kept.send(get("/", ""));
        assert_eq!(kept.answer().text(), "as before", "{told}");
        assert_eq!(ask(site.public("A"), get("/", "")).text(), "as before", "{told}");
    }
    // The signal refuses as well, and says so in the log.
    site.hang_up();
    until("the refusal", || async {
        site.agent().log().contains("reload refused")
    })
    .await;
    assert_eq!(generation(site).await, before);
}

#[tokio::test]
async fn requests_under_way_are_answered_before_the_end() {
    let (service, release) = holding();
    let mut mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("drain_timeout_ms", 20_000)
        .start()
        .await;
    let address = mesh.a(1);
    let mut idle = Wire::connect(address);
    idle.send(get("/", ""));
    assert_eq!(idle.answer().text(), "answered");
    let mut client = Wire::connect(address);
    client.send(get("/held", ""));
    service.wait("the request arrives", |seen| {
        seen.iter().any(|connection| connection.text().contains("/held"))
    });
    mesh.site(1).agent().signal(Signal::TERM);
    until("new connections are refused", || async { refuses(address) }).await;
    assert_eq!(idle.rest(), b"", "an idle connection stays");
    release.send(()).unwrap();
    assert_eq!(client.answer().text(), "answered");
    assert_eq!(client.rest(), b"");
    let status = mesh.site_mut(1).agent_mut().ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(!mesh.site(1).dir().join("data/admin.sock").exists());
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let (service, _release) = holding();
    let mut mesh = Mesh::of(1)
        .upstream(1, "A", service.addr())
        .limit("drain_timeout_ms", 600_000)
        .start()
        .await;
    let address = mesh.a(1);
    let mut client = Wire::connect(address);
    client.send(get("/held", ""));
    service.wait("the request arrives", |seen| {
        seen.iter().any(|connection| connection.text().contains("/held"))
    });
    mesh.site(1).agent().signal(Signal::TERM);
    until("new connections are refused", || async { refuses(address) }).await;
    mesh.site_mut(1).agent_mut().check();
    let start = Instant::now();
    mesh.site(1).agent().signal(Signal::TERM);
    mesh.site_mut(1).agent_mut().ended().await;
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
    assert_eq!(client.rest(), b"");
}

#[tokio::test]
async fn an_agent_can_be_asked() {
    let mesh = Mesh::of(2).start().await;
    let site = mesh.site(1);
    let config = site.config_path();
    let config = config.to_str().unwrap();
    let told = |args: &[&str]| -> Value {
        let mut all = args.to_vec();
        all.extend(["--json", "-c", config]);
        let output = run(&all);
        assert!(output.status.success(), "{all:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let status = told(&["status"]);
    assert_eq!(
        (&status["site"], &status["generation"]),
        (&json!("site1"), &json!(1))
    );
    assert_eq!(status["pid"], site.agent().pid());

    let sites = told(&["sites"]);
    let [here, there] = sites["sites"].as_array().unwrap().as_slice() else {
        panic!("{sites}");
    };
    assert_eq!((&here["name"], &here["here"]), (&json!("site1"), &json!(true)));
    assert_eq!((&there["name"], &there["up"]), (&json!("site2"), &json!(true)));
    assert!(there["round_trip_us"].is_u64(), "{there}");
    assert_eq!(there["address"], mesh.link(1, 2).addr().to_string());

    let services = told(&["services"]);
    assert_eq!(services["services"][0]["name"], "A");
    assert_eq!(services["services"][0]["public"], site.public("A").to_string());
    assert_eq!(
        services["services"][1]["internal"],
        site.internal("B").to_string()
    );

    let limits = told(&["limits"]);
    let limits = limits["limits"].as_array().unwrap();
    assert!(
        limits
            .iter()
            .any(|limit| limit["name"] == "heartbeat_interval_ms" && limit["value"] == 100)
    );

    let explained = told(&[
        "explain",
        "--service",
        "A",
        "--path",
        "/orders/7",
        "B: site2 ; site1",
    ]);
    assert_eq!(
        (&explained["plan"], &explained["verb"]),
        (&json!("local"), &json!("read-one"))
    );
    let explained = told(&[
        "explain",
        "--service",
        "A",
        "--method",
        "POST",
        "--path",
        "/orders",
        "site2",
    ]);
    assert!(
        explained["plan"].as_str().unwrap().contains("site2"),
        "{explained}"
    );

    let reloaded = told(&["reload"]);
    assert_eq!(
        (&reloaded["generation"], &reloaded["changes"]),
        (&json!(2), &json!([]))
    );
    let unknown = run(&["explain", "--json", "-c", config, "--service", "A", "sitte2"]);
    assert_eq!(unknown.status.code(), Some(2));
    let problem: Value = serde_json::from_slice(&unknown.stdout).unwrap();
    assert_eq!(problem["code"], "unknown_site");
}

#[tokio::test]
async fn a_free_port_is_found_and_told() {
    let service = Service::saying("found");
    let mesh = Mesh::of(1).upstream(1, "A", service.addr()).start().await;
    let site = mesh.site(1);
    let old = site.public("A");
    site.edit_config(|text| text.replace(&old.to_string(), "127.0.0.1:0"));
    site.tell("/v1/reload", &json!({})).await;
    let services = site.ask("/v1/services").await;
    let told = services["services"][0]["public"].as_str().unwrap();
    let found: std::net::SocketAddr = told.parse().unwrap();
    assert_ne!(found.port(), 0);
    assert_eq!(ask(found, get("/", "")).text(), "found");
    // It stays the same as long as nobody changes it.
    site.tell("/v1/reload", &json!({})).await;
    assert_eq!(site.ask("/v1/services").await, services);
    assert_eq!(ask(found, get("/", "")).text(), "found");
}
