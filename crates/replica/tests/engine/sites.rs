//! Sites that come and go.

use cheops_replica::{Answer, Cause, Content, Event, Form, Recognise, Secret, Standing, State, Verb, Why};

use crate::lab::{Lab, name};

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
