use std::str;

use cheops_glue::{Doing, Profile, has_one_reading, join_key, split_key};

use super::service;

pub(super) const TOKENS: &[&[u8]] = &[
    b"/",
    b"//",
    b"/./",
    b"/../",
    b"%2e",
    b"%2F",
    b"%2f",
    b"%5c",
    b"\\",
    b";",
    b";v=1",
    b"..;",
    b"%",
    b"%0",
    b"%00",
    b"%ff",
    b"%25",
    b"%252f",
    b"/items",
    b"/orders/7",
    b"/ship",
    b"/api/v1/namespaces/",
    b"/configmaps/",
    b"/apis/apps/v1/",
    b"/v2.1/servers/",
    b"/v2/images/",
    b"?",
    b"#",
    b"{id}",
    "é".as_bytes(),
    b"/a",
    b"0123456789abcdef0123456789abcdef",
];

/// A byte for the service, a byte for the method, and a path.
pub(super) fn run(input: &[u8]) -> bool {
    let [number, method, path @ ..] = input else {
        return false;
    };
    // As it comes from a request line: nothing else can be in one.
    let is_target = |byte: &u8| byte.is_ascii_graphic() || *byte >= 0x80;
    let Ok(path) = str::from_utf8(path) else {
        return false;
    };
    if !path.starts_with('/') || !path.bytes().all(|byte| is_target(&byte)) || path.contains(['?', '#']) {
        return false;
    }
    let (profile, service) = service(*number);
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "X"];
    let doing = Doing {
        method: methods[usize::from(*method) % methods.len()],
        content_type: Some("application/merge-patch+json").filter(|_| *method > 127),
    };
    one(profile, service, path, doing);
    let others = profile.other_readings(service, path);
    assert!(!has_one_reading(path) || others.is_empty(), "{others:?}");
    for other in &others {
        one(profile, service, other, doing);
    }
    profile.address(service, path).is_some()
}

fn one(profile: &Profile, service: &str, path: &str, doing: Doing<'_>) {
    assert_eq!(
        profile.reading(service, path, doing),
        profile.reading(service, path, doing)
    );
    profile.identify(service, doing.method, path);
    profile.containers(service, path);
    profile.is_per_site(service, path);
    profile.is_stream(service, path, Some("watch=1"));
    let within = profile.within(service, path);
    if let Some(address) = profile.address(service, path)
        && address.id.is_some()
    {
        let inner = within.first().map(|inner| (&inner.kind, &inner.key, inner.below));
        assert_eq!(inner, Some((&address.kind, &address.key, address.below)));
    }
    for address in &within {
        let (id, key) = (address.id.as_deref().unwrap_or_default(), address.key.as_deref());
        assert!(path.contains(address.below));
        let rules = address.rules();
        // A key of one id is that id, whatever is in it.
        if let Some(key) = key.filter(|key| *key != id) {
            let ids = split_key(key, key.split('/').count());
            let (last, parents) = ids.split_last().expect("there is one");
            assert_eq!((&**last, &*join_key(parents, last)), (id, key));
        }
        rules.item_path(key.unwrap_or_default());
        address.effect(doing.method, doing.content_type);
    }
}
