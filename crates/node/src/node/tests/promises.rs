//! Writes that were answered with 202.

use std::sync::atomic::Ordering;

use cheops_replica::Token;

use super::*;
use crate::task::What;

/// A create that waits for another set, promised.
fn create_promised(node: &crate::Node, meta: &MetaId, needed: &MetaId) -> Token {
    let mut draft = draft::draft(&node.core, &create()).unwrap().draft;
    draft.promised = true;
    draft.needs = vec![Need {
        set: needed.clone(),
        gone: false,
    }];
    let token = draft.token;
    drop(node.core.waiting.register(token, CallerHeaders::default()));
    let input = Input::Create {
        id: NewId::Given(meta.clone()),
        draft: Box::new(draft),
    };
    node.core.engine.post(input).unwrap();
    token
}

/// A promised write, and the name under which it is asked for.
async fn promise(node: &crate::Node, mut write: Write) -> String {
    write.prefer.respond_async = true;
    let headers = write.request.headers_mut();
    headers.insert("x-unlisted", http::HeaderValue::from_static("kept"));
    let (status, told) = answered(node.write(write).await);
    assert_eq!(status, 202);
    told.operation.unwrap()
}

fn stands(running: &lab::Running, operation: &str) -> serde_json::Value {
    let status = running.node.operation(operation).unwrap().expect("it is known");
    serde_json::from_slice(&status).unwrap()
}

#[tokio::test]
async fn what_was_promised_survives_a_restart_with_all_that_its_caller_sent() {
    let limits = Limits {
        doubt_settle_ms: 0,
        ..Limits::default()
    };
    let place = Place::with("site1", limits);
    let mut site1 = place.start();
    let parent = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    answered(parent.await.unwrap());
    // One that executes, and one that waits for its turn.
    let begun = tokio::spawn(site1.node.write(put(meta.as_str())));
    let (_, first) = site1.execution().await;
    let operation = promise(&site1.node, put(meta.as_str())).await;

    let crashed = place.crashed();
    let mut again = crashed.start();
    crashed.world.now_ms.fetch_add(1_000, Ordering::Relaxed);
    let (_, second) = timeout(SOON, again.execution()).await.unwrap();
    assert_eq!(second.token, first.token, "what was in doubt comes first");
    again.answer(&meta, &second, 200, None);
    let (_, promised) = timeout(SOON, again.execution()).await.unwrap();
    assert!(operation.ends_with(&promised.token.to_string()));
    let headers = again.node.core.waiting.headers(promised.token).unwrap();
    assert!(
        headers
            .iter()
            .any(|(name, value)| name == "x-unlisted" && value == "kept")
    );
    assert!(headers.iter().any(|(name, _)| name == "authorization"));
    assert_eq!(stands(&again, &operation)["state"], "pending");
    again.answer(&meta, &promised, 422, None);
    assert!(again.is_idle().await);
    assert_eq!(stands(&again, &operation)["state"], "refused");

    // Also after one more start, although nothing else records it.
    let later = crashed.crashed().start();
    let status = stands(&later, &operation);
    assert_eq!(
        (&status["state"], &status["sites"][0]["status"]),
        (&"refused".into(), &422.into())
    );
    begun.abort();
}

#[tokio::test]
async fn a_promised_create_survives_a_restart_and_its_refusal_is_told() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let parent = tokio::spawn(site1.node.write(create()));
    let (meta, _) = site1.execution().await;
    // Behind a parent that is not there yet: it has not begun.
    let child = MetaId::new("child");
    let token = create_promised(&site1.node, &child, &meta);
    assert!(site1.is_idle().await);
    let operation = format!("child:{token}");
    assert_eq!(stands(&site1, &operation)["state"], "pending");

    let crashed = place.crashed();
    let mut again = crashed.start();
    assert!(again.is_idle().await, "its parent is in doubt");
    let (executed, local) = (true, Some(LocalId::new("42")));
    let settle = Event::Settle { executed, local };
    again.node.core.engine.tell(&meta, settle).await.unwrap();
    // The parent's replica is read too: what was settled is compared.
    let (set, execution) = loop {
        let call = timeout(SOON, again.call()).await.unwrap();
        if let What::Execute(execution) = call.what {
            break (call.set.meta.clone(), execution);
        }
    };
    assert_eq!(set, child);
    again.answer(&child, &execution, 409, None);
    assert!(again.is_idle().await);
    assert!(again.set("child").is_none(), "it came to nothing");
    let later = crashed.crashed().start();
    assert_eq!(stands(&later, &operation)["state"], "refused");
    parent.abort();
}

#[tokio::test]
async fn nothing_is_promised_that_this_site_cannot_take() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, _) = site1.execution().await;
    // Only an operator knows now whether the create has executed.
    let again = place.crashed().start();
    for _ in 0..20 {
        let mut write = put(meta.as_str());
        write.prefer.respond_async = true;
        let elsewhere = again.node.write(write).await;
        assert!(matches!(elsewhere, Reply::Elsewhere(_)), "{elsewhere:?}");
    }
    reply.abort();
}
