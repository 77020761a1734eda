//! Names that clients choose: created at two sites at once, deleted, and created again.

use std::collections::{BTreeMap, VecDeque};

use cheops_replica::{
    Answer, Attempt, Cause, Digest, Draft, Event, Footprint, Form, LocalId, Message, Operation, Reason,
    Recognise, Token, Verb,
};

use crate::lab::{Asked, Lab, name};

/// Sites with applications that keep what was done to them, and messages that go when they are let.
pub(crate) struct Sites {
    pub(crate) lab: Lab,
    /// What each application has under the name.
    pub(crate) apps: BTreeMap<&'static str, String>,
    pub(crate) mail: VecDeque<(&'static str, Message)>,
    answers: Vec<Answer>,
    /// The forms that applications were asked for, by site.
    asked: Vec<(&'static str, &'static str)>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

pub(crate) fn letter(token: Token) -> char {
    char::from(b'A' + u8::try_from(token.0).unwrap_or(0))
}

impl Sites {
    pub(crate) fn new(names: &[&'static str]) -> Self {
        Self {
            lab: Lab::new(names),
            apps: BTreeMap::new(),
            mail: VecDeque::new(),
            answers: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// A create of the name; what it makes is the letter that is returned.
    pub(crate) fn create(&mut self, at: &'static str) -> Token {
        let draft = self.lab.named();
        let token = draft.token;
        self.lab.now_ms += 10;
        let asked = if self.lab.sites[at].1.is_some() {
            self.lab.step(at, Event::Request(draft))
        } else {
            self.lab.begin(at, draft)
        };
        self.run(at, asked);
        token
    }

    fn write(&mut self, at: &'static str, verb: Verb, touches: Footprint) -> Token {
        let draft = self.lab.draft(verb, touches, Recognise::Nothing);
        let token = draft.token;
        self.request(at, draft);
        token
    }

    fn request(&mut self, at: &'static str, draft: Draft) {
        self.lab.now_ms += 10;
        let asked = self.lab.step(at, Event::Request(draft));
        self.run(at, asked);
    }

    pub(crate) fn delete(&mut self, at: &'static str) -> Token {
        self.write(at, Verb::Delete, Footprint::Whole)
    }

    fn merge(&mut self, at: &'static str) -> Token {
        self.write(at, Verb::Merge, Footprint::parts(["/x"]))
    }

    /// Runs a site's application until it has nothing to do; messages are kept.
    pub(crate) fn run(&mut self, at: &'static str, mut asked: Asked) {
        loop {
            self.answers.append(&mut asked.answers);
            for (to, message) in asked.sent.drain(..) {
                let to = NAMES.into_iter().find(|name| *name == to).unwrap();
                self.mail.push_back((to, message));
            }
            let event = if let Some(execution) = asked.execute.pop() {
                let (status, local) = self.execute(at, &execution.form, execution.token);
                Event::Executed {
                    ticket: execution.ticket,
                    attempt: Attempt::Answered {
                        status,
                        local: local.map(LocalId::new),
                        said: None,
                    },
                }
            } else if let Some(ticket) = asked.read.pop() {
                match self.apps.get(at) {
                    Some(state) => Event::Read {
                        ticket,
                        state: Some((state.clone().into_bytes(), Digest(state.clone().into_bytes()))),
                    },
                    None => Event::Missing { ticket },
                }
            } else {
                return;
            };
            asked = self.lab.step(at, event);
        }
    }

    fn execute(&mut self, at: &'static str, form: &Form, token: Token) -> (u16, Option<&'static str>) {
        let here = self.apps.get(at).cloned();
        let text = letter(token).to_string();
        let word = match form {
            Form::Create { .. } => "create",
            Form::CreateFrom { .. } => "create from",
            Form::Remake { .. } => "remake",
            Form::Repeat { .. } => "repeat",
            Form::Overwrite { .. } => "overwrite",
            Form::Delete { .. } => "delete",
        };
        self.asked.push((at, word));
        let state = match (form, here) {
            (Form::Create { .. }, None) | (Form::Remake { .. }, Some(_)) => text,
            (Form::Create { .. }, Some(_)) => return (409, None),
            (Form::Repeat { .. }, Some(here)) => format!("{here}{text}"),
            (Form::CreateFrom { state }, _) | (Form::Overwrite { state, .. }, Some(_)) => {
                String::from_utf8(state.clone()).unwrap()
            }
            (Form::Delete { .. }, Some(_)) => {
                self.apps.remove(at);
                return (204, None);
            }
            _ => return (404, None),
        };
        self.apps.insert(at, state);
        (200, matches!(form, Form::Create { .. }).then_some("web"))
    }

    /// Lets all messages go, and time pass, until there is nothing more.
    pub(crate) fn heal(&mut self) {
        for _ in 0..40 {
            while let Some((to, message)) = self.mail.pop_front() {
                let asked = self.lab.step(to, Event::Message(message));
                self.run(to, asked);
            }
            self.lab.now_ms += 120_000;
            for at in self.lab.sites.keys().copied().collect::<Vec<_>>() {
                if self.lab.sites[at].1.is_some() {
                    let asked = self.lab.step(at, Event::Wake);
                    self.run(at, asked);
                }
            }
        }
    }

    /// All sites have the same, none is degraded.
    pub(crate) fn everywhere(&self) -> Option<String> {
        let mut states: Vec<_> = self.lab.sites.keys().map(|at| self.apps.get(at)).collect();
        states.dedup();
        assert_eq!(states.len(), 1, "{:?}", self.apps);
        for at in self.lab.sites.keys() {
            let set = self.lab.set(at);
            assert!(set.degraded().is_none(), "{at} is degraded: {:?}", set.degraded());
            assert_eq!(set.is_deleted(), states[0].is_none(), "{at} knows what it has");
            assert!(set.is_settled(&crate::lab::name(at)), "{at} is not settled");
        }
        states[0].cloned()
    }

    /// What lost, the same at all sites.
    fn losers(&self) -> Vec<Operation> {
        let of = |at: &str| {
            let conflicts = self.lab.set(at).conflicts();
            conflicts
                .map(|conflict| conflict.loser.clone())
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.lab.sites.keys().map(|at| of(at)).collect();
        all.dedup();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn count(&self, at: &str, word: &str) -> usize {
        self.asked.iter().filter(|asked| **asked == (at, word)).count()
    }
}

fn tokens(operations: &[Operation]) -> Vec<Token> {
    operations.iter().map(|op| op.token).collect()
}

#[test]
fn two_creates_of_one_name_are_one_resource() {
    let mut sites = Sites::new(&["a", "b"]);
    let first = sites.create("a");
    let second = sites.create("b");
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(second).to_string()));
    assert_eq!(tokens(&sites.losers()), [first]);
    assert!(matches!(
        sites.lab.set("a").conflicts().next().unwrap().cause,
        Cause::Winner(_)
    ));
    assert_eq!((sites.count("a", "remake"), sites.count("b", "remake")), (1, 0));
}

#[test]
fn what_lost_can_be_applied_again() {
    let mut sites = Sites::new(&["a", "b"]);
    sites.create("a");
    sites.create("b");
    sites.heal();
    let loser = sites.losers().remove(0).id;
    let event = Event::Reapply {
        loser: loser.clone(),
        token: Token(20),
        credential: None,
    };
    let asked = sites.lab.step("b", event);
    sites.run("b", asked);
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(Token(20)).to_string()));
    let dismiss = sites.lab.record(Verb::Dismiss { loser });
    sites.request("a", dismiss);
    sites.heal();
    assert!(sites.losers().is_empty());
}

#[test]
fn changes_follow_the_create_that_won() {
    let mut sites = Sites::new(&["a", "b", "c"]);
    sites.create("a");
    let second = sites.create("b");
    let change = sites.merge("b");
    sites.heal();
    let state: String = [letter(second), letter(change)].iter().collect();
    assert_eq!(sites.everywhere(), Some(state));
    // One that was made on the create that lost comes later, and counts.
    let mut sites = Sites::new(&["a", "b", "c"]);
    let first = sites.create("a");
    let second = sites.create("b");
    let change = sites.merge("a");
    sites.heal();
    let state: String = [letter(second), letter(change)].iter().collect();
    assert_eq!(sites.everywhere(), Some(state));
    assert_eq!(tokens(&sites.losers()), [first, second]);
}

#[test]
fn a_delete_leaves_the_create_that_it_had_not_seen() {
    for a_first in [true, false] {
        let mut sites = Sites::new(&["a", "b"]);
        let kept = if a_first {
            sites.create("a");
            sites.delete("a");
            sites.create("b")
        } else {
            let kept = sites.create("b");
            sites.create("a");
            sites.delete("a");
            kept
        };
        sites.heal();
        assert_eq!(sites.everywhere(), Some(letter(kept).to_string()), "{a_first}");
        assert_eq!(sites.count("b", "delete"), 0, "{a_first}");
    }
}

#[test]
fn what_is_left_after_a_delete_is_made_of_what_is_left() {
    // c2 has executed at b after c1 and its change; then the delete of c1 arrives.
    let mut sites = Sites::new(&["a", "b"]);
    let kept = sites.create("b");
    sites.create("a");
    let change = sites.merge("a");
    let held: Vec<_> = sites.mail.drain(..).collect();
    sites.delete("a");
    let late: Vec<_> = sites.mail.drain(..).collect();
    let to_b = |mail: Vec<(&'static str, Message)>| {
        mail.into_iter()
            .filter(|(to, _)| *to == "b")
            .collect::<VecDeque<_>>()
    };
    for (to, message) in to_b(held) {
        let asked = sites.lab.step(to, Event::Message(message));
        sites.run(to, asked);
    }
    assert!(sites.apps["b"].contains(letter(change)), "{:?}", sites.apps);
    sites.mail = to_b(late);
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(kept).to_string()));
}

#[test]
fn what_a_delete_covers_may_have_left_something_in_doubt() {
    let mut sites = Sites::new(&["a", "b"]);
    let kept = sites.create("b");
    let lost = sites.create("a");
    let created: Vec<_> = sites.mail.drain(..).collect();
    sites.delete("a");
    let mut asked = Asked::default();
    for (_, message) in created.into_iter().filter(|(to, _)| *to == "b") {
        asked = sites.lab.step("b", Event::Message(message));
    }
    // It executes and nobody hears of it; the second try certainly does not.
    assert!(matches!(asked.execute[0].form, Form::Remake { .. }));
    sites.apps.insert("b", letter(lost).to_string());
    sites.lab.answer("b", &asked, 500);
    for (_, message) in std::mem::take(&mut sites.mail) {
        sites.lab.step("b", Event::Message(message));
    }
    sites.lab.now_ms += sites.lab.tuning.settle_ms;
    let again = sites.lab.step("b", Event::Wake);
    let asked = sites.lab.answer("b", &again, 429);
    sites.run("b", asked);
    assert_eq!(
        sites.apps["b"],
        letter(kept).to_string(),
        "the delete leaves this one"
    );
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(kept).to_string()));
}

#[test]
fn a_name_is_deleted_and_made_again() {
    let mut sites = Sites::new(&["a", "b"]);
    sites.create("a");
    sites.heal();
    sites.delete("a");
    sites.heal();
    assert_eq!(sites.everywhere(), None);
    let again = sites.create("b");
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(again).to_string()));
    assert!(sites.losers().is_empty());
    // All of it while the other site hears nothing.
    sites.delete("a");
    sites.create("a");
    sites.delete("a");
    let again = sites.create("a");
    let change = sites.merge("a");
    sites.heal();
    let state: String = [letter(again), letter(change)].iter().collect();
    assert_eq!(sites.everywhere(), Some(state));
    sites.delete("b");
    sites.heal();
    assert_eq!(sites.everywhere(), None);
}

#[test]
fn a_change_of_what_was_deleted_does_not_reach_what_was_made_again() {
    let mut sites = Sites::new(&["a", "b", "c"]);
    sites.create("a");
    sites.heal();
    sites.delete("a");
    let again = sites.create("a");
    // b has not heard of any of it.
    let lost = sites.merge("b");
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(again).to_string()));
    assert_eq!(tokens(&sites.losers()), [lost]);
}

#[test]
fn deletes_at_both_sites_leave_nothing() {
    let mut sites = Sites::new(&["a", "b"]);
    sites.create("a");
    sites.create("b");
    sites.delete("a");
    sites.delete("b");
    sites.heal();
    assert_eq!(sites.everywhere(), None);
    sites.create("a");
    sites.heal();
    assert!(sites.everywhere().is_some());
}

#[test]
fn a_name_that_the_application_has_is_its_to_refuse() {
    let mut sites = Sites::new(&["a", "b"]);
    let first = sites.create("a");
    sites.heal();
    sites.answers.clear();
    sites.create("a");
    assert_eq!(sites.answers, [Answer::Refused { status: 409 }]);
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(first).to_string()));
}

#[test]
fn a_site_that_lost_its_store_hears_what_lives() {
    let mut sites = Sites::new(&["a", "b"]);
    sites.create("a");
    sites.heal();
    sites.delete("a");
    let again = sites.create("a");
    sites.heal();
    sites
        .lab
        .sites
        .insert("b", (cheops_replica::Site::new(crate::lab::name("b"), 2), None));
    let event = Event::PeerReset {
        site: crate::lab::name("b"),
        incarnation: 2,
    };
    let asked = sites.lab.step("a", event);
    sites.run("a", asked);
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(again).to_string()));
    sites.delete("b");
    sites.heal();
    assert_eq!(sites.everywhere(), None);
}

#[test]
fn a_name_is_remembered_for_good() {
    // Made again, its numbers must go on: whoever has forgotten it would begin with the first one.
    let mut sites = Sites::new(&["a", "b"]);
    sites.create("a");
    sites.delete("a");
    sites.heal();
    let asked = sites.lab.step("a", Event::Expire { before_ms: u64::MAX });
    assert!(!asked.forgets);
    let again = sites.create("b");
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(again).to_string()));
}

#[test]
fn a_create_that_is_refused_does_not_end_the_promise_behind_it() {
    let mut lab = Lab::new(&["a", "b"]);
    let first = lab.named();
    let asked = lab.begin("a", first);
    let promised = Draft {
        promised: true,
        ..lab.named()
    };
    let token = promised.token;
    lab.step("a", Event::Request(promised));
    let next = lab.answer("a", &asked, 422);
    assert_eq!(next.answers, [Answer::Refused { status: 422 }]);
    assert_eq!(next.execute[0].token, token, "the application decides about it");
    let done = lab.answer("a", &next, 201);
    assert!(matches!(done.answers[..], [Answer::Accepted { .. }]));
}

#[test]
fn a_set_does_not_begin_with_a_change_of_its_sites() {
    let mut lab = Lab::new(&["a", "b"]);
    let first = lab.named();
    let asked = lab.begin("a", first);
    let join = lab.record(Verb::Join {
        site: name("c"),
        stay: 0,
    });
    let second = lab.named();
    lab.step("a", Event::Request(join));
    lab.step("a", Event::Request(second));
    let next = lab.answer("a", &asked, 422);
    assert_eq!(next.answers, [Answer::Refused { status: 422 }]);
    assert!(next.sent.is_empty(), "b can make nothing of a join alone");
    let last = lab.answer("a", &next, 422);
    let refused = [
        Answer::Refused { status: 422 },
        Answer::NotHere(Reason::NotMember),
    ];
    assert_eq!(last.answers, refused);
    assert!(last.forgets, "nothing has begun");
}
