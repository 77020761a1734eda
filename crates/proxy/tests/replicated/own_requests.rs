//! What replication itself asks of services and other sites.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use cheops_glue::Profile;
use cheops_net::{Body, Clock};
use cheops_ports::{Application as _, Coordinator as _, NoAnswer, Peers as _};
use cheops_proxy::OwnRequests;
use cheops_types::{Code, KeptBody, Outcome, ServiceName};
use http::{Request, Response};
use http_body_util::BodyExt as _;

use super::{
    client::Answer,
    service::Seen,
    sites::{Site, site, start},
};

/// Runs `test` on a control runtime as the replication of a site.
fn as_replication<F: Future>(at: &Site, test: impl FnOnce(Rc<OwnRequests>) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let clock = Clock::new();
        tokio::task::spawn_local(clock.clone().sweep());
        test(OwnRequests::new(at.shared.clone(), clock)).await
    })
}

async fn read(response: Response<Body>) -> (u16, Bytes) {
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

fn post(path: &str, body: &'static str) -> Request<Body> {
    Request::post(path).body(Body::full(body)).unwrap()
}

fn echo(seen: &Seen) -> Answer {
    let scope = seen.header("x-scope").unwrap_or("none");
    Answer::json(201, &format!("{} {} {scope}", seen.target, seen.body)).with("cheops-receipt", "forged")
}

fn sites() -> Vec<Site> {
    let glue = Profile::parse(
        "test.toml",
        "application = \"test\"\ncorrelation = [\"scope-header\"]\n",
    )
    .unwrap();
    start(&["a", "b"], &Arc::new(glue), vec![Box::new(echo), Box::new(echo)])
}

#[test]
fn a_service_is_called_within_a_workflow_where_and_means_one_site() {
    let sites = sites();
    let service = ServiceName::new("A").unwrap();
    as_replication(&sites[0], |requests| async move {
        let response = requests
            .call(&service, post("/x?y", "body"), "A: b & a, B: b")
            .await
            .unwrap();
        assert_eq!(response.headers().get("cheops-receipt"), None);
        assert_eq!(read(response).await, (201, "/x?y body A: a, B: b".into()));
        let response = requests.call(&service, post("/x", "body"), "").await.unwrap();
        assert_eq!(read(response).await, (201, "/x body none".into()));
        let nobody = ServiceName::new("Z").unwrap();
        let NoAnswer { outcome, problem, .. } =
            requests.call(&nobody, post("/x", ""), "").await.err().unwrap();
        assert_eq!(
            (outcome, problem.code),
            (Outcome::NotExecuted, Code::UnknownService)
        );
    });
    assert!(sites[0].shared.correlation.len() == 1);
}

#[test]
fn another_agent_answers_messages_and_payloads() {
    let sites = sites();
    let mut spooling = sites[1].replication.spool().unwrap();
    spooling.write(&[7; 5000]).unwrap();
    as_replication(&sites[0], |requests| async move {
        let KeptBody::Spooled { .. } = spooling.finish().await.unwrap() else {
            panic!("not spooled");
        };
        let b = site("b");
        let path = |what: &str| format!("/.cheops/replication/{what}");
        let response = requests
            .ask(&b, post(&path("echo"), "hello"), false)
            .await
            .unwrap();
        assert_eq!(read(response).await, (200, "a: hello".into()));
        let response = requests
            .ask(&b, post(&path("messages"), "hello"), false)
            .await
            .unwrap();
        assert_eq!(read(response).await, (204, Bytes::new()));
        let response = requests.ask(&b, post(&path("other"), ""), false).await.unwrap();
        assert_eq!(response.status(), 400);
        let get = |offset: &str| {
            let hash = "00".repeat(32);
            let request = Request::get(format!("/.cheops/payload/{hash}{offset}"));
            requests.ask(&b, request.body(Body::Empty).unwrap(), true)
        };
        let whole = get("").await.unwrap();
        assert_eq!(whole.headers()["content-length"], "5000");
        assert_eq!(read(whole).await, (200, vec![7; 5000].into()));
        assert_eq!(
            read(get("?offset=4999").await.unwrap()).await,
            (200, vec![7].into())
        );
        let nobody = site("z");
        let NoAnswer { outcome, problem, .. } =
            requests.ask(&nobody, post("/x", ""), false).await.err().unwrap();
        assert_eq!(
            (outcome, problem.code),
            (Outcome::NotExecuted, Code::PeerUnreachable)
        );
    });
}
