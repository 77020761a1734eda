//! What a request demands of the resource before it may execute: kept while its end is unknown, no longer.

use cheops_replica::{Answer, Conditions, Content, Draft, Event, Phase, Set};

use crate::lab::{Asked, Lab, name};

fn conditions() -> Conditions {
    Conditions {
        headers: vec![("if-match".to_owned(), b"\"7\"".to_vec())],
        body: Some(br#"{"n":1,"version":7}"#.to_vec()),
    }
}

fn conditional(lab: &mut Lab) -> Draft {
    Draft {
        conditions: Some(conditions()),
        ..lab.replace()
    }
}

/// A conditional write that a crash interrupted, repeated when the application must be done with it.
fn repeated() -> (Lab, Asked) {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = conditional(&mut lab);
    let first = lab.step("a", Event::Request(draft));
    assert_eq!(first.execute[0].conditions, Some(conditions()));
    // Only what was stored is there after a crash.
    let stored = serde_json::to_vec(lab.set("a")).unwrap();
    let restored: Set = serde_json::from_slice(&stored).unwrap();
    lab.sites.get_mut("a").unwrap().1 = Some(restored);
    lab.step("a", Event::Resume);
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    (lab, again)
}

#[test]
fn a_write_that_a_crash_interrupts_is_repeated_with_its_conditions() {
    let (mut lab, again) = repeated();
    assert_eq!(again.execute[0].conditions, Some(conditions()));
    let done = lab.answer("a", &again, 200);
    let carried = done.sent.iter().find_map(|(_, message)| match &message.content {
        Content::Operations(carried) => Some(carried),
        _ => None,
    });
    assert_eq!(carried.map(Vec::len), Some(1));
    // They were checked where the write was accepted: nobody else gets them.
    let received = lab.step("b", Event::Message(done.sent[0].1.clone()));
    assert_eq!(received.execute.len(), 1);
    assert_eq!(received.execute[0].conditions, None);
}

#[test]
fn conditions_that_no_longer_hold_end_a_doubt_and_the_replicas_are_compared() {
    for status in [409, 412] {
        let (mut lab, again) = repeated();
        let ended = lab.answer("a", &again, status);
        assert!(ended.execute.is_empty(), "{status}: it is not repeated for ever");
        assert_eq!(
            ended.read.len(),
            1,
            "{status}: it may have executed the first time"
        );
        lab.settle_at("a", ended);
        assert!(lab.set("a").is_settled(&name("a")), "{status}");
        assert_eq!(lab.set("a").log().count(), 0, "{status}: it is no operation");
    }
}

#[test]
fn a_conflict_that_no_condition_explains_keeps_a_doubt_open() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    lab.step("a", Event::Request(draft));
    lab.step("a", Event::Resume);
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    lab.answer("a", &again, 409);
    assert!(matches!(lab.set("a").job().unwrap().phase, Phase::Doubt { .. }));
}

#[test]
fn a_condition_that_does_not_hold_is_the_answer() {
    for status in [409, 412] {
        let mut lab = Lab::created(&["a", "b"]);
        let draft = conditional(&mut lab);
        let first = lab.step("a", Event::Request(draft));
        let refused = lab.answer("a", &first, status);
        assert_eq!(refused.answers, [Answer::Refused { status }]);
        assert!(refused.read.is_empty(), "nothing has happened");
    }
}

#[test]
fn conditions_are_not_printed() {
    let shown = format!("{:?}", conditions());
    assert!(!shown.contains("version") && !shown.contains("34, 55"), "{shown}");
}
