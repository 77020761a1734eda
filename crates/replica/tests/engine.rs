//! The engine by hand: two or three sites, every message and every answer written out.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{
    Answer, Attempt, Birth, Body, Context, Draft, Effect, Event, Execution, Footprint, Form, LocalId,
    Message, MetaId, OpId, Operation, Phase, PlainRules, Reading, Reason, Recognise, Request, Set, Site,
    State, Token, Tuning, Verb, Why, create, default_reading, receive, step,
};
use cheops_types::{ServiceName, SiteName};

struct Lab {
    sites: BTreeMap<&'static str, (Site, Option<Set>)>,
    now_ms: u64,
    tuning: Tuning,
    tokens: u128,
}

/// What one step asked for.
#[derive(Default)]
struct Asked {
    sent: Vec<(String, Message)>,
    execute: Vec<Execution>,
    answers: Vec<Answer>,
}

fn name(text: &str) -> SiteName {
    SiteName::new(text).unwrap()
}

fn asked(effects: Vec<Effect>) -> Asked {
    let mut asked = Asked::default();
    for effect in effects {
        match effect {
            Effect::Send { to, message } => asked.sent.push((to.to_string(), message)),
            Effect::Execute(execution) => asked.execute.push(execution),
            Effect::Answer { answer, .. } => asked.answers.push(answer),
            _ => {}
        }
    }
    asked
}

impl Lab {
    fn new(sites: &[&'static str]) -> Self {
        let site = |at: &&'static str| (*at, (Site::new(name(at), 1), None));
        Self {
            sites: sites.iter().map(site).collect(),
            now_ms: 1_000,
            tuning: Tuning::default(),
            tokens: 0,
        }
    }

    fn draft(&mut self, verb: Verb, touches: Footprint, recognise: Recognise) -> Draft {
        self.tokens += 1;
        Draft {
            token: Token(self.tokens),
            verb,
            touches,
            recognise,
            needs: Vec::new(),
            request: Request {
                method: "PUT".into(),
                path: "/things/{}".into(),
                headers: Vec::new(),
                body: Body::Inline(Vec::new()),
                scope: String::new(),
                caller: None,
            },
            credential: None,
        }
    }

    fn replace(&mut self) -> Draft {
        self.draft(Verb::Replace, Footprint::Whole, Recognise::Nothing)
    }

    fn action(&mut self) -> Draft {
        let verb = Verb::Action {
            commutes: false,
            idempotent: false,
        };
        self.draft(verb, Footprint::Whole, Recognise::Nothing)
    }

    fn step(&mut self, at: &str, event: Event) -> Asked {
        let (site, set) = self.sites.get_mut(at).unwrap();
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let effects = match (set, event) {
            (Some(set), event) => step(site, set, event, &context),
            (set, Event::Message(message)) => {
                let (born, effects) = receive(site, message, &context);
                *set = born;
                effects
            }
            _ => panic!("{at} has no set"),
        };
        asked(effects)
    }

    fn create(&mut self, at: &'static str, recognise: Recognise) -> Asked {
        let birth = Birth {
            service: ServiceName::new("things").unwrap(),
            kind: "thing".into(),
            name: None,
            sites: self.sites.keys().map(|site| name(site)).collect::<BTreeSet<_>>(),
        };
        let draft = self.draft(Verb::Create(Box::new(birth)), Footprint::Whole, recognise);
        let (site, set) = self.sites.get_mut(at).unwrap();
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let (born, effects) = create(site, &MetaId::new("m"), draft, &context);
        *set = Some(born);
        asked(effects)
    }

    fn set(&self, at: &str) -> &Set {
        self.sites[at].1.as_ref().unwrap()
    }

    /// The application answers what a site asked of it.
    fn answer(&mut self, at: &str, asked: &Asked, status: u16) -> Asked {
        let execution = &asked.execute[0];
        let made = matches!(execution.form, Form::Create { .. }) && status == 201;
        let attempt = Attempt::Answered {
            status,
            local: made.then(|| LocalId::new(&format!("{at}-1"))),
        };
        let ticket = execution.ticket;
        self.step(at, Event::Executed { ticket, attempt })
    }

    /// Delivers everything, the applications answering 200, until there is nothing left.
    fn settle(&mut self, first: Asked) {
        let mut queue = vec![(String::new(), first)];
        let mut from = Vec::new();
        while let Some((at, asked)) = queue.pop() {
            if !asked.execute.is_empty() {
                let status = if matches!(asked.execute[0].form, Form::Create { .. }) {
                    201
                } else {
                    200
                };
                let next = self.answer(&at, &asked, status);
                queue.push((at.clone(), next));
            }
            from.extend(asked.sent);
            if queue.is_empty() && !from.is_empty() {
                let (to, message) = from.remove(0);
                let next = self.step(&to, Event::Message(message));
                queue.push((to, next));
            }
        }
    }

    /// All sites have the resource.
    fn created(sites: &[&'static str]) -> Self {
        let mut lab = Self::new(sites);
        let first = sites[0];
        let asked = lab.create(first, Recognise::Nothing);
        let asked = lab.answer(first, &asked, 201);
        lab.settle(asked);
        lab
    }

    fn write(&mut self, at: &'static str, draft: Draft) -> Asked {
        let asked = self.step(at, Event::Request(draft));
        self.answer(at, &asked, 200)
    }
}

#[test]
fn a_create_is_answered_where_it_executed_and_made_elsewhere() {
    let mut lab = Lab::new(&["a", "b"]);
    let began = lab.create("a", Recognise::Nothing);
    assert!(
        began.answers.is_empty() && began.sent.is_empty(),
        "nothing leaves before the result"
    );
    let done = lab.answer("a", &began, 201);
    assert!(matches!(done.answers[..], [Answer::Accepted { status: 201, .. }]));
    lab.settle(done);
    let b = name("b");
    assert_eq!(lab.set("a").local().unwrap().as_str(), "a-1");
    assert_eq!(
        lab.set("a").remote(&b).unwrap().as_str(),
        "b-1",
        "each site tells its own local id"
    );
    assert!(lab.set("a").is_settled(&name("a")) && lab.set("b").is_settled(&b));
    assert_eq!(lab.set("a").log().count(), 0, "what is stable is pruned");
}

#[test]
fn a_refused_write_leaves_no_trace() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let refused = lab.answer("a", &asked, 422);
    assert_eq!(refused.answers, [Answer::Refused { status: 422 }]);
    assert!(refused.sent.is_empty());
    assert!(lab.set("a").is_settled(&name("a")));
}

#[test]
fn what_was_not_sent_may_be_taken_over() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.step("a", Event::Request(draft));
    let ticket = asked.execute[0].ticket;
    let ended = lab.step(
        "a",
        Event::Executed {
            ticket,
            attempt: Attempt::NotSent,
        },
    );
    assert_eq!(ended.answers, [Answer::NotHere(Reason::Unreachable)]);
}

#[test]
fn the_later_of_two_concurrent_writes_wins_and_the_other_is_a_conflict() {
    let mut lab = Lab::created(&["a", "b"]);
    let (first, second) = (lab.replace(), lab.replace());
    let from_a = lab.write("a", first);
    lab.now_ms += 5;
    let from_b = lab.write("b", second);
    lab.settle(from_b);
    lab.settle(from_a);
    for at in ["a", "b"] {
        let conflicts: Vec<_> = lab.set(at).conflicts().collect();
        assert_eq!(conflicts.len(), 1, "at {at}");
        assert_eq!(conflicts[0].loser.id.author.site, name("a"));
    }
}

#[test]
fn a_later_overwrite_is_no_conflict() {
    let mut lab = Lab::created(&["a", "b"]);
    let first = lab.replace();
    let asked = lab.write("a", first);
    lab.settle(asked);
    let second = lab.replace();
    let asked = lab.write("b", second);
    lab.settle(asked);
    assert_eq!(lab.set("a").conflicts().count(), 0);
}

#[test]
fn a_late_patch_executes_and_the_later_one_once_more() {
    let mut lab = Lab::created(&["a", "b"]);
    let patch = |lab: &mut Lab, parts: &[&str]| {
        lab.draft(
            Verb::Merge,
            Footprint::parts(parts.iter().copied()),
            Recognise::Nothing,
        )
    };
    let (early, late) = (patch(&mut lab, &["/x", "/y"]), patch(&mut lab, &["/x"]));
    let from_a = lab.write("a", early);
    lab.now_ms += 5;
    lab.write("b", late);
    let (_, message) = from_a.sent[0].clone();
    let first = lab.step("b", Event::Message(message));
    assert_eq!(first.execute.len(), 1, "the late one");
    let second = lab.answer("b", &first, 200);
    assert_eq!(second.execute.len(), 1, "what follows it, once more");
    assert_ne!(first.execute[0].token, second.execute[0].token);
    let third = lab.answer("b", &second, 200);
    assert!(third.execute.is_empty());
}

#[test]
fn an_action_in_doubt_waits_for_an_operator() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.action();
    lab.step("a", Event::Request(draft));
    lab.now_ms += 10_000_000;
    let resumed = lab.step("a", Event::Resume);
    assert!(resumed.execute.is_empty());
    let woken = lab.step("a", Event::Wake);
    assert!(woken.execute.is_empty(), "it is never repeated by itself");
    assert!(lab.set("a").in_doubt().is_some());
    let draft = lab.replace();
    let next = lab.step("a", Event::Request(draft));
    assert_eq!(next.answers, [Answer::NotHere(Reason::InDoubt)]);
    let settled = lab.step(
        "a",
        Event::Settle {
            executed: true,
            local: None,
        },
    );
    assert!(
        settled.sent.iter().any(|(to, _)| to == "b"),
        "now it is an operation of the set"
    );
}

#[test]
fn an_idempotent_write_in_doubt_is_repeated_when_the_application_must_be_done() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let began = lab.step("a", Event::Request(draft));
    let resumed = lab.step("a", Event::Resume);
    assert!(resumed.execute.is_empty(), "the application may still be at it");
    assert!(matches!(lab.set("a").job().unwrap().phase, Phase::Doubt { .. }));
    lab.now_ms += lab.tuning.settle_ms;
    let again = lab.step("a", Event::Wake);
    assert_eq!(again.execute[0].token, began.execute[0].token);
    let late = lab.step(
        "a",
        Event::Executed {
            ticket: began.execute[0].ticket,
            attempt: Attempt::Unknown,
        },
    );
    assert!(
        late.execute.is_empty(),
        "an answer to the earlier attempt no longer counts"
    );
    let done = lab.answer("a", &again, 200);
    assert!(done.answers.is_empty(), "nobody waits for it");
    assert!(!done.sent.is_empty());
}

#[test]
fn a_clock_far_ahead_is_quarantined_and_not_dropped() {
    let mut lab = Lab::created(&["a", "b"]);
    let early_ms = lab.now_ms;
    lab.now_ms += lab.tuning.ahead_max_ms * 3;
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let far_ms = lab.now_ms;
    lab.now_ms = early_ms;
    let (_, message) = asked.sent[0].clone();
    let received = lab.step("b", Event::Message(message));
    assert!(received.execute.is_empty());
    let entry = lab.set("b").log().next().unwrap();
    assert_eq!(entry.state, State::Waiting(Why::Quarantined));
    assert!(
        lab.sites["b"].0.clock().last().millis < far_ms,
        "it does not carry the clock away"
    );
    lab.now_ms = lab
        .set("b")
        .wake_at_ms(&name("b"), lab.tuning.ahead_max_ms)
        .unwrap()
        .max(far_ms - lab.tuning.ahead_max_ms);
    assert_eq!(lab.step("b", Event::Wake).execute.len(), 1);
}

#[test]
fn a_delete_supersedes_what_is_blocked() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    lab.answer("b", &received, 403);
    let draft = lab.draft(Verb::Delete, Footprint::Whole, Recognise::Nothing);
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    assert!(matches!(received.execute[0].form, Form::Delete { .. }));
    let waiting: Vec<_> = lab.set("b").log().map(|entry| &entry.op.verb).collect();
    assert_eq!(
        waiting,
        [&Verb::Delete],
        "the other one has its outcome, and is stable"
    );
}

#[test]
fn duplicates_are_known_after_pruning() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let copy = asked.sent[0].1.clone();
    lab.settle(asked);
    assert_eq!(lab.set("b").log().count(), 0);
    let again = lab.step("b", Event::Message(copy));
    assert!(again.execute.is_empty());
}

#[test]
fn state_survives_its_serialised_form() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    lab.write("a", draft);
    let text = serde_json::to_string(lab.set("a")).unwrap();
    assert_eq!(serde_json::from_str::<Set>(&text).unwrap(), *lab.set("a"));
}

#[test]
fn the_table_of_answers() {
    let op = |verb| Operation {
        id: OpId {
            author: cheops_replica::Author {
                site: name("a"),
                incarnation: 1,
                stay: 0,
            },
            seq: 1,
        },
        token: Token(1),
        time: cheops_types::Stamp::default(),
        after: cheops_replica::Vector::new(),
        epoch: 0,
        verb,
        touches: Footprint::Whole,
        recognise: Recognise::Nothing,
        needs: Vec::new(),
        request: Lab::new(&[]).replace().request,
        signature: Vec::new(),
    };
    let check = |statuses: &[u16], reading| {
        for status in statuses {
            assert_eq!(default_reading(&op(Verb::Replace), *status), reading, "{status}");
        }
    };
    check(&[200, 201, 204, 304], Reading::Done);
    check(&[400, 405, 410, 413, 415, 422], Reading::Refused);
    check(&[401], Reading::NeedsCredentials);
    check(&[403, 404], Reading::Blocked);
    check(&[408, 409, 423, 425, 429, 503], Reading::Retry);
    check(&[500, 502, 504], Reading::Unknown);
    assert_eq!(default_reading(&op(Verb::Delete), 404), Reading::Done);
}
