//! Which replicas are compared, when, with whom, and what becomes of those that differ.

use cheops_replica::{
    Cause, Content, Digest, Event, Footprint, Form, Message, Outcome, Recognise, Site, State, Verb, Why,
};

use crate::lab::{Lab, name};

fn merge(lab: &mut Lab, parts: &[&str]) -> cheops_replica::Draft {
    let touches = Footprint::parts(parts.iter().copied());
    lab.draft(Verb::Merge, touches, Recognise::Nothing)
}

fn overwrites(lab: &Lab) -> usize {
    let forms = lab.executed.iter().map(|execution| &execution.form);
    forms
        .filter(|form| matches!(form, Form::Overwrite { .. }))
        .count()
}

/// `b` has something else than the others and is compared. What the reference, `a`, sends it is on its way.
pub(crate) fn differs(sites: &[&'static str]) -> (Lab, Message) {
    let mut lab = Lab::created(sites);
    for at in sites {
        lab.states.insert((*at).to_owned(), b"1".to_vec());
    }
    lab.states.insert("b".into(), b"something else".to_vec());
    let asked = lab.step("b", Event::Check);
    lab.away.insert("b");
    lab.settle_at("b", asked);
    let is_state = |message: &Message| matches!(message.content, Content::State { .. });
    let sent = lab.mail.iter().map(|(_, message)| message);
    let state = sent.into_iter().find(|message| is_state(message)).cloned();
    lab.away.clear();
    // The digest comes first: what nobody knows to differ is not repaired.
    let digest = lab.mail.iter().map(|(_, message)| message);
    let digest = digest.into_iter().find(|message| is_digest(message)).cloned();
    let (state, digest) = (state.unwrap(), digest.unwrap());
    lab.step("b", Event::Message(digest));
    (lab, state)
}

pub(crate) fn is_digest(message: &Message) -> bool {
    matches!(message.content, Content::Digest { .. })
}

#[test]
fn a_state_that_was_read_before_the_last_operation_is_not_taken() {
    let (mut lab, mut state) = differs(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    // Nothing else is wrong with it: no later message has overtaken it.
    state.report.age = asked.sent[0].1.report.age;
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    lab.answer("b", &received, 200);
    // It is still to be compared, as of now.
    lab.now_ms += lab.tuning.resend_max_ms;
    let ticket = lab.step("b", Event::Wake).read[0];
    let now = Some((b"2".to_vec(), Digest(b"2".to_vec())));
    lab.step("b", Event::Read { ticket, state: now });
    // That the two differ is known, too: a state of now would be taken.
    let asked = lab.step("a", Event::Check);
    lab.away.insert("b");
    lab.settle_at("a", asked);
    lab.away.clear();
    let sent = lab.mail.iter().rev().map(|(_, message)| message);
    let digest = sent.into_iter().find(|message| is_digest(message)).cloned();
    let mut digest = digest.unwrap();
    digest.report.age = state.report.age;
    lab.step("b", Event::Message(digest));
    let late = lab.step("b", Event::Message(state));
    assert!(late.execute.is_empty(), "it would undo what has executed since");
    assert!(!lab.set("b").is_installing());
}

#[test]
fn only_the_state_of_the_reference_is_taken() {
    let (mut lab, state) = differs(&["a", "b", "c"]);
    let mut other = state.clone();
    other.from = name("c");
    let asked = lab.step("b", Event::Message(other));
    assert!(asked.execute.is_empty() && !lab.set("b").is_installing());
    let asked = lab.step("b", Event::Message(state));
    assert!(matches!(asked.execute[0].form, Form::Overwrite { .. }));
}

#[test]
fn a_replica_that_took_a_state_is_compared_without_being_asked() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.states.insert("a".into(), b"as it should be".to_vec());
    lab.adopt("a");
    let site = name("b");
    let draft = lab.record(Verb::Join { site, stay: 0 });
    let joined = lab.step("a", Event::Request(draft));
    lab.away.insert("b");
    lab.settle_at("a", joined);
    let (_, message) = lab.mail.pop().unwrap();
    lab.away.clear();
    lab.mail.clear();
    let began = lab.step("b", Event::Message(message));
    let made = lab.answer("b", &began, 201);
    // The application there makes something else of it.
    lab.states.insert("b".into(), b"nearly so".to_vec());
    lab.settle_at("b", made);
    lab.wait(2);
    assert_eq!(overwrites(&lab), 1);
    assert_eq!(lab.states["b"], b"as it should be");
}

#[test]
fn a_replica_that_does_not_take_the_state_is_degraded() {
    let (mut lab, state) = differs(&["a", "b"]);
    let asked = lab.step("b", Event::Message(state));
    let refused = lab.answer("b", &asked, 422);
    assert_eq!(lab.set("b").degraded().unwrap().status, 422);
    lab.states.insert("b".into(), b"something else".to_vec());
    lab.settle_at("b", refused);
    let peer = lab.set("a").peer_view(&name("b")).unwrap();
    assert_eq!(peer.degraded.as_ref().unwrap().status, 422);
}

#[test]
fn a_replica_that_is_missing_is_degraded_until_it_is_made_again() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"1".to_vec());
    let asked = lab.step("b", Event::Check);
    let ticket = asked.read[0];
    let missing = lab.step("b", Event::Missing { ticket });
    assert_eq!(lab.set("b").degraded().unwrap().status, 404);
    lab.away.insert("b");
    lab.settle_at("b", missing);
    let peer = lab.set("a").peer_view(&name("b")).unwrap();
    assert!(peer.local.is_none() && peer.degraded.is_some());
    lab.returns("b");
    lab.wait(3);
    assert!(lab.set("b").degraded().is_none() && lab.set("b").local().is_some());
    assert_eq!(lab.states["b"], b"1");
}

#[test]
fn a_replica_is_not_read_before_the_order_is_restored() {
    let mut lab = Lab::created(&["a", "b"]);
    let (early, late) = (merge(&mut lab, &["/x", "/y"]), merge(&mut lab, &["/x"]));
    let from_a = lab.write("a", early);
    lab.now_ms += 5;
    lab.write("b", late);
    let first = lab.step("b", Event::Message(from_a.sent[0].1.clone()));
    let second = lab.answer("b", &first, 200);
    // What follows the late one, once more: not now.
    lab.answer("b", &second, 503);
    assert_eq!(lab.set("b").held(), lab.set("b").done());
    let asked = lab.step("b", Event::Check);
    assert!(
        asked.read.is_empty(),
        "it is what no order of the operations makes"
    );
    assert!(!lab.set("b").is_settled(&name("b")));
    lab.now_ms += 120_000;
    let third = lab.step("b", Event::Wake);
    assert!(third.read.is_empty());
    let restored = lab.answer("b", &third, 200);
    assert_eq!(restored.read.len(), 1);
}

#[test]
fn a_replica_is_not_compared_while_operations_wait() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    let blocked = lab.answer("b", &received, 403);
    lab.settle(blocked);
    assert!(!lab.set("b").is_settled(&name("b")), "something is left to do");
    assert!(lab.step("b", Event::Check).read.is_empty());
    lab.now_ms += lab.tuning.blocked_retry_ms;
    let again = lab.step("b", Event::Wake);
    let done = lab.answer("b", &again, 200);
    assert_eq!(done.read.len(), 1);
}

/// `c` creates the resource, writes to it, and is removed by force. `a` has refused the write, `b` has executed it, and the
/// two have not heard of each other.
fn unheard() -> Lab {
    let mut lab = Lab::new(&["a", "b", "c"]);
    lab.away.extend(["a", "b"]);
    let began = lab.create("c", Recognise::Nothing);
    let created = lab.answer("c", &began, 201);
    let draft = lab.replace();
    lab.settle(created);
    let written = lab.write("c", draft);
    lab.settle(written);
    for (to, message) in std::mem::take(&mut lab.mail) {
        let mut next = lab.step(&to, Event::Message(message));
        while !next.execute.is_empty() {
            let status = match (&next.execute[0].form, to.as_str()) {
                (Form::Create { .. }, _) => 201,
                (_, "a") => 422,
                _ => 200,
            };
            let asked = lab.answer(&to, &next, status);
            for (to, message) in next.sent.into_iter().filter(|(to, _)| to == "c") {
                lab.step(&to, Event::Message(message));
            }
            next = asked;
        }
        for ticket in next.read {
            lab.step(&to, Event::Read { ticket, state: None });
        }
    }
    lab.mail.clear();
    lab.away = ["b", "c"].into();
    lab
}

#[test]
fn a_degraded_replica_becomes_the_reference_only_when_all_have_been_heard_of() {
    let mut lab = unheard();
    lab.states.insert("a".into(), b"without it".to_vec());
    lab.states.insert("b".into(), b"with it".to_vec());
    assert!(lab.set("a").degraded().is_some() && lab.set("b").degraded().is_none());
    let draft = lab.record(Verb::Expel { site: name("c") });
    let asked = lab.step("a", Event::Request(draft));
    lab.settle_at("a", asked);
    lab.wait(3);
    assert!(lab.set("a").degraded().is_some(), "b may have a good one");
    lab.returns("b");
    lab.wait(3);
    assert_eq!(lab.states["a"], b"with it");
    for at in ["a", "b"] {
        let mut causes = lab.set(at).conflicts().map(|conflict| &conflict.cause);
        assert!(causes.all(|cause| *cause != Cause::Forgone), "{at}");
    }
}

#[test]
fn what_an_update_refers_to_may_be_missing_while_the_replica_is_there() {
    for state in [Some((b"1".to_vec(), Digest(b"1".to_vec()))), None] {
        let mut lab = Lab::created(&["a", "b"]);
        let draft = lab.replace();
        let asked = lab.write("a", draft);
        let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
        let asking = lab.answer("b", &received, 404);
        let ticket = asking.read[0];
        let read = lab.step("b", Event::Read { ticket, state });
        assert!(read.execute.is_empty());
        assert!(lab.set("b").local().is_some() && lab.set("b").degraded().is_none());
        let entry = lab.set("b").log().last().unwrap();
        assert_eq!(entry.state, State::Waiting(Why::Blocked { status: 404 }));
    }
}

#[test]
fn a_comparison_that_a_store_has_forgotten_is_made_by_those_who_hear_of_that() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"1".to_vec());
    lab.states.insert("b".into(), b"something else".to_vec());
    // `a` is about to compare the two when its store is set back: it has the same operations, and no such wish.
    let (site, set) = lab.sites["a"].clone();
    lab.step("a", Event::Check);
    lab.sites.insert("a", (site.started(77).reborn(2), set));
    let resumed = lab.step("a", Event::Resume);
    assert!(!lab.set("b").is_comparing());
    let (site, incarnation) = (name("a"), 2);
    let asked = lab.step("b", Event::PeerReset { site, incarnation });
    assert!(lab.set("b").is_comparing());
    lab.settle_at("a", resumed);
    lab.settle_at("b", asked);
    lab.wait(3);
    // What happened to the replica of `a` since, nobody knows: that of `b` goes before it.
    assert_eq!(lab.states["a"], b"something else");
    assert_eq!(lab.states["b"], b"something else");
}

/// `a` has lost its store, not its replica. `b` holds its create and its action, and has not heard of that.
fn loses_its_store(lab: &mut Lab) {
    lab.sites.insert("a", (Site::new(name("a"), 2), None));
    lab.taken.insert("a".into());
    for (at, state) in [("a", "twice"), ("b", "once"), ("c", "once")] {
        lab.states.insert(at.into(), state.into());
    }
}

/// `b` brings back both before anyone sends a state: `a` finds the replica by its id, and executes the action on it a second
/// time.
fn brings_back(lab: &mut Lab) {
    lab.step("b", Event::PeerUnsure(name("a")));
    lab.now_ms += lab.tuning.resend_max_ms;
    let mut told = lab.step("b", Event::Wake);
    for (_, message) in &mut told.sent {
        // As from one that has heard of it by a third site, and knows of no life of `a`.
        message.incarnation = 0;
    }
    lab.settle_at("b", told);
    let at_a = lab.set("a").log().last().unwrap();
    assert!(matches!(at_a.op.verb, Verb::Action { .. }));
    assert_eq!(at_a.state, State::Done(Outcome::Executed));
}

fn has_come_to_once(lab: &Lab) {
    for at in lab.sites.keys() {
        assert_eq!(lab.states[*at], b"once", "{at}");
        assert!(lab.set(at).degraded().is_none(), "{at}");
    }
}

#[test]
fn a_replica_of_an_earlier_life_is_not_what_the_others_are_measured_by() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    // So that `b` keeps what it can bring back.
    lab.away.insert("c");
    let asked = lab.create("a", Recognise::ChosenId);
    let shipped = lab.answer("a", &asked, 201);
    lab.settle(shipped);
    let draft = lab.action();
    let shipped = lab.write("a", draft);
    lab.settle(shipped);
    loses_its_store(&mut lab);
    brings_back(&mut lab);
    lab.returns("c");
    lab.wait(5);
    has_come_to_once(&lab);
}

#[test]
fn a_degraded_replica_is_not_good_while_another_site_has_yet_to_make_its_own() {
    let mut lab = Lab::new(&["a", "b"]);
    let asked = lab.create("a", Recognise::ChosenId);
    let shipped = lab.answer("a", &asked, 201);
    let slow = lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    let draft = lab.action();
    let shipped = lab.write("a", draft);
    lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    loses_its_store(&mut lab);
    brings_back(&mut lab);
    assert!(lab.set("a").degraded().is_some());
    // Long enough for `a` to read its own replica, the only one so far.
    for _ in 0..2 {
        lab.now_ms += 120_000;
        let asked = lab.step("a", Event::Wake);
        lab.settle_at("a", asked);
    }
    assert!(
        lab.set("a").degraded().is_some(),
        "`b` has the action yet to execute"
    );
    let made = lab.answer("b", &slow, 201);
    lab.settle_at("b", made);
    lab.wait(5);
    has_come_to_once(&lab);
}
