//! What operators do about operations and replicas that do not get on.

use cheops_replica::{
    Answer, Digest, Draft, Event, Execution, Form, Found, LocalId, Outcome, Recognise, Secret, Site, State,
    Verb, Why,
};

use crate::lab::{Asked, Lab, name};

/// `b` has been sent a replace of `a` and its application has answered.
fn replayed(lab: &mut Lab, status: u16) -> Asked {
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    lab.answer("b", &received, status)
}

fn state(lab: &Lab) -> State {
    lab.set("b").log().last().unwrap().state
}

fn id(lab: &Lab) -> cheops_replica::OpId {
    lab.set("b").log().last().unwrap().op.id.clone()
}

#[test]
fn a_credential_lets_an_operation_go_on_at_once() {
    let mut lab = Lab::created(&["a", "b"]);
    replayed(&mut lab, 401);
    assert_eq!(state(&lab), State::Waiting(Why::NeedsCredentials));
    let (operation, credential) = (id(&lab), Secret(b"new".to_vec()));
    let again = lab.step(
        "b",
        Event::Credential {
            operation,
            credential: credential.clone(),
        },
    );
    assert_eq!(again.execute[0].credential, Some(credential));
}

#[test]
fn what_is_given_up_degrades_the_replica_and_lets_the_others_go_on() {
    for status in [401, 403, 503] {
        let mut lab = Lab::created(&["a", "b"]);
        replayed(&mut lab, status);
        let operation = id(&lab);
        let given_up = lab.step("b", Event::Abandon { operation });
        assert_eq!(lab.set("b").degraded().unwrap().status, status);
        // Its replica is not what the others have, and cannot be read.
        let ticket = given_up.read[0];
        let unread = lab.step("b", Event::Read { ticket, state: None });
        lab.settle(given_up.without_reads());
        lab.settle(unread);
        assert!(lab.set("a").is_settled(&name("a")), "{status}");
        assert!(lab.set("a").peer_view(&name("b")).unwrap().degraded.is_some());
    }
}

#[test]
fn what_waits_for_its_turn_cannot_be_given_up() {
    let mut lab = Lab::created(&["a", "b"]);
    replayed(&mut lab, 403);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    lab.step("b", Event::Message(asked.sent[0].1.clone()));
    let operation = id(&lab);
    lab.step("b", Event::Abandon { operation });
    assert_eq!(state(&lab), State::Waiting(Why::Turn));
    assert!(lab.set("b").degraded().is_none());
}

#[test]
fn what_was_refused_is_tried_again_when_asked() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let refused = replayed(&mut lab, 422);
    assert_eq!(state(&lab), State::Done(Outcome::Refused { status: 422 }));
    // It is about to be compared; until the others have answered, a retry executes what was refused.
    let ticket = refused.read[0];
    lab.step("b", Event::Read { ticket, state: None });
    let again = lab.step("b", Event::Retry);
    assert!(matches!(again.execute[0].form, Form::Repeat { .. }));
    lab.answer("b", &again, 200);
    assert_eq!(state(&lab), State::Done(Outcome::Executed));
    assert!(lab.set("b").degraded().is_none());
}

#[test]
fn what_was_refused_does_not_undo_what_is_being_accepted() {
    let mut lab = Lab::created(&["a", "b"]);
    let refused = replayed(&mut lab, 422);
    let ticket = refused.read[0];
    lab.step("b", Event::Read { ticket, state: None });
    let draft = lab.action();
    let asked = lab.step("b", Event::Request(draft));
    lab.step("b", Event::Retry);
    let accepted = lab.answer("b", &asked, 200);
    assert!(matches!(accepted.answers[..], [Answer::Accepted { .. }]));
    let repeats = |execution: &Execution| matches!(execution.form, Form::Repeat { .. });
    assert!(
        !accepted.execute.iter().any(repeats),
        "the action cannot be executed again after it"
    );
    assert!(lab.set("b").degraded().is_some());
}

#[test]
fn a_refused_create_is_tried_again_with_what_followed_it() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let began = lab.create("a", Recognise::Nothing);
    let created = lab.answer("a", &began, 201);
    let received = lab.step("b", Event::Message(created.sent[0].1.clone()));
    lab.answer("b", &received, 422);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    lab.step("b", Event::Message(asked.sent[0].1.clone()));
    assert_eq!(state(&lab), State::Done(Outcome::NoReplica));
    let create = lab.step("b", Event::Retry);
    assert!(matches!(create.execute[0].form, Form::Create { .. }));
    let replace = lab.answer("b", &create, 201);
    assert!(matches!(replace.execute[0].form, Form::Repeat { .. }));
    lab.answer("b", &replace, 200);
    assert!(lab.set("b").degraded().is_none());
    assert_eq!(state(&lab), State::Done(Outcome::Executed));
}

#[test]
fn a_refused_create_is_made_from_another_replicas_state() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.states.insert("a".into(), b"state".to_vec());
    let began = lab.create("a", Recognise::Key);
    let created = lab.answer("a", &began, 201);
    let received = lab.step("b", Event::Message(created.sent[0].1.clone()));
    let token = received.execute[0].token;
    let refused = lab.answer("b", &received, 422);
    assert!(lab.set("b").local().is_none() && lab.set("b").degraded().is_some());
    lab.settle_at("b", refused);
    assert_eq!(lab.set("b").log().count(), 0);
    let [.., repair, set] = &lab.executed[..] else {
        panic!("{:?}", lab.executed);
    };
    assert!(matches!(repair.form, Form::CreateFrom { .. }));
    assert_ne!(
        repair.token, token,
        "the application may remember its refusal by the key"
    );
    assert!(matches!(set.form, Form::Overwrite { .. }));
    assert_eq!(lab.set("b").local().unwrap().as_str(), "b-1");
    assert!(lab.set("b").degraded().is_none());
}

#[test]
fn an_overwrite_ends_the_degradation() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"new".to_vec());
    lab.states.insert("b".into(), b"old".to_vec());
    let refused = replayed(&mut lab, 422);
    assert!(lab.set("b").degraded().is_some());
    lab.settle_at("b", refused);
    assert_eq!(lab.states["b"], b"new");
    assert!(lab.set("b").degraded().is_none());
}

#[test]
fn a_delete_that_was_refused_is_repaired() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.draft(Verb::Delete, cheops_replica::Footprint::Whole, Recognise::Nothing);
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    let refused = lab.answer("b", &received, 422);
    assert!(lab.set("b").is_deleted() && lab.set("b").local().is_some());
    assert!(matches!(refused.execute[0].form, Form::Delete { .. }));
    let refused = lab.answer("b", &refused, 422);
    assert!(refused.execute.is_empty(), "it is not asked again and again");
    lab.settle(refused);
    assert!(lab.set("b").is_settled(&name("b")));
    let again = lab.step("b", Event::Retry);
    assert!(matches!(again.execute[0].form, Form::Delete { .. }));
    let done = lab.answer("b", &again, 204);
    lab.settle(done);
    assert!(lab.set("b").local().is_none() && lab.set("b").degraded().is_none());
}

#[test]
fn a_name_that_is_taken_degrades_until_it_is_claimed() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.states.insert("a".into(), b"ours".to_vec());
    lab.states.insert("b".into(), b"theirs".to_vec());
    let began = lab.create("a", Recognise::Marker);
    let created = lab.answer("a", &began, 201);
    let received = lab.step("b", Event::Message(created.sent[0].1.clone()));
    let refused = lab.answer("b", &received, 409);
    lab.taken.insert("b".into());
    lab.settle_at("b", refused);
    assert!(lab.set("b").local().is_none());
    assert_eq!(lab.set("b").degraded().unwrap().status, 409);
    assert_eq!(lab.states["b"], b"theirs", "it is not overwritten");
    let local = LocalId::new("taken");
    let claimed = lab.step("b", Event::Claim { local: local.clone() });
    lab.settle_at("b", claimed);
    assert_eq!(lab.set("b").local(), Some(&local));
    assert_eq!(lab.states["b"], b"ours");
    assert!(lab.set("b").degraded().is_none());
}

#[test]
fn no_create_is_set_over_a_resource_that_an_operator_made_the_replica() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.states.insert("a".into(), b"ours".to_vec());
    lab.states.insert("b".into(), b"theirs".to_vec());
    let began = lab.create("a", Recognise::Nothing);
    let created = lab.answer("a", &began, 201);
    let received = lab.step("b", Event::Message(created.sent[0].1.clone()));
    lab.answer("b", &received, 403);
    let waiting = lab.set("b").log().next().unwrap();
    assert_eq!(waiting.state, State::Waiting(Why::Blocked { status: 403 }));
    let local = LocalId::new("found");
    lab.step("b", Event::Claim { local: local.clone() });
    lab.now_ms += lab.tuning.blocked_retry_ms;
    let woken = lab.step("b", Event::Wake);
    lab.settle_at("b", woken);
    assert_eq!(lab.set("b").local(), Some(&local));
    assert_eq!(lab.states["b"], b"ours", "it takes the others' state");
    let is_remake = |form: &Form| matches!(form, Form::Remake { .. });
    assert!(lab.executed.iter().all(|execution| !is_remake(&execution.form)));
}

/// `b` is compared with `a`, from which it differs; its application takes any state and keeps what it has.
fn compared(lab: &mut Lab) {
    let mut asked = vec![("b", lab.step("b", Event::Check))];
    let mut rounds = 0;
    loop {
        rounds += 1;
        assert!(rounds < 100, "it never ends");
        let Some((at, now)) = asked.pop() else {
            if ["a", "b"].iter().all(|at| lab.set(at).is_settled(&name(at))) {
                return;
            }
            // What was said before the repair is said again, after a pause.
            lab.now_ms += lab.tuning.resend_max_ms;
            asked.extend(["a", "b"].map(|at| (at, lab.step(at, Event::Wake))));
            continue;
        };
        if !now.execute.is_empty() {
            let next = lab.answer(at, &now, 200);
            lab.states.insert("b".into(), b"its own".to_vec());
            asked.push((at, next));
        }
        for ticket in now.read {
            let state = lab.states[at].clone();
            let state = Some((state.clone(), cheops_replica::Digest(state)));
            asked.push((at, lab.step(at, Event::Read { ticket, state })));
        }
        for (to, message) in now.sent {
            let to = if to == "a" { "a" } else { "b" };
            asked.push((to, lab.step(to, Event::Message(message))));
        }
    }
}

#[test]
fn a_difference_that_no_state_mends_ends_as_degraded() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"as it should be".to_vec());
    lab.states.insert("b".into(), b"its own".to_vec());
    let overwrites = |lab: &Lab| {
        let is_overwrite =
            |execution: &&cheops_replica::Execution| matches!(execution.form, Form::Overwrite { .. });
        lab.executed.iter().filter(is_overwrite).count()
    };
    compared(&mut lab);
    assert_eq!(
        overwrites(&lab),
        2,
        "somebody might have changed it just after the first"
    );
    assert!(lab.set("b").degraded().is_some());
    assert!(lab.set("a").peer_view(&name("b")).unwrap().degraded.is_some());
    // Whoever asks again hears the same.
    compared(&mut lab);
    assert_eq!(overwrites(&lab), 2);
    // It changed behind the agent's back: that can be mended, or at least tried.
    lab.states.insert("b".into(), b"something else".to_vec());
    compared(&mut lab);
    assert_eq!(overwrites(&lab), 3);
    assert!(lab.set("b").degraded().is_some());
    let retried = lab.step("b", Event::Retry);
    lab.settle_at("b", retried);
    assert_eq!(lab.states["b"], b"as it should be");
    assert!(lab.set("b").degraded().is_none());
}

/// `b`, whose store is new, was asked to make the replica of a name; its application answered 500, and nothing there bears
/// the marker. What `b` asks then.
fn name_that_cannot_be_made() -> (Lab, Asked) {
    let mut lab = Lab::new(&["a", "b"]);
    let draft = Draft {
        recognise: Recognise::Marker,
        ..lab.named()
    };
    let began = lab.begin("a", draft);
    lab.answer("a", &began, 201);
    let (site, incarnation) = (name("b"), 2);
    lab.sites.insert("b", (Site::new(name("b"), incarnation), None));
    let asked = lab.step("a", Event::PeerReset { site, incarnation });
    let (ticket, state) = (asked.read[0], Some((b"1".to_vec(), Digest(b"1".to_vec()))));
    let served = lab.step("a", Event::Read { ticket, state });
    let (_, snapshot) = served.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let began = lab.step("b", Event::Message(snapshot));
    assert!(matches!(began.execute[0].form, Form::CreateFrom { .. }));
    lab.answer("b", &began, 500);
    lab.now_ms += lab.tuning.settle_ms;
    lab.step("b", Event::Wake);
    let ticket = lab.set("b").job().unwrap().ticket;
    let found = Found::Nowhere;
    let asked = lab.step("b", Event::Looked { ticket, found });
    (lab, asked)
}

#[test]
fn a_name_that_is_taken_is_seen_where_the_application_has_no_word_for_it() {
    let (mut lab, asked) = name_that_cannot_be_made();
    assert!(asked.execute.is_empty(), "500 again would say no more");
    let (ticket, state) = (asked.read[0], Some((b"2".to_vec(), Digest(b"2".to_vec()))));
    lab.step("b", Event::Read { ticket, state });
    let set = lab.set("b");
    assert_eq!(set.degraded().map(|degraded| degraded.status), Some(500));
    assert!(set.local().is_none() && !set.is_installing());
    let local = LocalId::new("web");
    lab.step("b", Event::Claim { local: local.clone() });
    assert_eq!(lab.set("b").local(), Some(&local));
}

#[test]
fn a_name_that_is_free_is_asked_for_again() {
    let (mut lab, asked) = name_that_cannot_be_made();
    let ticket = asked.read[0];
    lab.step("b", Event::Missing { ticket });
    assert!(lab.set("b").degraded().is_none());
    lab.now_ms += lab.tuning.retry_max_ms;
    let again = lab.step("b", Event::Wake);
    let made = lab.answer("b", &again, 201);
    lab.settle_at("b", made);
    assert!(lab.set("b").local().is_some() && !lab.set("b").is_installing());
}

#[test]
fn a_comparison_is_not_lost_when_another_site_becomes_the_reference() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.replace();
    let written = lab.write("b", draft);
    lab.settle(written);
    for (at, state) in [("a", b"1"), ("b", b"1"), ("c", b"2")] {
        lab.states.insert(at.into(), state.to_vec());
    }
    // `b` is the reference and agrees with `a`. It cannot reach `c`.
    let mut asked = vec![("a", lab.step("a", Event::Check))];
    while let Some((at, now)) = asked.pop() {
        for ticket in now.read {
            let state = Some((b"1".to_vec(), cheops_replica::Digest(b"1".to_vec())));
            asked.push((at, lab.step(at, Event::Read { ticket, state })));
        }
        for (to, message) in now.sent {
            if let Some(to) = ["a", "b"].into_iter().find(|site| *site == to) {
                asked.push((to, lab.step(to, Event::Message(message))));
            }
        }
    }
    assert!(!lab.set("a").is_comparing() && lab.set("b").is_comparing());
    // `a` writes and becomes the reference. It reads its replica for a site that joins, before it hears of any wish.
    let draft = lab.replace();
    let written = lab.write("a", draft);
    lab.sites
        .insert("d", (cheops_replica::Site::new(name("d"), 1), None));
    let join = lab.record(Verb::Join {
        site: name("d"),
        stay: 0,
    });
    let joined = lab.step("a", Event::Request(join));
    lab.settle_at("a", joined);
    lab.settle(written);
    for _ in 0..4 {
        lab.now_ms += lab.tuning.resend_max_ms;
        for at in ["a", "b", "c", "d"] {
            let asked = lab.step(at, Event::Wake);
            lab.settle_at(at, asked);
        }
    }
    assert_eq!(lab.states["c"], b"1");
}

/// The same for a create that is replayed: what `b` asks when nothing bears the marker.
fn create_that_cannot_be_replayed() -> (Lab, Asked) {
    let mut lab = Lab::new(&["a", "b"]);
    let draft = Draft {
        recognise: Recognise::Marker,
        ..lab.named()
    };
    let began = lab.begin("a", draft);
    let shipped = lab.answer("a", &began, 201);
    let began = lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    assert!(matches!(began.execute[0].form, Form::Create { .. }));
    lab.answer("b", &began, 500);
    lab.now_ms += lab.tuning.settle_ms;
    lab.step("b", Event::Wake);
    let ticket = lab.set("b").job().unwrap().ticket;
    let found = Found::Nowhere;
    let asked = lab.step("b", Event::Looked { ticket, found });
    (lab, asked)
}

#[test]
fn a_replayed_create_whose_name_is_taken_ends_where_the_application_has_no_word_for_it() {
    let (mut lab, asked) = create_that_cannot_be_replayed();
    assert!(asked.execute.is_empty(), "500 again would say no more");
    let (ticket, state) = (asked.read[0], Some((b"2".to_vec(), Digest(b"2".to_vec()))));
    lab.step("b", Event::Read { ticket, state });
    let set = lab.set("b");
    assert_eq!(set.degraded().map(|degraded| degraded.status), Some(500));
    assert!(set.local().is_none(), "a name alone proves nothing");
    assert_eq!(set.held(), set.done(), "what follows does not wait");
}

#[test]
fn a_replayed_create_whose_name_is_free_is_asked_for_again() {
    let (mut lab, asked) = create_that_cannot_be_replayed();
    let ticket = asked.read[0];
    let again = lab.step("b", Event::Missing { ticket });
    lab.answer("b", &again, 201);
    assert!(lab.set("b").local().is_some() && lab.set("b").degraded().is_none());
}
