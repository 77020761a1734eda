//! Strong sets: what their sites decide together is executed by each, and nothing else is.

use cheops_replica::{Answer, Attempt, Decision, Event, Form, Phase, Proposal, Reason, Recognise, Token};
use cheops_types::Consistency;

use crate::lab::{Asked, Lab, name};

const SITES: [&str; 3] = ["a", "b", "c"];

/// Three sites that have a strong resource.
fn strong() -> Lab {
    let mut lab = empty();
    let began = lab.create("a", Recognise::ChosenId);
    let made = lab.answer("a", &began, 201);
    let decision = executed(&made);
    for at in SITES {
        let asked = lab.step(at, Event::Decided(decision.clone()));
        lab.settle_at(at, asked);
    }
    lab
}

fn empty() -> Lab {
    let mut lab = Lab::new(&SITES);
    lab.consistency = Consistency::Strong;
    lab
}

/// The group has noted what a site proposed.
fn executed(asked: &Asked) -> Decision {
    match &asked.proposed[..] {
        [(_, Proposal::Executed { carried, .. })] => Decision::Executed(carried.clone()),
        other => panic!("{other:?}"),
    }
}

fn decide_at(lab: &mut Lab, at: &'static str, decision: &Decision) -> Asked {
    lab.step(at, Event::Decided(decision.clone()))
}

fn is_quiet(asked: &Asked) -> bool {
    asked.sent.is_empty() && asked.answers.is_empty() && asked.execute.is_empty()
}

#[test]
fn nothing_that_was_executed_is_told_before_it_is_decided() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let before = lab.set("a").held().clone();
    let executed_here = lab.answer("a", &asked, 200);
    assert!(is_quiet(&executed_here), "{:?}", executed_here.sent);
    assert_eq!(*lab.set("a").held(), before, "it is no operation yet");
    let decision = executed(&executed_here);
    let decided = decide_at(&mut lab, "a", &decision);
    assert!(matches!(
        decided.answers[..],
        [Answer::Accepted { status: 200, .. }]
    ));
    assert!(!decided.sent.is_empty() && decided.execute.is_empty());
    let others = ["b", "c"].map(|at| (at, decide_at(&mut lab, at, &decision)));
    for (at, asked) in others {
        assert!(
            matches!(asked.execute[0].form, Form::Repeat { .. }),
            "{at} executes it now"
        );
        lab.settle_at(at, asked);
    }
    lab.settle(decided);
    lab.wait(3);
    for at in SITES {
        assert!(
            lab.set(at).is_settled(&name(at)) && lab.set(at).degraded().is_none(),
            "{at}"
        );
        assert_eq!(lab.set(at).conflicts().count(), 0);
    }
}

#[test]
fn what_the_application_refuses_is_refused_when_that_is_decided() {
    let mut lab = strong();
    let draft = lab.replace();
    let token = draft.token;
    let asked = lab.step("a", Event::Request(draft));
    let refused = lab.answer("a", &asked, 422);
    assert!(is_quiet(&refused));
    assert_eq!(refused.proposed, [(token, Proposal::Refused { status: 422 })]);
    let decision = Decision::Refused { token, status: 422 };
    let decided = decide_at(&mut lab, "a", &decision);
    assert_eq!(decided.answers, [Answer::Refused { status: 422 }]);
    for at in ["b", "c"] {
        assert!(
            is_quiet(&decide_at(&mut lab, at, &decision)),
            "{at} has nothing to do"
        );
    }
}

#[test]
fn a_create_that_is_refused_leaves_no_set() {
    let mut lab = empty();
    let began = lab.create("a", Recognise::ChosenId);
    let refused = lab.answer("a", &began, 409);
    let token = refused.proposed[0].0;
    let decided = decide_at(&mut lab, "a", &Decision::Refused { token, status: 409 });
    assert!(decided.forgets);
    assert_eq!(decided.answers, [Answer::Refused { status: 409 }]);
}

#[test]
fn the_next_write_waits_for_the_decision() {
    let mut lab = strong();
    let (first, second) = (lab.replace(), lab.replace());
    let asked = lab.step("a", Event::Request(first));
    let proposed = lab.answer("a", &asked, 200);
    assert!(is_quiet(&lab.step("a", Event::Request(second))));
    let decision = executed(&proposed);
    let decided = decide_at(&mut lab, "a", &decision);
    assert_eq!(decided.execute.len(), 1, "its turn has come");
}

/// Nothing is decided at a site that has yet to execute what was decided before: its application would not have seen it.
#[test]
fn a_site_that_is_behind_decides_nothing() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let proposed = lab.answer("a", &asked, 200);
    let decision = executed(&proposed);
    let behind = decide_at(&mut lab, "b", &decision);
    let draft = lab.replace();
    let waits = lab.step("b", Event::Request(draft));
    assert!(is_quiet(&waits), "the first has not executed at b");
    let caught_up = lab.answer("b", &behind, 200);
    assert_eq!(caught_up.execute.len(), 1);
    let second = lab.answer("b", &caught_up, 200);
    let Decision::Executed(second) = executed(&second) else {
        panic!("it was executed");
    };
    let Decision::Executed(first) = decision else {
        panic!("it was executed");
    };
    assert!(second.op.after.includes(&first.op.id), "so no two are concurrent");
}

#[test]
fn a_replica_that_is_not_what_it_should_be_decides_nothing() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let proposed = lab.answer("a", &asked, 200);
    let decision = executed(&proposed);
    let asked = decide_at(&mut lab, "b", &decision);
    lab.answer("b", &asked, 422);
    assert!(lab.set("b").degraded().is_some());
    let draft = lab.replace();
    let refused = lab.step("b", Event::Request(draft));
    assert_eq!(refused.answers, [Answer::NotHere(Reason::NoReplica)]);
}

/// a executes the write and is cut off; b is asked to decide it, and executes it as well.
#[test]
fn what_another_site_decided_takes_the_place_of_what_was_proposed() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft.clone()));
    lab.answer("a", &asked, 200);
    let asked = lab.step("b", Event::Request(draft));
    let proposed = lab.answer("b", &asked, 200);
    let decision = executed(&proposed);
    let at_b = decide_at(&mut lab, "b", &decision);
    let at_c = decide_at(&mut lab, "c", &decision);
    lab.settle_at("c", at_c);
    let at_a = decide_at(&mut lab, "a", &decision);
    assert!(at_a.execute.is_empty(), "it has executed there already");
    assert_eq!(lab.set("a").held(), lab.set("b").held());
    lab.settle_at("a", at_a);
    lab.settle_at("b", at_b);
    lab.wait(3);
    assert!(lab.set("a").degraded().is_none() && lab.set("a").is_settled(&name("a")));
}

/// a executes the write and is cut off; b's application refuses it, and that is decided.
#[test]
fn what_was_executed_and_is_refused_is_set_back() {
    let mut lab = strong();
    for at in ["b", "c"] {
        lab.states.insert(at.into(), b"before".to_vec());
    }
    lab.states.insert("a".into(), b"after".to_vec());
    let draft = lab.replace();
    let token = draft.token;
    let asked = lab.step("a", Event::Request(draft));
    lab.answer("a", &asked, 200);
    let decision = Decision::Refused { token, status: 409 };
    let at_a = decide_at(&mut lab, "a", &decision);
    assert_eq!(at_a.answers, [Answer::Refused { status: 409 }]);
    assert!(lab.set("a").degraded().is_some());
    lab.settle_at("a", at_a);
    lab.wait(3);
    assert_eq!(lab.states["a"], b"before", "the others have what counts");
    assert!(lab.set("a").degraded().is_none());
    assert_eq!(lab.states["b"], b"before");
}

#[test]
fn what_was_made_and_is_refused_is_taken_away() {
    let mut lab = empty();
    let began = lab.create("a", Recognise::ChosenId);
    let made = lab.answer("a", &began, 201);
    let token = made.proposed[0].0;
    let decided = decide_at(&mut lab, "a", &Decision::Refused { token, status: 403 });
    assert!(matches!(decided.execute[0].form, Form::Delete { .. }));
    let gone = lab.answer("a", &decided, 204);
    assert!(gone.forgets);
}

/// The decision comes while the application is still at it.
#[test]
fn a_decision_waits_for_the_application() {
    for (status, again) in [(200, false), (422, true)] {
        let mut lab = strong();
        let draft = lab.replace();
        let slow = lab.step("a", Event::Request(draft.clone()));
        let asked = lab.step("b", Event::Request(draft));
        let proposed = lab.answer("b", &asked, 200);
        let decision = executed(&proposed);
        assert!(is_quiet(&decide_at(&mut lab, "a", &decision)));
        let ended = lab.answer("a", &slow, status);
        assert!(ended.proposed.is_empty(), "it is decided");
        assert_eq!(!ended.execute.is_empty(), again, "{status}");
        assert!(
            lab.set("a")
                .held()
                .iter()
                .any(|(author, _)| author.site == name("b"))
        );
    }
}

#[test]
fn what_certainly_did_not_execute_is_decided_elsewhere() {
    let mut lab = strong();
    let draft = lab.replace();
    let token = draft.token;
    let asked = lab.step("a", Event::Request(draft));
    let ticket = asked.execute[0].ticket;
    let attempt = Attempt::NotSent;
    let ended = lab.step("a", Event::Executed { ticket, attempt });
    assert_eq!(ended.answers, [Answer::NotHere(Reason::Unreachable)]);
    assert!(ended.proposed.is_empty());
    assert!(lab.set("a").job().is_none());
    assert_eq!(token, Token(2));
}

/// A leader asks again after a restart, and so does the next one at a site that has it already.
#[test]
fn a_write_that_is_here_is_not_taken_twice() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft.clone()));
    assert!(
        is_quiet(&lab.step("a", Event::Request(draft.clone()))),
        "under way"
    );
    let proposed = lab.answer("a", &asked, 200);
    let again = lab.step("a", Event::Request(draft.clone()));
    assert_eq!(again.proposed, proposed.proposed);
    let resumed = lab.step("a", Event::Resume);
    assert_eq!(
        resumed.proposed, proposed.proposed,
        "it is said again after a start"
    );
    let decision = executed(&proposed);
    let decided = decide_at(&mut lab, "a", &decision);
    assert!(decided.execute.is_empty(), "no second one has waited behind it");
    let once_more = lab.step("a", Event::Request(draft));
    assert!(matches!(once_more.answers[..], [Answer::Accepted { .. }]));
    assert!(once_more.execute.is_empty());
    let twice = decide_at(&mut lab, "a", &decision);
    assert!(twice.execute.is_empty() && twice.answers.is_empty());
}

/// The group's order counts, not the clocks.
#[test]
fn an_operation_of_the_future_executes() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let proposed = lab.answer("a", &asked, 200);
    let Decision::Executed(mut carried) = executed(&proposed) else {
        panic!("it was executed");
    };
    carried.op.time.millis = lab.now_ms + 3_600_000;
    let asked = decide_at(&mut lab, "b", &Decision::Executed(carried));
    assert_eq!(asked.execute.len(), 1);
}

#[test]
fn an_operation_of_the_future_that_another_member_sends_executes_too() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let proposed = lab.answer("a", &asked, 200);
    let Decision::Executed(mut carried) = executed(&proposed) else {
        panic!("it was executed");
    };
    carried.op.time.millis = lab.now_ms + 3_600_000;
    let decided = decide_at(&mut lab, "a", &Decision::Executed(carried));
    let (_, message) = decided.sent.iter().find(|(to, _)| to == "b").unwrap();
    let mut message = message.clone();
    message.now_ms += 3_600_000;
    let asked = lab.step("b", Event::Message(message));
    assert_eq!(asked.execute.len(), 1);
}

/// Whoever reads what is decided must see all of it, and nothing else.
#[test]
fn a_site_has_caught_up_when_it_has_executed_what_is_decided_and_nothing_else() {
    let mut lab = strong();
    assert!(SITES.iter().all(|at| lab.set(at).has_caught_up()));
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    assert!(
        !lab.set("a").has_caught_up(),
        "its application may have executed it"
    );
    let proposed = lab.answer("a", &asked, 200);
    assert!(
        !lab.set("a").has_caught_up(),
        "nobody knows yet whether it counts"
    );
    let decision = executed(&proposed);
    decide_at(&mut lab, "a", &decision);
    assert!(lab.set("a").has_caught_up());
    let asked = decide_at(&mut lab, "b", &decision);
    assert!(!lab.set("b").has_caught_up(), "it has not executed it yet");
    lab.answer("b", &asked, 200);
    assert!(lab.set("b").has_caught_up());
    let asked = decide_at(&mut lab, "c", &decision);
    lab.answer("c", &asked, 422);
    assert!(
        !lab.set("c").has_caught_up(),
        "its replica is not what was decided"
    );
}

/// The agent stops while the application is at it; when it is back, the group has decided otherwise.
#[test]
fn what_is_in_doubt_ends_with_the_decision() {
    let mut lab = strong();
    let draft = lab.replace();
    let token = draft.token;
    lab.step("a", Event::Request(draft));
    lab.step("a", Event::Resume);
    let decision = Decision::Refused { token, status: 409 };
    assert!(is_quiet(&decide_at(&mut lab, "a", &decision)));
    lab.now_ms += 120_000;
    let again = lab.step("a", Event::Wake);
    let ended = lab.answer("a", &again, 200);
    assert!(ended.proposed.is_empty());
    assert!(
        lab.set("a").degraded().is_some(),
        "it has executed what nobody else has"
    );
}

/// A decision that does not fit yet, because another operation of the same site is still on its way.
#[test]
fn a_site_knows_that_it_is_behind_what_was_decided() {
    let mut lab = strong();
    let (first, second) = (lab.replace(), lab.replace());
    let mut decisions = Vec::new();
    for draft in [first, second] {
        let asked = lab.step("a", Event::Request(draft));
        let proposed = lab.answer("a", &asked, 200);
        decisions.push(executed(&proposed));
        decide_at(&mut lab, "a", decisions.last().unwrap());
    }
    let later = decide_at(&mut lab, "b", &decisions[1]);
    assert!(later.execute.is_empty());
    assert!(
        !lab.set("b").has_caught_up(),
        "it was told of the second and has neither"
    );
    let draft = lab.replace();
    assert!(
        is_quiet(&lab.step("b", Event::Request(draft))),
        "nor does it decide"
    );
}

/// a was cut off before the decision, and is so far behind that it will never be told of it.
#[test]
fn what_another_member_sends_ends_what_was_proposed() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft.clone()));
    lab.answer("a", &asked, 200);
    let asked = lab.step("b", Event::Request(draft));
    let proposed = lab.answer("b", &asked, 200);
    let decided = decide_at(&mut lab, "b", &executed(&proposed));
    let (_, message) = decided.sent.iter().find(|(to, _)| to == "a").unwrap();
    let asked = lab.step("a", Event::Message(message.clone()));
    assert!(asked.execute.is_empty(), "it has executed there already");
    assert!(!matches!(
        lab.set("a").job().map(|job| job.phase),
        Some(Phase::Proposed { .. })
    ));
    assert_eq!(lab.set("a").held(), lab.set("b").held());
}

#[test]
fn an_operator_ends_what_nobody_will_decide() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    lab.answer("a", &asked, 200);
    let (executed, local) = (false, None);
    lab.step("a", Event::Settle { executed, local });
    assert!(
        lab.set("a").degraded().is_some(),
        "it is set to what the others have"
    );
}

/// The first attempt got no answer, the second was refused: it may have executed all the same.
#[test]
fn a_refusal_after_a_doubt_is_set_back() {
    let mut lab = strong();
    let draft = lab.replace();
    let token = draft.token;
    let asked = lab.step("a", Event::Request(draft));
    let ticket = asked.execute[0].ticket;
    let attempt = Attempt::Unknown;
    lab.step("a", Event::Executed { ticket, attempt });
    lab.now_ms += 120_000;
    let again = lab.step("a", Event::Wake);
    let refused = lab.answer("a", &again, 412);
    assert!(matches!(refused.proposed[..], [(_, Proposal::Refused { .. })]));
    decide_at(&mut lab, "a", &Decision::Refused { token, status: 412 });
    assert!(lab.set("a").degraded().is_some() && !lab.set("a").has_caught_up());
}

/// Two that decided at once are a defect of the group, and leave a conflict. It is no way around the group.
#[test]
fn what_lost_is_not_applied_again_by_one_site() {
    let mut lab = strong();
    let mut decisions = Vec::new();
    for at in ["a", "b"] {
        let draft = lab.replace();
        let asked = lab.step(at, Event::Request(draft));
        lab.now_ms += 5;
        let proposed = lab.answer(at, &asked, 200);
        decisions.push(executed(&proposed));
    }
    for decision in &decisions {
        let asked = decide_at(&mut lab, "c", decision);
        lab.settle_at("c", asked);
    }
    let loser = lab
        .set("c")
        .conflicts()
        .next()
        .expect("one has lost")
        .loser
        .id
        .clone();
    let (token, credential) = (Token(99), None);
    let asked = lab.step(
        "c",
        Event::Reapply {
            loser,
            token,
            credential,
        },
    );
    assert_eq!(asked.answers, [Answer::NotHere(Reason::Meaningless)]);
    assert!(asked.execute.is_empty());
}

#[test]
fn a_write_that_is_asked_for_twice_executes_once() {
    let mut lab = strong();
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft.clone()));
    lab.step("a", Event::Request(draft));
    let proposed = lab.answer("a", &asked, 200);
    let decided = decide_at(&mut lab, "a", &executed(&proposed));
    assert!(decided.execute.is_empty());
}
