//! One meta-id, one set.

use cheops_plan::Target;
use cheops_ports::Coordinator as _;
use cheops_replica::{Content, Digest, Event, LocalId, Message, MetaId};
use cheops_types::{Code, Limit};
use tokio::time::timeout;

use super::{
    SOON,
    lab::{self, Place, Running, answered, create, site},
};
use crate::{
    draft,
    inbox::Input,
    mint::{NewId, Part},
    task::{Task, What},
    waiting::{CallerHeaders, Waiter},
};

fn begin(running: &Running, id: NewId) -> Waiter {
    let core = &running.node.core;
    let draft = draft::draft(core, &create()).unwrap().draft;
    let waiter = core.waiting.register(draft.token, CallerHeaders::default());
    let draft = Box::new(draft);
    core.engine.post(Input::Create { id, draft }).unwrap();
    waiter
}

/// Begins a set and lets the application make its replica.
async fn made(running: &mut Running, id: NewId, local: &str) -> MetaId {
    let _waiter = begin(running, id);
    let (meta, execution) = timeout(SOON, running.execution()).await.unwrap();
    running.answer(&meta, &execution, 201, Some(local));
    assert!(running.is_idle().await);
    meta
}

/// What a new set is refused with.
async fn refused(running: &Running, id: NewId) -> cheops_types::Problem {
    let mut waiter = begin(running, id);
    let failed = waiter.until(|stage| stage.failed.is_some());
    timeout(SOON, failed).await.unwrap().unwrap().failed.unwrap()
}

#[tokio::test]
async fn an_integer_that_a_set_has_or_had_is_not_drawn_again() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let part = Part::between(7, 8);
    let first = made(&mut site1, NewId::Integer(part), "1").await;
    let second = made(&mut site1, NewId::Integer(part), "2").await;
    assert_ne!(first, second);

    let delete = lab::write("DELETE", "/orders/1", Target::set(first.as_str().into()));
    let reply = tokio::spawn(site1.node.write(delete));
    let (_, execution) = site1.execution().await;
    site1.answer(&first, &execution, 204, None);
    answered(reply.await.unwrap());
    drop(site1);

    // Nothing but the store says so after a start.
    let site1 = place.crashed().start();
    let problem = refused(&site1, NewId::Integer(part)).await;
    assert_eq!(problem.code, Code::GlueIncomplete);
    assert!(problem.detail.contains("widen the range"), "{}", problem.detail);
    assert!(Limit::MetaIdTries.hits() > 0);
    let problem = refused(&site1, NewId::Given(second)).await;
    assert_eq!(problem.code, Code::SetRefused);
}

#[tokio::test]
async fn what_is_sent_of_another_set_with_the_same_meta_id_changes_nothing() {
    let (mut site1, mut site2) = (Place::new("site1").start(), Place::new("site2").start());
    let seven = || NewId::Given(MetaId::new("7"));
    made(&mut site1, seven(), "1").await;
    let meta = made(&mut site2, seven(), "2").await;
    let before = site1.set("7").unwrap();

    site2.node.peer_up(&site("site1"));
    let begun = sent(&mut site2, |content| matches!(content, Content::Operations(_))).await;
    site1.node.core.engine.receive(vec![begun]).await.unwrap();
    assert_eq!(site1.set("7").unwrap(), before);

    // The same as a state, which a site gets that has lost its store.
    let state = state_of(&mut site2, &meta, None).await;
    site1.node.core.engine.receive(vec![state]).await.unwrap();
    assert_eq!(site1.set("7").unwrap(), before);
}

/// What `site2` sends when it hears that `site1` has lost its store, with what it says that `site1` called its replica.
async fn state_of(site2: &mut Running, meta: &MetaId, yours: Option<&str>) -> Message {
    site2.node.peer_life(&site("site1"), 1);
    site2.node.peer_life(&site("site1"), 2);
    let call = timeout(SOON, site2.call()).await.unwrap();
    let What::Read { ticket, .. } = call.what else {
        panic!("{:?}", call.what);
    };
    let state = Some((b"{}".to_vec(), Digest(vec![1])));
    site2.node.core.engine.result(meta, Event::Read { ticket, state });
    let mut message = sent(site2, |content| matches!(content, Content::Snapshot(_))).await;
    message.incarnation = 0;
    if let Content::Snapshot(snapshot) = &mut message.content {
        snapshot.yours = yours.map(LocalId::new);
    }
    message
}

/// Who takes another site's word on which resource is its replica would hand over any that the other one names.
#[tokio::test]
async fn the_replica_of_one_set_is_not_made_that_of_another_one() {
    for (yours, is_believed) in [("1", false), ("5", true)] {
        let (mut site1, mut site2) = (Place::new("site1").start(), Place::new("site2").start());
        made(&mut site1, NewId::Given(MetaId::new("7")), "1").await;
        let meta = made(&mut site2, NewId::Given(MetaId::new("8")), "2").await;
        let state = state_of(&mut site2, &meta, Some(yours)).await;
        site1.node.core.engine.receive(vec![state]).await.unwrap();
        let local = site1.set("8").unwrap().local().cloned();
        assert_eq!(local, is_believed.then(|| LocalId::new(yours)));
    }
}

async fn sent(running: &mut Running, is_wanted: impl Fn(&Content) -> bool) -> Message {
    loop {
        let task = timeout(SOON, running.work.tasks.recv()).await.unwrap().unwrap();
        if let Task::Send { message, .. } = task
            && is_wanted(&message.content)
        {
            return *message;
        }
    }
}
