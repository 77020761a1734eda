use cheops_types::Caller;

use super::*;
use crate::Profile;

const GLUE: &str = r#"
application = "shop"

[services.A]
error-message = ["/message", "/*/message"]

[services.A.caller]
verify = { request = "POST /reviews", from = "Authorization", scheme = "Bearer", body = '{"spec":{"token":"{credential}"}}', valid = "/status/ok", user = "/status/user/name", groups = "/status/user/groups" }
impersonate = { user = "Act-User", group = "Act-Group", implied-groups = ["sys:all"] }
privileged = ["sys:"]
certificate = { user = "X-Remote-User", group = "X-Remote-Group", strip = ["X-Remote-"] }

[services.B.stand-in]
obtain = { request = "POST /v3/tokens", token = "X-Subject-Token", expires = "/token/expires_at" }
beside = "X-Service-Token"
"#;

fn profile() -> Profile {
    Profile::parse("glue.toml", GLUE).unwrap()
}

fn caller(user: &str, groups: &[&str]) -> Caller {
    Caller {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
    }
}

#[test]
fn a_credential_becomes_a_name() {
    let profile = profile();
    let verify = profile.caller("A").unwrap().verify.as_ref().unwrap();
    assert_eq!((&*verify.method, &*verify.path), ("POST", "/reviews"));
    assert_eq!(verify.from, "authorization");
    assert_eq!(verify.credential("bearer  abc"), Some("abc"));
    assert_eq!(verify.credential("Basic abc"), None);
    assert_eq!(verify.header_value("abc"), "Bearer abc");
    let question = verify.question("a\"b\\").unwrap();
    assert_eq!(question, r#"{"spec":{"token":"a\"b\\"}}"#);

    let check = |status, body: &str, expect| {
        assert_eq!(verify.read(status, body.as_bytes()), expect, "{status} {body}");
    };
    let good = r#"{"status":{"ok":true,"user":{"name":"ann","groups":["dev","sys:all"]}}}"#;
    check(201, good, Verified::As(caller("ann", &["dev", "sys:all"])));
    check(
        200,
        r#"{"status":{"ok":true,"user":{"name":"ann"}}}"#,
        Verified::As(caller("ann", &[])),
    );
    check(200, r#"{"status":{"user":{"name":"ann"}}}"#, Verified::Invalid);
    check(200, r#"{"status":{"ok":true}}"#, Verified::Unknown);
    check(
        200,
        r#"{"status":{"ok":true,"user":{"name":"ann","groups":[1]}}}"#,
        Verified::Unknown,
    );
    // It is the site's own credential that does not count.
    check(401, "{}", Verified::Unknown);
    check(503, good, Verified::Unknown);
}

#[test]
fn without_a_question_the_credential_asks_for_itself() {
    let glue = r#"
application = "shop"
[services.A.caller]
verify = { request = "GET /me", from = "X-Token", user = "/name" }
"#;
    let profile = Profile::parse("glue.toml", glue).unwrap();
    let verify = profile.caller("A").unwrap().verify.as_ref().unwrap();
    assert_eq!(verify.credential("Basic abc"), Some("Basic abc"));
    assert_eq!(verify.question("abc"), None);
    assert_eq!(
        verify.read(200, br#"{"name":"ann"}"#),
        Verified::As(caller("ann", &[]))
    );
    assert_eq!(verify.read(401, b""), Verified::Invalid);
}

#[test]
fn a_name_in_headers_and_back() {
    let profile = profile();
    let rules = profile.caller("A").unwrap();
    let impersonate = rules.impersonate.as_ref().unwrap();
    let ann = caller("ann", &["dev", "sys:all"]);
    let headers = impersonate.headers(&ann);
    let pairs = [
        ("act-user", "ann"),
        ("act-group", "dev"),
        ("act-group", "sys:all"),
    ];
    assert_eq!(
        headers,
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    let sent = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    assert_eq!(impersonate.named(sent), Named::Other(ann));
    assert_eq!(impersonate.named([("act", &b"ann"[..])]), Named::Sender);
}

#[test]
fn a_name_that_can_be_read_in_two_ways_is_none() {
    let profile = profile();
    let impersonate = profile.caller("A").unwrap().impersonate.as_ref().unwrap();
    for headers in [
        // The application takes the first, and one that is empty for none.
        &[("act-user", "ann"), ("Act-User", "root")][..],
        &[("act-user", ""), ("act-user", "root")],
        &[("act-user", "")],
        &[("act-user", " root")],
        &[("act-user", "ann"), ("act-group", "\tsys:masters")],
        &[("act-group", "dev")],
    ] {
        let sent = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        assert_eq!(impersonate.named(sent), Named::Unclear, "{headers:?}");
    }
    assert_eq!(impersonate.named([("act-user", &b"\xff"[..])]), Named::Unclear);
}

#[test]
fn privileges_are_told_by_their_beginnings() {
    let profile = profile();
    let rules = profile.caller("A").unwrap();
    assert!(rules.privileges(&caller("ann", &["dev", "sys:all"])).is_empty());
    let root = caller("sys:root", &["sys:masters", "dev"]);
    assert_eq!(rules.privileges(&root), ["sys:root", "sys:masters"]);
}

#[test]
fn nobody_is_believed_about_a_name_that_reaches_the_application_as_another() {
    let profile = profile();
    let rules = profile.caller("A").unwrap();
    let everything = ["*".to_owned()];
    for (user, group) in [
        ("ann", " sys:masters"),
        ("ann", "sys:masters\t"),
        (" sys:root", "dev"),
        ("", "dev"),
    ] {
        let unvouched = caller(user, &[group]);
        assert!(
            rules.unvouched(&unvouched, &everything).is_some(),
            "{unvouched:?}"
        );
    }
    assert_eq!(rules.unvouched(&caller("ann b", &["", "c d"]), &[]), None);
}

#[test]
fn a_site_token_is_got_and_ends() {
    let profile = profile();
    let (service, stand_in) = profile.stand_in().unwrap();
    assert_eq!(&**service, "B");
    assert_eq!(
        (&*stand_in.token, &*stand_in.beside),
        ("x-subject-token", "x-service-token")
    );
    let body = br#"{"token":{"expires_at":"2024-05-06T07:08:09.000000Z"}}"#;
    assert_eq!(stand_in.expires_ms(body), Some(1_714_979_289_000));
    assert_eq!(stand_in.expires_ms(b"{}"), None);
}

#[test]
fn errors_are_told_in_one_line() {
    let profile = profile();
    let check = |service, body: &str, expect: Option<&str>| {
        assert_eq!(
            profile.error_text(service, body.as_bytes()).as_deref(),
            expect,
            "{body}"
        );
    };
    check(
        "A",
        r#"{"kind":"Status","message":"ann may\n not"}"#,
        Some("ann may not"),
    );
    check("A", r#"{"forbidden":{"code":403,"message":"no"}}"#, Some("no"));
    check("A", "plain  text\n", Some("plain text"));
    check("A", "", None);
    check("B", r#"{"message":"x"}"#, Some(r#"{"message":"x"}"#));
    check("B", &"x".repeat(1_000), Some(&"x".repeat(200)));
}

#[test]
fn mistakes_have_a_place_and_a_fix() {
    let check = |line: &str, expect: &str| {
        let glue = format!("application = \"shop\"\n[services.A.caller]\n{line}\n");
        let error = Profile::parse("g.toml", &glue).unwrap_err();
        assert_eq!(error.line, 3, "{error}");
        assert!(error.to_string().contains(expect), "{error}");
    };
    check("verfy = 1", "did you mean `verify`?");
    check(
        "verify = { request = \"/me\", from = \"A\", user = \"/u\" }",
        "is not a request",
    );
    check(
        "verify = { request = \"GET /{x}\", from = \"A\", user = \"/u\" }",
        "is not a request",
    );
    check(
        "verify = { request = \"GET /me\", user = \"/u\" }",
        "has no `from`",
    );
    check(
        "verify = { request = \"GET /me\", from = \"A\", user = \"u\" }",
        "not a JSON pointer",
    );
    check(
        "verify = { request = \"GET /me\", from = \"A\", user = \"/u\", body = '{\"t\":1}' }",
        "0 places for the credential",
    );
    check(
        "verify = { request = \"GET /me\", from = \"A\", user = \"/u\", body = '{credential}' }",
        "`body` is not JSON",
    );
    check(
        "impersonate = { user = \"A\", group = \"a\" }",
        "cannot share a header",
    );
    check(
        "impersonate = { user = \"X-Cheops-A\", group = \"a\" }",
        "written by agents only",
    );
    check("privileged = [\"\"]", "every name begins with nothing");
}

#[test]
fn what_a_certificate_becomes_is_always_stripped() {
    let glue = r#"
application = "shop"
[services.A.caller]
certificate = { user = "X-User", group = "X-Group", strip = ["X-U"] }
"#;
    let profile = Profile::parse("glue.toml", glue).unwrap();
    let certificate = profile.caller("A").unwrap().certificate.as_ref().unwrap();
    assert_eq!(certificate.strip, ["x-u", "x-group"]);
}
