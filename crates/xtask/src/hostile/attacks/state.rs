//! State of a replica that nobody asked for, in a set whose last write the victim itself accepted, and in one of others.

use anyhow::Result;
use cheops_replica::{Content, Digest, MetaId};

use super::{Scene, Verdict, counted};
use crate::hostile::own;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let shared = scene.share()?;
    let honest = mallory.message(&shared, Content::Report);
    let state = |at| Content::State {
        at,
        state: br#"{"name":"taken over","price":666}"#.to_vec(),
        digest: Digest(vec![6; 32]),
    };
    let digest = |at| Content::Digest {
        at,
        digest: Digest(vec![6; 32]),
        mended: false,
    };
    let mut messages = Vec::new();
    let done = honest.report.done.clone();
    for content in [
        digest(done.clone()),
        state(done.clone()),
        state(done),
        state(cheops_replica::Vector::new()),
    ] {
        let mut message = honest.clone();
        message.content = content;
        let mut foreign = message.clone();
        foreign.set = MetaId::new(&own::some_set(victim)?);
        messages.extend([message, foreign]);
    }
    let answers = mallory.send(victim, &messages)?;
    let seen = scene.settle(&shared)?;
    Ok(Verdict::of(
        seen["price"] == 2,
        format!("answered {}; price {}", counted(&answers), seen["price"]),
    ))
}
