use std::cell::Cell;

use super::*;

/// Other bytes at every call.
fn counted() -> impl Entropy {
    let calls = Cell::new(0);
    move |bytes: &mut [u8]| {
        calls.set(calls.get() + 1);
        bytes.fill(calls.get());
        Ok(())
    }
}

fn key(byte: u8) -> SiteKey {
    SiteKey::new([byte; KEY_BYTES])
}

#[test]
fn opens_with_the_same_key_at_the_same_place_only() {
    let entropy = counted();
    let sealed = key(1).seal(b"operation 1", b"token", &entropy).unwrap();
    assert_eq!(key(1).open_sealed(b"operation 1", &sealed).unwrap(), b"token");
    assert_eq!(
        key(1).open_sealed(b"operation 2", &sealed),
        Err(SealError::Damaged)
    );
    assert_eq!(
        key(2).open_sealed(b"operation 1", &sealed),
        Err(SealError::OtherKey)
    );
}

#[test]
fn every_changed_byte_is_noticed() {
    let sealed = key(1).seal(b"", b"token", &counted()).unwrap();
    for at in 0..sealed.0.len() {
        let mut damaged = sealed.clone();
        damaged.0[at] ^= 1;
        assert!(key(1).open_sealed(b"", &damaged).is_err(), "byte {at}");
        assert!(
            key(1).open_sealed(b"", &Sealed(sealed.0[..at].to_vec())).is_err(),
            "{at} bytes"
        );
    }
}

#[test]
fn the_same_secret_never_looks_the_same() {
    let entropy = counted();
    let first = key(1).seal(b"", b"token", &entropy).unwrap();
    let second = key(1).seal(b"", b"token", &entropy).unwrap();
    assert_ne!(
        first.0[1 + KEY_ID_BYTES + SALT_BYTES..],
        second.0[1 + KEY_ID_BYTES + SALT_BYTES..]
    );
    assert!(!first.0.windows(5).any(|window| window == b"token"));
}

#[test]
fn the_key_file_is_made_once_for_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.key");
    let made = SiteKey::open(&path, &counted()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let no_entropy = |_: &mut [u8]| Err(io::Error::other("asked for randomness"));
    let read = SiteKey::open(&path, &no_entropy).unwrap();
    assert_eq!(made.key, read.key);
    assert!(!path.with_extension("new").exists());
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.key");
    SiteKey::open(&path, &counted()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        SiteKey::open(&path, &counted()).unwrap_err(),
        SealError::KeyExposed { path: path.clone() }
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, b"something else").unwrap();
    assert!(matches!(
        SiteKey::open(&path, &counted()),
        Err(SealError::KeyFile { .. })
    ));
}

#[test]
fn without_randomness_nothing_is_sealed() {
    let no_entropy = |_: &mut [u8]| Err(io::Error::other("none"));
    assert_eq!(
        key(1).seal(b"", b"token", &no_entropy).unwrap_err(),
        SealError::Entropy("none".into())
    );
}
