use std::borrow::Cow;

use cheops_glue::{is_yaml, json_of_yaml};

pub(super) const TOKENS: &[&[u8]] = &[
    b": ",
    b"- ",
    b"\n",
    b"\n  ",
    b"---\n",
    b"...\n",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!str ",
    b"!!binary ",
    b"!x ",
    b"|\n",
    b">-\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"'",
    b"\"",
    b"\\x00",
    b"# ",
    b"? ",
    b"~",
    b"yes",
    b".inf",
    b".nan",
    b"0x10",
    b"0o7",
    b"1_000",
    b"1:30",
    b"\t",
    b"%YAML 1.2\n",
    b"\xef\xbb\xbf",
    b"[[[[[[[[",
    b"? ? ? ?",
    b"- - - -",
    b"a: ",
    b",",
];

pub(super) fn run(input: &[u8]) -> bool {
    is_yaml(&String::from_utf8_lossy(input));
    let Ok(json) = json_of_yaml(input) else {
        return false;
    };
    let again = json_of_yaml(&json);
    let is_same = matches!(again, Ok(Cow::Borrowed(same)) if *same == *json);
    assert!(
        is_same,
        "what is made of it cannot be read: {}",
        String::from_utf8_lossy(&json)
    );
    true
}
