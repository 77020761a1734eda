//! Files that are a little wrong: every mistake can be shown at its place, and none ends the program.

use std::path::Path;

use cheops_fuzzing::Mutator;

use super::super::{ConfigErrors, site};

const FILES: usize = 3000;
const WORDS: &[&[u8]] = &[
    b"[services.A]\n",
    b"[sites.site2]\n",
    b"[limits]\n",
    b"site = ",
    b"slot = ",
    b"public = \"127.0.0.1:0\"\n",
    b"listen = ",
    b"upstream = \"http://[::1]:5\"\n",
    b"tls = \"mesh\"\n",
    b"tls = { cert = \"a\" }\n",
    b"glue = ",
    b"\"",
    b"'",
    b"'''",
    b"\"\"\"",
    b"[[",
    b"]]",
    b"{",
    b"}",
    b".",
    b" = ",
    b"#",
    b"\n",
    b"\r\n",
    b"65536",
    b"-1",
    b"1e9",
    b"inf",
    b"true",
    b"[1, 2]",
    "é".as_bytes(),
    b"\\u0000",
    b"head_max_bytes = ",
    b"0000000000000001",
];

#[test]
fn a_damaged_file_is_told_what_is_wrong_with_it() {
    let path = Path::new("/etc/cheops.toml");
    let seeds = [
        include_bytes!("../example.toml").to_vec(),
        super::GOOD.as_bytes().to_vec(),
    ];
    let mut mutator = Mutator::new(1, WORDS);
    let mut refused = 0;
    for _ in 0..FILES {
        let Ok(text) = String::from_utf8(mutator.input(&seeds)) else {
            continue;
        };
        let Err(errors) = site::read(path, &text) else {
            continue;
        };
        for error in &errors {
            assert!(
                text.get(error.span.clone()).is_some(),
                "{}: {:?}",
                error.message,
                error.span
            );
        }
        let errors = ConfigErrors::new(path, text, errors);
        assert!(!errors.render(false).is_empty());
        assert!(errors.to_json()["errors"][0]["line"].as_u64() > Some(0));
        refused += 1;
    }
    assert!(refused > FILES / 2 && refused < FILES, "{refused} of {FILES}");
}
