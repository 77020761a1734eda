//! Who is in the set: leaves, returns, removals.

use cheops_replica::{
    Answer, Cause, Content, Digest, Event, Footprint, Form, Reason, Recognise, Standing, Verb,
};

use crate::lab::{Asked, Lab, name};

fn leave(lab: &mut Lab, at: &'static str, site: &str) -> Asked {
    let draft = lab.record(Verb::Leave { site: name(site) });
    lab.step(at, Event::Request(draft))
}

fn expel(lab: &mut Lab, at: &'static str, site: &str) -> Asked {
    let draft = lab.record(Verb::Expel { site: name(site) });
    lab.step(at, Event::Request(draft))
}

/// Whether an application was asked to delete its replica.
fn deleted(lab: &Lab) -> bool {
    let mut forms = lab.executed.iter().map(|execution| &execution.form);
    forms.any(|form| matches!(form, Form::Delete { .. }))
}

/// The replica of `at` cannot be read now.
fn unread(lab: &mut Lab, at: &str, asked: &Asked) -> Asked {
    let (ticket, state) = (asked.read[0], None);
    lab.step(at, Event::Read { ticket, state })
}

fn meaningless(asked: &Asked) -> bool {
    asked.answers == [Answer::NotHere(Reason::Meaningless)]
}

#[test]
fn a_site_that_leaves_keeps_its_replica_until_all_that_stay_have_executed_what_it_has() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("c");
    let asked = leave(&mut lab, "a", "a");
    lab.settle_at("a", asked);
    lab.wait(3);
    let peer = lab.set("a").peer_view(&name("b")).unwrap();
    assert_eq!(peer.done, *lab.set("a").held(), "b has executed all of it");
    assert!(!deleted(&lab), "c has not");
    lab.returns("c");
    lab.wait(3);
    assert!(deleted(&lab) && lab.set("a").local().is_none());
    assert_eq!(lab.set("a").standing(), Standing::Left);
}

#[test]
fn a_site_goes_only_when_another_replica_was_found_to_be_equal() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut asked = leave(&mut lab, "a", "a");
    // As long as the replica of `a` cannot be read, that of `b` is good by the word of `b` alone.
    let unread = unread(&mut lab, "a", &asked);
    asked.sent.extend(unread.sent);
    for (_, message) in asked.sent {
        let noted = lab.step("b", Event::Message(message));
        for (_, message) in noted.sent {
            let heard = lab.step("a", Event::Message(message));
            assert!(heard.execute.is_empty(), "nobody has compared them");
        }
    }
    let peer = lab.set("a").peer_view(&name("b")).unwrap();
    assert!(peer.done == *lab.set("a").held() && peer.local.is_some() && peer.degraded.is_none());
    lab.wait(3);
    assert!(deleted(&lab) && lab.set("a").local().is_none());
}

/// Each of `a` and `b` refuses what the other one has accepted; nobody can read a replica yet.
fn crossed() -> Lab {
    let mut lab = Lab::created(&["a", "b"]);
    let mut merge = |part| lab.draft(Verb::Merge, Footprint::parts([part]), Recognise::Nothing);
    let (x, y) = (merge("/x"), merge("/y"));
    let (from_a, from_b) = (lab.write("a", x), lab.write("b", y));
    let mut told = Vec::new();
    for (to, asked) in [("b", from_a), ("a", from_b)] {
        let received = lab.step(to, Event::Message(asked.sent[0].1.clone()));
        let refused = lab.answer(to, &received, 422);
        told.push(unread(&mut lab, to, &refused));
        told.push(refused.without_reads());
    }
    for asked in told {
        lab.settle(asked);
    }
    lab
}

#[test]
fn a_degraded_replica_is_no_reason_to_let_another_one_go() {
    let mut lab = crossed();
    for at in ["a", "b"] {
        assert!(lab.set(at).degraded().is_some(), "{at} has refused something");
    }
    let asked = leave(&mut lab, "a", "a");
    lab.settle(asked);
    let done = &lab.set("a").peer_view(&name("b")).unwrap().done;
    assert_eq!(done, lab.set("a").held(), "b has executed the leave");
    assert!(!deleted(&lab), "what b refused would be in no replica");
    // Once they are compared, what the set goes on without is kept.
    lab.wait(6);
    assert!(deleted(&lab) && lab.set("b").degraded().is_none());
    let causes: Vec<_> = lab.set("b").conflicts().map(|it| &it.cause).collect();
    assert!(causes.contains(&&Cause::Forgone), "{causes:?}");
}

#[test]
fn a_degraded_replica_that_was_read_is_no_reason_either() {
    let mut lab = crossed();
    let asked = leave(&mut lab, "a", "a");
    lab.settle(asked);
    let told = lab.step("b", Event::PeerUp(name("a")));
    let (_, mut message) = told.sent.into_iter().find(|(to, _)| to == "a").unwrap();
    message.content = Content::Digest {
        at: lab.set("a").done().clone(),
        digest: Digest(b"1".to_vec()),
        mended: false,
    };
    let heard = lab.step("a", Event::Message(message));
    assert!(heard.execute.is_empty(), "what b refused would be in no replica");
}

#[test]
fn the_last_member_that_stays_is_not_told_to_leave() {
    let mut lab = Lab::created(&["a"]);
    assert!(meaningless(&leave(&mut lab, "a", "a")));
    let mut lab = Lab::created(&["a", "b"]);
    lab.away.insert("b");
    let asked = leave(&mut lab, "a", "b");
    assert!(matches!(asked.answers[..], [Answer::Noted { .. }]));
    // `b` is still there, but it goes.
    assert!(meaningless(&leave(&mut lab, "a", "a")));
}

#[test]
fn a_site_that_leaves_accepts_no_writes() {
    let mut lab = Lab::created(&["a", "b"]);
    let asked = leave(&mut lab, "b", "a");
    lab.step("a", Event::Message(asked.sent[0].1.clone()));
    assert_eq!(lab.set("a").standing(), Standing::Member);
    let draft = lab.replace();
    let refused = lab.step("a", Event::Request(draft));
    assert_eq!(refused.answers, [Answer::NotHere(Reason::NotMember)]);
    assert_eq!(lab.set("a").queue().count(), 0);
}

#[test]
fn a_leave_from_before_a_return_does_not_end_it_whenever_it_arrives() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.extend(["a", "b", "c"]);
    let out = expel(&mut lab, "a", "c");
    lab.settle_at("a", out);
    lab.now_ms += 5;
    let left = leave(&mut lab, "b", "c");
    lab.settle_at("b", left);
    lab.now_ms += 5;
    let site = name("c");
    let draft = lab.record(Verb::Join { site, stay: 0 });
    let back = lab.step("a", Event::Request(draft));
    assert!(matches!(back.answers[..], [Answer::Noted { .. }]));
    lab.settle_at("a", back);
    lab.returns("a");
    lab.returns("b");
    for at in ["a", "b"] {
        let member = &lab.set(at).members()[&name("c")];
        assert_eq!((member.stay, &member.leaving), (1, &None), "at {at}");
    }
}

#[test]
fn a_site_that_is_told_that_it_is_out_keeps_what_only_it_had() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let known = lab.replace();
    let asked = lab.write("c", known);
    lab.settle(asked);
    let out = expel(&mut lab, "a", "c");
    assert!(matches!(out.answers[..], [Answer::Noted { .. }]));
    let draft = lab.replace();
    let token = draft.token;
    let asked = lab.write("c", draft);
    let (_, message) = asked.sent.into_iter().find(|(to, _)| to == "a").unwrap();
    let told = lab.step("a", Event::Message(message));
    let (_, message) = told.sent.into_iter().find(|(to, _)| to == "c").unwrap();
    assert_eq!(message.content, Content::Expelled);
    lab.step("c", Event::Message(message));
    assert_eq!(lab.set("c").standing(), Standing::Expelled);
    let kept: Vec<_> = lab
        .set("c")
        .conflicts()
        .map(|it| (it.loser.token, &it.cause))
        .collect();
    assert_eq!(kept, [(token, &Cause::Expelled)]);
}

/// `a` and `b` have dropped what `c` lacks, each because the other has it. Then `c` removes both.
#[test]
fn what_a_removed_side_no_longer_keeps_is_counted() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.tuning.log_max_bytes = 0;
    lab.away.insert("c");
    for _ in 0..3 {
        let draft = lab.replace();
        let shipped = lab.write("a", draft);
        lab.settle(shipped);
    }
    let kept = |lab: &Lab| lab.set("a").log().count() as u64;
    assert!(kept(&lab) < 3, "the log is full");
    for site in ["a", "b"] {
        expel(&mut lab, "c", site);
    }
    lab.mail.clear();
    lab.away.clear();
    let unkept = 3 - kept(&lab);
    lab.wait(2);
    for at in ["a", "b"] {
        let set = lab.set(at);
        assert_eq!(set.standing(), Standing::Expelled);
        let told = set.conflicts().count() as u64 + set.conflicts_dropped();
        assert_eq!(told, 3, "{at}: {unkept} are not kept");
    }
}

/// `c` begins a new life, is removed and let in again, all before its application must be done with what the earlier life has
/// asked of it.
#[test]
fn a_site_that_returns_still_waits_for_what_its_earlier_life_asked_for() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    lab.away.insert("c");
    let (site, _) = lab.sites.get_mut("c").unwrap();
    *site = site.clone().reborn(2);
    lab.step("c", Event::Wake);
    let settled_ms = lab.now_ms + lab.tuning.settle_ms;
    let out = expel(&mut lab, "a", "c");
    lab.settle_at("a", out);
    let site = name("c");
    let draft = lab.record(Verb::Join { site, stay: 0 });
    let back = lab.step("a", Event::Request(draft));
    lab.settle_at("a", back);
    lab.returns("c");
    assert_eq!(lab.set("c").members()[&name("c")].stay, 1);
    assert_eq!(lab.set("c").wake_at_ms(&name("c"), 0), Some(settled_ms));
    lab.wait(3);
    assert!(lab.set("c").is_settled(&name("c")));
}

/// `b` leaves. `a` does not get on with a write of `c`, which `b` has executed.
#[test]
fn a_site_that_left_is_a_member_until_all_that_it_had_has_executed() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let left = leave(&mut lab, "a", "b");
    let draft = lab.replace();
    let written = lab.write("c", draft);
    let (_, message) = written.sent.iter().find(|(to, _)| to == "a").unwrap();
    let received = lab.step("a", Event::Message(message.clone()));
    lab.answer("a", &received, 403);
    lab.settle_at("a", left);
    lab.settle(written);
    // `b` and `c` compare their replicas; `a` does not try again yet.
    for at in ["b", "c", "b", "c"] {
        lab.now_ms += lab.tuning.blocked_retry_ms / 5;
        let asked = lab.step(at, Event::Wake);
        lab.settle_at(at, asked);
    }
    assert_ne!(lab.set("a").held(), lab.set("a").done());
    assert_eq!(lab.set("b").standing(), Standing::Left);
    assert!(lab.set("a").peer_view(&name("b")).unwrap().left, "it has said so");
    assert!(lab.set("a").members().contains_key(&name("b")));
    lab.wait(1);
    assert_eq!(lab.set("a").held(), lab.set("a").done());
    for at in ["a", "c"] {
        assert!(!lab.set(at).members().contains_key(&name("b")), "at {at}");
    }
}

/// Nobody has seen the last write of `b`, whose replica somebody has deleted.
#[test]
fn a_site_has_not_left_while_it_alone_has_something() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.away.insert("a");
    let draft = lab.replace();
    let token = draft.token;
    let written = lab.write("b", draft);
    lab.settle(written);
    let ticket = lab.step("b", Event::Check).read[0];
    let missing = lab.step("b", Event::Missing { ticket });
    lab.settle(missing);
    let left = leave(&mut lab, "b", "b");
    lab.settle_at("b", left);
    assert!(lab.set("b").local().is_none(), "nothing is left to delete");
    assert_eq!(lab.set("b").standing(), Standing::Member);
    lab.returns("a");
    lab.wait(2);
    assert!(lab.executed.iter().filter(|it| it.token == token).count() > 1);
    assert_eq!(lab.set("b").standing(), Standing::Left);
}
