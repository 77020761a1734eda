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
        "cheops status --admin a.sock",
        "cheops --admin a.sock sites --json",
        "cheops completions zsh",
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
    ] {
        let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
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
