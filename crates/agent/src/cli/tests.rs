use cheops_scope::ParseLimits;
use clap::{CommandFactory as _, Parser as _};
use serde_json::json;

use super::*;

const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_typed_is_understood() {
    for line in [
        "cheops run",
        "cheops run -c a.toml -v",
        "cheops scope check --json A:a",
        "cheops explain --service A --method POST --path /items a;b --json",
        "cheops explain --service A",
        "cheops config check -c a.toml --json",
        "cheops config example",
        "cheops ca init --dir mesh --days 10 --force",
        "cheops ca issue site1 --out /tmp",
        "cheops ca serial site1.pem",
        "cheops status --admin a.sock",
        "cheops --admin a.sock sites --json",
        "cheops completions zsh",
        "cheops glue check shop.toml --json",
        "cheops glue show",
        "cheops glue show kubernetes --json",
        "cheops glue example",
        "cheops glue setup openstack",
        "cheops -v kubectl --scope a get pods -o wide --scope b",
        "cheops kubectl --help-me -n x",
        "cheops --admin a.sock curl -i http://a",
        "cheops replicas ls --service A --kind order --state in-doubt --site site1 --limit 5 --json",
        "cheops replicas show 72 --service A --kind order --admin a.sock",
        "cheops replicas add-site 72 site3 --credential -",
        "cheops replicas remove-site 72 site3 --force --json",
        "cheops replicas adopt --service A /orders/7 site2 site3 --credential headers.txt",
        "cheops replicas move 72 site1 site3 --wait 5",
        "cheops replicas verify 72 --repair --json",
        "cheops ops ls --set 72 --state needs-credentials",
        "cheops ops show 72:site1.1.0.4",
        "cheops ops retry 72:site1.1.0.4 --credential -",
        "cheops ops settle 72:site1.1.0.4 --executed --local-id 42",
        "cheops ops settle 72:site1.1.0.4 --not-executed",
        "cheops ops abandon 72:site1.1.0.4 --json",
        "cheops conflicts ls --set 72 --service A",
        "cheops conflicts show 72:site1.1.0.4 --json",
        "cheops conflicts reapply 72:site1.1.0.4 --credential headers.txt",
        "cheops conflicts dismiss 72:site1.1.0.4",
    ] {
        if let Err(error) = Cli::try_parse_from(line.split(' ')) {
            panic!("{line}: {error}");
        }
    }
    for line in [
        "cheops",
        "cheops explain a",
        "cheops ca issue -x",
        "cheops ca issue a/b",
        "cheops ca init --days 0",
        "cheops glue",
        "cheops glue check",
        "cheops glue setup example",
        "cheops replicas",
        "cheops replicas ls --state well",
        "cheops replicas ls --limit 0",
        "cheops replicas add-site 72",
        "cheops replicas adopt --service A /orders/7",
        "cheops replicas move 72 site1",
        "cheops ops settle 72:site1.1.0.4",
        "cheops ops settle 72:site1.1.0.4 --executed --not-executed",
        "cheops ops settle 72:site1.1.0.4 --not-executed --local-id 42",
    ] {
        let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

/// A script has every command that can be typed.
#[test]
fn completion_knows_the_commands() {
    for shell in [
        clap_complete::Shell::Bash,
        clap_complete::Shell::Zsh,
        clap_complete::Shell::Fish,
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "cheops", &mut script);
        let script = String::from_utf8(script).unwrap();
        for word in [
            "replicas",
            "remove-site",
            "adopt",
            "settle",
            "reapply",
            "--credential",
            "kubectl",
            "curl",
            "glue",
            "--scope",
        ] {
            let word = word.trim_start_matches("--");
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

/// What has commands of its own says what to type for each, and prints JSON where it prints a result.
#[test]
fn every_command_has_an_example() {
    let mut cli = Cli::command();
    cli.build();
    for name in ["replicas", "ops", "conflicts", "glue"] {
        let group = cli.find_subcommand(name).unwrap();
        for command in group
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let line = format!("cheops {name} {}", command.get_name());
            assert!(help.contains(&line), "{line}: {help}");
            let json = command
                .get_arguments()
                .any(|argument| argument.get_id() == "json");
            let prints_a_file = ["example", "setup"].contains(&command.get_name());
            assert!(json || prints_a_file, "{line} has no --json");
        }
    }
}

#[test]
fn columns_are_aligned() {
    let rows = vec![
        vec!["site1".to_owned(), "here".to_owned()],
        vec!["s".to_owned(), "-".to_owned()],
    ];
    assert_eq!(
        output::columns(&["SITE", "STATE"], &rows),
        "SITE   STATE\nsite1  here\ns      -\n"
    );
}

#[test]
fn a_wrong_scope_is_shown() {
    let source = "A: site1 &";
    let found = cheops_scope::read(source, &LIMITS, None).unwrap_err();
    let rendered = scope::render(source, &found, false);
    assert!(rendered.starts_with("error[scope_syntax]: "), "{rendered}");
    assert!(rendered.contains("1 | A: site1 &\n"), "{rendered}");
    assert!(rendered.contains('^'), "{rendered}");
}

#[test]
fn an_agents_problem_is_shown_in_the_scope() {
    let problem = json!({
        "code": "unknown_site",
        "detail": "no site `sit2`; did you mean `site2`?",
        "position": { "offset": 3, "length": 4 },
    });
    let expected = "\
error[unknown_site]: no site `sit2`; did you mean `site2`?
  |
1 | A: sit2
  |    ^^^^";
    assert_eq!(scope::render_problem("A: sit2", &problem), expected);
    // A place in another text is no place.
    assert!(!scope::render_problem("A", &problem).contains('^'));
}
