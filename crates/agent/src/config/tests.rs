mod damaged;

use std::{fs, path::Path};

use cheops_types::Limit;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::ca;

const GOOD: &str = r#"site = "site1"

[services.A]
public = "127.0.0.1:8001"
upstream = "http://127.0.0.1:5001"
"#;

fn read_text(text: &str) -> Result<Config, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    read_in(&dir, text)
}

fn read_in(dir: &TempDir, text: &str) -> Result<Config, ConfigErrors> {
    let path = dir.path().join("cheops.toml");
    fs::write(&path, text).unwrap();
    Config::read(&path)
}

fn load_in(dir: &TempDir, text: &str) -> Result<Config, ConfigErrors> {
    let path = dir.path().join("cheops.toml");
    fs::write(&path, text).unwrap();
    Config::load(&path)
}

fn errors_of(result: Result<Config, ConfigErrors>) -> Vec<Value> {
    let json = result.expect_err("the file is good").to_json();
    json["errors"].as_array().unwrap().clone()
}

/// One error with this place and key, whose message and fix have these parts.
#[track_caller]
fn check(text: &str, line: u64, column: u64, key: &str, message: &str, fix: &str) {
    let errors = errors_of(read_text(text));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    check_one(&errors[0], line, column, key, message, fix);
}

#[track_caller]
fn check_one(error: &Value, line: u64, column: u64, key: &str, message: &str, fix: &str) {
    assert_eq!(
        (
            error["line"].as_u64(),
            error["column"].as_u64(),
            error["key"].as_str()
        ),
        (Some(line), Some(column), Some(key)),
        "{error:#}"
    );
    assert!(error["message"].as_str().unwrap().contains(message), "{error:#}");
    assert!(error["fix"].as_str().unwrap().contains(fix), "{error:#}");
}

#[test]
fn the_example_is_complete_and_good() {
    let config = read_text(&example()).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(&*config.site, "site1");
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.services.len(), 2);
    assert_eq!(config.sites.len(), 2);
    assert!(config.peer.is_some());
    let text = example();
    for limit in Limit::ALL {
        assert!(
            text.contains(&format!("\n{} = ", limit.name())),
            "{}",
            limit.name()
        );
    }
}

#[test]
fn defaults_and_relative_paths() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{GOOD}upstream_ca = \"pem/ca.pem\"\n").replace("http:", "https:");
    let config = read_in(&dir, &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.path, dir.path().join("cheops.toml"));
    assert_eq!(config.data_dir, dir.path().join("data/site1"));
    assert_eq!(config.admin_socket(), dir.path().join("data/site1/admin.sock"));
    assert_eq!(config.workers, 0);
    assert_eq!(config.glue, GlueChoice::Plain);
    assert_eq!(config.peer, None);
    let service = &config.services["A"];
    assert_eq!(service.public, Some("127.0.0.1:8001".parse().unwrap()));
    assert_eq!((service.internal, service.shared), (None, None));
    assert_eq!(service.upstream_http, UpstreamHttp::Auto);
    assert_eq!(
        service.upstream,
        Upstream {
            tls: true,
            host: "127.0.0.1".to_owned(),
            port: 5001,
            ca: Some(dir.path().join("pem/ca.pem")),
            pair: None,
        }
    );
}

#[test]
fn limits_are_taken() {
    let config = read_text(&format!("{GOOD}[limits]\nhedge_after_ms = 1_0\n")).unwrap();
    assert_eq!(config.limits.hedge_after_ms, 10);
    assert_eq!(config.limits.scope_max_depth, Limits::default().scope_max_depth);
}

#[test]
fn clients_are_exempt_by_address() {
    let text = "exempt_clients = [\"192.0.2.1\", \"2001:db8::/32\"]\n\
                site = \"s\"\n[services.A]\npublic = \"0.0.0.0:8001\"\nupstream = \"http://127.0.0.1:5001\"\n";
    let config = read_text(text).unwrap();
    let told = serde_json::to_value(&config).unwrap();
    assert_eq!(
        told["exempt_clients"],
        serde_json::json!(["192.0.2.1/32", "2001:db8::/32"])
    );
}

#[test]
fn not_toml() {
    check("site = \n", 1, 8, "", "this is not TOML", "config example");
    check(
        &GOOD.replace("site1", "x\"\nsite = \"y"),
        2,
        1,
        "",
        "duplicate key",
        "config example",
    );
}

#[test]
fn bad_root_keys() {
    let at = |from: &str, to: &str| GOOD.replace(from, to);
    check(
        &at("site1", "-x"),
        1,
        8,
        "site",
        "`-x` is not a name",
        "starting with a letter",
    );
    check(
        &at("\"site1\"", "1"),
        1,
        8,
        "site",
        "must be a string, not an integer",
        "`site = \"site1\"`",
    );
    let without = at("site = \"site1\"", "");
    check(
        &without,
        1,
        1,
        "site",
        "`site` is missing",
        "write `site = \"site1\"`",
    );
    let with = |line: &str| format!("{line}\n{GOOD}");
    check(
        &with("worker = 1"),
        1,
        1,
        "worker",
        "unknown key",
        "did you mean `workers`?",
    );
    check(
        &with("colour = 1"),
        1,
        1,
        "colour",
        "unknown key",
        "the keys here are `site`, ",
    );
    check(
        &with("workers = -1"),
        1,
        11,
        "workers",
        "between 0 and",
        "write `workers = 0`",
    );
    check(
        &with("exempt_clients = [\"192.0.2.0/24\", \"proxy\"]"),
        1,
        35,
        "exempt_clients",
        "`proxy` is neither an address nor a block of addresses",
        "write one, e.g. \"192.0.2.1\", or a block, e.g. \"192.0.2.0/24\"",
    );
    check(
        &with("workers = 5000"),
        1,
        11,
        "workers",
        "at most 4096",
        "0 for one per core",
    );
    check(
        &with("workers = \"2\""),
        1,
        11,
        "workers",
        "a whole number, not a string",
        "`workers = 0`",
    );
    check(
        &with("glue = \"exmaple\""),
        1,
        8,
        "glue",
        "no glue `exmaple`",
        "did you mean `example`?",
    );
    check(
        &with("glue = \"k8s\""),
        1,
        8,
        "glue",
        "no glue `k8s`",
        "`.toml` file",
    );
    check(
        &with("data_dir = \"\""),
        1,
        12,
        "data_dir",
        "is empty",
        "write `data_dir",
    );
    let long = with(&format!("data_dir = \"/{}\"", "x".repeat(100)));
    check(&long, 1, 12, "data_dir", "5 bytes too long", "shorter path");
}

#[test]
fn bad_services() {
    check(
        "site = \"a\"\n",
        1,
        1,
        "services",
        "no services",
        "`[services.A]`",
    );
    check(
        "site = \"a\"\n[services]\n",
        1,
        1,
        "services",
        "no services",
        "`[services.A]`",
    );
    check(
        "site = \"a\"\nservices = 1\n",
        2,
        1,
        "services",
        "a table, not an integer",
        "`[services]`",
    );
    check(
        "site = \"a\"\n[services]\nA = 1\n",
        3,
        1,
        "services.A",
        "must be a table",
        "`[services.A]`",
    );
    let at = |from: &str, to: &str| GOOD.replace(from, to);
    check(
        &at("services.A", "services.\"a b\""),
        3,
        11,
        "services.a b",
        "`a b` is not a name",
        "use 1 to 128",
    );
    let key = "services.A.public";
    check(
        &at("127.0.0.1:8001", "localhost:8001"),
        4,
        10,
        key,
        "not an address",
        "`127.0.0.1:8001`",
    );
    let no_listener = at("public = \"127.0.0.1:8001\"\n", "");
    check(
        &no_listener,
        3,
        11,
        "services.A",
        "no address to listen on",
        "`listen`",
    );
    let no_upstream = at("upstream = \"http://127.0.0.1:5001\"\n", "");
    check(
        &no_upstream,
        3,
        11,
        "services.A.upstream",
        "missing in [services.A]",
        "write `upstream = ",
    );
    let key = "services.A.upstream";
    check(
        &at("http:", "ftp:"),
        5,
        12,
        key,
        "not a service's address",
        "`http://host:port`",
    );
    check(
        &at("5001", "5001/v1"),
        5,
        12,
        key,
        "not a service's address",
        "without a path",
    );
    check(&at("http:", "https:"), 5, 12, key, "whom to trust", "upstream_ca");
    check(
        &at("5001", "8001"),
        5,
        12,
        key,
        "the agent itself: `services.A.public`",
        "application's service",
    );
    let with = |line: &str| format!("{GOOD}{line}\n");
    check(
        &with("upstream_ca = \"a\""),
        6,
        15,
        "services.A.upstream_ca",
        "no effect",
        "https://",
    );
    check(
        &with("upstream_http = \"3\""),
        6,
        17,
        "services.A.upstream_http",
        "not an HTTP version",
        "`\"2\"`",
    );
    check(
        &with("listen = \"127.0.0.1:1\""),
        6,
        10,
        "services.A.listen",
        "exclude each other",
        "keep `listen`",
    );
    check(
        &with("tls = { cert = \"a\" }"),
        6,
        1,
        "services.A.tls.key",
        "missing",
        "write `key = ",
    );
    check(
        &with("upstram = \"a\""),
        6,
        1,
        "services.A.upstram",
        "unknown key",
        "did you mean `upstream`?",
    );
}

#[test]
fn addresses_are_used_once() {
    let second = "[services.B]\nlisten = \"0.0.0.0:8001\"\nupstream = \"http://127.0.0.1:5002\"\n";
    check(
        &format!("{GOOD}{second}"),
        7,
        10,
        "services.B.listen",
        "`services.A.public`",
        "another port",
    );
    let peer = "[peer]\nlisten = \"[::]:8001\"\nca = \"a\"\ncert = \"a\"\nkey = \"a\"\n";
    check(
        &format!("{GOOD}{peer}"),
        7,
        10,
        "peer.listen",
        "`services.A.public`",
        "another port",
    );
}

#[test]
fn bad_peers_and_sites() {
    let with = |lines: &str| format!("{GOOD}{lines}\n");
    let site = "[sites.site2]\naddress = \"b:7443\"";
    check(&with(site), 6, 8, "sites.site2", "without [peer]", "`cheops ca`");
    let peer = "[peer]\nlisten = \"127.0.0.1:7443\"\nca = \"a\"\ncert = \"a\"\nkey = \"a\"\n";
    assert!(read_text(&with(&format!("{peer}{site}"))).is_ok());
    let itself = with(&format!("{peer}{}", site.replace("site2", "site1")));
    check(&itself, 11, 8, "sites.site1", "this site itself", "other sites");
    let bad = with(&format!("{peer}{}", site.replace("b:7443", "b")));
    check(
        &bad,
        12,
        11,
        "sites.site2.address",
        "not where a site is reached",
        "192.0.2.2:7443",
    );
    let without_key = with(&peer.replace("key = \"a\"\n", ""));
    check(
        &without_key,
        6,
        2,
        "peer.key",
        "`key` is missing in [peer]",
        "write `key = ",
    );
}

#[test]
fn no_two_sites_have_one_slot() {
    let with = |top: &str, sites: &str| {
        let peer = "[peer]\nlisten = \"127.0.0.1:7443\"\nca = \"a\"\ncert = \"a\"\nkey = \"a\"\n";
        format!("{top}{GOOD}{peer}{sites}")
    };
    let by_name = |name: &str| Slot::by_name(&SiteName::new(name).unwrap());
    let (mine, of_site2) = (by_name("site1").number(), by_name("site2").number());
    let site2 = "[sites.site2]\naddress = \"b:7443\"\n";
    let config = read_text(&with("", site2)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.slot, by_name("site1"));
    let config = read_text(&with("slot = 7\n", site2)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.slot.number(), 7);
    // The one that another's name leads to is free once that one has another.
    let swapped = with(
        &format!("slot = {of_site2}\n"),
        &format!("{site2}slot = {mine}\n"),
    );
    assert!(read_text(&swapped).is_ok());

    let same = format!("{site2}slot = {mine}\n");
    let message = format!("`site2` and `site1` both have slot {mine}");
    check(
        &with("", &same),
        13,
        8,
        "sites.site2.slot",
        &message,
        "write `slot = 0` in [sites.site2]",
    );
    // Names alone can do it, too.
    let names = (0..10_000_000_u32).map(|number| format!("x{number}"));
    let twin = names
        .into_iter()
        .find(|name| by_name(name).number() == mine)
        .unwrap();
    let twin = site2.replace("site2", &twin);
    check(
        &with("", &twin),
        11,
        8,
        twin[1..].split(']').next().unwrap(),
        "both have slot",
        "write `slot = 0`",
    );
    let beyond = format!("{site2}slot = 65536\n");
    check(
        &with("", &beyond),
        13,
        8,
        "sites.site2.slot",
        "no slot 65536",
        "0 to 65535",
    );
}

#[test]
fn bad_limits() {
    let with = |line: &str| format!("{GOOD}[limits]\n{line}\n");
    check(
        &with("scope_max_byte = 1"),
        7,
        1,
        "limits.scope_max_byte",
        "unknown",
        "`scope_max_bytes`",
    );
    check(&with("xyz = 1"), 7, 1, "limits.xyz", "unknown", "config example");
    for (old, instead) in [
        ("correlation_max", "correlation_scopes_max_bytes"),
        ("correlation_idle_s", "correlation_credential_s"),
        ("correlation_read_idle_s", "correlation_credential_read_s"),
    ] {
        let key = format!("limits.{old}");
        check(&with(&format!("{old} = 1")), 7, 1, &key, "unknown", instead);
    }
    check(
        &with("peer_timeout_ms = 0"),
        7,
        19,
        "limits.peer_timeout_ms",
        "must not be 0",
        "above 0",
    );
    check(
        &with("peer_timeout_ms = 1.5"),
        7,
        19,
        "limits.peer_timeout_ms",
        "not a float",
        "= 1000",
    );
    check(
        &with("scope_max_bytes = 1_000_000"),
        6,
        2,
        "limits",
        "never arrives",
        "lower",
    );
}

#[test]
fn all_errors_are_told_at_once_in_order() {
    let text = GOOD
        .replace("site1", "-")
        .replace("8001", "x")
        .replace("http:", "gopher:")
        + "colour = 1\n";
    let keys: Vec<_> = errors_of(read_text(&text))
        .iter()
        .map(|error| error["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        keys,
        [
            "site",
            "services.A.public",
            "services.A.upstream",
            "services.A.colour"
        ]
    );
}

#[test]
fn errors_are_shown_in_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let errors = read_in(&dir, &format!("worker = 2\n{GOOD}")).unwrap_err();
    let rendered = errors
        .render(false)
        .replace(&dir.path().display().to_string(), "");
    let expected = "\
error: unknown key `worker`
 --> /cheops.toml:1:1
  |
1 | worker = 2
  | ^^^^^^
  |
  = help: did you mean `workers`?";
    assert_eq!(rendered, expected);
    assert!(errors.render(true).contains('\u{1b}'));
}

#[test]
fn a_file_that_is_not_there() {
    let errors = Config::load(Path::new("/nowhere/cheops.toml")).unwrap_err();
    let text = errors.to_string();
    assert!(text.contains("cannot read /nowhere/cheops.toml"), "{text}");
    assert!(text.contains("cheops config example"), "{text}");
}

/// A directory with the files of `ca`, and a configuration with a peer.
fn mesh() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    ca::init(dir.path()).unwrap();
    for site in ["site1", "site2"] {
        ca::issue(dir.path(), &SiteName::new(site).unwrap(), dir.path()).unwrap();
    }
    let peer = "\
[peer]
listen = \"127.0.0.1:7443\"
ca = \"ca.pem\"
cert = \"site1.pem\"
key = \"site1.key\"
";
    (dir, format!("{GOOD}{peer}"))
}

#[test]
fn good_files() {
    let (dir, text) = mesh();
    let config = load_in(&dir, &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.peer.unwrap().key, dir.path().join("site1.key"));
    let tls = text.replace(
        "[peer]",
        "tls = { cert = \"site2.pem\", key = \"site2.key\" }\n[peer]",
    );
    load_in(&dir, &tls).unwrap_or_else(|errors| panic!("{errors}"));
    let https = text
        .replace("http:", "https:")
        .replace("[peer]", "upstream_ca = \"ca.pem\"\n[peer]");
    load_in(&dir, &https).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn bad_files() {
    let (dir, text) = mesh();
    let other = tempfile::tempdir().unwrap();
    ca::init(other.path()).unwrap();
    fs::copy(other.path().join("ca.pem"), dir.path().join("other.pem")).unwrap();
    fs::write(dir.path().join("empty.pem"), "").unwrap();
    fs::write(dir.path().join("glue.toml"), "colour = 1\n").unwrap();

    let check = |from: &str, to: &str, key: &str, message: &str, fix: &str| {
        let errors = errors_of(load_in(&dir, &text.replace(from, to)));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        let line = errors[0]["line"].as_u64().unwrap();
        let column = errors[0]["column"].as_u64().unwrap();
        assert!(line >= 1 && column >= 1);
        check_one(&errors[0], line, column, key, message, fix);
    };
    check(
        "\"ca.pem\"",
        "\"no.pem\"",
        "peer.ca",
        "cannot read",
        "copy the mesh's `ca.pem`",
    );
    check(
        "site1.key",
        "no.key",
        "peer.key",
        "cannot read",
        "cheops ca issue site1",
    );
    check(
        "site1.key",
        "ca.pem",
        "peer.key",
        "no private key in PEM form",
        "-----BEGIN",
    );
    check(
        "site1.pem",
        "empty.pem",
        "peer.cert",
        "no certificate in PEM form",
        "-----BEGIN",
    );
    check(
        "site1.key",
        "site2.key",
        "peer.key",
        "does not belong",
        "copy both files",
    );
    check(
        "\"ca.pem\"",
        "\"other.pem\"",
        "peer.cert",
        "did not issue",
        "issue it again",
    );
    check(
        "\"ca.pem\"",
        "\"empty.pem\"",
        "peer.ca",
        "no certificate in it",
        "`cheops ca`",
    );
    let (cert, both) = ("site1.pem\"\nkey = \"site1", "site2.pem\"\nkey = \"site2");
    check(
        cert,
        both,
        "peer.cert",
        "of site `site2`, but this is `site1`",
        "cheops ca issue site1",
    );
    let tls = "tls = { cert = \"site2.pem\", key = \"site1.key\" }\n[peer]";
    check(
        "[peer]",
        tls,
        "services.A.tls.key",
        "does not belong",
        "copy both files",
    );
    let glue = "glue = \"glue.toml\"\nsite = \"site1\"";
    check("site = \"site1\"", glue, "glue", "glue.toml:1:", "");
    let own = ca::serial(&dir.path().join("site1.pem")).unwrap();
    check(
        "[peer]",
        &format!("[peer]\nrevoked = [\"{own}\"]"),
        "peer.cert",
        "own certificate",
        "cheops ca issue site1 --force",
    );
}

#[test]
fn revoked_certificates() {
    let (dir, text) = mesh();
    let with = |list: &str| text.replace("[peer]", &format!("[peer]\nrevoked = {list}"));
    let serial = ca::serial(&dir.path().join("site2.pem")).unwrap();
    let shouted = serial.to_string().to_uppercase();
    let config =
        load_in(&dir, &with(&format!("[\"{shouted}\"]"))).unwrap_or_else(|errors| panic!("{errors}"));
    let revoked = config.peer.unwrap().revoked;
    assert_eq!(revoked.serials().collect::<Vec<_>>(), [&serial]);
    check(
        &with("[\"site2\"]"),
        7,
        12,
        "peer.revoked",
        "`site2` is not a serial number",
        "cheops ca serial",
    );
    check(
        &with("\"0a\""),
        7,
        11,
        "peer.revoked",
        "an array of strings",
        "write `revoked",
    );
}

#[test]
fn a_service_is_offered_unless_it_says_otherwise() {
    let with = |lines: &str| format!("{GOOD}{lines}\n");
    let offered = |text: &str| read_text(text).unwrap().services["A"].peers;
    assert!(offered(GOOD));
    assert!(offered(&with("peers = true")));
    assert!(!offered(&with("peers = false")));
    check(
        &with("peers = \"none\""),
        6,
        9,
        "services.A.peers",
        "must be `true` or `false`",
        "write `peers = true`",
    );
}

#[test]
fn what_does_not_leave_for_a_site() {
    let peer = "[peer]\nlisten = \"127.0.0.1:7443\"\nca = \"a\"\ncert = \"a\"\nkey = \"a\"\n";
    let with = |lines: &str| format!("{GOOD}{peer}[sites.site2]\naddress = \"b:7443\"\n{lines}\n");
    let site = |lines: &str| read_text(&with(lines)).unwrap().sites["site2"].clone();
    assert_eq!(
        (site("").withhold, site("").hedge_credentials),
        (Vec::new(), false)
    );
    assert!(site("hedge_credentials = true").hedge_credentials);
    assert_eq!(
        site("withhold = [\"Cookie\", \"authorization\", \"cookie\"]").withhold,
        ["authorization", "cookie"]
    );
    for needed in ["Host", "content-length", "X-Cheops-Scope"] {
        let text = with(&format!("withhold = [\"{needed}\"]"));
        check(
            &text,
            13,
            13,
            "sites.site2.withhold",
            "without `",
            "carries a credential",
        );
    }
    check(
        &with("withhold = [\"a b\"]"),
        13,
        13,
        "sites.site2.withhold",
        "`a b` is not the name of a header",
        "`cookie`",
    );
}
