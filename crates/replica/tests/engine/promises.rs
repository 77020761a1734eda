//! Writes whose callers were told that they will execute (202), and wait no longer.

use cheops_replica::{Answer, Attempt, Draft, Event, Phase, Recognise};

use crate::lab::{Asked, Lab};

fn promised(lab: &mut Lab) -> Draft {
    Draft {
        promised: true,
        ..lab.replace()
    }
}

fn ended(lab: &mut Lab, asked: &Asked, attempt: Attempt) -> Asked {
    let ticket = asked.execute[0].ticket;
    lab.step("a", Event::Executed { ticket, attempt })
}

#[test]
fn what_was_promised_outlives_a_restart_while_it_waits_for_its_turn() {
    let mut lab = Lab::created(&["a", "b"]);
    let (first, kept, lost) = (lab.replace(), promised(&mut lab), lab.replace());
    let token = kept.token;
    for draft in [first, lost, kept] {
        lab.step("a", Event::Request(draft));
    }
    lab.step("a", Event::Resume);
    lab.now_ms += lab.tuning.settle_ms;
    let first = lab.step("a", Event::Wake);
    let next = lab.answer("a", &first, 200);
    assert_eq!(next.execute[0].token, token);
    let done = lab.answer("a", &next, 200);
    assert!(matches!(done.answers[..], [Answer::Accepted { status: 200, .. }]));
    assert!(done.execute.is_empty() && lab.set("a").queue().next().is_none());
}

#[test]
fn an_application_that_cannot_be_reached_does_not_end_a_promise_and_holds_up_nobody_else() {
    for attempt in [
        Attempt::NotSent,
        Attempt::Answered {
            status: 503,
            local: None,
            said: None,
        },
    ] {
        let mut lab = Lab::created(&["a", "b"]);
        let draft = promised(&mut lab);
        let token = draft.token;
        let began = lab.step("a", Event::Request(draft));
        let failed = ended(&mut lab, &began, attempt);
        assert!(failed.answers.is_empty() && failed.execute.is_empty());
        // Another caller is told at once, and may go elsewhere.
        let other = lab.replace();
        let other = lab.step("a", Event::Request(other));
        let other = ended(&mut lab, &other, Attempt::NotSent);
        assert!(matches!(other.answers[..], [Answer::NotHere(_)]));
        lab.now_ms += lab.tuning.retry_max_ms;
        let again = lab.step("a", Event::Wake);
        assert_eq!(again.execute[0].token, token);
        let done = lab.answer("a", &again, 200);
        assert!(matches!(done.answers[..], [Answer::Accepted { .. }]));
    }
}

#[test]
fn a_promise_does_not_wait_for_the_time_of_a_clock_that_was_ahead() {
    let mut lab = Lab::created(&["a", "b"]);
    let right_ms = lab.now_ms;
    lab.now_ms += 600_000;
    let draft = promised(&mut lab);
    let began = lab.step("a", Event::Request(draft));
    ended(&mut lab, &began, Attempt::NotSent);
    lab.now_ms = right_ms;
    lab.step("a", Event::Wake);
    lab.now_ms += lab.tuning.retry_max_ms.max(lab.tuning.blocked_retry_ms);
    let again = lab.step("a", Event::Wake);
    assert_eq!(again.execute.len(), 1);
}

#[test]
fn a_promised_create_is_not_forgotten_when_it_has_not_executed() {
    let mut lab = Lab::new(&["a", "b"]);
    let began = lab.create_with("a", Recognise::Nothing, true);
    ended(&mut lab, &began, Attempt::NotSent);
    lab.step("a", Event::Resume);
    lab.now_ms += lab.tuning.retry_max_ms;
    let again = lab.step("a", Event::Wake);
    let done = lab.answer("a", &again, 201);
    assert!(matches!(done.answers[..], [Answer::Accepted { status: 201, .. }]));
}

#[test]
fn a_promise_in_doubt_is_answered_when_the_doubt_is_over() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = promised(&mut lab);
    let began = lab.step("a", Event::Request(draft));
    let doubted = ended(&mut lab, &began, Attempt::Unknown);
    assert!(doubted.answers.is_empty(), "that is no end");
    lab.step("a", Event::Resume);
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    let done = lab.answer("a", &again, 422);
    // It may have executed the first time: then it was refused for what it had done itself.
    assert_eq!(done.answers, [Answer::Unknown { status: Some(422) }]);
}

#[test]
fn what_was_promised_waits_behind_a_doubt_that_an_operator_must_settle() {
    let mut lab = Lab::created(&["a", "b"]);
    let (action, kept, other) = (lab.action(), promised(&mut lab), lab.replace());
    let token = kept.token;
    let began = lab.step("a", Event::Request(action));
    for draft in [kept, other] {
        lab.step("a", Event::Request(draft));
    }
    let doubted = ended(&mut lab, &began, Attempt::Unknown);
    assert_eq!(lab.set("a").job().unwrap().phase, Phase::Stuck);
    assert_eq!(doubted.answers.len(), 2, "the doubt, and what goes elsewhere");
    let (executed, local) = (true, None);
    let settled = lab.step("a", Event::Settle { executed, local });
    assert_eq!(settled.execute[0].token, token);
}
