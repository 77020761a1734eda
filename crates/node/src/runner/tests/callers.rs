//! In whose name the application is asked.

use std::collections::HashMap;

use cheops_plan::Target;
use cheops_ports::{Prefer, Write};
use cheops_types::KeptBody;

use super::*;
use crate::{caller, lab::Seen, rows::Vouched, surroundings::Access};

const GLUE: &str = r#"
application = "shop"

[services.A]
error-message = "/message"

[services.A.caller]
verify = { request = "POST /reviews", from = "Authorization", scheme = "Bearer", body = '{"token":"{credential}"}', valid = "/ok", user = "/user", groups = "/groups" }
impersonate = { user = "Act-User", group = "Act-Group", implied-groups = ["sys:all"] }
privileged = ["sys:"]
certificate = { user = "X-Remote-User", group = "X-Remote-Group", strip = ["X-Remote-"] }

[[services.A.resources]]
kind = "order"
collection = "/orders"

[[services.B.resources]]
kind = "item"
collection = "/items"

[services.C.stand-in]
obtain = { request = "POST /tokens", token = "X-Token", expires = "/ends" }
beside = "X-Service-Token"
"#;

fn access(credential: Option<&str>, vouch: &[&str]) -> Access {
    Access {
        credential: credential.map(|text| text.as_bytes().into()),
        vouch: vouch.iter().map(|&name| name.to_owned()).collect(),
        ..Access::default()
    }
}

fn shop(of: &str, access: Access) -> Lab {
    Lab::with_glue("a", GLUE, HashMap::from([(of.to_owned(), access)]))
}

fn caller(user: &str, groups: &[&str]) -> cheops_types::Caller {
    cheops_types::Caller {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
    }
}

/// A replace that site `by` accepted from somebody.
fn replace(by: &str, caller: cheops_types::Caller, credential: Option<Secret>) -> Execution {
    let mut request = request("PUT", "/orders/{id}", "{}");
    request.caller = Some(caller);
    Execution {
        credential,
        origin: Some(site(by)),
        ..execution(
            Recognise::Nothing,
            Form::Repeat {
                request,
                local: LocalId::new("7"),
            },
        )
    }
}

fn said(status: u16, text: &str) -> Attempt {
    Attempt::Answered {
        status,
        local: None,
        said: Some(text.to_owned()),
    }
}

/// What the application saw of the headers that say who asks.
fn spoken(seen: &Seen) -> Vec<(&str, &str)> {
    let names = [
        "authorization",
        "act-user",
        "act-group",
        "x-remote-user",
        "x-service-token",
    ];
    let headers = seen.headers.iter();
    let told = headers.filter(|(name, _)| names.contains(&name.as_str()));
    told.map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn order() -> Record {
    record("A", "order", "4000000000000009")
}

#[test]
fn a_replay_speaks_in_its_callers_name() {
    let lab = shop("A", access(Some("site-token\n"), &[]));
    let application = FakeApplication::answering([answer(200, &[], "{}")]);
    let sealed = Some(credential(&lab, "Bearer ended"));
    let replay = replace("b", caller("ann", &["dev", "sys:all"]), sealed);
    assert_eq!(execute(&lab, &application, &order(), replay), answered(200, None));
    let expected = [
        ("authorization", "Bearer site-token"),
        ("act-user", "ann"),
        ("act-group", "dev"),
        ("act-group", "sys:all"),
    ];
    assert_eq!(spoken(&application.seen.borrow()[0]), expected);
}

#[test]
fn without_a_credential_of_the_site_the_callers_own_goes() {
    let lab = shop("A", Access::default());
    let application = FakeApplication::answering([answer(401, &[], r#"{"message":"no"}"#)]);
    let sealed = Some(credential(&lab, "Bearer own"));
    let attempt = execute(
        &lab,
        &application,
        &order(),
        replace("b", caller("ann", &[]), sealed),
    );
    let why =
        "this site has no credential of its own to speak for `ann`: set `credential` in [services.A] (no)";
    assert_eq!(attempt, said(401, why));
    assert_eq!(
        spoken(&application.seen.borrow()[0]),
        [("authorization", "Bearer own")]
    );
}

#[test]
fn privileges_are_spoken_for_only_where_they_are_named() {
    let master = || caller("ann", &["sys:masters"]);
    let ask = |vouch: &[&str], by: &str, sealed: Option<&'static str>| {
        let lab = shop("A", access(Some("site-token"), vouch));
        let application = FakeApplication::answering([answer(200, &[], "{}")]);
        let sealed = sealed.map(|value| credential(&lab, value));
        let attempt = execute(&lab, &application, &order(), replace(by, master(), sealed));
        let seen = application.seen.borrow().first().cloned();
        let user = seen
            .as_ref()
            .and_then(|seen| seen.header("act-user").map(str::to_owned));
        (attempt, seen.is_some(), user)
    };
    let in_name = (answered(200, None), true, Some("ann".to_owned()));
    assert_eq!(ask(&["sys:masters"], "b", None), in_name);
    assert_eq!(ask(&["sys:m*"], "b", None), in_name);
    // This site has verified the caller itself.
    assert_eq!(ask(&[], "a", None), in_name);
    let with_own = (answered(200, None), true, None);
    assert_eq!(ask(&["sys:other"], "b", Some("Bearer own")), with_own);
    let why = "`sys:masters` is privileged, and site `b` may not vouch for it here: add it to `vouch` in [services.A]";
    assert_eq!(ask(&[], "b", None), (said(401, why), false, None));
    let (attempt, was_sent, _) = ask(&["sys:masters"], "c", None);
    let why = "site `c` may not vouch for `ann` here: see `vouch` in [sites.c]";
    assert_eq!((attempt, was_sent), (said(401, why), false));
}

#[test]
fn what_an_operator_brings_is_used() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let application = FakeApplication::answering([answer(200, &[], "{}")]);
    let headers = lab::headers(&[("authorization", "Bearer mine")]);
    let supplied = secret::seal_supplied(&lab.core.key, &*lab.core.surroundings, &headers).unwrap();
    execute(
        &lab,
        &application,
        &order(),
        replace("b", caller("ann", &[]), Some(supplied)),
    );
    assert_eq!(
        spoken(&application.seen.borrow()[0]),
        [("authorization", "Bearer mine")]
    );
}

#[test]
fn another_site_does_not_say_who_asks() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let headers = lab::headers(&[("authorization", "Bearer own"), ("x-remote-user", "sys:root")]);
    let sealed = secret::seal(&lab.core.key, &*lab.core.surroundings, &headers).unwrap();
    let mut replay = replace("b", caller("sys:root", &[]), Some(sealed));
    if let Form::Repeat { request, .. } = &mut replay.form {
        for name in ["act-group", "x-remote-group", "cookie"] {
            request.headers.push((name.to_owned(), "sys:masters".to_owned()));
        }
    }
    let application = FakeApplication::answering([answer(200, &[], "{}")]);
    execute(&lab, &application, &order(), replay);
    let seen = application.seen.borrow();
    assert_eq!(spoken(&seen[0]), [("authorization", "Bearer own")]);
    assert_eq!(
        (seen[0].header("x-remote-group"), seen[0].header("cookie")),
        (None, None)
    );
}

#[test]
fn reads_are_made_in_the_name_of_whoever_wrote_last() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let application = FakeApplication::answering([answer(404, &[], "{}")]);
    let reach = reach(&lab, &application);
    let last = OnBehalf {
        caller: Some(Vouched {
            by: site("b"),
            caller: caller("ann", &[]),
        }),
        ..OnBehalf::default()
    };
    let read = lab::run(reach.executor.read(&order(), &LocalId::new("7"), &last));
    assert_eq!(read, Replica::Missing);
    let expected = [("authorization", "Bearer site-token"), ("act-user", "ann")];
    assert_eq!(spoken(&application.seen.borrow()[0]), expected);
}

/// The state of the replica of `from`, where `ann` wrote last, through this very site.
fn state_of(lab: &Lab, from: &str, user: &str, brought: Option<Secret>) -> (Attempt, Vec<(String, String)>) {
    let state = Form::CreateFrom {
        state: b"{}".to_vec(),
    };
    let execution = Execution {
        origin: None,
        source: Some(site(from)),
        credential: brought,
        ..execution(Recognise::Nothing, state)
    };
    let stand_in = OnBehalf {
        caller: Some(Vouched {
            by: site("a"),
            caller: caller(user, &[]),
        }),
        credential: Some(credential(lab, "Bearer of-ann")),
        ..OnBehalf::default()
    };
    let application = FakeApplication::answering([answer(201, &[("location", "/orders/8")], "{}")]);
    let reach = reach(lab, &application);
    let attempt = lab::run(
        reach
            .executor
            .execute(&order(), &[site(from)], &stand_in, execution),
    )
    .unwrap()
    .attempt;
    let seen = application.seen.borrow();
    let spoken = seen.first().map(spoken).unwrap_or_default();
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    (attempt, spoken.into_iter().map(owned).collect())
}

#[test]
fn a_state_speaks_for_those_alone_whom_its_source_may_vouch_for() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let (attempt, spoken) = state_of(&lab, "b", "ann", None);
    assert_eq!(attempt, answered(201, Some("8")));
    assert_eq!(
        spoken,
        [
            pair("authorization", "Bearer site-token"),
            pair("act-user", "ann")
        ]
    );
    // `c` may vouch for nobody: neither the site's credential nor one that somebody else has left is used.
    let (attempt, spoken) = state_of(&lab, "c", "ann", None);
    assert!(
        matches!(
            attempt,
            Attempt::Answered {
                status: 401,
                said: Some(_),
                ..
            }
        ),
        "{attempt:?}"
    );
    assert_eq!(spoken, []);
    let (attempt, spoken) = state_of(&lab, "c", "ann", Some(credential(&lab, "Bearer brought")));
    assert_eq!(attempt, answered(201, Some("8")));
    assert_eq!(spoken, [pair("authorization", "Bearer brought")]);
    // A name that is privileged here is not one by the word of `b`.
    let (attempt, spoken) = state_of(&lab, "b", "sys:root", None);
    assert!(
        matches!(attempt, Attempt::Answered { status: 401, .. }),
        "{attempt:?}"
    );
    assert_eq!(spoken, []);
}

#[test]
fn a_refusal_is_kept_in_the_applications_words() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let application = FakeApplication::answering([answer(403, &[], r#"{"message":"ann may not"}"#)]);
    let attempt = execute(
        &lab,
        &application,
        &order(),
        replace("b", caller("ann", &[]), None),
    );
    assert_eq!(attempt, said(403, "ann may not"));
}

#[test]
fn a_token_of_the_site_goes_beside_the_callers_until_it_ends() {
    let lab = shop("C", access(Some(r#"{"name":"cheops"}"#), &[]));
    let far = r#"{"ends":"2100-01-01T00:00:00Z"}"#;
    let application = FakeApplication::answering([
        answer(201, &[("x-token", "t1")], far),
        answer(200, &[], "{}"),
        answer(401, &[], "{}"),
        // After a refusal it is got anew.
        answer(201, &[("x-token", "t2")], r#"{"ends":"1999-01-01T00:00:00Z"}"#),
        answer(200, &[], "{}"),
        // One that has ended too; and without one the caller's goes alone.
        answer(500, &[], ""),
        answer(200, &[], "{}"),
    ]);
    let reach = reach(&lab, &application);
    let replay = || {
        let put = Form::Repeat {
            request: request("PUT", "/items/{id}", "{}"),
            local: LocalId::new("7"),
        };
        Execution {
            credential: Some(credential(&lab, "Bearer user")),
            ..execution(Recognise::Nothing, put)
        }
    };
    let item = record("B", "item", "m");
    lab::run(async {
        for _ in 0..4 {
            let _ = reach
                .executor
                .execute(&item, &[], &OnBehalf::default(), replay())
                .await;
        }
    });
    let seen = application.seen.borrow();
    let lines: Vec<_> = seen
        .iter()
        .map(|seen| (seen.line.as_str(), seen.header("x-service-token")))
        .collect();
    let expected = [
        ("POST /tokens", None),
        ("PUT /items/7", Some("t1")),
        ("PUT /items/7", Some("t1")),
        ("POST /tokens", None),
        ("PUT /items/7", Some("t2")),
        ("POST /tokens", None),
        ("PUT /items/7", None),
    ];
    assert_eq!(lines, expected);
    assert_eq!((&*seen[0].service, &*seen[0].body), ("C", r#"{"name":"cheops"}"#));
    assert_eq!(seen[1].header("authorization"), Some("Bearer user"));
}

fn write(headers: &[(&str, &'static str)]) -> Write {
    let mut request = http::Request::put("/orders/7").body(KeptBody::EMPTY).unwrap();
    *request.headers_mut() = lab::headers(headers);
    Write {
        service: service("A"),
        kind: "order".to_owned(),
        request,
        scope: String::new(),
        target: Target::set("m".into()),
        prefer: Prefer::default(),
        from: None,
    }
}

/// Who a write is by, with an application that answers like this.
fn verified(lab: &Lab, answers: Vec<lab::Answer>, writes: &[Write]) -> (Vec<Option<String>>, Vec<Seen>) {
    let application = FakeApplication::answering(answers);
    let peers = FakePeers::new(|_, _, _| Err(failed(Outcome::NotExecuted)));
    let (_tasks, tasks) = mpsc::channel(1);
    let work = Work {
        core: Arc::clone(&lab.core),
        tasks,
    };
    let runner = Runner::new(work, Rc::clone(&application) as Rc<_>, peers);
    let found = lab::run(async {
        tokio::task::spawn_local(runner.run());
        let mut found = Vec::new();
        for write in writes {
            let caller = caller::verified(&lab.core, write).await;
            found.push(caller.map(|caller| caller.to_string()));
        }
        found
    });
    let seen = application.seen.borrow().clone();
    (found, seen)
}

#[test]
fn a_caller_is_verified_once_for_a_while() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let ann = || write(&[("Authorization", "Bearer a\"b")]);
    let review = answer(200, &[], r#"{"ok":true,"user":"ann","groups":["dev"]}"#);
    let (found, seen) = verified(&lab, vec![review], &[ann(), ann()]);
    assert_eq!(
        found,
        [Some("ann (dev)".to_owned()), Some("ann (dev)".to_owned())]
    );
    assert_eq!(seen.len(), 1, "the second time it is known");
    assert_eq!(seen[0].line, "POST /reviews");
    assert_eq!(seen[0].body, r#"{"token":"a\"b"}"#);
    assert_eq!(seen[0].header("authorization"), Some("Bearer site-token"));
}

#[test]
fn whoever_cannot_be_verified_goes_by_the_credential() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let ann = || write(&[("authorization", "Bearer x")]);
    let answers = vec![
        answer(200, &[], r#"{"ok":false}"#),
        answer(403, &[], "{}"),
        Err(failed(Outcome::NotExecuted)),
    ];
    let nobody = write(&[("authorization", "Basic x")]);
    let (found, seen) = verified(&lab, answers, &[ann(), ann(), ann(), nobody]);
    assert_eq!(found, [None, None, None, None]);
    assert_eq!(seen.len(), 3);
    // A credential that does not count is none of the site's troubles.
    assert_eq!(lab.core.callers.unverified(), 2);

    let without = shop("A", Access::default());
    let (found, seen) = verified(&without, Vec::new(), &[ann()]);
    assert_eq!((found, seen.len()), (vec![None], 0));
    assert_eq!(without.core.callers.unverified(), 0);
}

#[test]
fn whoever_speaks_for_another_is_that_other() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let writes = [
        write(&[
            ("authorization", "Bearer admin"),
            ("Act-User", "ann"),
            ("Act-Group", "dev"),
            ("Act-Group", "ops"),
        ]),
        write(&[("X-Remote-User", "bob"), ("X-Remote-Group", "ops")]),
        write(&[("X-Remote-User", "bob"), ("Act-User", "ann")]),
    ];
    let (found, seen) = verified(&lab, Vec::new(), &writes);
    let expected = ["ann (dev, ops)", "bob (ops)", "ann"].map(|caller| Some(caller.to_owned()));
    assert_eq!(found, expected);
    assert!(seen.is_empty());
}

#[test]
fn two_names_are_nobodys() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let writes = [
        write(&[
            ("authorization", "Bearer ann"),
            ("Act-User", ""),
            ("Act-User", "root"),
        ]),
        write(&[
            ("X-Remote-User", "bob"),
            ("Act-User", "ann"),
            ("act-user", "root"),
        ]),
    ];
    let (found, seen) = verified(&lab, Vec::new(), &writes);
    assert_eq!(found, [None, None]);
    assert!(seen.is_empty());
}

/// The first attempt may have ended before the application refused its caller.
#[test]
fn what_nobody_has_allowed_yet_is_repeated_as_it_was_sent() {
    let lab = shop("A", access(Some("site-token"), &[]));
    let headers = lab::headers(&[("authorization", "Bearer ann"), ("Act-User", "root")]);
    let sealed = || secret::seal(&lab.core.key, &*lab.core.surroundings, &headers).unwrap();
    let repeated = |by: &str| {
        let application = FakeApplication::answering([answer(403, &[], "{}")]);
        let again = replace(by, caller("root", &[]), Some(sealed()));
        execute(&lab, &application, &order(), again);
        let seen = application.seen.borrow()[0].clone();
        seen.header("authorization").map(str::to_owned)
    };
    assert_eq!(repeated("a").as_deref(), Some("Bearer ann"));
    // Another site sends it only after its application has executed it.
    assert_eq!(repeated("b").as_deref(), Some("Bearer site-token"));
}

#[test]
fn a_name_that_would_become_another_is_not_spoken() {
    let lab = shop("A", access(Some("site-token"), &["*"]));
    for (by, user, group) in [
        ("b", "ann", " sys:masters"),
        ("b", "", "dev"),
        ("a", " root", "dev"),
    ] {
        let application = FakeApplication::answering([answer(200, &[], "{}")]);
        let attempt = execute(
            &lab,
            &application,
            &order(),
            replace(by, caller(user, &[group]), None),
        );
        assert!(
            matches!(attempt, Attempt::Answered { status: 401, .. }),
            "{attempt:?}"
        );
        assert!(application.seen.borrow().is_empty(), "{user} {group}");
    }
}
