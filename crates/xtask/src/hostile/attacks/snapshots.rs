//! Snapshots that claim numbers of the victim which it never gave, and a join that switches to them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use cheops_replica::{
    Author, Content, Member, Message, MetaId, Recognise, Record, Snapshot, Token, Vector, Verb,
};
use cheops_types::SiteName;
use serde_json::json;

use super::{Scene, Verdict, counted};
use crate::hostile::{
    mallory::{Shared, boundless, write_to},
    own,
};

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let mut said = Vec::new();
    for stay in [0, 1, u32::MAX] {
        let shared = scene.share()?;
        let author = Author {
            stay,
            ..shared.create.id.author.clone()
        };
        let mut messages = vec![snapshot(scene, &shared, (boundless(&author), stay))?];
        let join = Verb::Join {
            site: SiteName::new(victim.site)?,
            stay,
        };
        let nothing = write_to(&shared.write, "");
        let join = mallory.operation(&shared, 1, join, nothing)?;
        messages.push(mallory.carry(&shared, [join]));
        // The same about sets that nobody has, and that others have.
        let mut unknown = messages[0].clone();
        unknown.set = MetaId::new("4000000000000042");
        if let Content::Snapshot(snapshot) = &mut unknown.content {
            snapshot.record.meta = unknown.set.clone();
        }
        let mut foreign = messages[0].clone();
        foreign.set = MetaId::new(&own::some_set(victim)?);
        messages.extend([unknown, foreign]);
        let answers = mallory.send(victim, &messages)?;
        let write = scene.patch(&shared, &json!({"price": 78}));
        let write = write.map_or("no answer".to_owned(), |status| status.to_string());
        said.push(format!(
            "stay {stay}: answered {}, a caller's write {write}",
            counted(&answers)
        ));
    }
    Ok(Verdict::of(true, said.join("; ")))
}

fn snapshot(scene: &Scene<'_>, shared: &Shared, (at, stay): (Vector, u32)) -> Result<Message> {
    let Verb::Create(birth) = &shared.create.verb else {
        bail!("a set begins with a create");
    };
    let member = |stay| Member {
        stay,
        joined: None,
        leaving: None,
    };
    let members = BTreeMap::from([
        (SiteName::new(scene.victim().site)?, member(stay)),
        (scene.mallory.site.clone(), member(0)),
    ]);
    let snapshot = Snapshot {
        record: Record {
            meta: shared.set.clone(),
            service: birth.service.clone(),
            kind: birth.kind.clone(),
            parents: birth.parents.clone(),
            name: birth.name.clone(),
            span: None,
            consistency: cheops_types::Consistency::Eventual,
        },
        members,
        expelled: BTreeMap::new(),
        passages: BTreeMap::new(),
        token: Token(1),
        birth: shared.create.token,
        born: Some(shared.create.id.clone()),
        recognise: Recognise::Nothing,
        pruned: at.clone(),
        pruned_writes: at.clone(),
        at,
        state: Some(br#"{"name":"taken over","price":666}"#.to_vec()),
        deleted: None,
        creates: BTreeMap::new(),
        buried: Vec::new(),
        degraded: None,
        last: None,
        division: None,
        time: shared.write.time.next(),
        log: Vec::new(),
        conflicts: Vec::new(),
        dismissed: BTreeSet::new(),
        forgone: BTreeSet::new(),
        credential: None,
        yours: None,
    };
    let mut message = scene
        .mallory
        .message(shared, Content::Snapshot(Box::new(snapshot)));
    message.epoch += 1;
    Ok(message)
}
