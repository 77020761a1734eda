//! What did not get to a site that can be reached again.

use cheops_replica::{Content, Event, Verb};

use crate::lab::{Asked, Lab, name};

/// What one step sent to a site.
fn sent<'a>(asked: &'a Asked, to: &str) -> Vec<&'a Content> {
    let sent = asked.sent.iter().filter(|(site, _)| site == to);
    sent.map(|(_, message)| &message.content).collect()
}

#[test]
fn a_report_that_was_lost_is_told_again_where_all_is_at_rest() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let written = lab.write("a", draft);
    // `b` takes the write, and its answers are lost.
    lab.away.insert("a");
    lab.settle(written);
    lab.away.clear();
    lab.mail.clear();
    assert!(lab.set("b").is_settled(&name("b")) && !lab.set("a").is_settled(&name("a")));
    let told = lab.step("b", Event::PeerMissed(name("a")));
    assert_eq!(sent(&told, "a"), [&Content::Report]);
    lab.settle(told);
    assert!(lab.set("a").is_settled(&name("a")));
}

#[test]
fn a_digest_that_was_lost_is_told_again_where_it_was_asked_for() {
    let mut lab = Lab::created(&["a", "b"]);
    let checked = lab.step("a", Event::Check);
    lab.away.insert("a");
    lab.settle_at("a", checked);
    let answer = lab.mail.pop().unwrap().1;
    assert!(matches!(answer.content, Content::Digest { .. }));
    lab.away.clear();
    lab.mail.clear();
    assert!(!lab.set("a").is_settled(&name("a")));
    let told = lab.step("b", Event::PeerMissed(name("a")));
    lab.settle_at("b", told);
    for at in ["a", "b"] {
        assert!(lab.set(at).is_settled(&name(at)), "{at}");
    }
}

#[test]
fn a_comparison_goes_on_when_the_site_that_it_waits_for_can_be_reached() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("b".into(), b"something else".to_vec());
    lab.away.insert("a");
    let checked = lab.step("b", Event::Check);
    lab.settle_at("b", checked);
    lab.away.clear();
    lab.mail.clear();
    let up = lab.step("b", Event::PeerUp(name("a")));
    assert!(matches!(sent(&up, "a")[..], [Content::Digest { .. }]));
    // Not to sites that were there all the time.
    let up = lab.step("a", Event::PeerUp(name("b")));
    assert!(up.sent.is_empty());
}

#[test]
fn a_site_that_was_let_in_while_nothing_reached_it_gets_the_state_when_it_can_be_reached() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.states.insert("a".into(), b"state".to_vec());
    lab.adopt("a");
    lab.away.insert("b");
    let join = lab.record(Verb::Join {
        site: name("b"),
        stay: 0,
    });
    let joined = lab.step("a", Event::Request(join));
    lab.settle_at("a", joined);
    lab.away.clear();
    lab.mail.clear();
    let up = lab.step("a", Event::PeerUp(name("b")));
    lab.settle_at("a", up);
    assert!(lab.set("b").local().is_some());
    assert!(lab.set("a").is_settled(&name("a")));
}

#[test]
fn a_site_that_is_no_member_has_missed_nothing() {
    let mut lab = Lab::created(&["a", "b"]);
    for site in ["a", "c"] {
        let told = lab.step("a", Event::PeerMissed(name(site)));
        assert!(told.sent.is_empty(), "{site}");
    }
}
