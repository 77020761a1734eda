//! Runs the cases of `specs/*.md`.
//!
//! A case stands in a fenced block of the language `scope`, cases are separated by an empty line. Its
//! first line is the scope; then either `=> ` and the canonical form, or for each diagnostic a line with
//! `^` under its span, its code and its message, followed by `help: ` if and only if it has help, and
//! `note: ` where the case is about the explanation. Words after `scope` in the opening fence: `names`
//! checks names against [`Known`], `max_bytes=` and `max_depth=` set limits.

use std::{fmt::Write as _, fs, path::Path};

use cheops_scope::{Diagnostic, Names, ParseLimits, parse, read};

struct Known;

const SITES: [&str; 5] = ["paris", "nantes", "lyon", "rennes", "site2"];
const SERVICES: [&str; 3] = ["compute", "image", "network"];

impl Names for Known {
    fn has_site(&self, name: &str) -> bool {
        SITES.contains(&name)
    }
    fn has_service(&self, name: &str) -> bool {
        SERVICES.contains(&name)
    }
    fn sites(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(SITES.into_iter())
    }
    fn services(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(SERVICES.into_iter())
    }
}

struct Case<'a> {
    place: String,
    options: &'a str,
    input: &'a str,
    expected: Vec<&'a str>,
}

#[test]
fn specs() {
    let mut files: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("specs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let (mut ran, mut failures) = (0, String::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let cases = cases(&name, &text);
        assert!(!cases.is_empty(), "{name} has no case");
        for case in cases {
            ran += 1;
            let actual = run(&case);
            if !agrees(&case.expected, &actual) {
                let expected = case.expected.join("\n");
                writeln!(
                    failures,
                    "{}\n{}\n{}\n--- expected\n{expected}\n",
                    case.place,
                    case.input,
                    actual.join("\n")
                )
                .unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(ran > 80, "only {ran} cases ran");
}

fn cases<'a>(file: &str, text: &'a str) -> Vec<Case<'a>> {
    let mut cases: Vec<Case<'a>> = Vec::new();
    let mut block: Option<&str> = None;
    let mut within_case = false;
    for (number, line) in text.lines().enumerate() {
        match (block, line.strip_prefix("```")) {
            (None, Some(info)) => {
                block = info.strip_prefix("scope");
                within_case = false;
            }
            (None, None) => {}
            (Some(_), Some(_)) => block = None,
            (Some(_), None) if line.is_empty() => within_case = false,
            (Some(options), None) if !within_case => {
                within_case = true;
                let place = format!("{file}:{}", number + 1);
                cases.push(Case {
                    place,
                    options,
                    input: line,
                    expected: Vec::new(),
                });
            }
            (Some(_), None) => cases.last_mut().unwrap().expected.push(line),
        }
    }
    cases
}

fn run(case: &Case<'_>) -> Vec<String> {
    let option = |name: &str, default| {
        let mut words = case.options.split_whitespace();
        words
            .find_map(|word| word.strip_prefix(name))
            .map_or(default, |value| value.parse().unwrap())
    };
    let limits = ParseLimits {
        max_bytes: option("max_bytes=", 4096),
        max_depth: option("max_depth=", 32),
    };
    let names = case.options.contains("names").then_some(&Known as &dyn Names);
    match read(case.input, &limits, names) {
        Ok(scope) => {
            let printed = scope.to_string();
            assert_eq!(
                parse(&printed, &limits.for_printed()).as_ref(),
                Ok(&scope),
                "{}",
                case.place
            );
            vec![format!("=> {printed}")]
        }
        Err(diagnostics) => diagnostics
            .iter()
            .flat_map(|diagnostic| print(case.input, diagnostic))
            .collect(),
    }
}

fn print(input: &str, diagnostic: &Diagnostic) -> Vec<String> {
    let before = " ".repeat(input[..diagnostic.span.start].chars().count());
    let under = "^".repeat(input[diagnostic.span.clone()].chars().count().max(1));
    let mut lines = vec![format!(
        "{before}{under} {}: {}",
        diagnostic.code, diagnostic.message
    )];
    lines.extend(diagnostic.help.iter().map(|help| format!("help: {help}")));
    lines.extend(diagnostic.note.iter().map(|note| format!("note: {note}")));
    lines
}

/// Whether both are the same but for notes that the case leaves out.
fn agrees(expected: &[&str], actual: &[String]) -> bool {
    let mut expected = expected.iter().peekable();
    for line in actual {
        if expected.peek().is_some_and(|wanted| *wanted == line) {
            expected.next();
        } else if !line.starts_with("note: ") {
            return false;
        }
    }
    expected.next().is_none()
}
