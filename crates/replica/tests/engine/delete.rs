//! What a delete takes with it, and when.

use cheops_replica::{Draft, Event, Footprint, Form, Message, Recognise, State, Verb, Why};

use crate::lab::{Asked, Lab, name};

fn delete(lab: &mut Lab) -> Draft {
    lab.draft(Verb::Delete, Footprint::Whole, Recognise::Nothing)
}

fn merge(lab: &mut Lab, parts: &[&str]) -> Draft {
    let touches = Footprint::parts(parts.iter().copied());
    lab.draft(Verb::Merge, touches, Recognise::Nothing)
}

fn sent_to(asked: &Asked, site: &str) -> Message {
    let found = asked.sent.iter().find(|(to, _)| to == site);
    found.unwrap().1.clone()
}

#[test]
fn a_delete_supersedes_nothing_before_all_that_it_follows_is_here() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let w = lab.replace();
    let token = w.token;
    let asked = lab.write("a", w);
    let received = lab.step("b", Event::Message(sent_to(&asked, "b")));
    lab.answer("b", &received, 403);
    // The delete follows a write of `c` that `b` does not have, and may never get.
    lab.now_ms += 5;
    let x = lab.replace();
    let from_c = lab.write("c", x);
    let received = lab.step("a", Event::Message(sent_to(&from_c, "a")));
    lab.answer("a", &received, 200);
    let d = delete(&mut lab);
    let asked = lab.write("a", d);
    let early = lab.step("b", Event::Message(sent_to(&asked, "b")));
    assert!(early.execute.is_empty());
    let state = |lab: &Lab| {
        let entry = lab.set("b").log().find(|it| it.op.token == token);
        entry.map(|entry| entry.state)
    };
    let blocked = State::Waiting(Why::Blocked { status: 403 });
    assert_eq!(state(&lab), Some(blocked));
    let all = lab.step("b", Event::Message(sent_to(&from_c, "b")));
    assert!(matches!(all.execute[0].form, Form::Delete { .. }));
    assert!(state(&lab).is_none_or(|state| matches!(state, State::Done(_))));
}

/// The name was deleted and made again, before the write that is to be executed once more and without having
/// seen it.
#[test]
fn what_a_delete_has_covered_is_not_executed_again_on_what_was_made_since() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let named = lab.named();
    let began = lab.begin("a", named);
    let created = lab.answer("a", &began, 201);
    lab.settle(created);
    let early = merge(&mut lab, &["/x", "/y"]);
    let from_a = lab.write("a", early);
    lab.now_ms += 5;
    let d = delete(&mut lab);
    let deleted = lab.write("c", d);
    lab.now_ms += 5;
    let again = lab.named();
    let began = lab.step("c", Event::Request(again));
    let made = lab.answer("c", &began, 201);
    lab.now_ms += 5;
    let late = merge(&mut lab, &["/x"]);
    lab.write("b", late);
    let first = lab.step("b", Event::Message(sent_to(&from_a, "b")));
    let second = lab.answer("b", &first, 200);
    lab.answer("b", &second, 503);
    let gone = lab.step("b", Event::Message(sent_to(&deleted, "b")));
    assert!(matches!(gone.execute[0].form, Form::Delete { .. }));
    lab.answer("b", &gone, 204);
    let anew = lab.step("b", Event::Message(sent_to(&made, "b")));
    assert!(matches!(anew.execute[0].form, Form::Create { .. }));
    let next = lab.answer("b", &anew, 201);
    assert!(next.execute.is_empty());
    lab.now_ms += 120_000;
    let later = lab.step("b", Event::Wake);
    assert!(later.execute.is_empty(), "{:?}", later.execute);
    assert!(lab.set("b").log().all(|entry| !entry.redo));
}

#[test]
fn a_delete_does_not_wait_for_what_is_to_be_executed_once_more() {
    let mut lab = Lab::created(&["a", "b"]);
    let (early, late) = (merge(&mut lab, &["/x", "/y"]), merge(&mut lab, &["/x"]));
    let from_a = lab.write("a", early);
    lab.now_ms += 5;
    let from_b = lab.write("b", late);
    let first = lab.step("b", Event::Message(sent_to(&from_a, "b")));
    let second = lab.answer("b", &first, 200);
    // The application does not let the later one through any more.
    lab.answer("b", &second, 403);
    let received = lab.step("a", Event::Message(sent_to(&from_b, "a")));
    lab.answer("a", &received, 200);
    let d = delete(&mut lab);
    let asked = lab.write("a", d);
    let gone = lab.step("b", Event::Message(sent_to(&asked, "b")));
    assert!(matches!(gone.execute[0].form, Form::Delete { .. }));
    // A delete that fails for now is tried again, with nothing else to wake it up.
    lab.answer("b", &gone, 503);
    let wake_ms = lab.set("b").wake_at_ms(&name("b"), lab.tuning.ahead_max_ms);
    assert!(wake_ms.unwrap() <= lab.now_ms + lab.tuning.retry_min_ms);
    lab.now_ms += lab.tuning.retry_max_ms;
    let again = lab.step("b", Event::Wake);
    assert!(matches!(again.execute[0].form, Form::Delete { .. }));
    let done = lab.answer("b", &again, 204);
    assert!(done.execute.is_empty() && lab.set("b").local().is_none());
    lab.settle(done);
    assert!(lab.set("b").is_settled(&name("b")));
}
