//! Writes whose callers were told that they will execute (202), and wait no longer.

use cheops_replica::{Answer, Attempt, Draft, Event, Phase, Reason, Recognise, Token};

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

/// `a` reads its replica, which is gone, while a write is promised there. `b` has its own, as far as `a` knows.
fn promised_where_the_replica_is_gone() -> (Lab, Token) {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = promised(&mut lab);
    let token = draft.token;
    let ticket = lab.step("a", Event::Check).read[0];
    lab.step("a", Event::Request(draft));
    let waits = lab.step("a", Event::Missing { ticket });
    assert!(waits.answers.is_empty(), "b can bring it back");
    (lab, token)
}

#[test]
fn a_promise_ends_when_no_site_has_the_resource_any_more() {
    let (mut lab, _) = promised_where_the_replica_is_gone();
    let ticket = lab.step("b", Event::Check).read[0];
    let missing = lab.step("b", Event::Missing { ticket });
    let (_, told) = missing.sent.into_iter().find(|(to, _)| to == "a").unwrap();
    let heard = lab.step("a", Event::Message(told));
    assert_eq!(heard.answers, [Answer::NotHere(Reason::NoReplica)]);
    assert!(lab.set("a").queue().next().is_none());
}

#[test]
fn a_promise_waits_for_the_replica_that_another_site_can_bring() {
    let (mut lab, token) = promised_where_the_replica_is_gone();
    lab.states.insert("b".into(), b"1".to_vec());
    lab.wait(3);
    assert!(lab.set("a").local().is_some() && lab.set("a").queue().next().is_none());
    let executed = lab.executed.iter().filter(|it| it.token == token);
    assert_eq!(executed.count(), 2, "at both sites");
}
