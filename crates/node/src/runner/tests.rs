mod callers;

use std::rc::Rc;

use bytes::Bytes;
use cheops_replica::{
    Attempt, Conditions, Execution, Form, Found, LocalId, MetaId, Recognise, Record, Request, Secret, Token,
};
use cheops_store::PayloadRef;
use cheops_types::{KeptBody, Outcome};

use super::*;
use crate::{
    caller::OnBehalf,
    lab::{self, FakeApplication, FakePeers, Lab, answer, failed, service, site},
    secret,
    waiting::CallerHeaders,
};

const TOKEN: Token = Token(0xabc);
const TOKEN_TEXT: &str = "00000000000000000000000000000abc";

fn record(of: &str, kind: &str, meta: &str) -> Record {
    Record {
        meta: MetaId::new(meta),
        service: service(of),
        kind: kind.to_owned(),
        parents: Vec::new(),
        name: None,
        span: None,
        consistency: cheops_types::Consistency::Eventual,
    }
}

fn request(method: &str, path: &str, body: &str) -> Request {
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: KeptBody::Inline(Bytes::copy_from_slice(body.as_bytes())),
        scope: "a & b".to_owned(),
        caller: None,
        shares: Vec::new(),
    }
}

fn execution(recognise: Recognise, form: Form) -> Execution {
    Execution {
        ticket: 1,
        token: TOKEN,
        recognise,
        renewal: None,
        form,
        conditions: None,
        credential: None,
        origin: Some(site("b")),
        source: None,
    }
}

fn reach(lab: &Lab, application: &Rc<FakeApplication>) -> Rc<Reach> {
    let peers = FakePeers::new(|_, _, _| Err(failed(Outcome::NotExecuted)));
    let (_, tasks) = mpsc::channel(1);
    let work = Work {
        core: Arc::clone(&lab.core),
        tasks,
    };
    let application: Rc<FakeApplication> = Rc::clone(application);
    Runner::new(work, application, peers).reach
}

fn credential(lab: &Lab, value: &'static str) -> Secret {
    let headers = lab::headers(&[("authorization", value)]);
    secret::seal(&lab.core.key, &*lab.core.surroundings, &headers).unwrap()
}

fn execute(lab: &Lab, application: &Rc<FakeApplication>, set: &Record, execution: Execution) -> Attempt {
    let reach = reach(lab, application);
    lab::run(
        reach
            .executor
            .execute(set, &[site("b")], &OnBehalf::default(), execution),
    )
    .unwrap()
    .attempt
}

fn answered(status: u16, local: Option<&str>) -> Attempt {
    Attempt::Answered {
        status,
        local: local.map(LocalId::new),
        said: None,
    }
}

#[test]
fn a_replayed_create_has_its_marker_its_credential_and_this_sites_references() {
    let lab = Lab::new("a");
    lab.know("B", "item", "4000000000000001", Some("5"), &["a", "b"]);
    let application = FakeApplication::answering([answer(201, &[("location", "/orders/42")], "")]);
    let create = Execution {
        credential: Some(credential(&lab, "Bearer x")),
        ..execution(
            Recognise::Marker,
            Form::Create {
                request: request("POST", "/orders", r#"{"item":4000000000000001,"n":1}"#),
            },
        )
    };
    let attempt = execute(
        &lab,
        &application,
        &record("A", "order", "4000000000000009"),
        create,
    );
    assert_eq!(attempt, answered(201, Some("42")));
    let seen = application.seen.borrow();
    assert_eq!(seen[0].service, "A");
    assert_eq!(seen[0].line, "POST /orders");
    let body: serde_json::Value = serde_json::from_str(&seen[0].body).unwrap();
    assert_eq!(body, serde_json::json!({"item": 5, "n": 1, "ref": TOKEN_TEXT}));
    assert_eq!(seen[0].header("authorization"), Some("Bearer x"));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[0].scope, "a & b");
}

#[test]
fn nothing_is_sent_while_a_reference_has_no_replica_here() {
    let lab = Lab::new("a");
    lab.know("B", "item", "4000000000000001", None, &["a", "b"]);
    let application = FakeApplication::answering([answer(201, &[("location", "/orders/42")], "")]);
    let create = Form::Create {
        request: request("POST", "/orders", r#"{"item":4000000000000001}"#),
    };
    let set = record("A", "order", "4000000000000009");
    let attempt = execute(&lab, &application, &set, execution(Recognise::Marker, create));
    assert_eq!(attempt, Attempt::NotSent);
    assert!(application.seen.borrow().is_empty());
}

#[test]
fn the_first_execution_is_the_callers_own_and_its_answer_waits_for_it() {
    let lab = Lab::new("a");
    let application = FakeApplication::answering([answer(200, &[("etag", "\"2\"")], r#"{"id":7}"#)]);
    let caller = CallerHeaders {
        headers: lab::headers(&[
            ("If-Match", "\"1\""),
            ("Authorization", "Bearer mine"),
            ("Content-Type", "application/json"),
            ("Content-Length", "3"),
            ("Host", "elsewhere"),
            ("Accept-Encoding", "gzip"),
        ]),
    };
    let conditions = Conditions {
        headers: vec![("if-match".to_owned(), b"\"1\"".to_vec())],
        body: Some(br#"{"id":0,"n":2,"version":1}"#.to_vec()),
    };
    let waiter = lab.core.waiting.register(TOKEN, caller);
    let put = || Form::Repeat {
        request: request("PUT", "/orders/{id}?dry=1", r#"{"id":0,"n":2}"#),
        local: LocalId::new("7"),
    };
    let set = record("A", "order", "4000000000000009");
    let conditional = || Execution {
        conditions: Some(conditions.clone()),
        ..execution(Recognise::Nothing, put())
    };
    let attempt = execute(&lab, &application, &set, conditional());
    assert_eq!(attempt, answered(200, None));
    {
        let seen = application.seen.borrow();
        assert_eq!(seen[0].line, "PUT /orders/7?dry=1");
        assert_eq!(seen[0].body, r#"{"id":7,"n":2,"version":1}"#);
        assert_eq!(seen[0].header("if-match"), Some("\"1\""));
        assert_eq!(seen[0].header("authorization"), Some("Bearer mine"));
        assert_eq!(seen[0].header("accept-encoding"), Some("identity"));
        assert_eq!(seen[0].header("content-length"), None);
        assert_eq!(seen[0].header("host"), None);
    }
    let told = waiter.take_answer().unwrap();
    assert_eq!((told.status, &told.body[..]), (200, &br#"{"id":7}"#[..]));
    assert_eq!(told.headers, lab::headers(&[("etag", "\"2\"")]));

    // Once more, after a doubt: what was recorded, and what its caller demanded.
    let application = FakeApplication::answering([answer(412, &[], "")]);
    execute(&lab, &application, &set, conditional());
    {
        let seen = application.seen.borrow();
        assert_eq!(seen[0].header("if-match"), Some("\"1\""));
        assert_eq!(seen[0].header("authorization"), None);
        assert_eq!(seen[0].body, r#"{"id":7,"n":2,"version":1}"#);
    }
    assert_eq!(waiter.take_answer(), None);

    // At another site, or to restore the order: what was recorded.
    let application = FakeApplication::answering([answer(200, &[], "")]);
    execute(&lab, &application, &set, execution(Recognise::Nothing, put()));
    let seen = application.seen.borrow();
    assert_eq!(seen[0].header("if-match"), None);
    assert_eq!(seen[0].body, r#"{"id":7,"n":2}"#);
}

#[test]
fn a_key_is_the_token_or_the_callers_own() {
    let lab = Lab::new("a");
    let set = record("B", "item", "4000000000000001");
    let mut own = request("POST", "/items", "{}");
    own.headers
        .push(("idempotency-key".to_owned(), "theirs".to_owned()));
    for (request, key) in [(request("POST", "/items", "{}"), TOKEN_TEXT), (own, "theirs")] {
        let application = FakeApplication::answering([answer(201, &[], r#"{"id":3}"#)]);
        let create = execution(Recognise::Key, Form::Create { request });
        assert_eq!(
            execute(&lab, &application, &set, create.clone()),
            answered(201, Some("3"))
        );
        assert_eq!(application.seen.borrow()[0].header("idempotency-key"), Some(key));
        // What the application remembers of that key counts no longer.
        let application = FakeApplication::answering([answer(201, &[], r#"{"id":3}"#)]);
        let renewal = Some(Token(7));
        execute(&lab, &application, &set, Execution { renewal, ..create });
        let renewed = format!("{key}-{:032x}", 7);
        let seen = application.seen.borrow();
        assert_eq!(seen[0].header("idempotency-key"), Some(renewed.as_str()));
    }
}

#[test]
fn a_settable_id_is_the_sets() {
    let lab = Lab::new("a");
    let set = record("B", "file", "0b7c9a52-0000-4000-8000-000000000001");
    let application = FakeApplication::answering([answer(201, &[], "")]);
    let create = Form::Create {
        request: request("POST", "/files", r#"{"name":"x"}"#),
    };
    let attempt = execute(&lab, &application, &set, execution(Recognise::ChosenId, create));
    assert_eq!(attempt, answered(201, Some(set.meta.as_str())));
    let seen = application.seen.borrow();
    let body: serde_json::Value = serde_json::from_str(&seen[0].body).unwrap();
    assert_eq!(body, serde_json::json!({"name": "x", "id": set.meta.as_str()}));
}

#[test]
fn what_has_data_beside_its_document_is_not_made_from_a_state() {
    let lab = Lab::new("a");
    let application = FakeApplication::answering([]);
    let create = Form::CreateFrom {
        state: br#"{"id":"f","name":"plan"}"#.to_vec(),
    };
    let execution = execution(Recognise::ChosenId, create);
    let attempt = execute(&lab, &application, &record("B", "file", "f"), execution);
    let Attempt::Answered {
        status: 422,
        local: None,
        said: Some(said),
    } = attempt
    else {
        panic!("{attempt:?}");
    };
    assert!(said.contains("`parts` in the glue"), "{said}");
    assert!(application.seen.borrow().is_empty());
}

#[test]
fn what_cannot_carry_its_marker_is_refused_and_told() {
    let lab = Lab::new("a");
    let application = FakeApplication::answering([answer(201, &[], "")]);
    let caller = CallerHeaders::default();
    let waiter = lab.core.waiting.register(TOKEN, caller);
    let create = Form::Create {
        request: request("POST", "/orders", "no json"),
    };
    let set = record("A", "order", "4000000000000009");
    let attempt = execute(&lab, &application, &set, execution(Recognise::Marker, create));
    assert!(matches!(
        attempt,
        Attempt::Answered {
            status: 415,
            said: Some(_),
            ..
        }
    ));
    assert!(application.seen.borrow().is_empty());
    let told = waiter.take_answer().unwrap();
    assert!(String::from_utf8_lossy(&told.body).contains("body_unsupported"));
}

#[test]
fn a_create_without_an_id_in_its_answer_is_in_doubt() {
    let lab = Lab::new("a");
    let application = FakeApplication::answering([answer(202, &[], "")]);
    let create = Form::Create {
        request: request("POST", "/orders", "{}"),
    };
    let set = record("A", "order", "4000000000000009");
    let attempt = execute(&lab, &application, &set, execution(Recognise::Marker, create));
    assert_eq!(attempt, Attempt::Unknown);
}

#[test]
fn failures_say_whether_something_happened() {
    let lab = Lab::new("a");
    let set = record("A", "order", "4000000000000009");
    for (outcome, expected) in [
        (Outcome::NotExecuted, Attempt::NotSent),
        (Outcome::Unknown, Attempt::Unknown),
    ] {
        let application = FakeApplication::answering([Err(failed(outcome))]);
        let delete = Form::Delete {
            request: None,
            local: LocalId::new("7"),
        };
        let attempt = execute(&lab, &application, &set, execution(Recognise::Nothing, delete));
        assert_eq!(attempt, expected);
        assert_eq!(application.seen.borrow()[0].line, "DELETE /orders/7");
    }
}

#[test]
fn a_delete_is_the_recorded_one_where_there_is_one() {
    let lab = Lab::new("a");
    let set = record("A", "order", "4000000000000009");
    let application = FakeApplication::answering([answer(204, &[], "")]);
    let delete = Form::Delete {
        request: Some(request("DELETE", "/orders/{id}?force=true", "")),
        local: LocalId::new("7"),
    };
    execute(&lab, &application, &set, execution(Recognise::Nothing, delete));
    let seen = application.seen.borrow();
    assert_eq!(seen[0].line, "DELETE /orders/7?force=true");
    assert_eq!(seen[0].scope, "a & b");
}

#[test]
fn state_travels_from_one_replica_to_another() {
    let (here, there) = (Lab::new("a"), Lab::new("b"));
    here.know("B", "item", "4000000000000001", Some("5"), &["a", "b"]);
    there.know("B", "item", "4000000000000001", Some("88"), &["a", "b"]);
    let set = record("A", "order", "4000000000000009");

    let application = FakeApplication::answering([answer(200, &[], r#"{"id":7,"item":5,"n":1,"ref":"x"}"#)]);
    let read = reach(&here, &application);
    let stand_in = OnBehalf {
        credential: Some(credential(&here, "Bearer old")),
        ..OnBehalf::default()
    };
    let Replica::Here(state, digest) = lab::run(read.executor.read(&set, &LocalId::new("7"), &stand_in))
    else {
        panic!("the replica is there");
    };
    assert_eq!(application.seen.borrow()[0].line, "GET /orders/7");
    assert_eq!(
        application.seen.borrow()[0].header("authorization"),
        Some("Bearer old")
    );

    // As a new replica.
    let application = FakeApplication::answering([answer(201, &[], r#"{"id":70}"#)]);
    let create = Form::CreateFrom { state: state.clone() };
    let attempt = execute(&there, &application, &set, execution(Recognise::Marker, create));
    assert_eq!(attempt, answered(201, Some("70")));
    {
        let seen = application.seen.borrow();
        assert_eq!(seen[0].line, "POST /orders");
        let body: serde_json::Value = serde_json::from_str(&seen[0].body).unwrap();
        assert_eq!(body, serde_json::json!({"item": 88, "n": 1, "ref": TOKEN_TEXT}));
    }

    // Over one that is there.
    let current = r#"{"id":70,"item":88,"n":3,"ref":"y"}"#;
    let application = FakeApplication::answering([answer(200, &[], current), answer(200, &[], "")]);
    let overwrite = Form::Overwrite {
        state,
        local: LocalId::new("70"),
    };
    let attempt = execute(
        &there,
        &application,
        &set,
        execution(Recognise::Nothing, overwrite),
    );
    assert_eq!(attempt, answered(200, None));
    let body = {
        let seen = application.seen.borrow();
        assert_eq!(seen[1].line, "PUT /orders/70");
        seen[1].body.clone()
    };
    let parsed: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(parsed["item"], 88);
    assert_eq!(parsed["n"], 1);

    // Then both compare equal, though every id differs.
    let application = FakeApplication::answering([answer(200, &[], &body)]);
    let again = reach(&there, &application);
    let Replica::Here(_, same) = lab::run(again.executor.read(
        &set,
        &LocalId::new("70"),
        &OnBehalf::default(),
    )) else {
        panic!("the replica is there");
    };
    assert_eq!(same, digest);
}

#[test]
fn what_cannot_be_read_is_nothing() {
    let lab = Lab::new("a");
    let set = record("A", "order", "4000000000000009");
    for answer in [
        answer(404, &[], "{}"),
        answer(401, &[], "{}"),
        answer(500, &[], "{}"),
        answer(200, &[], "no json"),
        Err(failed(Outcome::Unknown)),
    ] {
        let application = FakeApplication::answering([answer]);
        let reach = reach(&lab, &application);
        let read = lab::run(
            reach
                .executor
                .read(&set, &LocalId::new("7"), &OnBehalf::default()),
        );
        assert_eq!(read, Replica::Unknown);
    }
}

#[test]
fn a_replica_that_its_application_does_not_have_is_missing() {
    let lab = Lab::new("a");
    let set = record("A", "order", "4000000000000009");
    let application = FakeApplication::answering([answer(410, &[], "{}")]);
    let reach = reach(&lab, &application);
    let read = lab::run(
        reach
            .executor
            .read(&set, &LocalId::new("7"), &OnBehalf::default()),
    );
    assert_eq!(read, Replica::Missing);
}

#[test]
fn an_overwrite_of_nothing_says_so_and_one_of_the_unreadable_waits() {
    let lab = Lab::new("a");
    let set = record("A", "order", "4000000000000009");
    for (status, expected) in [(404, answered(404, None)), (500, Attempt::NotSent)] {
        let application = FakeApplication::answering([answer(status, &[], "")]);
        let overwrite = Form::Overwrite {
            state: b"{}".to_vec(),
            local: LocalId::new("7"),
        };
        let attempt = execute(&lab, &application, &set, execution(Recognise::Nothing, overwrite));
        assert_eq!(attempt, expected);
        assert_eq!(application.seen.borrow().len(), 1);
    }
}

#[test]
fn a_marker_is_searched_through_all_pages() {
    let lab = Lab::new("a");
    let set = record("A", "order", "4000000000000009");
    let look = |pages: Vec<lab::Answer>| {
        let application = FakeApplication::answering(pages);
        let reach = reach(&lab, &application);
        let found = lab::run(reach.executor.look(&set, &OnBehalf::default(), TOKEN));
        let lines: Vec<_> = application
            .seen
            .borrow()
            .iter()
            .map(|seen| seen.line.clone())
            .collect();
        (found, lines)
    };
    let page = |items: &str, next: &str| answer(200, &[], &format!(r#"{{"items":[{items}],"next":{next}}}"#));
    let other = r#"{"id":1,"ref":"x"}"#;
    let own = format!(r#"{{"id":42,"ref":"{TOKEN_TEXT}"}}"#);

    let (found, lines) = look(vec![page(other, r#""p2""#), page(&own, "null")]);
    assert_eq!(found, Found::Here(LocalId::new("42")));
    assert_eq!(lines[0], format!("GET /orders?ref={TOKEN_TEXT}"));
    assert_eq!(lines[1], format!("GET /orders?ref={TOKEN_TEXT}&page_token=p2"));

    let (found, _) = look(vec![page(other, "null")]);
    assert_eq!(found, Found::Nowhere);
    // An error on the way is not an absence.
    let (found, _) = look(vec![page(other, r#""p2""#), answer(503, &[], "")]);
    assert_eq!(found, Found::Unknown);
}

#[test]
fn a_spooled_body_is_streamed_as_it_came() {
    let lab = Lab::new("a");
    let content = vec![b'x'; 700_000];
    let payload: PayloadRef = lab.spool("m", &content);
    let set = record("B", "file", "m");
    let application = FakeApplication::answering([answer(204, &[], "")]);
    let mut put = request("PUT", "/files/{id}/data", "");
    put.body = KeptBody::Spooled {
        hash: payload.hash.into(),
        bytes: payload.bytes,
    };
    put.headers = vec![("content-type".to_owned(), "application/octet-stream".to_owned())];
    let repeat = Form::Repeat {
        request: put,
        local: LocalId::new("m"),
    };
    let attempt = execute(&lab, &application, &set, execution(Recognise::Nothing, repeat));
    assert_eq!(attempt, answered(204, None));
    let seen = application.seen.borrow();
    assert_eq!(seen[0].line, "PUT /files/m/data");
    assert!(seen[0].body.as_bytes() == content);
}

#[test]
fn a_long_answer_is_not_kept() {
    let lab = Lab::with("a", None, |limits| limits.replicated_answer_max_bytes = 10);
    let application = FakeApplication::answering([answer(200, &[], "12345678901")]);
    let waiter = lab.core.waiting.register(TOKEN, CallerHeaders::default());
    let put = Form::Repeat {
        request: request("PUT", "/orders/{id}", "{}"),
        local: LocalId::new("7"),
    };
    let set = record("A", "order", "4000000000000009");
    execute(&lab, &application, &set, execution(Recognise::Nothing, put));
    let told = waiter.take_answer().unwrap();
    assert_eq!((told.status, told.body.len()), (200, 0));
}

#[test]
fn secrets_are_never_printed() {
    let lab = Lab::new("a");
    let open = Secret(b"hunter2".to_vec());
    let sealed = credential(&lab, "hunter2");
    assert!(!sealed.0.windows(7).any(|part| part == b"hunter2"));
    let call = crate::task::Call {
        set: record("A", "order", "m").into(),
        others: vec![site("b")],
        stand_in: OnBehalf {
            credential: Some(open.clone()),
            ..OnBehalf::default()
        },
        what: What::Execute(Execution {
            conditions: Some(Conditions {
                headers: vec![("if-match".to_owned(), b"hunter2".to_vec())],
                body: Some(b"hunter2".to_vec()),
            }),
            credential: Some(open),
            ..execution(
                Recognise::Nothing,
                Form::Delete {
                    request: Some(request("DELETE", "/orders/{id}", "hunter2")),
                    local: LocalId::new("7"),
                },
            )
        }),
    };
    let caller = CallerHeaders {
        headers: lab::headers(&[("authorization", "hunter2")]),
    };
    let answer = crate::waiting::AppAnswer {
        status: 200,
        headers: caller.headers.clone(),
        body: Bytes::from_static(b"hunter2"),
    };
    let shown = format!(
        "{:?} {caller:?} {answer:?} {:?}",
        Task::Call(Box::new(call)),
        lab.core
    );
    // As text or as the numbers of its letters.
    assert!(
        !shown.contains("hunter2") && !shown.contains("104, 117, 110"),
        "{shown}"
    );
}

#[test]
fn what_is_none_of_an_operations_business_is_not_sent() {
    let lab = Lab::new("a");
    let application = || FakeApplication::answering([answer(200, &[], "{}")]);
    let item = record("B", "item", "m1");
    let local = || LocalId::new("7");
    let repeat = |method: &str, path: &str| Form::Repeat {
        request: request(method, path, "{}"),
        local: local(),
    };
    let delete = |method: &str, path: &str| Form::Delete {
        request: Some(request(method, path, "")),
        local: local(),
    };
    let create = |method: &str, path: &str| Form::Create {
        request: request(method, path, "{}"),
    };
    for form in [
        repeat("DELETE", "/admin/users/42"),
        repeat("DELETE", "/items/{id}"),
        repeat("GET", "/items/{id}"),
        repeat("PUT", "/items/8"),
        repeat("PUT", "/items"),
        repeat("PUT", "/items/{id}/../8"),
        repeat("PUT", "/orders/{id}"),
        delete("DELETE", "/items/8"),
        delete("PUT", "/items/{id}"),
        delete("DELETE", "/admin/users/42"),
        create("POST", "/admin/users"),
        create("DELETE", "/items"),
        create("POST", "/items/8"),
        create("POST", "/x/../items"),
    ] {
        let what = format!("{form:?}");
        let application = application();
        let attempt = execute(&lab, &application, &item, execution(Recognise::Nothing, form));
        let Attempt::Answered {
            status: 422, said, ..
        } = attempt
        else {
            panic!("{what}: {attempt:?}");
        };
        assert!(said.unwrap().contains("this site does not execute it"), "{what}");
        assert!(application.seen.borrow().is_empty(), "{what}");
    }
    for form in [
        repeat("PUT", "/items/{id}"),
        repeat("PATCH", "/items/{id}"),
        delete("DELETE", "/items/{id}"),
    ] {
        let application = application();
        let attempt = execute(&lab, &application, &item, execution(Recognise::Nothing, form));
        assert!(
            matches!(attempt, Attempt::Answered { status: 200, .. }),
            "{attempt:?}"
        );
        assert_eq!(application.seen.borrow().len(), 1);
    }
}

/// The body of an answer that never ends.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = cheops_net::BoxError;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[test]
fn a_site_whose_answer_does_not_end_holds_up_nobody() {
    let lab = Lab::with("a", None, |limits| limits.peer_timeout_ms = 20);
    let peers = FakePeers::new(|_, _, _| Ok(http::Response::new(cheops_net::Body::other(Endless))));
    let (_, tasks) = mpsc::channel(1);
    let work = Work {
        core: Arc::clone(&lab.core),
        tasks,
    };
    let reach = Runner::new(work, FakeApplication::answering([]), peers).reach;
    let (sender, answer) = tokio::sync::oneshot::channel();
    let ask = crate::asks::Ask::Peer {
        site: site("b"),
        path: "/".to_owned(),
        body: Bytes::new(),
        answer: sender,
    };
    let asked = async {
        asks::answer(reach, ask).await;
        answer.await.unwrap()
    };
    let within = async { tokio::time::timeout(std::time::Duration::from_secs(20), asked).await };
    let problem = lab::run(within).unwrap().unwrap_err();
    assert_eq!(problem.code, cheops_types::Code::PeerTimeout);
}
