//! Whose state a replica is set to, when, and how often.

use cheops_replica::{Content, Event, Form, Message, State, Why};

use crate::{
    compare::{differs, is_digest},
    lab::name,
};

/// The same from another site, which nothing that it said later has overtaken.
fn from(site: &str, message: &Message) -> Message {
    let mut message = message.clone();
    message.from = name(site);
    message.report.age.steps += 1_000;
    message
}

#[test]
fn a_state_of_another_site_that_differs_too_is_not_taken() {
    let (mut lab, state) = differs(&["a", "b", "c"]);
    let digest = lab
        .mail
        .iter()
        .map(|(_, message)| message)
        .find(|it| is_digest(it));
    let digest = from("c", digest.unwrap());
    lab.step("b", Event::Message(digest));
    let digest = lab.set("b").peer_view(&name("c")).unwrap().digest.clone();
    assert!(digest.is_some(), "`b` knows that `c` differs from it");
    let asked = lab.step("b", Event::Message(from("c", &state)));
    assert!(asked.execute.is_empty() && !lab.set("b").is_installing());
    let asked = lab.step("b", Event::Message(state));
    assert!(matches!(asked.execute[0].form, Form::Overwrite { .. }));
}

/// The replicas are compared again when what waits has executed: until then nothing is set.
#[test]
fn no_state_is_taken_while_an_operation_waits() {
    const YEAR_MS: u64 = 31_536_000_000;
    let (mut lab, mut state) = differs(&["a", "b", "c"]);
    lab.now_ms += YEAR_MS;
    let draft = lab.replace();
    let written = lab.write("c", draft);
    lab.now_ms -= YEAR_MS;
    let (_, message) = written.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    lab.step("b", Event::Message(message));
    let entry = lab.set("b").log().last().unwrap();
    assert_eq!(entry.state, State::Waiting(Why::Quarantined));
    let Content::State { at, .. } = &state.content else {
        panic!("{state:?}");
    };
    assert_eq!(lab.set("b").done(), at, "nothing else is wrong with it");
    state.report.age.steps += 1_000;
    let asked = lab.step("b", Event::Message(state));
    assert!(asked.execute.is_empty() && !lab.set("b").is_installing());
}

#[test]
fn a_replica_that_does_not_take_one_state_may_take_another_one() {
    let (mut lab, state) = differs(&["a", "b"]);
    let asked = lab.step("b", Event::Message(state));
    let refused = lab.answer("b", &asked, 422);
    lab.settle_at("b", refused);
    lab.wait(2);
    assert_eq!(lab.states["b"], b"something else", "it is left alone");
    assert!(lab.set("b").degraded().is_some() && !lab.set("b").is_comparing());
    // Nothing was written; somebody has changed the replica of `a` behind the agents.
    lab.states.insert("a".into(), b"2".to_vec());
    let asked = lab.step("a", Event::Check);
    lab.settle_at("a", asked);
    lab.wait(2);
    assert_eq!(lab.states["b"], b"2");
    assert!(lab.set("b").degraded().is_none());
}
