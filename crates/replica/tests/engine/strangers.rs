//! Sites of the mesh that are no members of a set.

use cheops_replica::{Attempt, Content, Digest, Event, Form, LocalId, Message, Operation, Recognise, Verb};

use crate::lab::{Asked, Lab, name};

/// What a set begins with at `b`, as `a` has sent it.
fn beginning(lab: &mut Lab) -> Message {
    let draft = lab.named();
    let asked = lab.begin("a", draft);
    lab.answer("a", &asked, 201).sent[0].1.clone()
}

fn operation(message: &mut Message) -> &mut Operation {
    let Content::Operations(carried) = &mut message.content else {
        panic!("a write travels as an operation");
    };
    &mut carried[0].op
}

/// The same, written by somebody who is not among the sites of the set.
fn of_stranger(message: &Message) -> Message {
    let mut message = message.clone();
    message.from = name("z");
    operation(&mut message).id.author.site = name("z");
    message
}

fn is_told(asked: &Asked, site: &str) -> bool {
    asked.sent.iter().any(|(to, _)| to == site)
}

#[test]
fn a_stranger_hears_nothing_of_a_set() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let mut message = lab.write("a", draft).sent[0].1.clone();
    message.from = name("z");
    message.content = Content::Report;
    message.report.ask = true;
    // As if it had known `b` before that lost its store, or knew more of it than there is.
    for incarnation in [0, 1, 7] {
        message.incarnation = incarnation;
        let asked = lab.step("b", Event::Message(message.clone()));
        assert!(!is_told(&asked, "z"), "{incarnation}");
    }
}

#[test]
fn a_stranger_begins_no_set_among_others() {
    let mut lab = Lab::new(&["a", "b"]);
    let message = beginning(&mut lab);
    let asked = lab.step("b", Event::Message(of_stranger(&message)));
    assert!(asked.execute.is_empty() && lab.sites["b"].1.is_none());
    // What a member has written it may pass on: it may have joined since.
    let mut relayed = message;
    relayed.from = name("z");
    let asked = lab.step("b", Event::Message(relayed));
    assert_eq!(asked.execute.len(), 1);
}

#[test]
fn a_stranger_adds_nothing_to_what_begins() {
    let message = of_stranger(&beginning(&mut Lab::new(&["a", "b"])));
    let mut lab = Lab::new(&["a", "b"]);
    let draft = lab.named();
    let begins = lab.begin("b", draft);
    let asked = lab.step("b", Event::Message(message));
    assert!(!is_told(&asked, "z"));
    lab.answer("b", &begins, 201);
    let writers: Vec<_> = lab
        .set("b")
        .log()
        .map(|it| it.op.id.author.site.clone())
        .collect();
    assert_eq!(writers, [name("b")]);
}

/// What `a` sends to `b`, which it has let into a set of its own, with what it says that `b` calls its replica.
pub(crate) fn brings_in(lab: &mut Lab, yours: &str) -> Message {
    lab.adopt("a");
    let (site, stay) = (name("b"), 0);
    let draft = lab.record(Verb::Join { site, stay });
    let joined = lab.step("a", Event::Request(draft));
    let ticket = joined.read[0];
    let state = Some((b"what a wants".to_vec(), Digest(Vec::new())));
    let served = lab.step("a", Event::Read { ticket, state });
    let is_it = |message: &Message| matches!(message.content, Content::Snapshot(_));
    let mut sent = served.sent.into_iter().map(|(_, message)| message);
    let mut message = sent.find(is_it).unwrap();
    if let Content::Snapshot(snapshot) = &mut message.content {
        snapshot.yours = Some(LocalId::new(yours));
    }
    message
}

/// Its callers' writes to it would go to `a`, with their credentials.
#[test]
fn the_replica_of_another_set_does_not_become_that_of_a_strangers() {
    for state in [true, false] {
        let mut lab = Lab::new(&["a", "b"]);
        lab.anothers.0.insert(LocalId::new("b-7"));
        let mut message = brings_in(&mut lab, "b-7");
        if let Content::Snapshot(snapshot) = &mut message.content
            && !state
        {
            snapshot.state = None;
        }
        let began = lab.step("b", Event::Message(message));
        assert_eq!(lab.set("b").local(), None);
        let is_create = |form: &Form| matches!(form, Form::CreateFrom { .. });
        assert!(began.execute.iter().all(|it| is_create(&it.form)));
    }
}

/// The application says that the id is taken, and it is: by the replica of another set.
#[test]
fn an_id_that_another_sets_replica_has_is_taken() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.anothers.0.insert(LocalId::new("m"));
    let asked = lab.create("a", Recognise::ChosenId);
    let (ticket, attempt) = (asked.execute[0].ticket, Attempt::Unknown);
    lab.step("a", Event::Executed { ticket, attempt });
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    let confirming = lab.answer("a", &again, 409);
    let ticket = confirming.read[0];
    let state = Some((b"1".to_vec(), Digest(b"1".to_vec())));
    let ended = lab.step("a", Event::Read { ticket, state });
    assert!(ended.forgets && lab.set("a").local().is_none());
}

#[test]
fn an_id_that_another_sets_replica_has_is_not_set_to_a_strangers_state() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.anothers.0.insert(LocalId::new("m"));
    let mut message = brings_in(&mut lab, "m");
    if let Content::Snapshot(snapshot) = &mut message.content {
        snapshot.recognise = Recognise::ChosenId;
    }
    let began = lab.step("b", Event::Message(message));
    let confirming = lab.answer("b", &began, 409);
    let ticket = confirming.read[0];
    let state = Some((b"1".to_vec(), Digest(b"1".to_vec())));
    let ended = lab.step("b", Event::Read { ticket, state });
    assert!(ended.execute.is_empty() && lab.set("b").local().is_none());
    assert_eq!(lab.set("b").degraded().unwrap().status, 409);
}
