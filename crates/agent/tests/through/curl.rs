//! `cheops curl`.

use crate::fake::{Fake, text};

#[test]
fn curl_gets_the_header_and_all_that_is_its_own() {
    let fake = Fake::plain("http://127.0.0.1:9");
    let check = |args: &[&str], expected: &[&str]| {
        let output = fake.output(args);
        assert_eq!(
            text(&output.stdout).lines().collect::<Vec<_>>(),
            expected,
            "{args:?}"
        );
        assert_eq!(output.status.code(), Some(22), "curl's own");
    };
    check(
        &["curl", "-i", "http://a/b", "--scope", "site1 & site2"],
        &["-H", "X-Scope: site1 & site2", "-i", "http://a/b"],
    );
    check(&["curl", "-v", "http://a"], &["-v", "http://a"]);

    let mut command = fake.command(&["curl", "http://a"]);
    let output = command.env("CHEOPS_SCOPE", "{site1}").output().unwrap();
    assert_eq!(text(&output.stdout), "-H\nX-Scope: {site1}\nhttp://a\n");

    let output = fake.output(&["curl", "http://a", "--scope=a;"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(
        text(&output.stderr).starts_with("error[scope_syntax]: "),
        "{output:?}"
    );
}
