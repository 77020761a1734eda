use std::str;

use cheops_glue::Carrier;
use cheops_proxy::{SavedScope, fuzzing};

use super::PROFILES;

pub(super) const TOKENS: &[&[u8]] = &[
    b"wait=",
    b"respond-async",
    b"handling=strict",
    b"cheops-held=",
    b"cheops-weights=\"",
    b"cheops-names=flag",
    b"site1:3",
    b", ",
    b";",
    b"=",
    b"\"",
    b"s1,s2=",
    b"0-3",
    b",7",
    b"0-18446744073709551615",
    b"-",
    b"plain",
    b"0123456789abcdef",
    b"req-",
    b"P",
    b"W",
    b" ",
    b"\t",
    b"\xff",
];

/// A byte for the header, and its value.
pub(super) fn run(input: &[u8]) -> bool {
    let Some((what, value)) = input.split_first() else {
        return false;
    };
    match what {
        b'p' => fuzzing::prefer(value),
        b'r' => fuzzing::replicas(value),
        b's' => str::from_utf8(value).is_ok_and(saved),
        _ => str::from_utf8(value).is_ok_and(carried),
    }
}

fn saved(line: &str) -> bool {
    let Ok(saved) = line.parse::<SavedScope>() else {
        return false;
    };
    let again = saved.to_string().parse::<SavedScope>();
    assert_eq!(again.ok().map(|again| again.to_string()), Some(saved.to_string()));
    true
}

fn carried(value: &str) -> bool {
    let carriers = PROFILES.iter().flat_map(cheops_glue::Profile::correlation);
    let formats = carriers.filter_map(|carrier| match carrier {
        Carrier::Header { format, .. } => Some(format),
        _ => None,
    });
    let mut is_read = false;
    for format in formats {
        if let Some(key) = format.read(value) {
            assert_eq!(format.read(&format.write(key)), Some(key));
            is_read = true;
        }
    }
    is_read
}
