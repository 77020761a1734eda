use std::str;

use cheops_types::Receipt;

pub(super) const TOKENS: &[&[u8]] = &[
    b"plan=",
    b"local",
    b"first-of",
    b"complete=?0",
    b"?1",
    b"sites=(",
    b"workflow=(",
    b")",
    b";outcome=",
    b"executed",
    b";status=",
    b";error=\"",
    b";items=",
    b";service=\"",
    b"\"",
    b"\\\"",
    b"\\",
    b", ",
    b"operation=\"",
    b"set=\"",
    b"held=",
    b" ",
    b"\t",
];

pub(super) fn run(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    match Receipt::parse(text) {
        Ok(receipt) => {
            let printed = receipt.to_header();
            assert!(
                printed.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
                "{printed:?}"
            );
            assert_eq!(Receipt::parse(&printed).as_ref(), Ok(&receipt), "{printed}");
            true
        }
        Err(error) => {
            assert!(error.at <= text.len(), "{error}");
            false
        }
    }
}
