use std::{str, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use cheops_glue::{ListShape, Versions, with_version_of};

use super::{PROFILES, parts, site};

/// The JSON of a token, and the line of an event.
pub(super) fn run(input: &[u8]) -> bool {
    let mut parts = parts(input);
    let (token, line) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (here, text) = (site("site1"), URL_SAFE_NO_PAD.encode(token));
    Versions::decode(token);
    let versions = Versions::decode(&text);
    if let Some(versions) = &versions {
        assert_eq!(Versions::decode(&versions.encode()).as_ref(), Some(versions));
    }
    let body = format!("{text} {token} {line}");
    if let Some(changed) = with_version_of(body.as_bytes(), &here) {
        assert!(str::from_utf8(&changed).is_ok());
    }
    let list = PROFILES[1]
        .identify("kubernetes", "GET", "/api/v1/configmaps")
        .list
        .cloned();
    let Some(shape) = list else {
        return false;
    };
    let is_event = event(&shape, &text, line, versions.clone().unwrap_or_default());
    versions.is_some() || is_event
}

fn event(shape: &Arc<ListShape>, token: &str, line: &str, mut versions: Versions) -> bool {
    let here = site("site1");
    let query = format!("watch=1&resourceVersion={token}&{line}");
    let asked = shape.versions_asked(&query);
    shape.watch_query(&query, &asked, &here);
    // A stream is cut into lines before anybody reads an event.
    let one = line.lines().next().unwrap_or_default();
    let Some(marked) = shape.mark_event(one.as_bytes(), &here, &mut versions, 1024) else {
        return false;
    };
    assert!(!marked.contains(&b'\n'), "an event is one line");
    // What is marked passes as it is: a name that is no text (half of a pair, `\ud800`) stays one.
    let is_json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
    let still = is_json(&marked) || !is_json(one.as_bytes());
    assert!(still, "{}", String::from_utf8_lossy(&marked));
    shape.with_versions(line.as_bytes(), &versions).is_ok()
}
