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

/// The last epoch and the last stay that are possible after one operation, and what comes after them.
const EPOCHS: [u64; 3] = [1, 2, u64::MAX];
const STAYS: [u32; 3] = [2, 3, u32::MAX];

#[test]
fn an_epoch_and_a_stay_at_their_end_stop_nobody() {
    for (epoch, last_stay) in EPOCHS.into_iter().zip(STAYS) {
        let is_possible = epoch == EPOCHS[0];
        let mut lab = Lab::created(&["a", "b", "c"]);
        let expel = lab.record(Verb::Expel { site: name("c") });
        let asked = lab.step("a", Event::Request(expel));
        let (_, mut message) = asked.sent.into_iter().find(|(to, _)| to == "b").unwrap();
        let Content::Operations(carried) = &mut message.content else {
            panic!("a removal travels as an operation");
        };
        carried[0].op.epoch = epoch;
        lab.step("b", Event::Message(message));
        assert_ne!(lab.set("b").members().contains_key(&name("c")), is_possible);
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
        *stay = last_stay;
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
}

/// The numbers of `b` in another stay are claimed by a snapshot; then a signed join switches to that stay.
#[test]
fn numbers_of_another_stay_are_not_claimed_in_advance() {
    for seq in [u64::MAX, 1 << 48, 7] {
        let mut lab = Lab::created(&["a", "b"]);
        let draft = lab.replace();
        let sent = lab.write("a", draft);
        let (_, mut message) = sent.sent[0].clone();
        let mine = Author {
            stay: 1,
            ..author("b")
        };
        let claim: Vector = serde_json::from_value(serde_json::json!([[mine, seq]])).unwrap();
        let mut lie = lie(&lab, &message);
        lie.at.join(&claim);
        message.report.held.join(&lie.at);
        message.report.done.join(&lie.at);
        message.content = Content::Snapshot(Box::new(lie));
        let taken = lab.step("b", Event::Message(message.clone()));
        assert!(taken.execute.is_empty(), "{seq}: nothing of it counts");
        assert_eq!(lab.set("b").held().last(&mine), 0);
        // Now `b` is made to stay anew, by an operation that is signed well.
        let mut join = sent.sent[0].1.clone();
        let Content::Operations(carried) = &mut join.content else {
            panic!("a write travels as an operation");
        };
        let site = name("b");
        carried[0].op.verb = Verb::Join { site, stay: 1 };
        lab.step("b", Event::Message(join));
        assert_eq!(lab.set("b").members()[&name("b")].stay, 1);
        let draft = lab.replace();
        let asked = lab.write("b", draft);
        assert_eq!(asked.answers.len(), 1, "{seq}: the site's own numbers go on");
    }
}

/// A snapshot of the set as `b` has it, with a state of somebody's choice and one more operation of `a`.
fn lie(lab: &Lab, message: &cheops_replica::Message) -> Snapshot {
    let set = lab.set("b");
    let mut at = set.done().clone();
    at.raise(&OpId {
        author: author("a"),
        seq: 9,
    });
    Snapshot {
        record: set.record().clone(),
        members: set.members().clone(),
        expelled: [].into(),
        passages: [].into(),
        token: cheops_replica::Token(1),
        birth: cheops_replica::Token(1),
        born: None,
        recognise: cheops_replica::Recognise::Nothing,
        pruned: at.clone(),
        pruned_writes: Vector::new(),
        at,
        state: Some(b"what a wants".to_vec()),
        deleted: None,
        creates: [].into(),
        buried: Vec::new(),
        degraded: None,
        last: None,
        division: None,
        time: cheops_types::Stamp {
            millis: message.now_ms,
            count: 0,
        },
        log: Vec::new(),
        conflicts: Vec::new(),
        dismissed: [].into(),
        forgone: [].into(),
        credential: None,
        yours: None,
    }
}

#[test]
fn nonsense_changes_nothing_at_all() {
    let mut lab = Lab::created(&["a", "b"]);
    let message = sent(&mut lab);
    let before = lab.sites["b"].clone();
    let spoil: [fn(&mut cheops_replica::Message); 12] = [
        |it| it.epoch = u64::MAX,
        |it| it.now_ms = u64::MAX,
        |it| it.incarnation = u64::MAX,
        |it| it.report.incarnation = u64::MAX,
        |it| it.report.age.steps = u64::MAX,
        |it| it.report.stay = u32::MAX,
        |it| it.report.held = Vector::new(),
        |it| it.report.waits = vec![wait(); 2_000],
        |it| op(it).id.seq = 0,
        |it| op(it).time.millis = u64::MAX,
        |it| op(it).after = up_to("a", 2),
        |it| op(it).verb = nested(9),
    ];
    for (at, spoil) in spoil.into_iter().enumerate() {
        let mut message = message.clone();
        spoil(&mut message);
        assert!(message.objection().is_some(), "{at}");
        let asked = lab.step("b", Event::Message(message));
        assert!(asked.sent.is_empty() && asked.execute.is_empty(), "{at}");
        assert_eq!(lab.sites["b"].1, before.1, "{at}");
        lab.sites.insert("b", before.clone());
    }
    assert_eq!(message.objection(), None);
    assert!(!lab.step("b", Event::Message(message)).execute.is_empty());
}

fn op(message: &mut cheops_replica::Message) -> &mut cheops_replica::Operation {
    let Content::Operations(carried) = &mut message.content else {
        panic!("a write travels as an operation");
    };
    &mut carried[0].op
}

fn wait() -> cheops_replica::Wait {
    cheops_replica::Wait {
        operation: OpId {
            author: author("a"),
            seq: 1,
        },
        why: cheops_replica::Why::Turn,
        said: None,
    }
}

/// Operations that give up operations that give up operations.
fn nested(depth: usize) -> Verb {
    let mut lab = Lab::created(&["a", "b"]);
    let mut message = sent(&mut lab);
    let mut op = op(&mut message).clone();
    for _ in 0..depth {
        let lost = vec![op.clone()];
        op.verb = Verb::Forgo { lost };
    }
    op.verb
}

#[test]
fn a_stranger_brings_nobody_back() {
    let mut lab = Lab::created(&["a", "b"]);
    let message = sent(&mut lab);
    let mut expelled = message.clone();
    expelled.content = Content::Expelled;
    expelled.epoch = 7;
    expelled.report.held = Vector::new();
    expelled.report.done = Vector::new();
    lab.step("b", Event::Message(expelled));
    assert_eq!(lab.set("b").standing(), Standing::Expelled);
    let mut lie = lie(&lab, &message);
    lie.members.get_mut(&name("b")).unwrap().stay = 1;
    let mut back = message;
    back.report.held = lie.at.clone();
    back.report.done = lie.at.clone();
    back.content = Content::Snapshot(Box::new(lie));
    let mut stranger = back.clone();
    stranger.from = name("z");
    lab.step("b", Event::Message(stranger));
    assert_eq!(lab.set("b").standing(), Standing::Expelled);
    lab.step("b", Event::Message(back));
    assert_eq!(lab.set("b").standing(), Standing::Member);
}

#[test]
fn a_state_that_nobody_asked_for_is_not_executed() {
    let mut lab = Lab::created(&["a", "b"]);
    lab.states.insert("b".into(), b"1".to_vec());
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    lab.settle(asked);
    let check = lab.step("b", Event::Check);
    let ticket = check.read[0];
    let digest = cheops_replica::Digest(b"1".to_vec());
    let state = Some((b"1".to_vec(), digest));
    lab.step("b", Event::Read { ticket, state });
    let mut message = sent(&mut Lab::created(&["a", "b"]));
    message.report.held = lab.set("b").held().clone();
    message.report.done = lab.set("b").done().clone();
    message.content = Content::State {
        at: lab.set("b").done().clone(),
        state: b"what a wants".to_vec(),
        digest: cheops_replica::Digest(b"another".to_vec()),
    };
    let asked = lab.step("b", Event::Message(message));
    assert!(asked.execute.is_empty() && !lab.set("b").is_installing());
}

#[test]
fn a_state_says_whose_it_is() {
    let mut lab = Lab::new(&["a", "b"]);
    lab.adopt("a");
    let (message, _) = snapshot(&mut lab);
    let began = lab.step("b", Event::Message(message));
    assert_eq!(began.execute[0].source, Some(name("a")));
    assert_eq!(began.execute[0].origin, None);
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
    message.report.done = Vector::new();
    let mut stranger = message.clone();
    stranger.from = name("z");
    lab.step("b", Event::Message(stranger));
    assert_eq!(lab.set("b").standing(), Standing::Member);
    lab.step("b", Event::Message(message));
    assert_eq!(lab.set("b").standing(), Standing::Expelled);
}
