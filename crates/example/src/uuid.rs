//! Ids of files.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
};

/// The text of a uuid in lower case; none when it is not one.
pub(crate) fn parse(text: &str) -> Option<String> {
    let is_uuid = text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_uuid.then(|| text.to_ascii_lowercase())
}

/// A uuid that nobody has, of version 4.
pub(crate) fn new() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bits = [(); 2].map(|()| RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed)));
    bits[0] = bits[0] & !0xf000 | 0x4000;
    bits[1] = bits[1] & (u64::MAX >> 2) | 1 << 63;
    let text = format!("{:016x}{:016x}", bits[0], bits[1]);
    let parts = [
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..],
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_what_it_reads() {
        let ids: Vec<_> = (0..100).map(|_| new()).collect();
        for (place, id) in ids.iter().enumerate() {
            assert_eq!(parse(id).as_ref(), Some(id));
            assert_eq!(&id[14..15], "4", "{id}");
            assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
            assert!(!ids[..place].contains(id), "{id} twice");
        }
    }

    #[test]
    fn reads_uuids_only() {
        let good = "4BF92F35-77B3-4DA6-A3CE-929D0E0E4736";
        assert_eq!(parse(good), Some(good.to_ascii_lowercase()));
        for bad in [
            "",
            "x",
            &good[1..],
            &good.replace('-', "0"),
            &good.replace('F', "g"),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
