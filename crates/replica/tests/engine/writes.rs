//! Writes: accepted, shipped, put in order, in doubt.

use cheops_replica::{
    Answer, Attempt, Event, Footprint, Form, OpId, Operation, Phase, Reading, Reason, Recognise, State,
    Token, Verb, Why, default_reading,
};

use crate::lab::{Lab, name};

#[test]
fn a_create_is_answered_where_it_executed_and_made_elsewhere() {
    let mut lab = Lab::new(&["a", "b"]);
    let began = lab.create("a", Recognise::Nothing);
    assert!(
        began.answers.is_empty() && began.sent.is_empty(),
        "nothing leaves before the result"
    );
    let done = lab.answer("a", &began, 201);
    assert!(matches!(done.answers[..], [Answer::Accepted { status: 201, .. }]));
    lab.settle(done);
    let b = name("b");
    assert_eq!(lab.set("a").local().unwrap().as_str(), "a-1");
    assert_eq!(
        lab.set("a").remote(&b).unwrap().as_str(),
        "b-1",
        "each site tells its own local id"
    );
    assert!(lab.set("a").is_settled(&name("a")) && lab.set("b").is_settled(&b));
    assert_eq!(lab.set("a").log().count(), 0, "what is stable is pruned");
}

#[test]
fn a_refused_write_leaves_no_trace() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let refused = lab.answer("a", &asked, 422);
    assert_eq!(refused.answers, [Answer::Refused { status: 422 }]);
    assert!(refused.sent.is_empty());
    assert!(lab.set("a").is_settled(&name("a")));
}

#[test]
fn what_was_not_sent_may_be_taken_over() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let ticket = asked.execute[0].ticket;
    let ended = lab.step(
        "a",
        Event::Executed {
            ticket,
            attempt: Attempt::NotSent,
        },
    );
    assert_eq!(ended.answers, [Answer::NotHere(Reason::Unreachable)]);
}

#[test]
fn the_later_of_two_concurrent_writes_wins_and_the_other_is_a_conflict() {
    let mut lab = Lab::created(&["a", "b"]);
    let (first, second) = (lab.replace(), lab.replace());
    let from_a = lab.write("a", first);
    lab.now_ms += 5;
    let from_b = lab.write("b", second);
    lab.settle(from_b);
    lab.settle(from_a);
    for at in ["a", "b"] {
        let conflicts: Vec<_> = lab.set(at).conflicts().collect();
        assert_eq!(conflicts.len(), 1, "at {at}");
        assert_eq!(conflicts[0].loser.id.author.site, name("a"));
    }
}

#[test]
fn a_later_overwrite_is_no_conflict() {
    let mut lab = Lab::created(&["a", "b"]);
    let first = lab.replace();
    let asked = lab.write("a", first);
    lab.settle(asked);
    let second = lab.replace();
    let asked = lab.write("b", second);
    lab.settle(asked);
    assert_eq!(lab.set("a").conflicts().count(), 0);
}

#[test]
fn a_late_patch_executes_and_the_later_one_once_more() {
    let mut lab = Lab::created(&["a", "b"]);
    let patch = |lab: &mut Lab, parts: &[&str]| {
        lab.draft(
            Verb::Merge,
            Footprint::parts(parts.iter().copied()),
            Recognise::Nothing,
        )
    };
    let (early, late) = (patch(&mut lab, &["/x", "/y"]), patch(&mut lab, &["/x"]));
    let from_a = lab.write("a", early);
    lab.now_ms += 5;
    lab.write("b", late);
    let (_, message) = from_a.sent[0].clone();
    let first = lab.step("b", Event::Message(message));
    assert_eq!(first.execute.len(), 1, "the late one");
    let second = lab.answer("b", &first, 200);
    assert_eq!(second.execute.len(), 1, "what follows it, once more");
    assert_ne!(first.execute[0].token, second.execute[0].token);
    let third = lab.answer("b", &second, 200);
    assert!(third.execute.is_empty());
}

#[test]
fn an_action_in_doubt_waits_for_an_operator() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.action();
    lab.step("a", Event::Request(draft));
    lab.now_ms += 10_000_000;
    let resumed = lab.step("a", Event::Resume);
    assert!(resumed.execute.is_empty());
    let woken = lab.step("a", Event::Wake);
    assert!(woken.execute.is_empty(), "it is never repeated by itself");
    assert!(lab.set("a").in_doubt().is_some());
    let draft = lab.replace();
    let next = lab.step("a", Event::Request(draft));
    assert_eq!(next.answers, [Answer::NotHere(Reason::InDoubt)]);
    let settled = lab.step(
        "a",
        Event::Settle {
            executed: true,
            local: None,
        },
    );
    assert!(
        settled.sent.iter().any(|(to, _)| to == "b"),
        "now it is an operation of the set"
    );
}

#[test]
fn an_idempotent_write_in_doubt_is_repeated_when_the_application_must_be_done() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let began = lab.step("a", Event::Request(draft));
    let resumed = lab.step("a", Event::Resume);
    assert!(resumed.execute.is_empty(), "the application may still be at it");
    assert!(matches!(lab.set("a").job().unwrap().phase, Phase::Doubt { .. }));
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    assert_eq!(again.execute[0].token, began.execute[0].token);
    let late = lab.step(
        "a",
        Event::Executed {
            ticket: began.execute[0].ticket,
            attempt: Attempt::Unknown,
        },
    );
    assert!(
        late.execute.is_empty(),
        "an answer to the earlier attempt no longer counts"
    );
    let done = lab.answer("a", &again, 200);
    assert!(done.answers.is_empty(), "nobody waits for it");
    assert!(!done.sent.is_empty());
}

#[test]
fn a_clock_that_is_set_forward_does_not_end_a_doubt() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let began = lab.step("a", Event::Request(draft));
    lab.step("a", Event::Resume);
    lab.now_ms += 10 * lab.tuning.settle_ms;
    let soon = lab.step("a", Event::Wake);
    assert!(soon.execute.is_empty(), "the application may still be at it");
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    assert_eq!(again.execute[0].token, began.execute[0].token);
}

#[test]
fn a_clock_far_ahead_is_quarantined_and_not_dropped() {
    let mut lab = Lab::created(&["a", "b"]);
    let early_ms = lab.now_ms;
    lab.now_ms += lab.tuning.ahead_max_ms * 3;
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let far_ms = lab.now_ms;
    lab.now_ms = early_ms;
    let (_, message) = asked.sent[0].clone();
    let received = lab.step("b", Event::Message(message));
    assert!(received.execute.is_empty());
    let entry = lab.set("b").log().next().unwrap();
    assert_eq!(entry.state, State::Waiting(Why::Quarantined));
    assert!(
        lab.sites["b"].0.clock().last().millis < far_ms,
        "it does not carry the clock away"
    );
    lab.now_ms = lab
        .set("b")
        .wake_at_ms(&name("b"), lab.tuning.ahead_max_ms)
        .unwrap()
        .max(far_ms - lab.tuning.ahead_max_ms);
    assert_eq!(lab.step("b", Event::Wake).execute.len(), 1);
}

#[test]
fn a_delete_supersedes_what_is_blocked() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    lab.answer("b", &received, 403);
    let draft = lab.draft(Verb::Delete, Footprint::Whole, Recognise::Nothing);
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    assert!(matches!(received.execute[0].form, Form::Delete { .. }));
    let waiting: Vec<_> = lab.set("b").log().map(|entry| &entry.op.verb).collect();
    assert_eq!(
        waiting,
        [&Verb::Delete],
        "the other one has its outcome, and is stable"
    );
}

#[test]
fn duplicates_are_known_after_pruning() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let copy = asked.sent[0].1.clone();
    lab.settle(asked);
    assert_eq!(lab.set("b").log().count(), 0);
    let again = lab.step("b", Event::Message(copy));
    assert!(again.execute.is_empty());
}

#[test]
fn the_table_of_answers() {
    let op = |verb| Operation {
        id: OpId {
            author: cheops_replica::Author {
                site: name("a"),
                incarnation: 1,
                stay: 0,
            },
            seq: 1,
        },
        token: Token(1),
        time: cheops_types::Stamp::default(),
        age: cheops_replica::Age::default(),
        after: cheops_replica::Vector::new(),
        births: std::collections::BTreeSet::new(),
        epoch: 0,
        verb,
        touches: Footprint::Whole,
        recognise: Recognise::Nothing,
        needs: Vec::new(),
        request: Lab::new(&[]).replace().request,
        signature: Vec::new(),
    };
    let check = |statuses: &[u16], reading| {
        for status in statuses {
            assert_eq!(default_reading(&op(Verb::Replace), *status), reading, "{status}");
        }
    };
    check(&[200, 201, 204], Reading::Done);
    check(&[400, 405, 410, 413, 415, 422], Reading::Refused);
    check(&[401], Reading::NeedsCredentials);
    check(&[301, 304, 307, 403, 404], Reading::Blocked);
    check(&[408, 409, 423, 425, 429, 503], Reading::Retry);
    check(&[500, 502, 504], Reading::Unknown);
    assert_eq!(default_reading(&op(Verb::Delete), 404), Reading::Done);
}

#[test]
fn what_waits_behind_a_doubt_may_be_taken_over() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.action();
    let under_way = lab.step("a", Event::Request(draft));
    let draft = lab.replace();
    assert!(
        lab.step("a", Event::Request(draft)).answers.is_empty(),
        "it waits"
    );
    let ticket = under_way.execute[0].ticket;
    let attempt = Attempt::Unknown;
    let doubt = lab.step("a", Event::Executed { ticket, attempt });
    let in_doubt = Answer::NotHere(Reason::InDoubt);
    assert_eq!(doubt.answers, [Answer::Unknown { status: None }, in_doubt]);
    assert_eq!(lab.set("a").queue().count(), 0);
}

#[test]
fn what_broke_off_is_repeated_sooner_than_what_is_silent() {
    const SOON_MS: u64 = 100;
    let mut lab = Lab::created(&["a", "b"]);
    assert!(SOON_MS < lab.tuning.settle_ms);
    let settle_ms = SOON_MS;
    for restarts in [false, true] {
        let draft = lab.replace();
        let began = lab.step("a", Event::Request(draft));
        let ticket = began.execute[0].ticket;
        if restarts {
            lab.step("a", Event::Resume);
        }
        let broken = lab.step("a", Event::Broken { ticket, settle_ms });
        assert!(broken.execute.is_empty());
        lab.now_ms += SOON_MS;
        let again = lab.step("a", Event::Wake);
        assert_eq!(again.execute[0].token, began.execute[0].token);
        // Another attempt's end says nothing about this one.
        let late = lab.step("a", Event::Broken { ticket, settle_ms });
        assert!(late.execute.is_empty());
        let done = lab.answer("a", &again, 200);
        lab.settle(done);
    }
}

#[test]
fn a_create_that_broke_off_is_looked_for_when_the_application_must_be_done() {
    let mut lab = Lab::new(&["a", "b"]);
    let began = lab.create("a", Recognise::Key);
    let ticket = began.execute[0].ticket;
    lab.step(
        "a",
        Event::Broken {
            ticket,
            settle_ms: 100,
        },
    );
    lab.now_ms += 100;
    assert!(lab.step("a", Event::Wake).execute.is_empty());
    lab.now_ms += lab.tuning.settle_ms;
    assert_eq!(lab.step("a", Event::Wake).execute.len(), 1);
}

#[test]
fn others_hear_that_an_operation_is_in_doubt() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let id = lab.set("a").log().last().unwrap().op.id.clone();
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    let (ticket, attempt) = (received.execute[0].ticket, Attempt::Unknown);
    let doubted = lab.step("b", Event::Executed { ticket, attempt });
    for (_, message) in doubted.sent {
        lab.step("a", Event::Message(message));
    }
    assert_eq!(lab.set("a").why_at(&name("b"), &id), Some(Why::InDoubt));
}
