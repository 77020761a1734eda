//! What travels with a state, and what it does to the operations that are there already.

use cheops_replica::{
    Attempt, Cause, Content, Digest, Event, Footprint, Form, Message, Outcome, Recognise, Site, State, Verb,
};

use crate::lab::{Asked, Lab, dropped, name};

fn merge(lab: &mut Lab, parts: &[&str]) -> cheops_replica::Draft {
    let touches = Footprint::parts(parts.iter().copied());
    lab.draft(Verb::Merge, touches, Recognise::Nothing)
}

/// The disk of `at` is lost, and `from` hears of that.
fn loses_its_store(lab: &mut Lab, at: &'static str, from: &str) -> Asked {
    lab.sites.insert(at, (Site::new(name(at), 2), None));
    let (site, incarnation) = (name(at), 2);
    lab.step(from, Event::PeerReset { site, incarnation })
}

/// What `from` sends when it is no longer sure of what `to` has, and does not get an answer.
fn snapshot(lab: &mut Lab, from: &str, to: &str, state: &[u8]) -> Message {
    lab.step(from, Event::PeerUnsure(name(to)));
    for _ in 0..4 {
        lab.now_ms += lab.tuning.resend_max_ms;
        let asked = lab.step(from, Event::Wake);
        let Some(ticket) = asked.read.first().copied() else {
            continue;
        };
        let state = Some((state.to_vec(), Digest(state.to_vec())));
        let served = lab.step(from, Event::Read { ticket, state });
        let is_it = |message: &Message| matches!(message.content, Content::Snapshot(_));
        let mut sent = served.sent.into_iter();
        return sent.find(|(at, message)| at == to && is_it(message)).unwrap().1;
    }
    panic!("{from} sends nothing");
}

#[test]
fn what_a_state_includes_is_not_executed_again_on_top_of_it() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("c");
    let (early, late) = (merge(&mut lab, &["/x", "/y"]), merge(&mut lab, &["/x"]));
    let from_a = lab.write("a", early);
    lab.now_ms += 5;
    let from_b = lab.write("b", late);
    let received = lab.step("a", Event::Message(from_b.sent[0].1.clone()));
    lab.answer("a", &received, 200);
    let first = lab.step("b", Event::Message(from_a.sent[0].1.clone()));
    let second = lab.answer("b", &first, 200);
    // The later one is to be executed once more, not now.
    lab.answer("b", &second, 503);
    let draft = lab.replace();
    lab.write("a", draft);
    let message = dropped(snapshot(&mut lab, "a", "b", b"all of it"));
    let began = lab.step("b", Event::Message(message));
    assert!(matches!(began.execute[0].form, Form::Overwrite { .. }));
    let before = lab.executed.len();
    lab.settle_at("b", began);
    lab.wait(3);
    let again = |form: &Form| matches!(form, Form::Repeat { .. });
    assert!(!lab.executed[before..].iter().any(|it| again(&it.form)));
    assert_eq!(lab.states["b"], b"all of it");
    assert_eq!(lab.set("b").done(), lab.set("a").done());
}

/// By it, a site that lost its store knows what it has made of the same state before.
#[test]
fn what_is_made_of_a_state_has_the_token_of_its_create() {
    let mut lab = Lab::created(&["a", "b"]);
    let create = lab.executed[0].token;
    let before = lab.executed.len();
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    let tokens: Vec<_> = lab.executed[before..].iter().map(|it| it.token).collect();
    assert_eq!(tokens, [create]);
}

#[test]
fn what_an_earlier_life_asked_for_last_is_found_when_it_takes_effect_late() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".to_owned(), b"new".to_vec());
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    assert_eq!(lab.states["b"], b"new");
    let leave = lab.record(Verb::Leave { site: name("a") });
    let asked = lab.step("a", Event::Request(leave));
    lab.settle_at("a", asked);
    assert!(lab.set("a").local().is_some(), "nobody knows yet what b will be");
    // The application was at it when the store was lost.
    lab.states.insert("b".to_owned(), b"old".to_vec());
    lab.wait(4);
    assert_eq!(lab.states["b"], b"new");
    assert!(lab.set("a").local().is_none());
}

#[test]
fn what_an_earlier_life_asked_for_last_undoes_no_write_that_was_accepted_since() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".to_owned(), b"new".to_vec());
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    let draft = lab.replace();
    let asked = lab.write("b", draft);
    for at in ["a", "b"] {
        lab.states.insert(at.to_owned(), b"newer".to_vec());
    }
    lab.settle(asked);
    lab.states.insert("b".to_owned(), b"old".to_vec());
    lab.wait(4);
    assert_eq!(
        (&*lab.states["a"], &*lab.states["b"]),
        (&b"newer"[..], &b"newer"[..])
    );
    assert!(lab.set("b").degraded().is_none());
}

/// `a` and `c` have written at the same time, and know it. Nobody has heard from `b` since.
fn collided() -> Lab {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("b");
    let (x, y) = (lab.replace(), lab.replace());
    let from_a = lab.write("a", x);
    lab.now_ms += 5;
    let from_c = lab.write("c", y);
    lab.settle(from_a);
    lab.settle(from_c);
    for at in ["a", "c"] {
        assert_eq!(lab.set(at).conflicts().count(), 1, "{at}");
    }
    lab
}

#[test]
fn who_begins_from_a_state_gets_the_conflicts() {
    let mut lab = collided();
    let asked = loses_its_store(&mut lab, "c", "a");
    lab.settle_at("a", asked);
    let losers = |at: &str| {
        let conflicts = lab.set(at).conflicts();
        conflicts.map(|it| it.loser.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(losers("c").len(), 1);
    assert_eq!(losers("c"), losers("a"));
}

#[test]
fn who_takes_a_state_hears_which_conflicts_were_dealt_with() {
    let mut lab = collided();
    let loser = lab.set("a").conflicts().next().unwrap().loser.id.clone();
    let draft = lab.record(Verb::Dismiss { loser: loser.clone() });
    lab.step("a", Event::Request(draft));
    // `c` does not hear that as an operation.
    let message = snapshot(&mut lab, "a", "c", b"state");
    let Content::Snapshot(state) = &message.content else {
        panic!("{message:?}");
    };
    assert!(
        state.dismissed.contains(&loser),
        "also when that is no longer kept"
    );
    let began = lab.step("c", Event::Message(message));
    lab.settle_at("c", began);
    assert_eq!(lab.set("c").done(), lab.set("a").done());
    assert_eq!(lab.set("c").conflicts().count(), 0);
}

#[test]
fn who_begins_from_a_state_drops_what_is_stable_as_the_others_do() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let asked = loses_its_store(&mut lab, "c", "a");
    lab.settle_at("a", asked);
    lab.wait(2);
    for at in ["a", "c"] {
        let draft = lab.replace();
        let asked = lab.write(at, draft);
        lab.settle(asked);
    }
    lab.wait(2);
    for at in ["a", "b", "c"] {
        assert_eq!(lab.set(at).log().count(), 0, "{at}");
        assert_eq!(lab.set(at).pruned(), lab.set("a").held(), "{at}");
    }
}

#[test]
fn who_begins_from_a_state_knows_what_comes_too_late_for_it() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("c");
    lab.tuning.log_max_bytes = 0;
    let x = lab.replace();
    let asked = lab.write("a", x);
    lab.settle(asked);
    assert_eq!(
        lab.set("a").log().count(),
        0,
        "it was dropped without word from c"
    );
    lab.tuning.log_max_bytes = u64::MAX;
    lab.now_ms += 5;
    let z = lab.action();
    let token = z.token;
    let late = lab.write("c", z);
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    lab.away.clear();
    lab.settle(late);
    lab.wait(2);
    let executed = lab.executed.iter().filter(|it| it.token == token);
    assert_eq!(executed.count(), 1, "where it was accepted");
    for at in ["a", "b"] {
        let mut kept = lab.set(at).conflicts();
        let is_kept = kept.any(|it| it.loser.token == token && it.cause == Cause::TooLate);
        assert!(is_kept, "{at}");
    }
}

#[test]
fn a_site_that_lost_its_store_is_told_which_replica_is_its_own() {
    let mut lab = Lab::created(&["a", "b"]);
    let local = lab.set("b").local().unwrap().clone();
    lab.away.insert("b");
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    lab.away.clear();
    let is_it = |message: &Message| matches!(message.content, Content::Snapshot(_));
    let mut mail = lab.mail.iter().map(|(_, message)| message);
    let message = mail.find(|message| is_it(message)).unwrap().clone();
    let began = lab.step("b", Event::Message(message));
    let Form::Overwrite { local: own, .. } = &began.execute[0].form else {
        panic!("it would make a second one: {:?}", began.execute[0].form);
    };
    assert_eq!(*own, local);
}

/// `b` has refused a write of `a` and could not be compared since; `c` has lost its store and begins from what `b` has.
#[test]
fn what_the_source_of_a_state_could_not_execute_is_no_part_of_it() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.replace();
    let token = draft.token;
    let asked = lab.write("a", draft);
    let (_, message) = asked.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let received = lab.step("b", Event::Message(message));
    let refused = lab.answer("b", &received, 422);
    let (ticket, state) = (refused.read[0], None);
    lab.step("b", Event::Read { ticket, state });
    lab.away.insert("a");
    let asked = loses_its_store(&mut lab, "c", "b");
    lab.settle_at("b", asked);
    assert!(lab.set("c").degraded().is_some());
    let state = lab.set("c").log().find(|it| it.op.token == token).unwrap().state;
    assert_eq!(state, State::Done(Outcome::Refused { status: 422 }));
    // If `c` is all that is left, it does not forget what the set goes on without.
    for site in ["a", "b"] {
        let draft = lab.record(Verb::Expel { site: name(site) });
        let asked = lab.step("c", Event::Request(draft));
        lab.away.insert("b");
        lab.settle_at("c", asked);
    }
    lab.wait(2);
    let kept: Vec<_> = lab
        .set("c")
        .conflicts()
        .map(|it| (it.loser.token, &it.cause))
        .collect();
    assert_eq!(kept, [(token, &Cause::Forgone)]);
    assert!(lab.set("c").degraded().is_none());
}

#[test]
fn who_begins_from_a_state_brings_in_those_that_nobody_has_brought_in_yet() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let adopted = lab.adopt("a");
    lab.settle_at("a", adopted);
    lab.away.insert("c");
    for site in ["b", "c"] {
        let (site, stay) = (name(site), 0);
        let draft = lab.record(Verb::Join { site, stay });
        let asked = lab.step("a", Event::Request(draft));
        lab.settle_at("a", asked);
    }
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    assert!(lab.set("b").local().is_some());
    // From now on only `b` is there for `c`.
    lab.away = ["a"].into();
    for _ in 0..6 {
        lab.now_ms += 120_000;
        let asked = lab.step("b", Event::Wake);
        lab.settle_at("b", asked);
    }
    let (_, set) = &lab.sites["c"];
    assert!(set.as_ref().is_some_and(|set| set.local().is_some()));
}

/// `b` has the later of two patches from a state, and only then hears of the earlier one.
#[test]
fn what_came_with_a_state_follows_what_comes_late() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("c");
    let (early, late) = (merge(&mut lab, &["/x", "/y"]), merge(&mut lab, &["/x"]));
    let (first, last) = (early.token, late.token);
    let from_c = lab.write("c", early);
    lab.now_ms += 5;
    let from_a = lab.write("a", late);
    lab.settle(from_a);
    let asked = loses_its_store(&mut lab, "b", "a");
    lab.settle_at("a", asked);
    let entry = lab.set("b").log().find(|it| it.op.token == last).unwrap();
    assert_eq!(entry.state, State::Done(Outcome::Installed));
    let (_, mut message) = from_c.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    // `c` has heard of the new life of `b` meanwhile.
    message.incarnation = 2;
    let began = lab.step("b", Event::Message(message));
    assert_eq!(began.execute[0].token, first);
    let next = lab.answer("b", &began, 200);
    let tokens: Vec<_> = next.execute.iter().map(|it| it.token).collect();
    assert_eq!(tokens, [last], "the earlier one has overwritten a part of it");
}

/// `b` asked its application for an action and got no answer; it tried again, and the application was not able to. So its replica may
/// have the action, which waits.
#[test]
fn nobody_begins_from_a_state_that_may_have_what_is_executed_on_top_of_it() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let mut action = lab.action();
    action.recognise = Recognise::Key;
    let written = lab.write("a", action);
    let (_, message) = written.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let asked = lab.step("b", Event::Message(message));
    let (ticket, attempt) = (asked.execute[0].ticket, Attempt::Unknown);
    lab.step("b", Event::Executed { ticket, attempt });
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("b", Event::Wake);
    lab.answer("b", &again, 503);
    let asked = loses_its_store(&mut lab, "c", "b");
    assert!(asked.read.is_empty(), "`c` would execute it once more");
    lab.now_ms += lab.tuning.retry_max_ms;
    let again = lab.step("b", Event::Wake);
    let done = lab.answer("b", &again, 200);
    assert_eq!(done.read.len(), 1);
}
