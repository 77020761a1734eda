//! An operation counts as held where its payload is too.

use cheops_replica::{Draft, Event, OpId, Verb};
use cheops_types::KeptBody;

use crate::lab::{Asked, Lab, name};

const HASH: [u8; 32] = [7; 32];

fn long(lab: &mut Lab) -> Draft {
    let mut draft = lab.replace();
    draft.request.body = KeptBody::Spooled {
        hash: HASH,
        bytes: 1_000_000,
    };
    draft
}

fn held(lab: &Lab, id: &OpId) -> Vec<String> {
    let view = lab.set("a").operation(id, &name("a"));
    view.held.iter().map(ToString::to_string).collect()
}

/// `b` has an operation of `a`, whose application has not answered yet, and says so.
fn shipped(lab: &mut Lab) -> (OpId, Asked) {
    let draft = long(lab);
    let asked = lab.write("a", draft);
    let id = lab.set("a").log().last().unwrap().op.id.clone();
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    hear(lab, &received);
    (id, received)
}

fn hear(lab: &mut Lab, asked: &Asked) -> Asked {
    let reports = asked.sent.iter().filter(|(to, _)| to == "a");
    let mut heard = Asked::default();
    for (_, message) in reports.cloned().collect::<Vec<_>>() {
        heard
            .progress
            .extend(lab.step("a", Event::Message(message)).progress);
    }
    heard
}

fn arrives(lab: &mut Lab, is_here: bool) -> Asked {
    let told = lab.step("b", Event::Payload { hash: HASH, is_here });
    hear(lab, &told)
}

#[test]
fn a_holder_without_the_payload_is_none() {
    let mut lab = Lab::created(&["a", "b"]);
    let (id, _) = shipped(&mut lab);
    assert_eq!(held(&lab, &id), ["a"]);
    assert_eq!(lab.set("b").bare().count(), 1);
    let heard = arrives(&mut lab, true);
    assert_eq!(held(&lab, &id), ["a", "b"]);
    assert_eq!(heard.progress.len(), 1, "whoever waits for it hears");
    // A disk may lose it again.
    arrives(&mut lab, false);
    assert_eq!(held(&lab, &id), ["a"]);
}

#[test]
fn whoever_has_executed_it_has_it() {
    let mut lab = Lab::created(&["a", "b"]);
    let (id, received) = shipped(&mut lab);
    let done = lab.answer("b", &received, 200);
    hear(&mut lab, &done);
    let view = lab.set("a").operation(&id, &name("a"));
    assert!(view.entry.is_none() || view.held.len() == 2);
}

#[test]
fn what_only_others_without_the_payload_hold_is_not_dropped() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.tuning.log_max_bytes = 0;
    let (_, received) = shipped(&mut lab);
    assert_eq!(lab.set("a").log().count(), 1);
    assert_eq!(received.execute.len(), 1);
    arrives(&mut lab, true);
    assert_eq!(lab.set("a").log().count(), 0, "it is held by another one");
}

#[test]
fn a_site_does_not_leave_with_the_only_payload() {
    let mut lab = Lab::created(&["a", "b"]);
    let (_, received) = shipped(&mut lab);
    let leave = lab.record(Verb::Leave { site: name("a") });
    let asked = lab.step("a", Event::Request(leave));
    lab.settle(asked.without_reads());
    assert_eq!(lab.set("a").standing(), cheops_replica::Standing::Member);
    drop(received);
}
