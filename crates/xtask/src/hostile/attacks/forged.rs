//! Operations of other sites that these never made, altered ones, unsigned ones, and own ones in sets of others.

use anyhow::Result;
use cheops_replica::{MetaId, Verb};
use cheops_types::SiteName;

use super::{Scene, Verdict, counted};
use crate::hostile::{mallory::write_to, own};

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let shared = scene.share()?;
    let request = || write_to(&shared.write, r#"{"price":666}"#);
    let ordinary = mallory.operation(&shared, 1, Verb::Merge, request())?;
    let mut messages = Vec::new();

    for site in ["site1", "site2"] {
        let mut op = ordinary.clone();
        op.id = shared.write.id.clone();
        op.id.author.site = SiteName::new(site)?;
        op.id.seq += 1;
        mallory.sign(&shared.set, &mut op)?;
        messages.push(mallory.carry(&shared, [op]));
    }
    let mut altered = shared.write.clone();
    altered.request = request();
    messages.push(mallory.carry(&shared, [altered]));
    let mut unsigned = ordinary.clone();
    unsigned.signature.clear();
    messages.push(mallory.carry(&shared, [unsigned]));
    // Signed for one set, sent for another; and in the name of another site.
    let meta = own::some_set(victim)?;
    let mut elsewhere = mallory.carry(&shared, [ordinary.clone()]);
    elsewhere.set = MetaId::new(&meta);
    messages.push(elsewhere);
    let mut disguised = mallory.carry(&shared, [ordinary.clone()]);
    disguised.from = SiteName::new("site2")?;
    messages.push(disguised);
    let refused = mallory.send(victim, &messages)?;

    // Signed for a set that it is no member of: the engine's own business.
    let mut foreign = ordinary;
    mallory.sign(&MetaId::new(&meta), &mut foreign)?;
    let mut message = mallory.carry(&shared, [foreign]);
    message.set = MetaId::new(&meta);
    let ignored = mallory.send(victim, &[message])?;

    let seen = scene.settle(&shared)?;
    let holds = refused.iter().all(|status| *status == 403) && seen["price"] == 2;
    Ok(Verdict::of(
        holds,
        format!(
            "answered {}, in a set of others {}; price {}",
            counted(&refused),
            counted(&ignored),
            seen["price"]
        ),
    ))
}
