//! Sites that come and go.

use cheops_replica::{
    Answer, Attempt, Cause, Content, Digest, Event, Footprint, Form, Message, Outcome, Recognise, Secret,
    Site, Standing, State, Verb, Why,
};

use crate::lab::{Asked, Lab, dropped, name};

#[test]
fn an_adopted_resource_reaches_the_sites_that_join() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.states.insert("a".into(), b"as it was".to_vec());
    let adopted = lab.adopt("a");
    assert!(matches!(adopted.answers[..], [Answer::Noted { .. }]));
    assert!(adopted.execute.is_empty(), "it is there already");
    assert!(lab.set("a").is_settled(&name("a")));
    assert_eq!(
        lab.set("a").log().count(),
        0,
        "its create is nothing that another site could execute"
    );
    let mut draft = lab.record(Verb::Join {
        site: name("b"),
        stay: 0,
    });
    draft.credential = Some(Secret(b"whoever asked".to_vec()));
    let joined = lab.step("a", Event::Request(draft));
    let state = Some((
        b"as it was".to_vec(),
        cheops_replica::Digest(b"as it was".to_vec()),
    ));
    let ticket = joined.read[0];
    let served = lab.step("a", Event::Read { ticket, state });
    let snapshot = served
        .sent
        .into_iter()
        .find(|(_, message)| matches!(message.content, Content::Snapshot(_)));
    let (_, mut message) = snapshot.unwrap();
    assert!(
        message.credentials_mut().count() >= 1,
        "an agent has to open and seal all of them"
    );
    let began = lab.step("b", Event::Message(message));
    assert!(matches!(began.execute[0].form, Form::CreateFrom { .. }));
    assert_eq!(began.execute[0].recognise, Recognise::Marker);
    assert_eq!(
        began.execute[0].credential,
        Some(Secret(b"whoever asked".to_vec()))
    );
    lab.settle_at("b", began);
    assert_eq!(lab.states["b"], b"as it was");
    assert!(lab.set("a").is_settled(&name("a")) && lab.set("b").is_settled(&name("b")));
}

#[test]
fn what_another_replicas_state_lacks_is_missing_here_too() {
    let mut lab = Lab::created(&["a", "b"]);
    let x = lab.draft(Verb::Merge, Footprint::parts(["/x"]), Recognise::Nothing);
    let shipped = lab.write("b", x);
    let asked = lab.step("a", Event::Message(shipped.sent[0].1.clone()));
    let refused = lab.answer("a", &asked, 422);
    let ticket = refused.read[0];
    lab.step("a", Event::Read { ticket, state: None });
    let y = lab.draft(Verb::Merge, Footprint::parts(["/y"]), Recognise::Nothing);
    lab.write("a", y);
    // b gets state instead of y, as one that was away for too long.
    let (site, incarnation) = (name("b"), 2);
    let wanted = lab.step("a", Event::PeerReset { site, incarnation });
    let ticket = wanted.read[0];
    let state = Some((b"y".to_vec(), Digest(b"y".to_vec())));
    let served = lab.step("a", Event::Read { ticket, state });
    let is_snapshot = |message: &Message| matches!(message.content, Content::Snapshot(_));
    let mut sent = served.sent.into_iter().map(|(_, message)| message);
    let snapshot = sent.find(is_snapshot).unwrap();
    let incarnation = 1;
    let taken = lab.step(
        "b",
        Event::Message(Message {
            incarnation,
            ..dropped(snapshot)
        }),
    );
    lab.answer("b", &taken, 200);
    assert_eq!(lab.states["b"], b"y");
    let mut log = lab.set("b").log();
    let x = log.find(|entry| entry.op.id.author.site == name("b"));
    let refused = State::Done(Outcome::Refused { status: 422 });
    assert_eq!(
        x.map(|entry| entry.state),
        Some(refused),
        "it has executed here, and is gone with the state"
    );
    assert!(lab.set("b").degraded().is_some());
}

/// An action of `a` with a key, as `b` hands it to its application.
fn keyed(lab: &mut Lab) -> Asked {
    let mut draft = lab.action();
    draft.recognise = Recognise::Key;
    let shipped = lab.write("a", draft);
    lab.step("b", Event::Message(shipped.sent[0].1.clone()))
}

#[test]
fn what_an_application_remembers_by_a_key_counts_no_longer_once_its_state_was_set() {
    let mut lab = Lab::created(&["a", "b"]);
    let asked = keyed(&mut lab);
    assert_eq!(asked.execute[0].renewal, None);
    let done = lab.answer("b", &asked, 200);
    lab.settle(done);
    lab.sites.insert("b", (Site::new(name("b"), 2), None));
    let (site, incarnation) = (name("b"), 2);
    let lost = lab.step("a", Event::PeerReset { site, incarnation });
    lab.settle_at("a", lost);
    let asked = keyed(&mut lab);
    let renewal = asked.execute[0].renewal;
    assert!(renewal.is_some(), "an earlier life may have executed it");
    let (ticket, attempt) = (asked.execute[0].ticket, Attempt::Unknown);
    lab.step("b", Event::Executed { ticket, attempt });
    lab.now_ms += 120_000;
    let again = lab.step("b", Event::Wake);
    assert_eq!(again.execute[0].renewal, renewal, "a repetition is recognised");
}

#[test]
fn a_site_that_joined_later_may_bring_the_beginning() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let began = lab.create("a", Recognise::Nothing);
    let created = lab.answer("a", &began, 201);
    let (_, mut message) = created.sent[0].clone();
    // As if it came from a site that is in no list that `b` knows.
    message.from = name("z");
    let received = lab.step("b", Event::Message(message));
    assert!(matches!(received.execute[0].form, Form::Create { .. }));
}

#[test]
fn a_removal_by_force_holds_against_a_leave_at_the_same_time() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let expel = lab.record(Verb::Expel { site: name("c") });
    let by_force = lab.step("a", Event::Request(expel));
    lab.now_ms += 5;
    let leave = lab.record(Verb::Leave { site: name("c") });
    let in_order = lab.step("b", Event::Request(leave));
    let to = |asked: &crate::lab::Asked, site: &str| {
        let found = asked.sent.iter().find(|(to, _)| to == site);
        Event::Message(found.unwrap().1.clone())
    };
    lab.step("b", to(&by_force, "b"));
    lab.step("a", to(&in_order, "a"));
    for at in ["a", "b"] {
        assert!(!lab.set(at).members().contains_key(&name("c")), "at {at}");
        assert!(lab.set(at).has_expelled(&name("c")), "at {at}");
        assert_eq!(lab.set(at).standing(), Standing::Member);
    }
}

#[test]
fn a_site_that_hears_of_its_removal_as_an_operation_keeps_what_only_it_had() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.replace();
    lab.write("c", draft);
    let expel = lab.record(Verb::Expel { site: name("c") });
    let by_force = lab.step("a", Event::Request(expel));
    // `b` is busy: it passes the removal on before it has executed it.
    let draft = lab.replace();
    lab.step("b", Event::Request(draft));
    let (_, message) = by_force.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let passed_on = lab.step("b", Event::Message(message));
    let (_, message) = passed_on.sent.into_iter().find(|(to, _)| to == "c").unwrap();
    lab.step("c", Event::Message(message));
    assert_eq!(lab.set("c").standing(), Standing::Expelled);
    let conflicts: Vec<_> = lab.set("c").conflicts().collect();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].cause, Cause::Expelled);
    assert_eq!(conflicts[0].loser.id.author.site, name("c"));
}

#[test]
fn a_bad_replica_does_not_leave_before_a_good_one_was_read() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let written = lab.write("a", draft);
    let received = lab.step("b", Event::Message(written.sent[0].1.clone()));
    let refused = lab.answer("b", &received, 422);
    assert!(lab.set("b").degraded().is_some());
    let (ticket, state) = (refused.read[0], Some((Vec::new(), Digest(Vec::new()))));
    lab.step("b", Event::Read { ticket, state });
    let leave = lab.record(Verb::Leave { site: name("b") });
    let told = lab.step("a", Event::Request(leave));
    let (_, message) = told.sent.iter().find(|(to, _)| to == "b").unwrap();
    let noted = lab.step("b", Event::Message(message.clone()));
    assert!(
        noted.execute.is_empty(),
        "nobody knows what the other application has"
    );
    lab.states.insert("a".into(), b"good".to_vec());
    lab.settle_at("b", noted);
    for _ in 0..4 {
        lab.now_ms += lab.tuning.resend_max_ms;
        for at in ["a", "b"] {
            let asked = lab.step(at, Event::Wake);
            lab.settle_at(at, asked);
        }
    }
    assert_eq!(lab.set("b").standing(), Standing::Left);
}

#[test]
fn a_member_that_holds_what_it_is_thought_to_hold_is_only_asked() {
    let mut lab = Lab::created(&["a", "b"]);
    assert_eq!(lab.set("a").log().count(), 0, "all of it was dropped");
    let unsure = lab.step("a", Event::PeerUnsure(name("b")));
    assert!(unsure.read.is_empty() && unsure.execute.is_empty());
    assert!(!lab.set("a").is_settled(&name("a")));
    lab.settle(unsure);
    assert!(lab.set("a").is_settled(&name("a")));
    assert_eq!(lab.executed.len(), 2, "the two creates");
}

#[test]
fn a_member_that_knows_nothing_of_the_set_is_brought_in_again() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"state".to_vec());
    // Nothing says that its store is another one.
    lab.sites.get_mut("b").unwrap().1 = None;
    assert!(lab.set("a").is_settled(&name("a")));
    let unsure = lab.step("a", Event::PeerUnsure(name("b")));
    lab.settle(unsure);
    // Without an answer it is taken to need everything.
    for _ in 0..2 {
        lab.now_ms += lab.tuning.resend_max_ms;
        let again = lab.step("a", Event::Wake);
        lab.settle_at("a", again);
    }
    assert_eq!(lab.states["b"], b"state");
    assert!(lab.set("b").local().is_some());
    assert!(lab.set("a").is_settled(&name("a")));
}

/// `a` holds an operation of `c` that it must not execute yet, and nobody else is there for `b`, which has lost
/// its store.
#[test]
fn a_site_that_lost_its_store_is_told_also_by_one_that_is_held_up() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.states.insert("a".into(), b"state".to_vec());
    let now_ms = lab.now_ms;
    lab.now_ms += lab.tuning.ahead_max_ms * 10;
    let draft = lab.replace();
    let ahead = lab.write("c", draft);
    lab.now_ms = now_ms;
    let (_, message) = ahead.sent.into_iter().find(|(to, _)| to == "a").unwrap();
    lab.step("a", Event::Message(message));
    let held = lab.set("a").log().last().unwrap();
    assert_eq!(held.state, State::Waiting(Why::Quarantined));

    lab.sites
        .insert("b", (cheops_replica::Site::new(name("b"), 2), None));
    let reset = Event::PeerReset {
        site: name("b"),
        incarnation: 2,
    };
    let mut asked = lab.step("a", reset);
    // Nobody hears from `c`.
    let mut told = false;
    for _ in 0..20 {
        if let Some(ticket) = asked.read.first().copied() {
            let state = b"state".to_vec();
            let state = Some((state.clone(), cheops_replica::Digest(state)));
            asked = lab.step("a", Event::Read { ticket, state });
        }
        let snapshot = asked
            .sent
            .iter()
            .find(|(to, message)| to == "b" && matches!(message.content, Content::Snapshot(_)));
        if let Some((_, message)) = snapshot {
            let began = lab.step("b", Event::Message(message.clone()));
            assert!(matches!(
                began.execute[0].form,
                Form::CreateFrom { .. } | Form::Overwrite { .. }
            ));
            told = true;
            break;
        }
        lab.now_ms += 100;
        asked = lab.step("a", Event::Wake);
    }
    assert!(told, "it would not be told before the time has come");
    let waits = lab
        .set("b")
        .log()
        .any(|entry| entry.state == State::Waiting(Why::Quarantined));
    assert!(waits, "it waits for the operation as `a` does");
}
