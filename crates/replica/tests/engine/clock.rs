//! Clocks that are ahead, and what they carry along.

use cheops_replica::{Cause, Event, Recognise, State, Why};

use crate::lab::{Lab, name};

#[test]
fn what_a_site_writes_is_later_than_what_it_holds() {
    let mut lab = Lab::created(&["a", "b"]);
    let early_ms = lab.now_ms;
    // The clock of `a` is ahead, though not so far that anybody objects.
    lab.now_ms += lab.tuning.ahead_max_ms / 2;
    let held = lab.replace();
    let shipped = lab.write("a", held);
    lab.now_ms = early_ms;
    let received = lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    lab.answer("b", &received, 403);
    let waiting = lab.set("b").log().next().unwrap();
    assert_eq!(waiting.state, State::Waiting(Why::Blocked { status: 403 }));
    // It has not executed at `b`, so the two are concurrent. Whoever wrote last was at `b`.
    let draft = lab.replace();
    let token = draft.token;
    lab.write("b", draft);
    let conflicts: Vec<_> = lab.set("b").conflicts().collect();
    let [conflict] = conflicts[..] else {
        panic!("{conflicts:?}");
    };
    assert_eq!(conflict.loser.id.author.site, name("a"));
    assert!(matches!(&conflict.cause, Cause::Winner(winner) if winner.token == token));
}

/// A set begins at `a`; when, by its first operation.
fn begun_ms(lab: &mut Lab) -> u64 {
    let asked = lab.create("a", Recognise::Nothing);
    lab.answer("a", &asked, 201);
    lab.set("a").log().next().unwrap().op.time.millis
}

#[test]
fn a_clock_that_was_far_ahead_carries_no_other_set_along() {
    let mut lab = Lab::new(&["a", "b"]);
    let right_ms = lab.now_ms;
    let wrong_ms = right_ms + lab.tuning.ahead_max_ms * 3;
    lab.now_ms = wrong_ms;
    assert_eq!(begun_ms(&mut lab), wrong_ms);
    // The clock is right again, and so is the time of what begins now.
    lab.now_ms = right_ms;
    assert_eq!(begun_ms(&mut lab), right_ms);
}
