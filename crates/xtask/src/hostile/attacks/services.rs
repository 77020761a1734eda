//! A service that is for its own site alone, and what replication keeps of sets that the peer is no member of.

use anyhow::Result;
use bytes::Bytes;
use cheops_types::headers;
use http::Method;

use super::{Scene, Verdict};
use crate::hostile::{mallory::ask, own};

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let victim = scene.victim();
    let meta = own::some_set(victim)?;
    let operation = own::some_operation(victim)?;
    let replication = |what: &str| format!("{}{what}{meta}", headers::PEER_REPLICATION_PATH);
    let requests = [
        ("not offered", Method::GET, "/secrets".to_owned(), "vault"),
        (
            "not offered, a write",
            Method::DELETE,
            "/secrets/1".to_owned(),
            "vault",
        ),
        ("unknown", Method::GET, "/".to_owned(), "nothing"),
        ("a set's state", Method::POST, replication("read/"), ""),
        ("a set's comparison", Method::POST, replication("check/"), ""),
        (
            "a payload",
            Method::GET,
            format!("{}{}", headers::PEER_PAYLOAD_PATH, "0".repeat(64)),
            "",
        ),
        (
            "an operation",
            Method::GET,
            format!("{}{operation}", headers::OPERATION_PATH),
            "",
        ),
    ];
    scene.stage.vault.take();
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    for (what, method, path, service) in requests {
        let named: Vec<_> = Some((headers::PEER_SERVICE, service))
            .filter(|(_, service)| !service.is_empty())
            .into_iter()
            .collect();
        let (status, _) = scene.mallory.talk(victim, async |link| {
            ask(&link, (method, &path), &named, Bytes::new()).await
        })?;
        said.push(format!("{what} {status}"));
        if status < 400 {
            wrong.push(what);
        }
    }
    let heard = scene.stage.vault.take().len();
    let mut text = said.join(", ");
    if !scene.stage.can_withhold {
        text += "; the configuration has no key `peers` that keeps a service from other sites";
    }
    if heard > 0 {
        text = format!("{text}; the service that is not offered was asked {heard} times");
    }
    Ok(Verdict::of(
        wrong.is_empty() && heard == 0 && scene.stage.can_withhold,
        text,
    ))
}
