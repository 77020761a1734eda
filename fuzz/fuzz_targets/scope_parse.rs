//! Any text is a scope that survives printing, or an error that points into the text.
//!
//! `cargo +nightly fuzz run scope_parse`

#![no_main]

use cheops_scope::{Diagnostic, ParseLimits, check_meaning, parse};
use libfuzzer_sys::fuzz_target;

const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};

fuzz_target!(|text: &str| {
    match parse(text, &LIMITS) {
        Ok(scope) => {
            let printed = scope.to_string();
            assert_eq!(
                parse(&printed, &LIMITS.for_printed()).as_ref(),
                Ok(&scope),
                "{printed}"
            );
            if let Err(diagnostics) = check_meaning(&scope) {
                diagnostics.iter().for_each(|diagnostic| check(diagnostic, text));
            }
        }
        Err(diagnostic) => check(&diagnostic, text),
    }
});

fn check(diagnostic: &Diagnostic, text: &str) {
    assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}");
    diagnostic.to_problem(text).to_bytes();
}
