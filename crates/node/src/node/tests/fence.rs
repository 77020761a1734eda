//! A set that breaks a rule of the engine ends nothing but itself.

use cheops_replica::{MetaId, Verb};
use serde_json::json;

use super::{
    lab::{Running, answered, create, put},
    *,
};
use crate::{
    model::{SetHint, SetState},
    rows::{Kept, Records},
};

/// Creates a set and gives its meta-id.
async fn made(site1: &mut Running, local: &str) -> MetaId {
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some(local));
    answered(reply.await.unwrap());
    meta
}

/// Fences a stored set off, as a step that broke does.
fn fence(site1: &Running, meta: &MetaId) {
    let key = meta.as_str().to_owned();
    let written = site1.node.core.store.write(move |session| {
        let mut row = session.get::<Records>(&key)?.expect("the set is stored");
        let mut record = serde_json::to_value(&row.record).unwrap();
        record["set"]["fenced"] = json!({ "why": "a number was used twice", "since_ms": 1 });
        row.record = serde_json::from_value::<Kept>(record).unwrap();
        session.put::<Records>(&key, &row)
    });
    written.and_then(cheops_store::Pending::wait).unwrap();
}

fn code(reply: &Reply) -> Option<Code> {
    match reply {
        Reply::Failed { problem, .. } => Some(problem.code),
        Reply::Elsewhere(elsewhere) => Some(elsewhere.problem.code),
        Reply::Answered { .. } => None,
    }
}

#[tokio::test]
async fn a_step_that_breaks_ends_neither_the_engine_nor_its_other_sets() {
    let mut site1 = Place::new("site1").start();
    let good = made(&mut site1, "1").await;
    let node = &site1.node;
    // The engine takes it for impossible that a set begins with anything but a create.
    let mut drafted = draft::draft(&node.core, &create()).unwrap();
    drafted.draft.verb = Verb::Replace;
    let mut waiter = node.core.waiting.register(drafted.draft.token, drafted.caller);
    let input = Input::Create {
        id: NewId::Given(MetaId::new("broken")),
        draft: Box::new(drafted.draft),
    };
    node.core.engine.post(input).unwrap();
    let second = tokio::spawn(node.write(put(good.as_str())));
    let stage = timeout(SOON, waiter.until(|stage: &Stage| stage.failed.is_some()));
    let failed = stage.await.unwrap().unwrap().failed.unwrap();
    assert_eq!(failed.code, Code::SetFenced);
    assert!(site1.set("broken").is_none(), "nothing is left of it");
    let metrics = site1.node.operator().metrics().await;
    assert!(metrics.contains("cheops_sets_fenced_total 1"), "{metrics}");
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 200, None);
    answered(timeout(SOON, second).await.unwrap().unwrap());
}

#[tokio::test]
async fn what_is_fenced_off_stays_so_until_an_operator_decides() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let (first, second) = (made(&mut site1, "1").await, made(&mut site1, "2").await);
    fence(&site1, &first);
    fence(&site1, &second);

    let mut again = place.crashed().start();
    // Every write goes to another site.
    let reply = again.node.write(put(first.as_str())).await;
    assert_eq!(code(&reply), Some(Code::SetFenced));
    assert!(
        matches!(&reply, Reply::Elsewhere(elsewhere) if !elsewhere.sites.is_empty()),
        "{reply:?}"
    );
    let operator = again.node.operator();
    let hint = SetHint::default();
    let detail = operator.set(first.as_str(), &hint).await.unwrap();
    assert_eq!(detail.set.state, SetState::Fenced);
    assert_eq!(detail.fenced.as_deref(), Some("a number was used twice"));
    operator.unfence(first.as_str(), &hint, false).await.unwrap();
    assert!(again.set(first.as_str()).unwrap().fenced().is_none());
    let reply = tokio::spawn(again.node.write(put(first.as_str())));
    let (meta, execution) = again.execution().await;
    again.answer(&meta, &execution, 200, None);
    answered(timeout(SOON, reply).await.unwrap().unwrap());
    let refused = operator.unfence(first.as_str(), &hint, true).await.unwrap_err();
    assert_eq!(refused.code, Code::SetRefused);

    let after = operator.unfence(second.as_str(), &hint, true).await.unwrap();
    assert_eq!(after.set, None);
    assert!(again.set(second.as_str()).is_none());
}
