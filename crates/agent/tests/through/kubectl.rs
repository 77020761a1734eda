//! What kubectl is given, and how it ends.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{Fake, Running, text};

/// Nothing listens there, and nothing asks.
const NOBODY: &str = "http://127.0.0.1:9";

#[test]
fn without_a_scope_kubectl_runs_as_it_is() {
    let fake = Fake::plain(NOBODY);
    let running = fake.start(&["kubectl", "--context", "x", "get", "pods", "--", "--scope", "a"]);
    assert_eq!(running.args, "--context x get pods -- --scope a");
    assert_eq!(running.files, fake.path("own").to_str().unwrap());
    let output = running.end("hello");
    assert_eq!(text(&output.stdout), "input:hello\n");
    assert!(output.status.success());
    assert_eq!(fake.views(), 0);

    // An empty scope is none.
    let mut command = fake.command(&["kubectl", "get", "--scope="]);
    let running = Running::of(command.env("CHEOPS_SCOPE", "site1"));
    assert_eq!(running.files, fake.path("own").to_str().unwrap());
    running.end("");
}

#[test]
fn with_a_scope_the_server_is_another_one() {
    let fake = Fake::plain(NOBODY);
    let line = [
        "kubectl",
        "--context=x",
        "apply",
        "-f",
        "-",
        "--scope",
        "{site1 & site2}",
        "--user",
        "u",
    ];
    let running = fake.start(&line);
    assert_eq!(running.args, "apply -f - --user u");
    assert!(
        running.url().starts_with("http://127.0.0.1:"),
        "{}",
        running.url()
    );
    let own = fake.path("own");
    assert!(
        running.files.ends_with(&format!(":{}", own.display())),
        "{}",
        running.files
    );
    let layer = running.layer();
    assert_eq!(layer["contexts"][0]["context"]["user"], "u");
    assert_eq!(layer["contexts"][0]["context"]["namespace"], "shop");
    assert!(!layer.to_string().contains("secret"), "{layer}");
    let output = running.end("a document");
    assert_eq!(text(&output.stdout), "input:a document\n");
    assert!(output.status.success(), "{output:?}");
    assert!(fake.left().is_empty());
}

#[test]
fn the_port_is_the_same_again() {
    let fake = Fake::plain("http://same.example:8080");
    let port = |scope: &str| {
        let running = fake.start(&["kubectl", "get", "--scope", scope]);
        let address = running.address();
        running.end("");
        address
    };
    // Another program may have taken a port in between; not every time.
    assert!((0..5).any(|_| port("site1") == port("site1")));
}

#[test]
fn the_environment_gives_a_scope_and_a_kubectl() {
    let fake = Fake::plain(NOBODY);
    let mut command = fake.command(&["kubectl", "get", "pods"]);
    command
        .env("CHEOPS_SCOPE", "site1")
        .env("KUBECTL", fake.path("kubectl"))
        .env("PATH", "/usr/bin:/bin");
    let running = Running::of(&mut command);
    assert_ne!(running.files, fake.path("own").to_str().unwrap());
    running.end("");

    let mut command = fake.command(&["kubectl", "get", "pods"]);
    let output = command.env("KUBECTL", "/there/is/none").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("KUBECTL="), "{output:?}");
}

#[test]
fn the_exit_code_is_kubectls() {
    for scope in [&["--scope", "site1"][..], &[]] {
        let fake = Fake::plain(NOBODY);
        let args = [&["kubectl", "get"][..], scope].concat();
        let mut command = fake.command(&args);
        assert_eq!(
            command.env("FAKE_CODE", "7").output().unwrap().status.code(),
            Some(7)
        );
    }
    // By a signal: as a shell tells it.
    let fake = Fake::plain(NOBODY);
    let mut command = fake.command(&["kubectl", "get", "--scope=site1"]);
    let output = command.env("FAKE_SIGNAL", "KILL").output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(fake.left().is_empty());
}

#[test]
fn a_signal_reaches_kubectl_and_nothing_is_left() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1)] {
        let fake = Fake::plain(NOBODY);
        let running = fake.start(&["kubectl", "get", "-w", "--scope", "site1"]);
        let pid = Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap();
        assert_eq!(fake.left().len(), 1);
        kill_process(pid, signal).unwrap();
        let output = running.wait();
        assert_eq!(output.status.code(), Some(128 + number), "{output:?}");
        assert!(fake.left().is_empty());
    }
}

#[test]
fn a_wrong_scope_starts_nothing() {
    let fake = Fake::plain(NOBODY);
    let output = fake.output(&["kubectl", "get", "pods", "--scope", "site1 &"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let told = text(&output.stderr);
    assert!(told.starts_with("error[scope_syntax]: "), "{told}");
    assert!(told.contains("1 | site1 &\n"), "{told}");
    assert_eq!(fake.views(), 0);

    let output = fake.output(&["kubectl", "get", "pods", "--scope"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no value"), "{output:?}");
}

#[test]
fn kubectl_config_works_on_the_files_themselves() {
    let fake = Fake::plain(NOBODY);
    let running = fake.start(&["kubectl", "-n", "x", "config", "use-context", "x", "--scope", "a"]);
    assert_eq!(running.args, "-n x config use-context x");
    assert_eq!(running.files, fake.path("own").to_str().unwrap());
    running.end("");
}

#[test]
fn as_a_plugin_it_is_the_same() {
    let fake = Fake::plain(NOBODY);
    let running = Running::of(&mut fake.linked("kubectl-cheops", &["get", "pods", "--scope", "a"]));
    assert_eq!(running.args, "get pods");
    assert_ne!(running.files, fake.path("own").to_str().unwrap());
    running.end("");

    let running = Running::of(&mut fake.linked("kubectl_complete-cheops", &["get", "po"]));
    assert_eq!(running.args, "__complete get po");
    running.end("");
}

#[test]
fn what_kubectl_makes_from_arguments_is_sent_as_json() {
    let fake = Fake::plain(NOBODY);
    let line = ["kubectl", "create", "ns", "shop", "-o", "name", "--scope"];
    let output = fake.output(&[&line[..], &["site1 & site2"]].concat());
    assert!(output.status.success(), "{output:?}");
    let told = text(&output.stdout);
    assert!(told.starts_with("args:create -f - -o name\n"), "{told}");
    let made = "input:made by create ns shop --dry-run=client --output=json\n";
    assert!(told.ends_with(made), "{told}");

    // One site takes it in any form.
    let running = fake.start(&[&line[..], &["site1"]].concat());
    assert_eq!(running.args, "create ns shop -o name");
    running.end("");

    let mut command = fake.command(&[&line[..], &["site1 & site2"]].concat());
    let output = command.env("FAKE_MAKE_CODE", "5").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(text(&output.stdout), "", "nothing is sent");
}

#[test]
fn a_scope_that_is_being_typed_is_not_completed() {
    let fake = Fake::plain(NOBODY);
    let output = fake.output(&["kubectl", "__complete", "get", "--scope", ""]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), ":4\n");
}

#[test]
fn what_kubectl_says_about_its_files_is_passed_on() {
    let fake = Fake::plain(NOBODY);
    let script = "#!/bin/sh\necho 'error: the file is broken' >&2\nexit 3\n";
    fs::write(fake.path("kubectl"), script).unwrap();
    let output = fake.output(&["kubectl", "get", "--scope", "a"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stderr), "error: the file is broken\n");
}
