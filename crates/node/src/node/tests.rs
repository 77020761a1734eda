mod fence;
mod ids;
mod lab;
mod promises;

use std::time::Duration;

use cheops_plan::{Standing, Target};
use cheops_ports::{Coordinator as _, Prefer, Reply, Write};
use cheops_replica::{
    Attempt, Birth, Content, Event, LocalId, MetaId, Need, Outcome as Ended, Phase, Recognise, Site, State,
};
use cheops_store::{Engine as _, EngineError, PayloadHash, Read as _, Span};
use cheops_types::{Code, Consistency, KeptBody, Limits, Outcome, ServiceName};
use http_body_util::BodyExt as _;
use tokio::{sync::oneshot, time::timeout};

use self::lab::{App, Pair, Place, answered, create, put, site};
use crate::{
    draft,
    inbox::Input,
    mint::{self, NewId},
    rows::{SiteRow, UnsettledRecords},
    task::Task,
    waiting::{CallerHeaders, Stage, Waiter},
};

/// Long enough for anything that has to happen.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_write_is_durable_before_it_executes_and_its_result_before_the_answer() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));

    let (meta, execution) = site1.execution().await;
    // What a crash would leave now.
    let left = place.crashed().start();
    let set = left.set(meta.as_str()).expect("the create is durable");
    assert!(set.job().is_some() && set.held().is_empty() && set.local().is_none());

    site1.answer(&meta, &execution, 201, Some("42"));
    let (status, told) = answered(timeout(SOON, reply).await.unwrap().unwrap());
    assert_eq!((status, told.held, told.complete), (201, 1, true));
    assert_eq!(told.sites[0].site, site("site1"));
    assert_eq!(told.sites[0].outcome, Outcome::Executed);
    assert_eq!(told.sites[1].outcome, Outcome::Pending);
    let left = place.crashed().start();
    let set = left.set(meta.as_str()).unwrap();
    assert_eq!(set.local(), Some(&LocalId::new("42")));
    assert_eq!(set.log().count(), 1);
}

#[tokio::test]
async fn a_set_is_found_by_every_id_once_its_create_is_answered() {
    let mut site1 = Place::new("site1").start();
    assert!(site1.presence.is_empty());
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    answered(reply.await.unwrap());
    for id in [meta.as_str(), "42"] {
        assert!(site1.presence.has_id("A", "/orders", id), "{id}");
        let known = site1.node.find("A", "/orders", id, id).unwrap().expect(id);
        assert_eq!(
            (&*known.meta, known.local.as_deref()),
            (meta.as_str(), Some("42"))
        );
        assert_eq!(&*known.shown, meta.as_str());
        assert_eq!(known.standing, Standing::Member);
    }
    assert_eq!(site1.node.find("A", "/orders", "43", "43").unwrap(), None);
    assert_eq!(site1.node.find("B", "/orders", "42", "42").unwrap(), None);
}

#[tokio::test]
async fn a_refusal_is_the_answer_and_leaves_nothing() {
    let mut site1 = Place::new("site1").start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 422, None);
    let (status, told) = answered(reply.await.unwrap());
    assert_eq!((status, told.operation), (422, None));
    assert_eq!(told.sites[1].outcome, Outcome::NotExecuted);
    assert!(site1.set(meta.as_str()).is_none());
}

#[tokio::test]
async fn a_create_that_a_crash_interrupts_is_in_doubt_and_never_repeated() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, _) = site1.execution().await;

    let mut again = place.crashed().start();
    assert!(again.is_idle().await, "the create must not be repeated");
    let set = again.set(meta.as_str()).unwrap();
    assert_eq!(set.job().map(|job| job.phase), Some(Phase::Stuck));
    reply.abort();
}

#[tokio::test]
async fn a_replace_that_a_crash_interrupts_is_repeated_with_what_was_recorded_and_demanded() {
    let limits = Limits {
        doubt_settle_ms: 0,
        ..Limits::default()
    };
    let place = Place::with("site1", limits);
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    answered(reply.await.unwrap());
    let mut write = put(meta.as_str());
    let headers = write.request.headers_mut();
    headers.insert(http::header::IF_MATCH, http::HeaderValue::from_static("\"7\""));
    let reply = tokio::spawn(site1.node.write(write));
    let (_, first) = site1.execution().await;
    let conditions = first.conditions.as_ref().unwrap();
    assert_eq!(conditions.headers, [("if-match".to_owned(), b"\"7\"".to_vec())]);

    let mut again = place.crashed().start();
    place
        .world
        .now_ms
        .fetch_add(1_000, std::sync::atomic::Ordering::Relaxed);
    let (_, second) = timeout(SOON, again.execution()).await.unwrap();
    assert_eq!(second.form, first.form);
    assert_eq!(second.conditions, first.conditions, "the caller is gone");
    assert_ne!(second.ticket, first.ticket);
    again.answer(&meta, &second, 200, None);
    assert!(again.is_idle().await);
    let set = again.set(meta.as_str()).unwrap();
    assert!(set.job().is_none());
    let states: Vec<_> = set.log().map(|entry| entry.state).collect();
    assert_eq!(states, [State::Done(Ended::Executed); 2]);
    reply.abort();
}

#[tokio::test]
async fn settled_sets_are_not_touched_by_a_start() {
    const SETS: usize = 1_000;
    let place = Place::new("site1");
    let site1 = place.start();
    for number in 0..SETS {
        adopt(&site1.node, &format!("meta{number}"), &number.to_string());
    }
    let mut site1 = site1;
    assert!(site1.is_idle().await);
    site1.node.stop();
    drop(site1);

    let mut again = place.start();
    let commits = |running: &lab::Running| {
        let read = running.node.core.store.read().unwrap();
        assert!(
            read.keys_by::<UnsettledRecords>(&Span::all(), 1)
                .unwrap()
                .is_empty()
        );
        read.get::<SiteRow>(&()).unwrap().unwrap().commits
    };
    let before = commits(&again);
    assert!(again.is_idle().await);
    assert_eq!(commits(&again), before, "nothing may be written for sets at rest");
    for number in 0..SETS {
        assert!(again.presence.has_id("A", "/orders", &number.to_string()));
        assert!(again.presence.has_id("A", "/orders", &format!("meta{number}")));
    }
}

fn adopt(node: &crate::Node, meta: &str, local: &str) {
    let birth = Birth {
        service: ServiceName::new("A").unwrap(),
        kind: "/orders".into(),
        parents: Vec::new(),
        name: None,
        sites: [site("site1")].into(),
        span: None,
        generation: 0,
        consistency: Consistency::Eventual,
    };
    let input = Input::Adopt {
        id: NewId::Given(MetaId::new(meta)),
        birth: Box::new(birth),
        local: LocalId::new(local),
        token: mint::token(&*node.core.surroundings),
        recognise: Recognise::Nothing,
    };
    node.core.engine.post(input).unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_the_write_and_nothing_executes() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    assert!(site1.is_idle().await);
    place.disk.fail_commit(EngineError::NoSpace, false);
    let reply = site1.node.write(create()).await;
    let Reply::Failed { problem, outcome, .. } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!((problem.code, outcome), (Code::StoreFull, Outcome::NotExecuted));
    assert!(site1.is_idle().await);

    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    assert_eq!(answered(reply.await.unwrap()).0, 201);
}

/// A site that was welcomed says hello no more, and of what it sends only what came after its last hello counts.
#[tokio::test]
async fn a_hello_that_a_full_disk_undoes_is_not_welcomed() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    assert!(site1.is_idle().await);
    for _ in 0..2 {
        place.disk.fail_commit(EngineError::NoSpace, false);
    }
    let (done, welcome) = oneshot::channel();
    let other = Site::new(site("site2"), 1);
    {
        // The first commit waits for this, so that the next one has what comes meanwhile.
        let _held = place.disk.batch().unwrap();
        adopt(&site1.node, "first", "1");
        tokio::time::sleep(Duration::from_millis(50)).await;
        adopt(&site1.node, "second", "2");
        let input = Input::Hello {
            from: site("site2"),
            hello: other.hello(),
            done,
        };
        site1.node.core.engine.post(input).unwrap();
    }
    assert!(timeout(SOON, welcome).await.unwrap().is_err());
}

#[tokio::test]
async fn what_became_of_an_execution_outlives_a_full_disk() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    place.disk.fail_commit(EngineError::NoSpace, false);
    place.disk.fail_commit(EngineError::NoSpace, false);
    site1.answer(&meta, &execution, 201, Some("42"));
    assert_eq!(answered(timeout(SOON, reply).await.unwrap().unwrap()).0, 201);
    assert_eq!(
        site1.set(meta.as_str()).unwrap().local(),
        Some(&LocalId::new("42"))
    );
}

#[tokio::test]
async fn a_commit_that_took_place_without_saying_so_is_found() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    assert!(site1.is_idle().await);
    place.disk.fail_commit(EngineError::Io("lost".into()), true);
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = timeout(SOON, site1.execution()).await.unwrap();
    site1.answer(&meta, &execution, 201, Some("42"));
    assert_eq!(answered(reply.await.unwrap()).0, 201);
}

#[tokio::test]
async fn what_needs_another_set_waits_for_its_replica() {
    let mut site1 = Place::new("site1").start();
    let parent = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    let child = MetaId::new("child");
    let _waiter = create_needing(&site1.node, &child, &meta);
    assert!(site1.is_idle().await, "its parent is not there yet");

    site1.answer(&meta, &execution, 201, Some("42"));
    let (next, _) = timeout(SOON, site1.execution()).await.unwrap();
    assert_eq!(next, child);
    answered(parent.await.unwrap());
}

#[tokio::test]
async fn a_delete_waits_elsewhere_for_what_was_deleted_before_it() {
    let mut site1 = Place::new("site1").start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (parent, execution) = site1.execution().await;
    site1.answer(&parent, &execution, 201, Some("42"));
    answered(reply.await.unwrap());
    let child = MetaId::new("child");
    let _waiter = create_needing(&site1.node, &child, &parent);
    let (_, execution) = site1.execution().await;
    site1.answer(&child, &execution, 201, Some("43"));
    assert!(site1.is_idle().await);

    let delete = |id: &str, meta: &MetaId| {
        let target = Target::set(meta.as_str().into());
        lab::write("DELETE", &format!("/orders/{id}"), target)
    };
    let drafted = draft::draft(&site1.node.core, &delete("42", &parent)).unwrap();
    assert_eq!(
        drafted.draft.needs,
        [],
        "what is still there is the application's concern"
    );
    let reply = tokio::spawn(site1.node.write(delete("43", &child)));
    let (_, execution) = site1.execution().await;
    site1.answer(&child, &execution, 204, None);
    answered(reply.await.unwrap());
    let drafted = draft::draft(&site1.node.core, &delete("42", &parent)).unwrap();
    let gone = Need {
        set: child,
        gone: true,
    };
    assert_eq!(drafted.draft.needs, [gone]);
}

/// A create that waits for another set.
fn create_needing(node: &crate::Node, meta: &MetaId, needed: &MetaId) -> Waiter {
    let mut needy = draft::draft(&node.core, &create()).unwrap().draft;
    needy.needs = vec![Need {
        set: needed.clone(),
        gone: false,
    }];
    let caller = CallerHeaders::default();
    let waiter = node.core.waiting.register(needy.token, caller);
    let input = Input::Create {
        id: NewId::Given(meta.clone()),
        draft: Box::new(needy),
    };
    node.core.engine.post(input).unwrap();
    waiter
}

#[tokio::test]
async fn a_site_that_is_back_gets_at_once_what_it_lacks() {
    let mut site1 = Place::new("site1").start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    answered(reply.await.unwrap());
    // Whatever was sent before is lost; the clock stands still, so nothing is sent again by itself.
    assert!(site1.is_idle().await);
    site1.node.peer_up(&site("site2"));
    let carried = loop {
        let task = timeout(SOON, site1.work.tasks.recv()).await.unwrap();
        if let Some(Task::Send { to, message }) = task {
            assert_eq!((to, &message.set), (site("site2"), &meta));
            if let Content::Operations(carried) = message.content {
                break carried;
            }
        }
    };
    assert_eq!(carried.len(), 1);
    assert_eq!(carried[0].op.token, execution.token);
}

#[tokio::test]
async fn a_site_that_lost_its_store_is_told_of_sets_that_are_at_rest() {
    let pair = Pair::start([App::default(), App::default()]);
    let mut write = create();
    write.prefer.wait_s = Some(20);
    let (status, told) = answered(timeout(SOON, pair.write("site1", write)).await.unwrap());
    assert_eq!((status, told.complete), (201, true));
    let node = &pair.nodes[&site("site1")];
    let set = MetaId::new(&told.set);
    let life = || {
        let kept = crate::rows::set(&node.core.store.read().unwrap(), &set)
            .unwrap()
            .unwrap();
        kept.peer_view(&site("site2")).unwrap().incarnation
    };
    let first = life();
    node.peer_life(&site("site2"), first);
    node.peer_life(&site("site2"), first + 1);
    // What the other site answers is of no interest here: it did not lose anything.
    let noticed = async {
        while life() != first + 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, noticed).await.unwrap();
}

#[tokio::test]
async fn a_write_reaches_the_other_site_and_both_come_to_rest() {
    let pair = Pair::start([App::default(), App::default()]);
    let mut first = create();
    first.prefer.wait_s = Some(20);
    let (status, told) = answered(timeout(SOON, pair.write("site1", first)).await.unwrap());
    assert_eq!((status, told.held, told.complete), (201, 2, true));
    assert!(told.sites.iter().all(|visit| visit.outcome == Outcome::Executed));
    let mut second = put(&told.set);
    second.prefer.held = Some(2);
    let (status, told) = answered(timeout(SOON, pair.write("site2", second)).await.unwrap());
    assert_eq!((status, told.complete), (200, true));
    assert_eq!(told.sites[0].site, site("site2"));
    let mut third = lab::write("DELETE", "/orders/7", Target::set(told.set.clone()));
    third.prefer.wait_s = Some(20);
    let (status, told) = answered(timeout(SOON, pair.write("site2", third)).await.unwrap());
    assert_eq!((status, told.complete), (204, true));
    for (site, app) in &pair.apps {
        assert_eq!(
            *app.seen.lock().unwrap(),
            ["create", "repeat", "delete"],
            "{site}"
        );
    }
    for node in pair.nodes.values() {
        let known = node.find("A", "/orders", &told.set, &told.set).unwrap().unwrap();
        assert_eq!((known.standing, known.local), (Standing::Deleted, None));
        assert_eq!(node.find("A", "/orders", "7", "7").unwrap(), None);
    }
    let reply = pair.write("site1", put(&told.set)).await;
    assert!(
        matches!(&reply, Reply::Failed { problem, .. } if problem.code == Code::ResourceDeleted),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_refusal_elsewhere_is_told_or_undone_as_asked() {
    let refusing = App {
        refuses: true,
        ..App::default()
    };
    let pair = Pair::start([App::default(), refusing]);
    let mut write = create();
    write.prefer.wait_s = Some(20);
    let (status, told) = answered(timeout(SOON, pair.write("site1", write)).await.unwrap());
    assert_eq!((status, told.complete), (201, false));
    assert_eq!(told.sites[1].status, Some(422));
    assert_eq!(told.sites[1].error.as_deref(), Some("replica_refused"));

    let mut write = create();
    write.prefer = Prefer {
        wait_s: Some(20),
        strict: true,
        ..Prefer::default()
    };
    let reply = timeout(SOON, pair.write("site1", write)).await.unwrap();
    let Reply::Failed { problem, told, .. } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(problem.code, Code::ReplicaRefused);
    let meta = told.unwrap().set;
    let known = pair.nodes[&site("site1")]
        .find("A", "/orders", &meta, &meta)
        .unwrap()
        .unwrap();
    assert_eq!(known.standing, Standing::Deleted);
}

#[tokio::test]
async fn a_caller_is_told_what_another_site_waits_for() {
    let locked = App {
        locked: true,
        ..App::default()
    };
    let pair = Pair::start([App::default(), locked]);
    let node = &pair.nodes[&site("site1")];
    let drafted = draft::draft(&node.core, &create()).unwrap();
    let token = drafted.draft.token;
    let mut waiter = node.core.waiting.register(token, drafted.caller);
    let input = Input::Create {
        id: NewId::Given(MetaId::new("meta")),
        draft: Box::new(drafted.draft),
    };
    node.core.engine.post(input).unwrap();
    // What a caller with `Prefer: wait` gets when its time is up.
    let is_told = |stage: &Stage| {
        let sites = stage
            .told
            .as_ref()
            .map(|told| &told.sites[..])
            .unwrap_or_default();
        sites
            .get(1)
            .is_some_and(|visit| visit.error.as_deref() == Some("needs-credentials"))
    };
    let stage = timeout(SOON, waiter.until(is_told)).await.unwrap().unwrap();
    let told = stage.told.unwrap();
    assert_eq!(told.sites[0].outcome, Outcome::Executed);
    assert_eq!(told.sites[1].outcome, Outcome::Pending);
    assert_eq!(told.held, 2);
    let status = node.operation(&format!("meta:{token}")).unwrap().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["sites"][1]["error"], "needs-credentials");
    // Its number can be guessed, and says nothing to whoever has no more than that.
    assert_eq!(node.operation(&told.operation.unwrap()).unwrap(), None);
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_can_be_asked_about() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let mut write = create();
    write.prefer.respond_async = true;
    let (status, told) = answered(site1.node.write(write).await);
    assert_eq!(status, 202);
    let operation = told.operation.unwrap();
    let state = |running: &lab::Running| {
        let status = running.node.operation(&operation).unwrap().expect("it is known");
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        status["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&site1), "pending");
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 422, None);
    assert!(site1.is_idle().await);
    assert_eq!(state(&site1), "refused");
    assert_eq!(site1.node.operation("nonsense").unwrap(), None);
    assert_eq!(site1.node.operation("meta:site1.1.0.1").unwrap(), None);
}

#[tokio::test]
async fn a_restored_store_takes_no_write_before_it_is_brought_up_to_date() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    answered(reply.await.unwrap());

    let copy = place.crashed();
    copy.world
        .now_ms
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let restored = copy.start_restored(true);
    let reply = restored.node.write(put(meta.as_str())).await;
    let Reply::Elsewhere(elsewhere) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(elsewhere.sites, [site("site2")]);
}

#[tokio::test]
async fn credentials_are_stored_sealed_only() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    let sealed = execution.credential.as_ref().unwrap();
    let opened = crate::secret::open(&site1.node.core.key, sealed).unwrap();
    assert_eq!(
        opened.headers,
        crate::lab::headers(&[("authorization", "Bearer secret-token")])
    );
    let set = site1.set(meta.as_str()).unwrap();
    let stored = rmp_serde::to_vec_named(&set).unwrap();
    assert!(!stored.windows(12).any(|bytes| bytes == b"secret-token"));
    assert!(!format!("{set:?}").contains("secret-token"));
    reply.abort();
}

#[tokio::test]
async fn a_queue_that_is_full_says_so_and_the_end_is_told() {
    let limits = Limits {
        engine_queue_max: 0,
        ..Limits::default()
    };
    let site1 = Place::with("site1", limits).start();
    let reply = site1.node.write(create()).await;
    assert!(
        matches!(&reply, Reply::Failed { problem, .. } if problem.code == Code::StoreBusy),
        "{reply:?}"
    );
    site1.node.stop();
    let told = site1.node.core.engine.tell(&MetaId::new("x"), Event::Wake).await;
    assert_eq!(told.unwrap_err().code, Code::ShuttingDown);
}

/// What a long body means is not read on the core that has the request, which has others to serve.
#[tokio::test]
async fn a_long_body_is_read_beside_the_core() {
    let limits = Limits {
        work_inline_max_bytes: 1_000,
        work_queue_max: 0,
        ..Limits::default()
    };
    let mut site1 = Place::with("site1", limits).start();
    let of = |bytes: usize| {
        let body = format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes));
        let body = KeptBody::Inline(body.into());
        let mut write = create();
        *write.request.body_mut() = body;
        write
    };
    let reply = site1.node.write(of(1_000)).await;
    let Reply::Failed { problem, outcome, .. } = reply else {
        panic!("no thread may take it: {reply:?}");
    };
    assert_eq!((problem.code, outcome), (Code::GatherBusy, Outcome::NotExecuted));
    let reply = tokio::spawn(site1.node.write(of(10)));
    site1.execution().await;
    reply.abort();
}

#[tokio::test]
async fn a_spooled_body_is_there_for_the_site_that_takes_the_write_over() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let mut spooling = site1.node.spool().unwrap();
    spooling.write(b"a long body").unwrap();
    let body = spooling.finish().await.unwrap();
    let KeptBody::Spooled { hash, .. } = body else {
        panic!("{body:?}");
    };
    let hash = PayloadHash::from(hash).to_string();
    let mut write = create();
    *write.request.body_mut() = body.clone();
    let reply = tokio::spawn(site1.node.write(write));
    let (meta, execution) = site1.execution().await;
    let ticket = execution.ticket;
    let attempt = Attempt::NotSent;
    site1
        .node
        .core
        .engine
        .result(&meta, Event::Executed { ticket, attempt });
    let reply = reply.await.unwrap();
    assert!(matches!(reply, Reply::Elsewhere(_)), "{reply:?}");
    assert!(
        site1.node.payload(&site("site2"), &hash, 0).is_err(),
        "no set of its own"
    );
    let again = site1.node.again(body.clone()).unwrap();
    assert_eq!(again.collect().await.unwrap().to_bytes(), "a long body");
    assert!(site1.node.again(body).is_err(), "it is kept once");
}

#[tokio::test]
async fn writes_do_not_pile_up_behind_one_that_takes_long() {
    let limits = Limits {
        engine_queue_max: 2,
        ..Limits::default()
    };
    let mut site1 = Place::with("site1", limits).start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    site1.answer(&meta, &execution, 201, Some("42"));
    answered(reply.await.unwrap());
    let slow = tokio::spawn(site1.node.write(put(meta.as_str())));
    site1.execution().await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(tokio::spawn(site1.node.write(put(meta.as_str()))));
        while site1.set(meta.as_str()).unwrap().queue().count() < waiting.len() {
            tokio::task::yield_now().await;
        }
    }
    let Reply::Failed { problem, outcome, .. } = site1.node.write(put(meta.as_str())).await else {
        panic!("there is no place for a third");
    };
    assert_eq!((problem.code, outcome), (Code::StoreBusy, Outcome::NotExecuted));
    slow.abort();
    for write in waiting {
        write.abort();
    }
}

#[tokio::test]
async fn a_stop_waits_for_what_the_application_is_doing() {
    let place = Place::new("site1");
    let mut site1 = place.start();
    let reply = tokio::spawn(site1.node.write(create()));
    let (meta, execution) = site1.execution().await;
    let calls = site1.node.core.calls.clone();
    let under_way = calls.begin().expect("the agent runs");
    let node = site1.node.clone();
    let stopped = tokio::task::spawn_blocking(move || node.stop());
    while !calls.is_stopping() {
        tokio::task::yield_now().await;
    }
    assert!(calls.begin().is_none(), "nothing begins any more");
    site1.answer(&meta, &execution, 201, Some("42"));
    drop(under_way);
    stopped.await.unwrap();
    answered(reply.await.unwrap());
    let again = place.crashed().start();
    let set = again.set(meta.as_str()).unwrap();
    assert!(set.job().is_none(), "nothing is in doubt");
    assert_eq!(set.local(), Some(&LocalId::new("42")));
}
