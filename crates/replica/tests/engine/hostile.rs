//! Peers that say what cannot be. Their certificates are good; their words need not be.

use cheops_replica::{Author, Content, Event, LocalId, MetaId, OpId, Snapshot, Standing, Vector, Verb};

use crate::lab::{Lab, name};

fn author(site: &str) -> Author {
    Author {
        site: name(site),
        incarnation: 1,
        stay: 0,
    }
}

/// A vector that only words can make.
fn up_to(site: &str, seq: u64) -> Vector {
    serde_json::from_value(serde_json::json!([[author(site), seq]])).unwrap()
}

/// What `b` was sent for the last write of `a`.
fn sent(lab: &mut Lab) -> cheops_replica::Message {
    let draft = lab.replace();
    lab.write("a", draft).sent[0].1.clone()
}

fn snapshot(lab: &mut Lab) -> (cheops_replica::Message, Snapshot) {
    let draft = lab.record(Verb::Join {
        site: name("b"),
        stay: 0,
    });
    let joined = lab.step("a", Event::Request(draft));
    let ticket = joined.read[0];
    let state = Some((b"state".to_vec(), cheops_replica::Digest(Vec::new())));
    let served = lab.step("a", Event::Read { ticket, state });
    let found = served.sent.into_iter().find_map(|(_, message)| {
        let Content::Snapshot(snapshot) = message.content.clone() else {
            return None;
        };
        Some((message, *snapshot))
    });
    found.unwrap()
}

#[test]
fn numbers_at_the_end_of_all_numbers_stop_nobody() {
    for site in ["a", "b"] {
        let mut lab = Lab::created(&["a", "b"]);
        let mut message = sent(&mut lab);
        message.from = name("b");
        message.report.held = up_to(site, u64::MAX);
        message.report.done = message.report.held.clone();
        message.content = Content::Report;
        lab.step("a", Event::Message(message));
        let draft = lab.replace();
        let asked = lab.write("a", draft);
        assert_eq!(asked.answers.len(), 1, "{site}");
    }
}

#[test]
fn an_operation_that_this_site_never_made_is_not_its_own() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut message = sent(&mut lab);
    let Content::Operations(carried) = &mut message.content else {
        panic!("a write travels as an operation");
    };
    carried[0].op.id = OpId {
        author: author("b"),
        seq: 1,
    };
    lab.step("b", Event::Message(message));
    assert_eq!(lab.set("b").held().last(&author("b")), 0);
    let draft = lab.replace();
    let asked = lab.write("b", draft);
    assert_eq!(asked.answers.len(), 1, "the site's own numbers go on");
}

#[test]
fn an_epoch_and_a_stay_at_their_end_stop_nobody() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let expel = lab.record(Verb::Expel { site: name("c") });
    let asked = lab.step("a", Event::Request(expel));
    let (_, mut message) = asked.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let Content::Operations(carried) = &mut message.content else {
        panic!("a removal travels as an operation");
    };
    carried[0].op.epoch = u64::MAX;
    lab.step("b", Event::Message(message));
    assert!(!lab.set("b").members().contains_key(&name("c")));
    let join = lab.record(Verb::Join {
        site: name("c"),
        stay: 0,
    });
    let asked = lab.step("a", Event::Request(join));
    let (_, mut message) = asked.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let Content::Operations(carried) = &mut message.content else {
        panic!("a join travels as an operation");
    };
    let Verb::Join { stay, .. } = &mut carried[0].op.verb else {
        panic!("it is a join");
    };
    *stay = u32::MAX;
    lab.step("b", Event::Message(message));
    for verb in [
        Verb::Expel { site: name("c") },
        Verb::Join {
            site: name("c"),
            stay: 0,
        },
    ] {
        let draft = lab.record(verb);
        lab.step("b", Event::Request(draft));
    }
}

#[test]
fn a_snapshot_is_of_the_set_that_it_was_sent_for() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.adopt("a");
    let (mut message, mut other) = snapshot(&mut lab);
    other.record.meta = MetaId::new("somebody else's");
    message.content = Content::Snapshot(Box::new(other));
    lab.step("b", Event::Message(message));
    assert!(
        lab.sites["b"].1.is_none(),
        "it would be stored in the other set's place"
    );
}

#[test]
fn a_snapshot_knows_nothing_of_what_only_this_site_counts() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.adopt("a");
    let (mut message, mut lie) = snapshot(&mut lab);
    let stay = lie.members[&name("b")].stay;
    let mine = Author { stay, ..author("b") };
    let all = serde_json::json!([[mine, u64::MAX]]);
    lie.at.join(&serde_json::from_value(all).unwrap());
    lie.yours = Some(LocalId::new("b-1"));
    message.content = Content::Snapshot(Box::new(lie));
    let began = lab.step("b", Event::Message(message));
    lab.settle_at("b", began);
    if lab.sites["b"].1.is_some() {
        let draft = lab.replace();
        lab.step("b", Event::Request(draft));
    }
}

#[test]
fn only_a_member_can_say_that_this_site_is_out() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut message = sent(&mut lab);
    message.content = Content::Expelled;
    message.epoch = 7;
    message.report.held = Vector::new();
    let mut stranger = message.clone();
    stranger.from = name("z");
    lab.step("b", Event::Message(stranger));
    assert_eq!(lab.set("b").standing(), Standing::Member);
    lab.step("b", Event::Message(message));
    assert_eq!(lab.set("b").standing(), Standing::Expelled);
}
