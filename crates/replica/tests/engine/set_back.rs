//! Stores that were set back: a copy of the disk was put in its place.

use cheops_replica::{
    Age, Attempt, Carried, Content, Draft, Event, Found, LocalId, Message, OpId, Recognise, Site, Token,
    Welcome,
};

use crate::lab::{Asked, Lab, name};

/// Another site answers `at`, which has started, that its store is not younger than it remembers.
fn confirms(lab: &mut Lab, other: &str, at: &str) {
    let hello = lab.sites[at].0.hello();
    let (site, _) = lab.sites.get_mut(other).unwrap();
    let welcome = site.welcome(&name(at), &hello);
    let (site, _) = lab.sites.get_mut(at).unwrap();
    assert!(!site.welcomed(&name(other), welcome, 5));
}

#[test]
fn numbers_go_on_only_when_every_member_has_confirmed_the_store() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().started(77);
    let mut authors = Vec::new();
    for confirming in ["b", "c"] {
        confirms(&mut lab, confirming, "a");
        let draft = lab.replace();
        lab.write("a", draft);
        authors.push(lab.set("a").log().last().unwrap().op.id.author.incarnation);
    }
    assert_eq!(authors, [77, 1]);
}

/// A message is on its way while its sender's store is set back to before it, and the receiver confirms that store: the
/// number in there is given to another write.
#[test]
fn a_message_from_before_a_start_that_was_welcomed_does_not_count() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    // So that the others keep their logs.
    lab.away.insert("c");
    let (site, set) = lab.sites["a"].clone();
    let forgotten = lab.replace();
    let first = forgotten.token;
    let asked = lab.step("a", Event::Request(forgotten));
    let on_its_way = lab.answer("a", &asked, 200);
    let number = numbers(&lab, "a", first);
    lab.sites.insert("a", (site.started(77), set));
    for other in ["b", "c"] {
        confirms(&mut lab, other, "a");
    }
    lab.settle(on_its_way);
    assert!(numbers(&lab, "b", first).is_empty());
    let draft = lab.replace();
    let second = draft.token;
    let shipped = lab.write("a", draft);
    lab.settle(shipped);
    for at in ["a", "b"] {
        assert_eq!(numbers(&lab, at, second), number, "{at}");
    }
}

#[test]
fn a_late_hello_does_not_silence_the_start_of_now() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    // So that the others keep their logs.
    lab.away.insert("c");
    let (site, set) = lab.sites["a"].clone();
    let late = site.clone().started(70).hello();
    // The copy of the disk is older than the start 70.
    lab.sites.insert("a", (site.started(77), set));
    for other in ["b", "c"] {
        confirms(&mut lab, other, "a");
    }
    lab.sites.get_mut("b").unwrap().0.welcome(&name("a"), &late);
    let draft = lab.replace();
    let token = draft.token;
    let shipped = lab.write("a", draft);
    lab.settle(shipped);
    assert_eq!(numbers(&lab, "b", token).len(), 1);
}

/// The agent of `a` starts over what its store is now. Its application is asked once more for what is in doubt.
fn starts(lab: &mut Lab, start: u64) -> Asked {
    let (site, set) = lab.sites["a"].clone();
    lab.sites.insert("a", (site.started(start), set));
    lab.step("a", Event::Resume);
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    assert_eq!(again.execute.len(), 1);
    again
}

/// The numbers under which a site knows a write.
fn numbers(lab: &Lab, at: &str, token: Token) -> Vec<OpId> {
    let log = lab.set(at).log().filter(|entry| entry.op.token == token);
    log.map(|entry| entry.op.id.clone()).collect()
}

/// A write is under way at `a`; a copy of the disk is made. It is accepted, under the number of that start or, when the
/// agent starts in between, another one. Then the copy is put back, and the other sites bring the write back while
/// the application executes it once more.
fn brought_back(starts_in_between: bool) {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("c");
    let draft = lab.replace();
    let token = draft.token;
    let mut asked = lab.step("a", Event::Request(draft));
    let copy = lab.sites["a"].clone();
    if starts_in_between {
        asked = starts(&mut lab, 70);
    }
    let shipped = lab.answer("a", &asked, 200);
    lab.settle(shipped);
    let first = numbers(&lab, "b", token);
    assert_eq!(first.len(), 1);
    lab.sites.insert("a", copy);
    let again = starts(&mut lab, 77);
    let unsure = lab.step("b", Event::PeerUnsure(name("a")));
    lab.settle(unsure);
    assert_eq!(numbers(&lab, "a", token), first, "b has told");
    let done = lab.answer("a", &again, 200);
    assert!(done.answers.is_empty(), "nobody waits for it");
    lab.settle_at("a", done);
    lab.wait(2);
    for at in ["a", "b"] {
        assert_eq!(numbers(&lab, at, token), first, "{at}");
    }
    let executed = lab.executed.iter().filter(|it| it.token == token).count();
    assert_eq!(executed, 3, "twice at a, which had forgotten it, and once at b");
    assert_eq!(lab.set("a").held(), lab.set("a").done());
}

#[test]
fn a_write_that_comes_back_under_its_number_gets_no_other() {
    brought_back(false);
}

#[test]
fn a_write_that_comes_back_under_another_number_keeps_that() {
    brought_back(true);
}

/// `a` has made the resource and acted on it, and loses its store. `c`, which has never heard of `a`, relays to it what it has
/// from `b`: `a` begins from the log, and finds the replica that it made in its earlier life, with all that was done to it.
#[test]
fn a_replica_of_an_earlier_life_is_no_measure_for_the_others() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    lab.away.insert("c");
    let asked = lab.create("a", Recognise::Marker);
    let made = lab.answer("a", &asked, 201);
    lab.settle(made);
    let action = lab.action();
    let acted = lab.write("a", action);
    lab.settle(acted);
    lab.mail.clear();
    lab.sites.insert("a", (Site::new(name("a"), 2), None));
    lab.away = ["a"].into();
    let asked = lab.step("b", Event::PeerUp(name("c")));
    lab.settle_at("b", asked);
    for at in ["b", "c"] {
        lab.states.insert(at.into(), b"acted on once".to_vec());
    }
    let is_relayed = |message: &Message| {
        let has_operations = matches!(message.content, Content::Operations(_));
        message.from == name("c") && has_operations
    };
    let mut mail = lab.mail.iter().map(|(_, message)| message);
    let relayed = mail.find(|message| is_relayed(message)).unwrap().clone();
    let began = lab.step("a", Event::Message(relayed));
    let (ticket, attempt) = (began.execute[0].ticket, Attempt::Unknown);
    lab.step("a", Event::Executed { ticket, attempt });
    lab.now_ms += lab.tuning.settle_ms;
    lab.step("a", Event::Wake);
    let ticket = lab.set("a").job().unwrap().ticket;
    let found = Found::Here(LocalId::new("a-1"));
    let again = lab.step("a", Event::Looked { ticket, found });
    lab.states.insert("a".into(), b"acted on twice".to_vec());
    lab.away.clear();
    lab.settle_at("a", again);
    lab.wait(4);
    for at in ["a", "b", "c"] {
        assert_eq!(lab.states[at], b"acted on once", "{at}");
        assert!(lab.set(at).degraded().is_none(), "{at}");
    }
}

/// A promised write waits behind another one at `a`; a copy of the disk is made. Both are accepted and shipped. Then the copy is
/// put back, and the promise with it, while the other sites bring back what came of it.
#[test]
fn a_promise_that_comes_back_as_an_operation_does_not_begin_once_more() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    // So that `b` keeps what it can bring back.
    lab.away.insert("c");
    let (first, action) = (lab.replace(), lab.action());
    let token = action.token;
    let asked = lab.step("a", Event::Request(first));
    let promised = true;
    lab.step("a", Event::Request(Draft { promised, ..action }));
    let copy = lab.sites["a"].clone();
    let asked = lab.answer("a", &asked, 200);
    let shipped = lab.answer("a", &asked, 200);
    lab.settle(shipped);
    let number = numbers(&lab, "b", token);
    assert_eq!(number.len(), 1);
    lab.sites.insert("a", copy);
    let again = starts(&mut lab, 77);
    let unsure = lab.step("b", Event::PeerUnsure(name("a")));
    lab.settle(unsure);
    assert_eq!(numbers(&lab, "a", token), number, "b has told");
    assert!(lab.set("a").queue().next().is_none(), "it has had its end");
    let next = lab.answer("a", &again, 200);
    lab.settle_at("a", next);
    lab.returns("c");
    lab.wait(3);
    assert_eq!(lab.set("a").done(), lab.set("b").done());
    let executed = lab.executed.iter().filter(|it| it.token == token).count();
    assert_eq!(
        executed, 4,
        "twice at a, which had forgotten it, and once at b and c"
    );
}

/// The replica at `at` is something else than its store says, as the application got to a forgotten request only now.
fn is_overtaken(lab: &mut Lab, at: &str) {
    for site in ["a", "b"] {
        lab.states.insert(site.to_owned(), b"as written".to_vec());
    }
    if !at.is_empty() {
        lab.states.insert(at.to_owned(), b"overtaken".to_vec());
    }
}

fn is_as_written(lab: &Lab) -> bool {
    lab.states.values().all(|state| state == b"as written")
}

/// `a` accepts a write; its store had been set back before, and the application gets to what was asked before that only now.
#[test]
fn a_replica_whose_store_was_set_back_is_measured_by_the_others() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    lab.settle(shipped);
    is_overtaken(&mut lab, "a");
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().reborn(2);
    let told = lab.step("a", Event::Resume);
    assert!(lab.set("a").degraded().is_some());
    assert!(told.read.is_empty(), "the application may still be at it");
    lab.settle(told);
    lab.wait(3);
    assert!(is_as_written(&lab), "{:?}", lab.states);
    assert!(lab.set("a").degraded().is_none());
}

/// `a` loses its store and begins again on the replica that it has, with an old message, while `b` speaks to the life that
/// it knew.
#[test]
fn a_replica_whose_store_was_lost_is_measured_by_the_others() {
    let mut lab = Lab::new(&["a", "b"]);
    let asked = lab.create("b", Recognise::Key);
    let asked = lab.answer("b", &asked, 201);
    let first = asked.sent[0].1.clone();
    lab.settle(asked);
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    let written = lab.set("a").log().last().unwrap().op.clone();
    let received = lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    let told = lab.answer("b", &received, 200);
    lab.sites.insert("a", (Site::new(name("a"), 2), None));
    let begun = lab.step("a", Event::Message(first.clone()));
    lab.answer("a", &begun, 201);
    assert!(lab.set("a").degraded().is_none(), "nobody has said anything");
    lab.step("a", Event::Message(told.sent[0].1.clone()));
    assert!(lab.set("a").degraded().is_some());
    let carried = Carried {
        op: written,
        credential: None,
    };
    let second = Message {
        content: Content::Operations(vec![carried]),
        ..first
    };
    let again = lab.step("a", Event::Message(second));
    lab.answer("a", &again, 200);
    is_overtaken(&mut lab, "a");
    lab.wait(4);
    assert_eq!(lab.set("a").done(), lab.set("b").done());
    assert!(is_as_written(&lab), "{:?}", lab.states);
    assert!(lab.set("a").degraded().is_none());
}

/// `b` has no replica, and an action of `a` waits there, when `a` loses its store: the replica that it had has that action.
#[test]
fn what_an_earlier_life_has_executed_on_the_replica_is_not_executed_again() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.taken.insert("b".into());
    let asked = lab.create("a", Recognise::Nothing);
    let asked = lab.answer("a", &asked, 201);
    lab.settle(asked);
    let draft = lab.action();
    let token = draft.token;
    // `b` takes it for one of the future, and lets it wait.
    let ahead_ms = 2 * lab.tuning.ahead_max_ms;
    lab.now_ms += ahead_ms;
    let shipped = lab.write("a", draft);
    lab.now_ms -= ahead_ms;
    lab.settle(shipped);
    lab.sites.insert("a", (Site::new(name("a"), 2), None));
    let life = Event::PeerReset {
        site: name("a"),
        incarnation: 2,
    };
    let brought = lab.step("b", life);
    lab.settle_at("b", brought);
    lab.wait(3);
    let executed = lab.executed.iter().filter(|it| it.token == token).count();
    assert_eq!(executed, 1);
    assert_eq!(lab.set("a").held(), lab.set("a").done());
    assert!(lab.set("a").degraded().is_none());
    assert_eq!(lab.set("a").conflicts().count(), 0, "it has all that was written");
}

/// `a` reads its replica when its store turns out to have been set back: what it reads is of before the application gets to
/// what was asked of it.
#[test]
fn a_read_from_before_a_new_life_says_nothing() {
    let mut lab = Lab::created(&["a", "b"]);
    is_overtaken(&mut lab, "");
    let asked = lab.step("a", Event::Check);
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().reborn(2);
    let told = lab.step("a", Event::Wake);
    lab.settle(told);
    lab.settle_at("a", asked);
    is_overtaken(&mut lab, "a");
    lab.wait(3);
    assert!(is_as_written(&lab), "{:?}", lab.states);
    assert!(lab.set("a").degraded().is_none());
}

/// Only sets with something left to do are looked at after a start: the time until which the application may be at what was
/// asked of it before must not be forgotten.
#[test]
fn a_set_whose_past_is_not_settled_has_something_left_to_do() {
    let mut lab = Lab::created(&["a"]);
    assert!(lab.set("a").is_settled(&name("a")));
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().reborn(2);
    lab.step("a", Event::Wake);
    assert!(!lab.set("a").is_settled(&name("a")));
    lab.wait(3);
    assert!(lab.set("a").is_settled(&name("a")));
}

/// `liar` says that it has heard of a greater age than the store of `a` has. True where `a` begins a new life.
fn lies(lab: &mut Lab, liar: &str) -> bool {
    let (site, _) = lab.sites.get_mut("a").unwrap();
    let age = Age {
        incarnation: site.incarnation() + 1,
        steps: 1,
        start: 99,
    };
    let welcome = Welcome {
        start: site.start(),
        known: vec![age],
    };
    site.welcomed(&name(liar), welcome, 5)
}

#[test]
fn a_site_is_believed_once_per_start_that_the_store_was_set_back() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    assert!(lies(&mut lab, "b"));
    let life = lab.sites["a"].0.incarnation();
    assert!(!lies(&mut lab, "b"));
    assert_eq!(lab.sites["a"].0.incarnation(), life);
    assert!(!lab.sites["a"].0.has_confirmed(&name("b")));
    assert!(lies(&mut lab, "c"));
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().started(78);
    assert!(lies(&mut lab, "b"));
}

/// What the application may still be at was asked of it before the start, however many lives begin after it.
#[test]
fn a_life_that_follows_another_in_one_start_does_not_put_off_the_comparison() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().started(77);
    let wakes_at = |lab: &mut Lab| {
        lab.step("a", Event::Wake);
        let set = lab.set("a");
        assert!(["b", "c"].iter().all(|other| !set.owes(&name(other))));
        set.wake_at_ms(&name("a"), 0).unwrap()
    };
    assert!(lies(&mut lab, "b"));
    let settled_ms = wakes_at(&mut lab);
    assert_eq!(settled_ms, lab.now_ms + lab.tuning.settle_ms);
    lab.now_ms += lab.tuning.settle_ms / 2;
    assert!(lies(&mut lab, "c"));
    assert_eq!(wakes_at(&mut lab), settled_ms);
    // In another start, more may have been asked before.
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().started(78);
    assert!(lies(&mut lab, "c"));
    assert_eq!(wakes_at(&mut lab), lab.now_ms + lab.tuning.settle_ms);
}

/// Another member knows the token of a promise, and writes something of its own under it.
#[test]
fn what_another_site_writes_under_the_token_of_a_promise_does_not_end_it() {
    let mut lab = Lab::created(&["a", "b"]);
    let (first, action) = (lab.replace(), lab.action());
    let token = action.token;
    lab.step("a", Event::Request(first));
    let promised = true;
    lab.step("a", Event::Request(Draft { promised, ..action }));
    let other = lab.replace();
    let shipped = lab.write("b", Draft { token, ..other });
    let received = lab.step("a", Event::Message(shipped.sent[0].1.clone()));
    assert_eq!(numbers(&lab, "a", token).len(), 1);
    assert!(received.answers.is_empty());
    assert_eq!(lab.set("a").queue().count(), 1);
}
