//! What must hold without anyone looking after it: comparison, repair, answers, clocks, stores that were set back.

use cheops_replica::{
    Answer, Attempt, Cause, Content, Digest, Event, Footprint, Form, Recognise, Site, State, Verb, Why,
};

use crate::lab::{Asked, Lab, name};

fn digests(asked: &Asked) -> usize {
    let is_digest = |message: &cheops_replica::Message| matches!(message.content, Content::Digest { .. });
    asked
        .sent
        .iter()
        .filter(|(_, message)| is_digest(message))
        .count()
}

/// `at` reads its replica as `state`.
fn reads(lab: &mut Lab, at: &str, asked: &Asked, state: &[u8]) -> Asked {
    let ticket = asked.read[0];
    let state = Some((state.to_vec(), Digest(state.to_vec())));
    lab.step(at, Event::Read { ticket, state })
}

#[test]
fn a_comparison_lasts_until_it_is_answered() {
    let mut lab = Lab::created(&["a", "b"]);
    let asked = lab.step("a", Event::Check);
    let told = reads(&mut lab, "a", &asked, b"1");
    assert_eq!(digests(&told), 1);
    // Nothing of it arrives.
    for _ in 0..3 {
        assert!(lab.set("a").is_comparing());
        lab.now_ms += 120_000;
        let told = lab.step("a", Event::Wake);
        assert_eq!(digests(&told), 1, "the wish is told again");
        if !told.read.is_empty() {
            reads(&mut lab, "a", &told, b"1");
        }
    }
    lab.states.insert("a".into(), b"1".to_vec());
    lab.states.insert("b".into(), b"1".to_vec());
    lab.now_ms += 120_000;
    let told = lab.step("a", Event::Wake);
    lab.settle_at("a", told);
    assert!(!lab.set("a").is_comparing());
}

/// Two writes to different parts, each refused where the other was accepted.
fn crossed() -> Lab {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"x".to_vec());
    lab.states.insert("b".into(), b"y".to_vec());
    let x = lab.draft(Verb::Merge, Footprint::parts(["/x"]), Recognise::Nothing);
    let y = lab.draft(Verb::Merge, Footprint::parts(["/y"]), Recognise::Nothing);
    let from_a = lab.write("a", x);
    let from_b = lab.write("b", y);
    let mut next = Vec::new();
    for (asked, to) in [(from_a, "b"), (from_b, "a")] {
        for (_, message) in asked.sent {
            let taken = lab.step(to, Event::Message(message));
            if taken.execute.is_empty() {
                next.push((to, taken));
            } else {
                let refused = lab.answer(to, &taken, 422);
                next.push((to, refused));
                next.push((
                    to,
                    Asked {
                        execute: Vec::new(),
                        ..taken
                    },
                ));
            }
        }
    }
    for (at, asked) in next {
        lab.settle_at(at, asked);
    }
    lab
}

#[test]
fn what_a_repair_drops_is_a_conflict_everywhere() {
    let mut lab = crossed();
    for _ in 0..4 {
        lab.now_ms += 120_000;
        for at in ["a", "b"] {
            let asked = lab.step(at, Event::Wake);
            lab.settle_at(at, asked);
        }
    }
    for at in ["a", "b"] {
        let set = lab.set(at);
        assert!(set.degraded().is_none(), "{at}: {:?}", set.degraded());
        let causes: Vec<_> = set.conflicts().map(|conflict| &conflict.cause).collect();
        assert!(matches!(causes[..], [Cause::Forgone]), "{at}: {causes:?}");
    }
    assert_eq!(lab.states["a"], lab.states["b"]);
}

#[test]
fn two_replicas_that_lack_the_same_do_not_make_each_other_good() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    for (at, state) in [("a", b"new"), ("b", b"old"), ("c", b"new")] {
        lab.states.insert(at.into(), state.to_vec());
    }
    lab.away.insert("a");
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    let asked = lab.step("b", Event::Message(shipped.sent[0].1.clone()));
    let refused = lab.answer("b", &asked, 422);
    reads(&mut lab, "b", &refused, b"old");
    let part = lab.draft(Verb::Merge, Footprint::parts(["/x"]), Recognise::Nothing);
    lab.write("b", part);
    // c loses its store, and begins from b, which accepted the last write and lacks the one before.
    lab.sites.insert("c", (Site::new(name("c"), 2), None));
    let (site, incarnation) = (name("c"), 2);
    let lost = lab.step("b", Event::PeerReset { site, incarnation });
    lab.settle_at("b", lost);
    let wake = |lab: &mut Lab| {
        for at in ["a", "b", "c"] {
            lab.now_ms += 120_000;
            let asked = lab.step(at, Event::Wake);
            lab.settle_at(at, asked);
        }
    };
    for _ in 0..3 {
        wake(&mut lab);
        assert_eq!(lab.states["c"], b"old");
        assert!(lab.set("c").degraded().is_some(), "it lacks what b lacks");
    }
    lab.away.clear();
    for _ in 0..4 {
        wake(&mut lab);
    }
    for at in ["a", "b", "c"] {
        assert_eq!(lab.states[at], b"new", "{at}");
        assert!(lab.set(at).degraded().is_none(), "{at}");
    }
}

#[test]
fn taken_for_another_reason_is_a_refusal_at_the_first_attempt() {
    let mut lab = Lab::new(&["a", "b"]);
    let asked = lab.create("a", Recognise::ChosenId);
    let refused = lab.answer("a", &asked, 409);
    assert_eq!(refused.answers, [Answer::Refused { status: 409 }]);
}

#[test]
fn after_a_doubt_it_is_believed_when_it_can_be_read() {
    let mut lab = Lab::new(&["a", "b"]);
    let asked = lab.create("a", Recognise::ChosenId);
    let ticket = asked.execute[0].ticket;
    let attempt = Attempt::Unknown;
    lab.step("a", Event::Executed { ticket, attempt });
    lab.now_ms += 120_000;
    let again = lab.step("a", Event::Wake);
    let confirming = lab.answer("a", &again, 409);
    assert!(lab.set("a").local().is_none(), "an answer alone proves nothing");
    reads(&mut lab, "a", &confirming, b"1");
    assert!(lab.set("a").local().is_some());
}

#[test]
fn a_replica_that_vanished_is_made_again() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("a".into(), b"1".to_vec());
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    let mut made = false;
    let (_, message) = shipped.sent.into_iter().next().unwrap();
    let asked = lab.step("b", Event::Message(message));
    let asking = lab.answer("b", &asked, 404);
    let ticket = asking.read[0];
    let missing = lab.step("b", Event::Missing { ticket });
    assert!(lab.set("b").local().is_none());
    lab.settle_at("b", missing);
    for _ in 0..4 {
        lab.now_ms += 120_000;
        let asked = lab.step("b", Event::Wake);
        lab.settle_at("b", asked);
        made |= lab
            .executed
            .iter()
            .any(|it| matches!(it.form, Form::CreateFrom { .. }));
    }
    assert!(made);
    assert!(lab.set("b").local().is_some() && lab.set("b").degraded().is_none());
}

#[test]
fn a_report_that_was_overtaken_changes_nothing() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    let (_, message) = shipped.sent.into_iter().next().unwrap();
    let asked = lab.step("b", Event::Message(message));
    let refused = lab.answer("b", &asked, 422);
    let (_, old) = refused
        .sent
        .iter()
        .find(|(_, message)| message.report.degraded.is_some())
        .cloned()
        .unwrap();
    let (site, _) = lab.sites.get_mut("b").unwrap();
    site.grow();
    lab.settle_at("b", refused);
    assert!(lab.set("a").peer_view(&name("b")).unwrap().degraded.is_none());
    lab.step("a", Event::Message(old));
    assert!(lab.set("a").peer_view(&name("b")).unwrap().degraded.is_none());
}

#[test]
fn an_answer_that_points_elsewhere_is_no_execution() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    let (_, message) = shipped.sent.into_iter().next().unwrap();
    let asked = lab.step("b", Event::Message(message));
    lab.answer("b", &asked, 307);
    let entry = lab.set("b").log().last().unwrap();
    assert_eq!(entry.state, State::Waiting(Why::Blocked { status: 307 }));
}

const YEAR_MS: u64 = 31_536_000_000;

#[test]
fn a_clock_that_was_wrong_once_holds_nothing_up_when_it_is_right_again() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.now_ms += YEAR_MS;
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    lab.now_ms -= YEAR_MS;
    let (_, message) = shipped.sent.into_iter().next().unwrap();
    lab.step("b", Event::Message(message));
    let entry = lab.set("b").log().last().unwrap();
    assert_eq!(entry.state, State::Waiting(Why::Quarantined));
    // The clock is right again. What is written now comes after that, and is quarantined nowhere.
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    for (_, message) in shipped.sent {
        let asked = lab.step("b", Event::Message(message));
        lab.settle_at("b", asked);
    }
    assert_eq!(lab.set("b").done(), lab.set("a").done());
}

#[test]
fn an_operator_ends_a_quarantine() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.now_ms += YEAR_MS;
    let draft = lab.replace();
    let shipped = lab.write("a", draft);
    lab.now_ms -= YEAR_MS;
    let (_, message) = shipped.sent.into_iter().next().unwrap();
    lab.step("b", Event::Message(message));
    let asked = lab.step("b", Event::Retry);
    assert_eq!(asked.execute.len(), 1);
}

/// Two whole writes at the same time, of which one loses.
fn collide(lab: &mut Lab) {
    let (x, y) = (lab.replace(), lab.replace());
    let (from_a, from_b) = (lab.write("a", x), lab.write("b", y));
    for (to, asked) in [("b", from_a), ("a", from_b)] {
        for (_, message) in asked.sent {
            let next = lab.step(to, Event::Message(message));
            lab.settle_at(to, next);
        }
    }
}

#[test]
fn conflicts_have_a_bound_and_what_it_drops_is_counted() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.tuning.conflicts_max = 2;
    for _ in 0..5 {
        collide(&mut lab);
    }
    let set = lab.set("a");
    assert_eq!((set.conflicts().count(), set.conflicts_dropped()), (2, 3));
}

#[test]
fn after_a_start_numbers_begin_anew_until_the_others_confirm_the_store() {
    let mut lab = Lab::created(&["a", "b"]);
    let (site, _) = lab.sites.get_mut("a").unwrap();
    *site = site.clone().started(77);
    let draft = lab.replace();
    lab.write("a", draft);
    let author = |lab: &Lab| lab.set("a").log().last().unwrap().op.id.author.incarnation;
    assert_eq!(author(&lab), 77);
    let (mut site_b, _) = lab.sites["b"].clone();
    let (site, _) = lab.sites.get_mut("a").unwrap();
    let welcome = site_b.welcome(&name("a"), &site.hello());
    assert!(!site.welcomed(&name("b"), welcome, 5));
    let draft = lab.replace();
    lab.write("a", draft);
    assert_eq!(author(&lab), 1);
}

#[test]
fn a_store_that_was_set_back_begins_a_new_life() {
    let mut paris = Site::new(name("paris"), 1).started(10);
    let mut rome = Site::new(name("rome"), 1).started(20);
    for _ in 0..40 {
        paris.grow();
    }
    let copy = paris.clone();
    for _ in 0..50 {
        paris.grow();
    }
    rome.welcome(&name("paris"), &paris.hello());
    let mut back = copy.started(11);
    let welcome = rome.welcome(&name("paris"), &back.hello());
    assert!(back.welcomed(&name("rome"), welcome, 5));
    assert!(back.incarnation() > 1);
    // A start of the store as it was is none.
    let mut again = paris.started(12);
    let mut other = Site::new(name("rome"), 1).started(21);
    other.welcome(&name("paris"), &again.hello());
    let welcome = other.welcome(&name("paris"), &again.hello());
    assert!(!again.welcomed(&name("rome"), welcome, 5));
    assert!(again.has_confirmed(&name("rome")));
}

#[test]
fn what_ended_in_an_earlier_life_is_not_settled_again() {
    let mut lab = Lab::new(&["a", "b"]);
    let asked = lab.create("a", Recognise::Nothing);
    let copy = lab.sites["a"].clone();
    let shipped = lab.answer("a", &asked, 201);
    lab.settle(shipped);
    // The copy is put back: `a` remembers a create that only an operator could settle.
    let (site, set) = copy;
    lab.sites.insert("a", (site.started(77).reborn(2), set));
    lab.step("a", Event::Resume);
    assert!(lab.set("a").in_doubt().is_some());
    let (site, incarnation) = (name("a"), 2);
    let asked = lab.step("b", Event::PeerReset { site, incarnation });
    lab.settle_at("b", asked);
    assert!(lab.set("a").in_doubt().is_none());
    // An operator who comes late settles nothing.
    let (executed, local) = (true, None);
    let asked = lab.step("a", Event::Settle { executed, local });
    lab.settle_at("a", asked);
    for at in ["a", "b"] {
        assert_eq!(lab.set(at).held().iter().count(), 1, "{at} has one create");
        assert!(lab.set(at).local().is_some() && lab.set(at).degraded().is_none());
    }
}

#[test]
fn what_was_deleted_long_ago_is_forgotten_once_all_know() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.draft(Verb::Delete, Footprint::Whole, Recognise::Nothing);
    let shipped = lab.write("a", draft);
    let later = lab.now_ms + 1;
    // The other site has not heard of it.
    let asked = lab.step("a", Event::Expire { before_ms: later });
    assert!(!asked.forgets);
    lab.settle(shipped);
    let asked = lab.step("a", Event::Expire { before_ms: 1 });
    assert!(!asked.forgets, "it is too young");
    let asked = lab.step("a", Event::Expire { before_ms: later });
    assert!(asked.forgets);
    let mut lab = Lab::created(&["a", "b"]);
    let asked = lab.step("a", Event::Expire { before_ms: u64::MAX });
    assert!(!asked.forgets, "it is not deleted");
}

#[test]
fn dismissed_conflicts_are_not_remembered_for_ever() {
    let mut lab = Lab::created(&["a", "b"]);
    for _ in 0..5 {
        collide(&mut lab);
        let loser = lab.set("a").conflicts().next().unwrap().loser.id.clone();
        let dismiss = lab.record(Verb::Dismiss { loser });
        let told = lab.step("a", Event::Request(dismiss));
        lab.settle_at("a", told);
    }
    for at in ["a", "b"] {
        assert_eq!(lab.set(at).conflicts().count(), 0, "{at}");
        assert!(lab.set(at).dismissed().count() <= 1, "{at}");
    }
}

#[test]
fn one_write_under_two_numbers_executes_once() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.action();
    let asked = lab.step("a", Event::Request(draft));
    let copy = lab.sites["a"].clone();
    let to_b = |asked: Asked| {
        let sent = asked.sent.into_iter().filter(|(to, _)| to == "b");
        sent.map(|(_, message)| message).collect::<Vec<_>>()
    };
    let shipped = lab.answer("a", &asked, 200);
    let mut executed = 0;
    for message in to_b(shipped) {
        let asked = lab.step("b", Event::Message(message));
        executed += asked.execute.len();
        if !asked.execute.is_empty() {
            lab.answer("b", &asked, 200);
        }
    }
    assert_eq!(executed, 1);
    // The store of `a` is as it was while its application executed it. An operator settles it, under another number.
    let (site, set) = copy;
    lab.sites.insert("a", (site.started(77), set));
    lab.step("a", Event::Resume);
    let (executed, local) = (true, None);
    let shipped = lab.step("a", Event::Settle { executed, local });
    for message in to_b(shipped) {
        let asked = lab.step("b", Event::Message(message));
        assert!(asked.execute.is_empty(), "b executes it a second time");
    }
    let numbers = |lab: &Lab| {
        let log = lab.set("b").log().map(|entry| entry.op.token).collect::<Vec<_>>();
        log.len()
    };
    assert!(numbers(&lab) >= 2, "both numbers are known");
    assert_eq!(lab.set("b").held(), lab.set("b").done());
}

/// Writes x and y at `a`, of which only y reaches `b`; then the disk of `a` is lost.
fn orphaned(lab: &mut Lab) {
    let x = lab.replace();
    lab.write("a", x);
    let (site, set) = lab.sites["a"].clone();
    lab.sites.insert("a", (site.started(77), set));
    lab.step("a", Event::Resume);
    let y = lab.replace();
    let token = y.token;
    let shipped = lab.write("a", y);
    for (_, mut message) in shipped.sent.into_iter().filter(|(to, _)| to == "b") {
        if let Content::Operations(carried) = &mut message.content {
            carried.retain(|carried| carried.op.token == token);
        }
        lab.step("b", Event::Message(message));
    }
    assert_ne!(lab.set("b").held(), lab.set("b").done(), "y waits for x");
    lab.sites.insert("a", (Site::new(name("a"), 2), None));
}

fn pass_time(lab: &mut Lab, at: &str, rounds: u32) {
    for _ in 0..rounds {
        lab.now_ms += 120_000;
        let asked = lab.step(at, Event::Wake);
        lab.settle_at(at, asked);
    }
}

#[test]
fn what_follows_what_nobody_has_is_given_up() {
    // A bound that keeps no conflict at all changes nothing about that.
    for conflicts_max in [10, 0] {
        let mut lab = Lab::created(&["a", "b"]);
        lab.tuning.conflicts_max = conflicts_max;
        orphaned(&mut lab);
        // As long as `a` says nothing, it may still have it.
        for _ in 0..8 {
            lab.now_ms += 120_000;
            lab.step("b", Event::Wake);
        }
        assert_ne!(lab.set("b").held(), lab.set("b").done(), "given up too early");
        let (site, incarnation) = (name("a"), 2);
        let asked = lab.step("b", Event::PeerReset { site, incarnation });
        lab.settle_at("b", asked);
        pass_time(&mut lab, "b", 8);
        let set = lab.set("b");
        assert_eq!(set.held(), set.done(), "it waits for ever");
        let kept: Vec<_> = set.conflicts().map(|conflict| &conflict.cause).collect();
        assert!(kept.iter().all(|cause| **cause == Cause::Forgone), "{kept:?}");
        assert_eq!(kept.len() + set.conflicts_dropped() as usize, 1);
    }
}

#[test]
fn who_cannot_be_brought_in_before_something_is_given_up_is_not_waited_for() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    orphaned(&mut lab);
    // What has executed here comes after what waits: no state can be read for whoever begins.
    lab.now_ms += 5;
    let draft = lab.replace();
    lab.write("b", draft);
    for (verb, rounds) in [
        (Verb::Expel { site: name("a") }, 0),
        (Verb::Expel { site: name("c") }, 0),
        (
            Verb::Join {
                site: name("c"),
                stay: 0,
            },
            12,
        ),
    ] {
        let draft = lab.record(verb);
        lab.step("b", Event::Request(draft));
        pass_time(&mut lab, "b", rounds);
    }
    let set = lab.set("b");
    assert_eq!(set.held(), set.done(), "it waits for ever");
    assert!(set.conflicts().any(|conflict| conflict.cause == Cause::Forgone));
    assert_eq!(lab.set("c").done(), set.done());
}

#[test]
fn a_word_that_a_wrong_clock_has_dated_does_not_count_for_what_is_asked_later() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let (_, set) = lab.sites.get_mut("b").unwrap();
    let mut stored = serde_json::to_value(&*set).unwrap();
    stored["peers"]["c"]["heard_ms"] = (lab.now_ms + 10_000_000).into();
    *set = Some(serde_json::from_value(stored).unwrap());
    orphaned(&mut lab);
    let (site, incarnation) = (name("a"), 2);
    lab.step("b", Event::PeerReset { site, incarnation });
    // `c` may have it, and cannot say so.
    for _ in 0..8 {
        lab.now_ms += 120_000;
        lab.step("b", Event::Wake);
    }
    assert_eq!(lab.set("b").conflicts().count(), 0, "given up too early");
}

#[test]
fn a_hello_that_no_honest_site_says_is_objected_to() {
    let site = Site::new(name("a"), 1).started(7);
    let hello = site.hello();
    assert_eq!(hello.objection(), None);
    let mut long = hello.clone();
    long.remembered = vec![long.age; 100_000];
    assert!(long.objection().is_some());
    let mut absurd = hello;
    absurd.remembered[0].steps = u64::MAX;
    assert!(absurd.objection().is_some());
}
