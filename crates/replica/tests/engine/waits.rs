//! What operations wait for at a site is told to the others.

use cheops_replica::{
    Attempt, Digest, Event, Footprint, Message, MetaId, Need, Presence, Recognise, Set, Verb, Wait, Why,
};

use crate::lab::{Asked, Lab, name};

/// Why each operation waits at `b`, as `a` was told.
fn told(lab: &Lab) -> Vec<Why> {
    let peer = lab.set("a").peer_view(&name("b")).unwrap();
    peer.waits.iter().map(|wait| wait.why).collect()
}

/// A write of `a` on its way to `b`, and what that asks of its application.
fn shipped(lab: &mut Lab) -> Asked {
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    lab.step("b", Event::Message(asked.sent[0].1.clone()))
}

/// What `b` says of itself to `a`.
fn reports(asked: &Asked) -> Vec<Message> {
    let to_a = asked.sent.iter().filter(|(to, _)| to == "a");
    to_a.map(|(_, message)| message.clone()).collect()
}

fn hear(lab: &mut Lab, asked: &Asked) {
    for message in reports(asked) {
        lab.step("a", Event::Message(message));
    }
}

#[test]
fn a_site_tells_what_an_operation_waits_for_until_it_does_not() {
    for (status, why) in [
        (401, Why::NeedsCredentials),
        (403, Why::Blocked { status: 403 }),
        (503, Why::Retry { status: Some(503) }),
    ] {
        let mut lab = Lab::created(&["a", "b"]);
        let received = shipped(&mut lab);
        let postponed = lab.answer("b", &received, status);
        hear(&mut lab, &postponed);
        assert_eq!(told(&lab), [why]);
        let operation = lab.set("b").log().next().unwrap().op.id.clone();
        assert_eq!(lab.set("a").why_at(&name("b"), &operation), Some(why));
        let credential = cheops_replica::Secret(vec![1]);
        let event = Event::Credential {
            operation: operation.clone(),
            credential,
        };
        let again = lab.step("b", event);
        assert_eq!(again.execute.len(), 1, "{status}");
        let done = lab.answer("b", &again, 200);
        hear(&mut lab, &done);
        assert_eq!(told(&lab), []);
        assert_eq!(lab.set("a").why_at(&name("b"), &operation), None);
    }
}

#[test]
fn news_of_a_wait_is_told_once_and_not_with_every_try() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut asked = shipped(&mut lab);
    let first = lab.answer("b", &asked, 503);
    assert_eq!(reports(&first).len(), 1);
    for status in [503, 429, 503] {
        lab.now_ms += lab.tuning.retry_max_ms;
        asked = lab.step("b", Event::Wake);
        // What it says because `a` may not have heard is another matter.
        assert_eq!(asked.execute.len(), 1);
        let next = lab.answer("b", &asked, status);
        assert_eq!(reports(&next).len(), 0, "{status}");
    }
    lab.now_ms += lab.tuning.retry_max_ms;
    asked = lab.step("b", Event::Wake);
    let blocked = lab.answer("b", &asked, 403);
    assert_eq!(reports(&blocked).len(), 1, "this is something else");
}

#[test]
fn a_caller_hears_why_a_site_waits() {
    let mut lab = Lab::created(&["a", "b"]);
    let received = shipped(&mut lab);
    hear(&mut lab, &received);
    let postponed = lab.answer("b", &received, 401);
    let heard = lab.step("a", Event::Message(reports(&postponed)[0].clone()));
    assert_eq!(heard.progress.len(), 1);
    let again = lab.step("a", Event::Message(reports(&postponed)[0].clone()));
    assert_eq!(again.progress.len(), 0, "nothing is new");
}

#[test]
fn what_is_in_doubt_elsewhere_is_told() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.action();
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    let ticket = received.execute[0].ticket;
    let attempt = Attempt::Unknown;
    let stuck = lab.step("b", Event::Executed { ticket, attempt });
    hear(&mut lab, &stuck);
    assert_eq!(told(&lab), [Why::InDoubt]);
    let settled = lab.step(
        "b",
        Event::Settle {
            executed: true,
            local: None,
        },
    );
    hear(&mut lab, &settled);
    assert_eq!(told(&lab), []);
}

#[test]
fn a_doubt_about_a_write_that_has_no_number_is_its_sites_own() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.action();
    let asked = lab.step("b", Event::Request(draft));
    let ticket = asked.execute[0].ticket;
    let attempt = Attempt::Unknown;
    lab.step("b", Event::Executed { ticket, attempt });
    assert!(lab.set("b").in_doubt().is_some());
    assert_eq!(lab.set("b").waits(), []);
}

#[test]
fn only_so_many_are_told_and_no_more_are_believed() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut last = Asked::default();
    let early_ms = lab.now_ms;
    for _ in 0..Wait::MAX + 2 {
        lab.now_ms = early_ms + lab.tuning.ahead_max_ms * 3;
        let draft = lab.replace();
        let asked = lab.write("a", draft);
        lab.now_ms = early_ms;
        last = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    }
    assert_eq!(lab.set("b").waits().len(), Wait::MAX);
    let mut message = reports(&last)[0].clone();
    let wait = message.report.waits[0].clone();
    message.report.waits.resize(1_000, wait);
    lab.step("a", Event::Message(message));
    assert_eq!(told(&lab), [Why::Quarantined; Wait::MAX]);
}

#[test]
fn what_an_older_report_says_of_waits_does_not_count() {
    let mut lab = Lab::created(&["a", "b"]);
    let received = shipped(&mut lab);
    let postponed = lab.answer("b", &received, 401);
    let old = reports(&postponed)[0].clone();
    let received = shipped(&mut lab);
    hear(&mut lab, &received);
    let credential = cheops_replica::Secret(vec![1]);
    let operation = lab.set("b").log().next().unwrap().op.id.clone();
    let again = lab.step(
        "b",
        Event::Credential {
            operation: operation.clone(),
            credential,
        },
    );
    assert_eq!(again.execute.len(), 1, "it is under way");
    hear(&mut lab, &again);
    lab.step("a", Event::Message(old));
    assert_eq!(told(&lab), []);
}

#[test]
fn a_set_that_was_stored_before_waits_were_told_is_read() {
    let lab = Lab::created(&["a", "b"]);
    let mut stored = serde_json::to_value(lab.set("a")).unwrap();
    let peer = stored["peers"]["b"].as_object_mut().unwrap();
    assert!(peer.remove("waits").is_some());
    assert_eq!(serde_json::from_value::<Set>(stored).unwrap(), *lab.set("a"));
}

/// Two sets travel by themselves: the one that is needed may come a moment later, and until then nobody here knows it.
#[test]
fn what_needs_another_resource_is_tried_again_soon() {
    let mut lab = Lab::created(&["a", "b"]);
    for (needs, is_soon) in [(true, true), (false, false)] {
        let mut draft = lab.replace();
        if needs {
            draft.needs.push(Need {
                set: MetaId::new("not-heard-of-yet"),
                gone: false,
            });
        }
        let asked = lab.write("a", draft);
        let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
        let asked = lab.answer("b", &received, 404);
        // It is not the replica itself that is missing.
        let (ticket, state) = (asked.read[0], Some((Vec::new(), Digest(Vec::new()))));
        lab.step("b", Event::Read { ticket, state });
        lab.now_ms += lab.tuning.retry_min_ms;
        let again = lab.step("b", Event::Wake);
        assert_eq!(again.execute.len() == 1, is_soon);
        if is_soon {
            lab.answer("b", &again, 200);
        }
    }
}

/// What waits for a parent that was refused here waits for nothing once the parent is deleted.
#[test]
fn the_end_of_what_a_site_never_had_is_told_to_what_waits_for_it() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.taken.insert("b".to_owned());
    let began = lab.create("a", Recognise::Nothing);
    let created = lab.answer("a", &began, 201);
    lab.settle(created);
    assert_eq!(lab.set("b").presence(), Presence::Pending);
    let delete = lab.draft(Verb::Delete, Footprint::Whole, Recognise::Nothing);
    let deleted = lab.write("a", delete);
    let heard = lab.step("b", Event::Message(deleted.sent[0].1.clone()));
    assert_eq!(lab.set("b").presence(), Presence::Gone);
    assert!(heard.moved);
}

#[test]
fn a_removal_is_told_to_what_waits_for_the_resource() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let expel = lab.record(Verb::Expel { site: name("c") });
    let removed = lab.step("a", Event::Request(expel));
    assert!(!removed.moved, "nothing has changed at the site that stays");
    let heard = lab.step("c", Event::Yield);
    assert_eq!(lab.set("c").presence(), Presence::Uninvolved);
    assert!(heard.moved);
}
