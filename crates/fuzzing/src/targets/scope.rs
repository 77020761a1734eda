use std::str;

use cheops_scope::{Diagnostic, ParseLimits, check_meaning, parse};

pub(super) const TOKENS: &[&[u8]] = &[
    b"&",
    b"|",
    b";",
    b"%",
    b"!",
    b"(",
    b")",
    b"{",
    b"}",
    b":",
    b",",
    b" ",
    b"\"",
    b"\\",
    b"\\u0026",
    b"\\ud800",
    "é".as_bytes(),
    "µ".as_bytes(),
    b"around(",
    b"strong(",
    b"eventual(",
    b"all()",
    b", 10ms)",
    b"0ms",
    b"1.5s",
    b"{\"",
    b"\": \"",
    b"\", \"",
    b"\"}",
    b"\n",
    b"\0",
    b"site1",
    b"B: ",
    b"99999999999s",
];

const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};

/// Any text is a scope that survives printing, or an error that points into the text.
pub(super) fn run(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    match parse(text, &LIMITS) {
        Ok(scope) => {
            let printed = scope.to_string();
            let again = parse(&printed, &LIMITS.for_printed());
            assert_eq!(again.as_ref(), Ok(&scope), "{printed}");
            if let Err(diagnostics) = check_meaning(&scope) {
                diagnostics.iter().for_each(|diagnostic| check(diagnostic, text));
            }
            true
        }
        Err(diagnostic) => {
            check(&diagnostic, text);
            false
        }
    }
}

fn check(diagnostic: &Diagnostic, text: &str) {
    assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}");
    diagnostic.to_problem(text).to_bytes();
}
