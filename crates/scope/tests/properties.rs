//! What holds for every text and every scope.

use cheops_scope::{
    Diagnostic, Entry, Loc, Operator, ParseLimits, Radius, Scope, check_meaning, parse, read,
};
use cheops_types::{Code, Consistency, ServiceName, SiteName};
use proptest::prelude::*;

const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};
const WIDE: ParseLimits = ParseLimits {
    max_bytes: usize::MAX,
    max_depth: usize::MAX,
};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9][A-Za-z0-9_.-]{0,12}",
        Just("all".to_owned()),
        Just("around".to_owned()),
        Just("10ms".to_owned())
    ]
}

fn consistency() -> impl Strategy<Value = Consistency> {
    prop_oneof![Just(Consistency::Eventual), Just(Consistency::Strong)]
}

fn loc() -> impl Strategy<Value = Loc> {
    let leaf = prop_oneof![
        8 => name().prop_map(|name| Loc::site(SiteName::new(&name).unwrap())),
        1 => Just(Loc::all()),
    ];
    leaf.prop_recursive(8, 40, 4, |inner| {
        let join = (
            prop::sample::select(&Operator::ALL[..]),
            prop::collection::vec(inner.clone(), 2..5),
        );
        prop_oneof![
            4 => join.prop_map(|(operator, members)| {
                members.into_iter().reduce(|left, right| left.join(operator, right)).unwrap()
            }),
            1 => inner.clone().prop_map(Loc::except),
            1 => (inner.clone(), 1..=Radius::MAX.us())
                .prop_map(|(center, us)| Loc::around(center, Radius::from_us(us).unwrap())),
            1 => (consistency(), inner).prop_map(|(consistency, inner)| Loc::wrapped(consistency, inner)),
        ]
    })
}

fn scope() -> impl Strategy<Value = Scope> {
    let entry = (name(), loc()).prop_map(|(name, loc)| Entry::new(ServiceName::new(&name).unwrap(), loc));
    prop_oneof![
        loc().prop_map(Scope::Bare),
        prop::collection::vec(entry, 1..4).prop_map(Scope::Full),
    ]
}

/// Text made of the pieces of the language, mostly wrong in interesting ways.
fn almost_scope() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => name(),
        6 => prop::sample::select(vec![
            "&", "|", ";", "%", "!", "(", ")", "{", "}", ":", ",", " ", "\"", "\\", "\\u0026", "\\ud800", "é", "µ",
            "around(", "strong(", "eventual(", "all()", ", 10ms)", "0ms", "1.5s", "{\"", "\": \"", "\", \"", "\"}", "\n", "\0",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn assert_within(text: &str, diagnostic: &Diagnostic) {
    let span = &diagnostic.span;
    assert!(
        text.get(span.clone()).is_some(),
        "{span:?} is not a part of {text:?}"
    );
    assert!(!diagnostic.message.is_empty() && !diagnostic.label.is_empty());
    diagnostic.to_problem(text).to_bytes();
}

fn assert_answered(text: &str) {
    match read(text, &LIMITS, None) {
        Ok(scope) => {
            let printed = scope.to_string();
            assert_eq!(
                parse(&printed, &LIMITS.for_printed()),
                Ok(scope),
                "{text:?} is printed as {printed:?}"
            );
        }
        Err(diagnostics) => diagnostics
            .iter()
            .for_each(|diagnostic| assert_within(text, diagnostic)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn print_then_parse_is_identity(scope in scope()) {
        let printed = scope.to_string();
        let parsed = parse(&printed, &WIDE);
        prop_assert_eq!(parsed.as_ref(), Ok(&scope), "{}", printed);
        prop_assert_eq!(parsed.unwrap().to_string(), printed);
    }

    #[test]
    fn full_form_is_full_and_stays(scope in scope(), service in name()) {
        let service = ServiceName::new(&service).unwrap();
        let full = scope.to_full(&service);
        prop_assert!(matches!(full, Scope::Full(_)));
        prop_assert_eq!(full.loc_of(&service), scope.loc_of(&service));
        prop_assert_eq!(full.to_full(&service), full);
    }

    #[test]
    fn full_form_fits_the_limits_for_printed_scopes(text in almost_scope(), service in "[a-z]{128}") {
        let limits = ParseLimits { max_bytes: text.len(), max_depth: 32 };
        if let Ok(scope) = parse(&text, &limits) {
            let full = scope.to_full(&ServiceName::new(&service).unwrap());
            prop_assert_eq!(parse(&full.to_string(), &limits.for_printed()), Ok(full));
        }
    }

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        assert_answered(&text);
    }

    #[test]
    fn almost_a_scope_is_answered(text in almost_scope()) {
        assert_answered(&text);
    }

    #[test]
    fn json_form_is_the_same_scope(scope in scope(), escape in any::<bool>()) {
        let Scope::Full(entries) = &scope else { return Ok(()) };
        let members: Vec<_> = entries
            .iter()
            .map(|entry| format!("{:?}: {:?}", entry.service.as_str(), entry.loc.to_string()))
            .collect();
        let mut text = format!("{{{}}}", members.join(", "));
        if escape {
            text = text.replace('&', "\\u0026").replace('|', "\\u007C");
        }
        prop_assert_eq!(parse(&text, &WIDE), Ok(scope), "{}", text);
    }

    #[test]
    fn meaning_points_into_the_text(scope in scope()) {
        let text = scope.to_string();
        let parsed = parse(&text, &WIDE).unwrap();
        if let Err(diagnostics) = check_meaning(&parsed) {
            diagnostics.iter().for_each(|diagnostic| assert_within(&text, diagnostic));
        }
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["(", "!", "strong(", "around(", "!("] {
        let text = open.repeat(10_000);
        let limits = ParseLimits {
            max_bytes: usize::MAX,
            max_depth: 32,
        };
        for limits in [limits, WIDE] {
            let error = parse(&text, &limits).unwrap_err();
            assert_eq!(error.code, Code::ScopeTooDeep, "{open}");
            assert_within(&text, &error);
        }
    }
    let json = format!("{{\"a\": \"{}\"}}", "(".repeat(10_000));
    assert_eq!(parse(&json, &WIDE).unwrap_err().code, Code::ScopeTooDeep);
}

#[test]
fn deepest_scope_is_whole() {
    let depth = ParseLimits::DEPTH_CEILING;
    let text = format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(parse(&text, &WIDE).unwrap().to_string(), "a");
}

#[test]
fn length_is_bounded() {
    let text = format!("a{}", " & é".repeat(16 * 1024));
    let error = parse(&text, &LIMITS).unwrap_err();
    assert_eq!(error.code, Code::ScopeTooLong);
    assert_within(&text, &error);
    assert!(error.to_problem(&text).to_bytes().len() < 1024);
}

#[test]
fn nothing_is_no_scope() {
    for text in ["", " ", "\t\n"] {
        let error = parse(text, &LIMITS).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (Code::ScopeSyntax, "the scope is empty")
        );
        assert_within(text, &error);
    }
}

#[test]
fn control_characters_do_not_reach_messages() {
    for text in ["\u{1b}[2J", "a \u{7}", "{\"a\u{1b}\": \"b\"}", "{\"a\": \u{1b}}"] {
        let message = parse(text, &LIMITS).unwrap_err().message;
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[test]
fn repeated_sites_are_found_in_short_and_long_lists() {
    for length in [2, 16, 17, 500] {
        let mut sites: Vec<_> = (0..length).map(|i| format!("s{i}")).collect();
        assert!(
            check_meaning(&parse(&sites.join(" & "), &LIMITS).unwrap()).is_ok(),
            "{length}"
        );
        sites.push("s1".to_owned());
        let error = check_meaning(&parse(&sites.join(" & "), &LIMITS).unwrap()).unwrap_err();
        assert_eq!(error.first().message, "`s1` stands twice in one `&`", "{length}");
    }
}
