use cheops_replica::{Report, Vector};

use super::*;
use crate::lab::site;

const MAX: usize = 100;

fn receive(content: Content) -> Input {
    let message = Message {
        set: MetaId::new("m"),
        from: site("b"),
        incarnation: 0,
        epoch: 0,
        now_ms: 0,
        report: Report {
            incarnation: 1,
            age: cheops_replica::Age::default(),
            stay: 0,
            held: Vector::default(),
            done: Vector::default(),
            local: None,
            degraded: None,
            left: false,
            ask: true,
            waits: Vec::new(),
            bare: Vec::new(),
        },
        content,
    };
    Input::Receive {
        messages: vec![message],
        done: oneshot::channel().0,
    }
}

fn post(handle: &EngineHandle, input: Input) {
    assert!(handle.post(input).is_ok());
}

fn taken(next: Next) -> usize {
    match next {
        Next::Inputs(inputs) => inputs.len(),
        Next::Idle | Next::Stop => 0,
    }
}

#[test]
fn reports_wait_for_company_but_not_for_long() {
    let (handle, inbox) = EngineHandle::new(site("a"), 10);
    let begin = Instant::now();
    post(&handle, receive(Content::Report));
    post(&handle, receive(Content::Report));
    assert_eq!(taken(inbox.take(None, MAX)), 2);
    assert!(begin.elapsed() >= REPORTS_WAIT);
}

#[test]
fn reports_go_along_with_anything_else() {
    let (handle, inbox) = EngineHandle::new(site("a"), 10);
    post(&handle, receive(Content::Report));
    post(&handle, receive(Content::Operations(Vec::new())));
    post(&handle, receive(Content::Report));
    assert!(!inbox.lock().is_idle());
    assert_eq!(taken(inbox.take(None, MAX)), 3);
}

#[test]
fn what_a_full_batch_leaves_is_next_at_once() {
    let (handle, inbox) = EngineHandle::new(site("a"), 10);
    for _ in 0..3 {
        post(&handle, receive(Content::Report));
    }
    assert_eq!(taken(inbox.take(None, 2)), 2);
    assert!(!inbox.lock().is_idle());
    assert_eq!(taken(inbox.take(None, 2)), 1);
}

#[test]
fn an_engine_that_has_something_else_to_do_takes_reports_along() {
    let (handle, inbox) = EngineHandle::new(site("a"), 10);
    post(&handle, receive(Content::Report));
    assert_eq!(taken(inbox.take(Some(Duration::ZERO), MAX)), 1);
}

#[test]
fn the_end_does_not_wait() {
    let (handle, inbox) = EngineHandle::new(site("a"), 10);
    post(&handle, receive(Content::Report));
    handle.close();
    assert!(!inbox.lock().is_idle());
    assert_eq!(taken(inbox.take(None, MAX)), 1);
    assert!(matches!(inbox.take(None, MAX), Next::Stop));
}
