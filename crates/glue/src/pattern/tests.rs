use super::*;

#[test]
fn patterns_are_plain_paths() {
    for bad in [
        "", "orders", "/orders/", "//", "/a{id}", "/{}", "/{a b}", "/a?b", "/a%20b", "/a b", "/*/a", "/a/*",
        "/{a:b}", "/{:hex}",
    ] {
        assert!(Pattern::parse(bad).is_err(), "{bad}");
    }
    for good in ["/", "/a", "/a*", "/{id}/b", "/{project:hex}/c"] {
        assert!(Pattern::parse(good).is_ok(), "{good}");
    }
    assert!(Pattern::parse_open("/a/*").is_ok());
    assert!(Pattern::parse_open("/*").is_ok());
    assert!(Pattern::parse_open("/*/*").is_err());
}

#[test]
fn patterns_match() {
    for (pattern, yes, no) in [
        ("/", &["/", "", "//"][..], &["/a"][..]),
        (
            "/a/{x}",
            &["/a/b", "//a//b/", "/%61/b"],
            &["/a", "/a/b/c", "/b/b"],
        ),
        ("/a/*", &["/a/b", "/a/b/c"], &["/a", "/a/", "/b/a"]),
        ("/{p:hex}/b", &["/0aF-1/b", "/%30/b"], &["/servers/b", "/g/b"]),
    ] {
        let parsed = Pattern::parse_open(pattern).unwrap();
        for path in yes {
            assert!(parsed.matches(path), "{pattern} {path}");
        }
        for path in no {
            assert!(!parsed.matches(path), "{pattern} {path}");
        }
    }
}

#[test]
fn overlaps() {
    use Overlap::{First, None, Same, Second, Unclear};
    for (a, b, expect) in [
        ("/a", "/b", None),
        ("/a", "/a/b", None),
        ("/a/{x}", "/a/{y}", Same),
        ("/a/b", "/a/{y}", First),
        ("/{x}/b", "/a/b", Second),
        ("/a/{x}", "/{y}/b", Unclear),
        ("/a/{x}/c", "/{y}/b/d", None),
        ("/a/*", "/a/{x}", Second),
        ("/a/*", "/a", None),
        ("/a/b/*", "/a/*", First),
        ("/{x}/*", "/a/b", Second),
        ("/a/*", "/{x}/b", Unclear),
        ("/servers/{id}", "/{project:hex}/servers", None),
        ("/{project:hex}/a", "/{x}/a", First),
    ] {
        let parse = |text| Pattern::parse_open(text).unwrap();
        assert_eq!(parse(a).overlap(&parse(b)), expect, "{a} {b}");
    }
}
