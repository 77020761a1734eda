//! Members that write what is signed well and not true.

use cheops_replica::{
    Author, Content, Event, Footprint, Form, Message, OpId, Operation, Recognise, Snapshot, Vector, Verb,
};
use cheops_types::Stamp;

use crate::{
    lab::{Lab, name},
    strangers::brings_in,
};

fn operation(message: &mut Message) -> &mut Operation {
    let Content::Operations(carried) = &mut message.content else {
        panic!("a write travels as an operation");
    };
    &mut carried[0].op
}

fn id(site: &str, seq: u64) -> OpId {
    let author = Author {
        site: name(site),
        incarnation: 1,
        stay: 0,
    };
    OpId { author, seq }
}

/// What `c` sends for its next write, as it likes.
fn written(lab: &mut Lab, seq: u64, change: impl FnOnce(&mut Operation)) -> Message {
    let draft = lab.draft(Verb::Merge, Footprint::parts(["/y"]), Recognise::Nothing);
    let written = lab.write("c", draft);
    let mut message = written.sent[0].1.clone();
    operation(&mut message).id = id("c", seq);
    change(operation(&mut message));
    assert_eq!(message.objection(), None);
    message
}

/// `c` hears of a write of `a` first, and writes under its token.
#[test]
fn what_has_the_token_of_a_write_does_not_take_its_place() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.draft(Verb::Merge, Footprint::parts(["/x"]), Recognise::Nothing);
    let token = draft.token;
    let from_a = lab.write("a", draft);
    let lie = written(&mut lab, 1, |op| op.token = token);
    let asked = lab.step("b", Event::Message(lie));
    lab.answer("b", &asked, 200);
    let (_, message) = from_a.sent.into_iter().find(|(to, _)| to == "b").unwrap();
    let asked = lab.step("b", Event::Message(message));
    assert_eq!(asked.execute.len(), 1, "it would be at `a` alone");
}

#[test]
fn what_has_the_token_of_a_write_under_way_does_not_end_it() {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.replace();
    let token = draft.token;
    let under_way = lab.step("a", Event::Request(draft));
    let lie = written(&mut lab, 1, |op| op.token = token);
    lab.step("a", Event::Message(lie));
    let answered = lab.answer("a", &under_way, 200);
    assert_eq!(answered.answers.len(), 1);
    assert!(lab.set("a").held().includes(&id("a", 2)), "it is no operation");
}

#[test]
fn a_delete_of_what_has_the_token_of_a_create_does_not_take_that() {
    let mut lab = Lab::new(&["a", "c"]);
    let draft = lab.named();
    let token = draft.token;
    let asked = lab.begin("a", draft);
    let shipped = lab.answer("a", &asked, 201);
    let asked = lab.step("c", Event::Message(shipped.sent[0].1.clone()));
    lab.answer("c", &asked, 201);
    let create = lab.set("a").log().next().unwrap().op.clone();
    let second = written(&mut lab, 1, |op| {
        (op.verb, op.touches) = (create.verb.clone(), Footprint::Whole);
        (op.token, op.after) = (token, Vector::new());
        op.births.clear();
    });
    let asked = lab.step("a", Event::Message(second));
    if !asked.execute.is_empty() {
        lab.answer("a", &asked, 200);
    }
    let delete = written(&mut lab, 2, |op| {
        (op.verb, op.touches) = (Verb::Delete, Footprint::Whole);
        op.after = Vector::new();
        op.after.raise(&id("c", 1));
        op.births = [id("c", 1)].into();
    });
    let asked = lab.step("a", Event::Message(delete));
    let mut forms = asked.execute.iter().map(|it| &it.form);
    assert!(
        !forms.any(|form| matches!(form, Form::Delete { .. })),
        "it has not seen the create of `a`"
    );
}

/// `c` has heard of the create of `a` first, and makes one of its own under the same token, as if it were older.
#[test]
fn what_has_the_token_of_a_create_does_not_take_its_place() {
    let mut lab = Lab::new(&["a", "b", "c"]);
    let draft = lab.named();
    let token = draft.token;
    let asked = lab.begin("a", draft);
    let shipped = lab.answer("a", &asked, 201);
    let to = |site| shipped.sent.iter().find(|(to, _)| to == site).unwrap().1.clone();
    let asked = lab.step("c", Event::Message(to("c")));
    lab.answer("c", &asked, 201);
    let create = lab.set("a").log().next().unwrap().op.clone();
    let lie = written(&mut lab, 1, |op| {
        (op.verb, op.touches) = (create.verb.clone(), Footprint::Whole);
        (op.token, op.after) = (token, Vector::new());
        op.births.clear();
        op.time = Stamp { millis: 1, count: 0 };
    });
    let asked = lab.step("b", Event::Message(lie));
    lab.answer("b", &asked, 201);
    let asked = lab.step("b", Event::Message(to("b")));
    assert!(matches!(asked.execute[0].form, Form::Remake { .. }));
}

/// `c` dismisses conflicts about the next writes of `a`, which nobody has written yet. Then two of these lose.
fn loses_what_was_dismissed_before(is_word_kept: bool) {
    let mut lab = Lab::created(&["a", "b", "c", "d"]);
    let lies = [2, 3].map(|seq| {
        let loser = id("a", seq);
        written(&mut lab, seq - 1, |op| op.verb = Verb::Dismiss { loser })
    });
    // From now on nothing is heard of these two: what `d` has not confirmed stays in the log.
    for silent in ["c", "d"] {
        lab.sites.get_mut(silent).unwrap().1 = None;
        lab.away.insert(silent);
    }
    for lie in lies {
        for at in ["a", "b"] {
            let asked = lab.step(at, Event::Message(lie.clone()));
            lab.settle_at(at, asked);
        }
    }
    if !is_word_kept {
        lab.tuning.log_max_bytes = 0;
        lab.wait(2);
        assert_eq!(lab.set("a").log().count() + lab.set("b").log().count(), 0);
        lab.tuning.log_max_bytes = u64::MAX;
    }
    let is_remembered = |at| lab.set(at).dismissed().count() == 2;
    assert_eq!(["a", "b"].map(is_remembered), [is_word_kept; 2]);
    for seq in [2, 3] {
        let (x, y) = (lab.replace(), lab.replace());
        let from_a = lab.write("a", x);
        lab.now_ms += 5;
        let from_b = lab.write("b", y);
        lab.settle(from_a);
        lab.settle(from_b);
        for at in ["a", "b"] {
            let mut losers = lab.set(at).conflicts().map(|it| &it.loser.id);
            assert!(losers.any(|it| *it == id("a", seq)), "{seq} at {at}");
        }
    }
}

#[test]
fn a_conflict_is_not_dismissed_before_there_is_one() {
    loses_what_was_dismissed_before(true);
}

#[test]
fn what_was_dismissed_before_it_was_written_is_not_remembered() {
    loses_what_was_dismissed_before(false);
}

/// Whatever a member claims, what the others write then is possible.
fn goes_on(spoil: impl FnOnce(&mut Operation)) {
    let mut lab = Lab::created(&["a", "b", "c"]);
    let draft = lab.replace();
    let mut message = lab.write("c", draft).sent[0].1.clone();
    spoil(operation(&mut message));
    let received = lab.step("b", Event::Message(message));
    if !received.execute.is_empty() {
        lab.answer("b", &received, 200);
    }
    let (write, out) = (lab.replace(), lab.record(Verb::Expel { site: name("c") }));
    let (site, stay) = (name("c"), 0);
    let back = lab.record(Verb::Join { site, stay });
    let mut sent = lab.write("b", write).sent;
    for draft in [out, back] {
        sent.extend(lab.step("b", Event::Request(draft)).sent);
    }
    assert!(sent.len() >= 3);
    for (_, message) in sent {
        assert_eq!(message.objection(), None, "all others would ignore it");
    }
}

#[test]
fn a_member_does_not_use_up_the_epochs() {
    goes_on(|op| {
        op.epoch = 1 << 48;
        op.verb = Verb::Expel { site: name("z") };
    });
}

#[test]
fn a_member_does_not_use_up_the_stays() {
    goes_on(|op| {
        op.verb = Verb::Join {
            site: name("c"),
            stay: 1 << 24,
        };
    });
}

#[test]
fn a_member_does_not_use_up_the_times() {
    goes_on(|op| {
        op.time = Stamp {
            millis: 1 << 48,
            count: u32::MAX,
        };
    });
}

#[test]
fn a_state_does_not_use_them_up_either() {
    let possible = brings_in(&mut Lab::new(&["a", "b"]), "b-1");
    assert_eq!(possible.objection(), None);
    let spoil = |change: fn(&mut Message, &mut Snapshot)| {
        let mut message = possible.clone();
        let Content::Snapshot(mut snapshot) = possible.content.clone() else {
            panic!("it is brought in by a state");
        };
        change(&mut message, &mut snapshot);
        message.content = Content::Snapshot(snapshot);
        message.objection()
    };
    let epoch = spoil(|message, _| message.epoch = 1 << 48);
    assert_eq!(epoch, Some("an epoch after too few removals"));
    let member = spoil(|_, snapshot| snapshot.members.get_mut(&name("a")).unwrap().stay = 1 << 24);
    assert_eq!(member, Some("a stay after too few others"));
    let passage = spoil(|_, snapshot| snapshot.passages.get_mut(&name("b")).unwrap().stay = 1 << 24);
    assert_eq!(passage, Some("a stay after too few others"));
}
