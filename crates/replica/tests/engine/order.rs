//! The order of the set, where something comes late, was refused, or is no longer kept.

use cheops_replica::{Cause, Draft, Event, Footprint, Message, Outcome, Recognise, Site, State, Token, Verb};

use crate::lab::{Asked, Lab, name};

/// What a step sends from one site to another.
fn sent_to(asked: &Asked, to: &str) -> Vec<Message> {
    let messages = asked.sent.iter().filter(|(site, _)| site == to);
    messages.map(|(_, message)| message.clone()).collect()
}

/// Delivers what a step sends to one site, and nothing else. What that asks for last.
fn deliver(lab: &mut Lab, asked: &Asked, to: &'static str) -> Asked {
    let mut last = Asked::default();
    for message in sent_to(asked, to) {
        last = lab.step(to, Event::Message(message));
    }
    last
}

/// What is to be read for a comparison cannot be, for now.
fn cannot_read(lab: &mut Lab, at: &str, asked: &Asked) {
    for ticket in &asked.read {
        let (ticket, state) = (*ticket, None);
        lab.step(at, Event::Read { ticket, state });
    }
}

/// `a` has dropped what `b` holds as well: its log is full.
fn dropped(lab: &mut Lab, shipped: &Asked) {
    lab.tuning.log_max_bytes = 0;
    let received = deliver(lab, shipped, "b");
    deliver(lab, &received, "a");
    assert_eq!(lab.set("a").log().count(), 0);
}

fn patch(lab: &mut Lab, parts: &[&str]) -> Draft {
    let touches = Footprint::parts(parts.iter().copied());
    lab.draft(Verb::Merge, touches, Recognise::Nothing)
}

fn state(lab: &Lab, at: &str, token: Token) -> State {
    let mut log = lab.set(at).log();
    log.find(|entry| entry.op.token == token).unwrap().state
}

#[test]
fn what_comes_before_something_that_is_no_longer_kept_is_a_conflict() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (early, late) = (patch(&mut lab, &["/x"]), patch(&mut lab, &["/x"]));
    let token = early.token;
    let from_c = lab.write("c", early);
    lab.now_ms += 5;
    let from_a = lab.write("a", late);
    dropped(&mut lab, &from_a);
    let received = deliver(&mut lab, &from_c, "a");
    assert!(received.execute.is_empty(), "it would undo what is later");
    let conflicts: Vec<_> = lab.set("a").conflicts().collect();
    let [conflict] = conflicts[..] else {
        panic!("{conflicts:?}");
    };
    assert_eq!((conflict.loser.token, &conflict.cause), (token, &Cause::TooLate));
    assert_eq!(lab.set("a").held(), lab.set("a").done(), "nobody waits for it");
}

#[test]
fn a_note_about_the_set_that_is_no_longer_kept_makes_nothing_too_late() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (first, second) = (lab.replace(), lab.replace());
    let from_a = lab.write("a", first);
    let from_b = lab.write("b", second);
    lab.settle(from_a);
    lab.settle(from_b);
    let loser = lab.set("a").conflicts().next().unwrap().loser.id.clone();
    // `c` writes before it hears that the conflict was dealt with.
    let draft = lab.replace();
    let from_c = lab.write("c", draft);
    lab.now_ms += 5;
    let dismiss = lab.record(Verb::Dismiss { loser });
    let from_a = lab.step("a", Event::Request(dismiss));
    dropped(&mut lab, &from_a);
    let received = deliver(&mut lab, &from_c, "a");
    assert_eq!(received.execute.len(), 1);
    assert_eq!(lab.set("a").conflicts().count(), 0);
}

#[test]
fn what_was_refused_covers_nothing_that_comes_late() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (early, late) = (lab.replace(), lab.replace());
    let from_c = lab.write("c", early);
    lab.now_ms += 5;
    let from_a = lab.write("a", late);
    let received = deliver(&mut lab, &from_a, "b");
    let refused = lab.answer("b", &received, 422);
    cannot_read(&mut lab, "b", &refused);
    let received = deliver(&mut lab, &from_c, "b");
    assert_eq!(received.execute.len(), 1, "nothing of the later one is there");
}

#[test]
fn what_was_refused_is_tried_again_in_its_place() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (first, second) = (patch(&mut lab, &["/x", "/y"]), patch(&mut lab, &["/x"]));
    let tokens = (first.token, second.token);
    let from_a = lab.write("a", first);
    let received = deliver(&mut lab, &from_a, "b");
    let refused = lab.answer("b", &received, 422);
    cannot_read(&mut lab, "b", &refused);
    let from_a = lab.write("a", second);
    let received = deliver(&mut lab, &from_a, "b");
    let executed = lab.answer("b", &received, 200);
    assert!(executed.execute.is_empty());
    cannot_read(&mut lab, "b", &executed);
    let again = lab.step("b", Event::Retry);
    assert_eq!(again.execute[0].token, tokens.0);
    let next = lab.answer("b", &again, 200);
    assert_eq!(next.execute.len(), 1, "what follows it, once more");
    assert_eq!(next.execute[0].token, tokens.1);
    lab.answer("b", &next, 200);
    assert_eq!(state(&lab, "b", tokens.0), State::Done(Outcome::Executed));
    assert!(lab.set("b").degraded().is_none());
}

/// `c` holds a write of `b` that follows one of `a`, which was lost on its way.
fn follows_what_is_not_here(lab: &mut Lab) {
    let first = lab.replace();
    let from_a = lab.write("a", first);
    let received = deliver(lab, &from_a, "b");
    lab.answer("b", &received, 200);
    let second = lab.replace();
    let from_b = lab.write("b", second);
    let received = deliver(lab, &from_b, "c");
    assert!(received.execute.is_empty(), "it waits for the first");
}

/// The disk of a site is lost, and `c` hears of it.
fn lose(lab: &mut Lab, at: &'static str) {
    let (site, incarnation) = (name(at), 2);
    lab.sites.insert(at, (Site::new(site.clone(), incarnation), None));
    let asked = lab.step("c", Event::PeerReset { site, incarnation });
    cannot_read(lab, "c", &asked);
}

/// Longer than anything is waited for, while nothing reaches `c`. How often that has asked `a`.
fn pass_time(lab: &mut Lab) -> usize {
    let mut questions = 0;
    for _ in 0..8 {
        lab.now_ms += 2 * lab.tuning.resend_max_ms;
        let asked = lab.step("c", Event::Wake);
        cannot_read(lab, "c", &asked);
        let to_a = sent_to(&asked, "a");
        questions += to_a.iter().filter(|message| message.report.ask).count();
    }
    questions
}

#[test]
fn what_somebody_may_still_bring_is_not_given_up() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    follows_what_is_not_here(&mut lab);
    lose(&mut lab, "b");
    assert_ne!(pass_time(&mut lab), 0, "`a` may have it");
    assert_eq!(lab.set("c").conflicts().count(), 0);
    let asked = lab.step("c", Event::PeerUp(name("a")));
    lab.settle_at("c", asked);
    let set = lab.set("c");
    assert_eq!((set.conflicts().count(), set.held()), (0, set.done()));
}

#[test]
fn a_write_follows_what_the_set_noted_while_it_executed() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    follows_what_is_not_here(&mut lab);
    let third = lab.replace();
    let token = third.token;
    let under_way = lab.step("c", Event::Request(third));
    // Both disks are lost that had the first one: the set goes on without the second.
    lose(&mut lab, "a");
    lose(&mut lab, "b");
    pass_time(&mut lab);
    lab.answer("c", &under_way, 200);
    let log: Vec<_> = lab.set("c").log().map(|entry| &entry.op).collect();
    let forgo = log
        .iter()
        .find(|op| matches!(op.verb, Verb::Forgo { .. }))
        .unwrap();
    let written = log.iter().find(|op| op.token == token).unwrap();
    assert!(written.after.includes(&forgo.id));
    assert!(written.rank() > forgo.rank());
}

#[test]
fn what_could_not_execute_is_a_conflict_when_the_log_is_full() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.tuning.log_max_bytes = 0;
    let draft = lab.replace();
    let token = draft.token;
    let shipped = lab.write("a", draft);
    let received = deliver(&mut lab, &shipped, "b");
    lab.answer("b", &received, 422);
    assert_eq!(lab.set("b").log().count(), 0, "`a` holds it");
    let conflict = lab.set("b").conflicts().next().unwrap();
    assert_eq!((conflict.loser.token, &conflict.cause), (token, &Cause::Bound));
}
