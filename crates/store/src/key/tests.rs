use proptest::{collection::vec, prelude::*};

use super::*;

#[test]
fn bytes_are_as_documented() {
    assert_eq!(258_u32.to_bytes(), [0, 0, 1, 2]);
    assert_eq!("a\0b".to_owned().to_bytes(), [b'a', 0, 0xff, b'b', 0, 1]);
    assert_eq!(
        (1_u8, "x".to_owned(), [9_u8; 2]).to_bytes(),
        [1, b'x', 0, 1, 9, 9]
    );
    assert!(().to_bytes().is_empty());
}

#[test]
fn what_is_no_key_is_refused() {
    assert_eq!(u32::from_bytes(&[1, 2, 3]), Err(BadKey));
    assert_eq!(u32::from_bytes(&[1, 2, 3, 4, 5]), Err(BadKey));
    for bytes in [&b""[..], b"a", b"a\0", b"a\0\x02", b"a\0\x01b", b"\xff\0\x01"] {
        assert_eq!(String::from_bytes(bytes), Err(BadKey), "{bytes:?}");
    }
    assert_eq!(SiteName::from_bytes(b"a b\0\x01"), Err(BadKey));
}

/// Few values, so that neighbours and equal beginnings are common.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0_u8), Just(1), Just(0xff), Just(0x61)], 0..5)
}

proptest! {
    #[test]
    fn a_key_is_read_as_written(key in (any::<u64>(), ".*", texts(), any::<[u8; 3]>())) {
        prop_assert_eq!(<(u64, String, Vec<u8>, [u8; 3])>::from_bytes(&key.to_bytes()).unwrap(), key);
    }

    #[test]
    fn bytes_compare_as_values(
        a in (texts(), any::<u8>(), texts()),
        b in (texts(), any::<u8>(), texts()),
    ) {
        prop_assert_eq!(a.to_bytes().cmp(&b.to_bytes()), a.cmp(&b));
    }

    #[test]
    fn no_key_begins_another(a in texts(), b in texts()) {
        prop_assert_eq!(b.to_bytes().starts_with(&a.to_bytes()), a == b);
    }
}
