//! Who is in a set: in one that the peer is a member of, and in one that it is not.

use anyhow::Result;
use cheops_replica::{MetaId, Verb};
use cheops_types::SiteName;
use serde_json::json;

use super::{Scene, Verdict, counted};
use crate::hostile::{mallory::write_to, own, stage::UNLISTED};

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let site = SiteName::new;
    let verbs = [
        Verb::Join {
            site: site(UNLISTED)?,
            stay: 0,
        },
        Verb::Join {
            site: site("site3")?,
            stay: u32::MAX,
        },
        Verb::Join {
            site: mallory.site.clone(),
            stay: u32::MAX,
        },
        Verb::Leave { site: site("site1")? },
        Verb::Expel { site: site("site2")? },
        Verb::Expel { site: site("site1")? },
    ];
    let meta = own::some_set(victim)?;
    let foreign = MetaId::new(&meta);
    let mut answers = Vec::new();
    let mut writes = Vec::new();
    for verb in verbs {
        let shared = scene.share()?;
        let op = mallory.operation(&shared, 1, verb, write_to(&shared.write, ""))?;
        let mut outside = op.clone();
        mallory.sign(&foreign, &mut outside)?;
        let mut to_others = mallory.carry(&shared, [outside]);
        to_others.set = foreign.clone();
        answers.extend(mallory.send(victim, &[mallory.carry(&shared, [op]), to_others])?);
        writes.push(scene.patch(&shared, &json!({"price": 79}))?);
    }
    let set = victim.admin(&format!("/v1/replicas/{meta}"))?;
    let is_whole = set["set"]["sites"] == json!(["site1", "site2"]);
    Ok(Verdict::of(
        is_whole,
        format!(
            "answered {}; the others' set has {}; callers' writes to shared sets {}",
            counted(&answers),
            set["set"]["sites"],
            counted(&writes)
        ),
    ))
}
