//! What travels, to whom, and what is taken of it.

use cheops_replica::{Content, Digest, Event, Footprint, Recast, Request, Secret, Site, Verb};

use crate::lab::{Asked, Lab, name};

fn operations(asked: &Asked, to: &str) -> usize {
    let sent = asked.sent.iter().filter(|(site, _)| site == to);
    sent.filter(|(_, message)| matches!(message.content, Content::Operations(_)))
        .count()
}

#[test]
fn an_operation_travels_with_the_credential_that_it_executes_with() {
    let mut lab = Lab::created(&["a", "b"]);
    let credential = Some(Secret(b"the caller's".to_vec()));
    let mut draft = lab.replace();
    draft.credential = credential.clone();
    let shipped = lab.write("a", draft);
    let received = lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    assert_eq!(received.execute[0].credential, credential);
}

#[test]
fn whoever_asks_is_sent_at_once_what_it_lacks() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let lost = lab.write("a", draft);
    assert_eq!(operations(&lost, "b"), 1);
    let asks = lab.step("b", Event::PeerUnsure(name("a")));
    let answered = lab.step("a", Event::Message(asks.sent[0].1.clone()));
    assert_eq!(operations(&answered, "b"), 1);
}

#[test]
fn what_was_meant_for_an_earlier_life_of_the_store_is_not_taken() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    let (_, late) = shipped.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    // The disk of `b` is lost, and `c` brings it in again.
    lab.sites.insert("b", (Site::new(name("b"), 2), None));
    let (site, incarnation) = (name("b"), 2);
    let asked = lab.step("c", Event::PeerReset { site, incarnation });
    let ticket = asked.read[0];
    let state = Some((Vec::new(), Digest(Vec::new())));
    let served = lab.step("c", Event::Read { ticket, state });
    let (_, snapshot) = served.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let began = lab.step("b", Event::Message(snapshot));
    let asked = lab.answer("b", &began, 200);
    for ticket in asked.read {
        lab.step("b", Event::Read { ticket, state: None });
    }
    let before = lab.set("b").held().clone();
    let asked = lab.step("b", Event::Message(late));
    assert_eq!(*lab.set("b").held(), before);
    let (_, told) = asked.sent.into_iter().find(|(to, _)| to == "a").unwrap();
    assert_eq!(told.report.incarnation, 2, "`a` hears whom it should speak to");
    let asked = lab.step("a", Event::Message(told));
    lab.settle_at("a", asked);
    assert_eq!(lab.set("b").done(), lab.set("a").done());
}

#[test]
fn a_patch_travels_as_what_it_did() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.action();
    let touches = Footprint::parts(["/x"]);
    let request = Request {
        method: "PATCH".into(),
        ..draft.request.clone()
    };
    let began = lab.step("a", Event::Request(draft));
    let recast = Box::new(Recast::Merge {
        touches: touches.clone(),
        request: request.clone(),
    });
    let ticket = began.execute[0].ticket;
    lab.step("a", Event::Recast { ticket, recast });
    let done = lab.answer("a", &began, 200);
    let Content::Operations(carried) = &done.sent[0].1.content else {
        panic!("a write travels as an operation");
    };
    let op = &carried[0].op;
    assert_eq!(
        (&op.verb, &op.touches, &op.request),
        (&Verb::Merge, &touches, &request)
    );
}
