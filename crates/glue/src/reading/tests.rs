use super::*;
use crate::profile::Reads;

fn rewritten(path: &str, decoded: bool, dots: bool, parameters: bool) -> String {
    let reads = Reads {
        decoded,
        dots,
        parameters,
    };
    reads.rewrite(path)
}

#[test]
fn an_ordinary_path_has_one_reading() {
    for path in ["/", "/items/7", "/v2.1/a.b/c..d", "/a:b/c,d@e", "/items//7/"] {
        assert!(has_one_reading(path), "{path}");
        assert!(Profile::plain().other_readings("A", path).is_empty());
    }
    for path in ["/items%2F7", "/./a", "/a/..", "/a;b", "/a\\b", "/.well-known"] {
        assert!(!has_one_reading(path), "{path}");
    }
}

#[test]
fn a_path_as_applications_read_it() {
    assert_eq!(rewritten("/items%2F7", true, false, false), "/items/7");
    assert_eq!(rewritten("/items%2F7", false, true, true), "/items%2F7");
    assert_eq!(rewritten("/items/x/../7", false, true, false), "/items/7");
    assert_eq!(rewritten("/items/x/%2e%2E/./7", false, true, false), "/items/7");
    assert_eq!(rewritten("/../../items/7", false, true, false), "/items/7");
    assert_eq!(rewritten("/items/7;v=1", false, false, true), "/items/7");
    assert_eq!(rewritten("/items/x/..;/7", false, true, true), "/items/7");
    assert_eq!(rewritten("/items%5C7", true, true, false), "/items/7");
    assert_eq!(rewritten("/items%2F7%ff", true, false, false), "/items/7%FF");
    // What is not to be resolved is a name, and stays one.
    assert_eq!(rewritten("/items/%2e%2e", true, false, false), "/items/%2E%2E");
}

#[test]
fn an_application_may_do_a_part_of_it() {
    let readings = Profile::plain().other_readings("A", "/a/..;x/b%2Fc");
    for one in [
        "/b%2Fc",
        "/b/c",
        "/a/..;x/b/c",
        "/a/%2E%2E/b%2Fc",
        "/a/%2E%2E/b/c",
    ] {
        assert!(readings.contains(one), "{one} is not in {readings:?}");
    }
}

#[test]
fn readings_differ_where_they_mean_other_things() {
    let profile = Profile::example();
    let doing = Doing {
        method: "PATCH",
        content_type: None,
    };
    let reading = |path| profile.reading("B", path, doing);
    assert_ne!(reading("/items%2F7"), reading("/items/7"));
    assert_eq!(reading("/items/7"), reading("/items/%37"));
    assert_eq!(reading("/items//7/"), reading("/items/7"));
    assert!(reading("/items/7").is_described());
    assert!(!reading("/nothing%2F7").is_described());
}

#[test]
fn the_glue_says_how_a_service_reads() {
    let glue = |words| {
        format!(
            "application = \"x\"\n[services.A]\nreads-paths = {words}\n[[services.A.resources]]\nkind = \"k\"\ncollection = \"/k\""
        )
    };
    let none = Profile::parse("x.toml", &glue("[]")).unwrap();
    assert!(none.other_readings("A", "/k/a%2F../b;c").is_empty());
    let decoded = Profile::parse("x.toml", &glue("[\"decoded\"]")).unwrap();
    let readings: Vec<_> = decoded.other_readings("A", "/k%2Fa/../b;c").into_iter().collect();
    assert_eq!(readings, ["/k/a/%2E%2E/b;c"]);
    let error = Profile::parse("x.toml", &glue("[\"dot\"]")).unwrap_err();
    assert!(error.to_string().contains("dot"), "{error}");
}
