use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

#[test]
fn the_scope_is_taken_out() {
    let check = |line: &str, scope: Option<&str>, rest: &str| {
        let taken = Taken::from(words(line)).unwrap();
        assert_eq!(taken.scope.as_deref(), scope, "{line}");
        assert_eq!(taken.args, words(rest), "{line}");
        assert!(!taken.is_open, "{line}");
    };
    check("get pods", None, "get pods");
    check("get pods --scope a&b", Some("a&b"), "get pods");
    check("--scope a&b get pods", Some("a&b"), "get pods");
    check("get --scope=a&b pods -o wide", Some("a&b"), "get pods -o wide");
    check("get --scope= pods", Some(""), "get pods");
    check(
        "create -f a.yaml --scope{Site1&Site2}",
        Some("{Site1&Site2}"),
        "create -f a.yaml",
    );
    check(
        "create -scope{Site1&Site2} -f a.yaml",
        Some("{Site1&Site2}"),
        "create -f a.yaml",
    );
    // Another program's.
    check("exec web -- run --scope a", None, "exec web -- run --scope a");
    check(
        "exec web --scope b -- run --scope a",
        Some("b"),
        "exec web -- run --scope a",
    );
    // Other options.
    check(
        "--scopes a -scope --scope-x=1",
        None,
        "--scopes a -scope --scope-x=1",
    );
    // The value, whatever it looks like.
    check("get --scope -- pods", Some("--"), "get pods");
}

#[test]
fn a_scope_that_cannot_be_taken_is_told() {
    let twice = Taken::from(words("get --scope a --scope=b")).unwrap_err();
    assert!(twice.0.contains("twice"), "{twice}");
    let mut open = Taken::from(words("get pods --scope")).unwrap();
    assert!(open.is_open);
    let error = open.effective_scope().unwrap_err();
    assert!(error.0.contains("no value"), "{error}");
    let bytes = OsString::from(OsStr::from_bytes(b"--scope=\xff"));
    assert!(Taken::from(vec![bytes]).is_err());
}

#[test]
fn no_scope_can_be_said() {
    let mut taken = Taken::from(words("get --scope=")).unwrap();
    assert_eq!(taken.effective_scope().unwrap(), None);
}

#[test]
fn the_name_tells_the_program() {
    let check = |line: &str, expected: Option<Through>| {
        assert_eq!(Through::called(words(line)), expected, "{line}");
    };
    let kubectl = |args| Some(Through::kubectl(words(args)));
    check("cheops kubectl -v=8 get pods", kubectl("-v=8 get pods"));
    check("/usr/bin/cheops kubectl", kubectl(""));
    check("/usr/bin/kubectl-cheops get pods", kubectl("get pods"));
    check("kubectl_complete-cheops get po", kubectl("__complete get po"));
    check("cheops curl -i", Some(Through::curl(words("-i"))));
    check("cheops kubectl get --help", kubectl("get --help"));
    for ordinary in [
        "cheops",
        "cheops status",
        "cheops kubectl --help",
        "cheops curl -h",
        "cheops -v kubectl get",
        "cheops help kubectl",
    ] {
        check(ordinary, None);
    }
}

#[test]
fn a_header_is_one_line() {
    assert_eq!(header(" {a & b} ").unwrap(), "{a & b}");
    assert!(header("a &").unwrap_err().contains("scope_syntax"));
    assert!(header("a\n& b").unwrap_err().contains("one line"));
}
