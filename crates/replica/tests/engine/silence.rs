//! Executions that get no answer, again and again.

use cheops_replica::{Answer, Attempt, Event, Execution, State, Why};

use crate::lab::{Asked, Lab};

/// The application of `at` dies of whatever it is asked, until nobody asks any more. How often that was.
fn dies(lab: &mut Lab, at: &str, first: Asked) -> (usize, Asked) {
    let mut asked = first;
    let mut times = 0;
    for _ in 0..50 {
        let Some(Execution { ticket, .. }) = asked.execute.first() else {
            lab.now_ms += lab.tuning.settle_ms;
            asked = lab.step(at, Event::Wake);
            continue;
        };
        times += 1;
        let (ticket, settle_ms) = (*ticket, 10);
        asked = lab.step(at, Event::Broken { ticket, settle_ms });
        if !asked.answers.is_empty() && times > 1 {
            return (times, asked);
        }
        lab.now_ms += 10;
        if asked.execute.is_empty() {
            asked = lab.step(at, Event::Wake);
        }
    }
    (times, asked)
}

fn shipped(lab: &mut Lab) -> Asked {
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    lab.step("b", Event::Message(asked.sent[0].1.clone()))
}

fn why(lab: &Lab) -> State {
    lab.set("b").log().last().unwrap().state
}

#[test]
fn what_ends_the_application_is_not_sent_for_ever() {
    let mut lab = Lab::created(&["a", "b"]);
    let asked = shipped(&mut lab);
    let (times, _) = dies(&mut lab, "b", asked);
    assert_eq!(times, lab.tuning.execution_tries_max);
    assert_eq!(why(&lab), State::Waiting(Why::SPENT));
    assert!(lab.set("b").job().is_none());
    let said = lab.set("b").waits()[0].said.clone();
    assert_eq!(said.unwrap(), "it was sent 5 times and got no answer");
    // Later writes go on.
    let draft = lab.replace();
    let asked = lab.write("b", draft);
    assert!(matches!(asked.answers[..], [Answer::Accepted { .. }]));
}

#[test]
fn an_operator_has_it_tried_again_or_gives_it_up() {
    let mut lab = Lab::created(&["a", "b"]);
    let asked = shipped(&mut lab);
    dies(&mut lab, "b", asked);
    let asked = lab.step("b", Event::Retry);
    let (times, _) = dies(&mut lab, "b", asked);
    assert_eq!(times, lab.tuning.execution_tries_max, "as often as before");
    let operation = lab.set("b").log().last().unwrap().op.id.clone();
    lab.step("b", Event::Abandon { operation });
    assert!(lab.set("b").degraded().is_some());
    assert_eq!(lab.set("b").done(), lab.set("b").held());
}

#[test]
fn an_application_that_cannot_be_reached_is_asked_for_ever() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut asked = shipped(&mut lab);
    for _ in 0..4 * lab.tuning.execution_tries_max {
        let (ticket, attempt) = (asked.execute[0].ticket, Attempt::NotSent);
        lab.step("b", Event::Executed { ticket, attempt });
        lab.now_ms += lab.tuning.retry_max_ms;
        asked = lab.step("b", Event::Wake);
    }
    assert!(!asked.execute.is_empty());
}

#[test]
fn silence_counts_also_where_the_application_is_down_in_between() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut asked = shipped(&mut lab);
    let mut sent = 0;
    for _ in 0..50 {
        let Some(Execution { ticket, .. }) = asked.execute.first() else {
            break;
        };
        sent += 1;
        let ticket = *ticket;
        lab.step(
            "b",
            Event::Broken {
                ticket,
                settle_ms: 10,
            },
        );
        lab.now_ms += 10;
        let again = lab.step("b", Event::Wake);
        let Some(Execution { ticket, .. }) = again.execute.first() else {
            break;
        };
        let (ticket, attempt) = (*ticket, Attempt::NotSent);
        lab.step("b", Event::Executed { ticket, attempt });
        lab.now_ms += lab.tuning.retry_max_ms;
        asked = lab.step("b", Event::Wake);
    }
    assert_eq!(sent, lab.tuning.execution_tries_max);
    assert_eq!(why(&lab), State::Waiting(Why::SPENT));
}

#[test]
fn a_write_that_ends_its_application_is_unknown_and_holds_up_nothing() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    let asked = lab.step("b", Event::Request(draft));
    let ticket = asked.execute[0].ticket;
    let told = lab.step(
        "b",
        Event::Broken {
            ticket,
            settle_ms: 10,
        },
    );
    assert_eq!(told.answers, [Answer::Unknown { status: None }]);
    lab.now_ms += 10;
    let asked = lab.step("b", Event::Wake);
    let (times, _) = dies(&mut lab, "b", asked);
    assert_eq!(times + 1, lab.tuning.execution_tries_max);
    lab.now_ms += 10 * lab.tuning.settle_ms;
    let draft = lab.replace();
    let asked = lab.step("b", Event::Request(draft));
    for ticket in asked.read {
        lab.step("b", Event::Read { ticket, state: None });
    }
    assert!(
        matches!(
            lab.set("b").job().map(|job| job.phase),
            Some(cheops_replica::Phase::Running)
        ),
        "the next one has its turn"
    );
}
