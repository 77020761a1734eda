//! The binary as a user meets it: what it prints where, and how it ends.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn cheops(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cheops"));
    command
        .current_dir(dir)
        .args(args)
        .env_remove("CHEOPS_CONFIG")
        .env_remove("CHEOPS_ADMIN")
        .env_remove("CHEOPS_LOG");
    command
}

fn output(dir: &Path, args: &[&str]) -> Output {
    cheops(dir, args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn ends(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[test]
fn scopes_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let good = output(dir.path(), &["scope", "check", "A:a;b"]);
    ends(&good, 0);
    assert!(text(&good.stdout).starts_with("A: a ; b\n"), "{good:?}");
    assert!(good.stderr.is_empty());

    let json = output(dir.path(), &["scope", "check", "--json", "A: a & b"]);
    ends(&json, 0);
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["services"]["A"]["operator"], "&");

    let bad = output(dir.path(), &["scope", "check", "A: a &"]);
    ends(&bad, 2);
    assert!(bad.stdout.is_empty());
    assert!(text(&bad.stderr).contains("error[scope_syntax]"), "{bad:?}");

    let bad = output(dir.path(), &["scope", "check", "--json", "A: a &"]);
    ends(&bad, 2);
    let value: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(value["code"], "scope_syntax");
}

#[test]
fn names_are_judged_with_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        "site = \"site1\"\n[services.A]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\n";
    fs::write(dir.path().join("cheops.toml"), config).unwrap();
    ends(&output(dir.path(), &["scope", "check", "A: sit1"]), 0);
    ends(
        &output(dir.path(), &["scope", "check", "-c", "cheops.toml", "A: site1"]),
        0,
    );
    let unknown = output(dir.path(), &["scope", "check", "-c", "cheops.toml", "A: sit1"]);
    ends(&unknown, 2);
    assert!(
        text(&unknown.stderr).contains("did you mean `site1`?"),
        "{unknown:?}"
    );
}

#[test]
fn configurations_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let none = output(dir.path(), &["config", "check", "-c", "no.toml"]);
    ends(&none, 2);
    assert!(text(&none.stderr).contains("cheops config example"), "{none:?}");

    fs::write(dir.path().join("cheops.toml"), "sitee = \"a\"\n").unwrap();
    let bad = output(dir.path(), &["config", "check"]);
    ends(&bad, 2);
    assert!(text(&bad.stderr).contains("cheops.toml:1:1"), "{bad:?}");
    assert!(
        !text(&bad.stderr).contains('\u{1b}'),
        "no colours without a terminal"
    );

    let json = output(dir.path(), &["config", "check", "--json"]);
    ends(&json, 2);
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["ok"], false);
    assert!(value["errors"].as_array().is_some_and(|errors| errors.len() > 1));
}

#[test]
fn a_mesh_is_made_and_its_configuration_is_good() {
    let dir = tempfile::tempdir().unwrap();
    ends(&output(dir.path(), &["ca", "init", "--dir", "mesh"]), 0);
    ends(&output(dir.path(), &["ca", "init", "--dir", "mesh"]), 2);
    let issued = output(
        dir.path(),
        &["ca", "issue", "site1", "--dir", "mesh", "--out", "."],
    );
    ends(&issued, 0);
    let peer = text(&issued.stdout).split_once("\n\n[peer]").unwrap().1;
    let config = format!(
        "site = \"site1\"\n[services.A]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\n[peer]{peer}"
    );
    fs::write(dir.path().join("cheops.toml"), config).unwrap();
    let checked = output(dir.path(), &["config", "check", "--json"]);
    ends(&checked, 0);
    let value: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(value["config"]["site"], "site1");

    let status = output(dir.path(), &["status"]);
    ends(&status, 1);
    assert!(text(&status.stderr).contains("no agent answers at"), "{status:?}");
    assert!(
        text(&status.stderr).contains("data/site1/admin.sock"),
        "{status:?}"
    );
}

#[test]
fn an_agent_does_not_start_with_a_data_directory_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let config = "site = \"site1\"\nworkers = 1\n[services.A]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\n";
    fs::write(dir.path().join("cheops.toml"), config).unwrap();
    let data = dir.path().join("data/site1");
    fs::create_dir_all(&data).unwrap();
    let open_to = |mode| fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
    // It ends by itself, because there is no standard input.
    let run = || output(dir.path(), &["run", "--exit-with-stdin"]);
    open_to(0o777);
    let refused = run();
    ends(&refused, 1);
    assert!(text(&refused.stderr).contains("chmod go-w"), "{refused:?}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);

    open_to(0o700);
    let elsewhere = dir.path().join("elsewhere");
    symlink(&elsewhere, data.join("site.key")).unwrap();
    let refused = run();
    ends(&refused, 1);
    assert!(text(&refused.stderr).contains("site.key"), "{refused:?}");
    assert!(!elsewhere.exists());

    fs::remove_file(data.join("site.key")).unwrap();
    ends(&run(), 0);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = cheops(dir.path(), &["config", "example"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(child.wait().unwrap().success(), "{errors}");
    assert_eq!(errors, "");
}

#[test]
fn glue_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let example = output(dir.path(), &["glue", "example"]);
    ends(&example, 0);
    fs::write(dir.path().join("shop.toml"), &example.stdout).unwrap();
    let good = output(dir.path(), &["glue", "check", "shop.toml"]);
    ends(&good, 0);
    assert!(
        text(&good.stdout).starts_with("shop.toml is good: application shop, "),
        "{good:?}"
    );

    // A wrong pointer and an unknown verb: both are told, each in its place.
    let wrong = "\
application = \"shop\"
[[services.A.resources]]
kind = \"order\"
collection = \"/orders\"
ignore = [\"state\"]
[[services.A.resources]]
kind = \"label\"
collection = \"/labels\"
patch = { \"application/json\" = \"mrge\" }
";
    fs::write(dir.path().join("shop.toml"), wrong).unwrap();
    let bad = output(dir.path(), &["glue", "check", "shop.toml"]);
    ends(&bad, 2);
    assert!(bad.stdout.is_empty());
    for place in ["shop.toml:5:11", "shop.toml:9:32"] {
        assert!(
            text(&bad.stderr).contains(place),
            "{place}: {}",
            text(&bad.stderr)
        );
    }
    assert!(text(&bad.stderr).contains("did you mean `merge`?"), "{bad:?}");
    let json = output(dir.path(), &["glue", "check", "--json", "shop.toml"]);
    ends(&json, 2);
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["ok"], false);
    assert_eq!(value["errors"].as_array().map(Vec::len), Some(2), "{value}");

    let none = output(dir.path(), &["glue", "check", "no.toml"]);
    ends(&none, 2);
    assert!(text(&none.stderr).contains("cannot read no.toml"), "{none:?}");
}

#[test]
fn glue_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let list = output(dir.path(), &["glue", "show"]);
    ends(&list, 0);
    assert!(
        text(&list.stdout).contains("\nkubernetes  kubernetes\n"),
        "{list:?}"
    );
    let shown = output(dir.path(), &["glue", "show", "example"]);
    ends(&shown, 0);
    assert!(text(&shown.stdout).contains("/orders/{id}"), "{shown:?}");
    let json = output(dir.path(), &["glue", "show", "kubernetes", "--json"]);
    ends(&json, 0);
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["application"], "kubernetes");
    ends(&output(dir.path(), &["glue", "show", "kubernets"]), 2);
    let setup = output(dir.path(), &["glue", "setup", "kubernetes"]);
    ends(&setup, 0);
    assert!(text(&setup.stdout).starts_with("#!/bin/sh\n"), "{setup:?}");
}
