//! An application that passes a request id on, and nothing else: what finds its scope by it, and what needs
//! none.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Request};
use serde_json::json;
use tokio::sync::mpsc;

use crate::harness::{Answer, Mesh, MeshBuilder, Port, Scripted, get, json_answer, post, text_answer, until};

/// B is also what tells whose a token is.
const GLUE: &str = r#"
application = "ids"
correlation = [{ header = "X-Openstack-Request-Id", format = "req-{uuid}" }]

[services.A]

[services.B]
discovery = ["/", "/v3"]
context-free = [
  { request = "POST /tokens", site-owned = ["/catalog"] },
  { request = "GET /tokens", workflow = { header = "X-Subject-Token", credential = "X-Auth-Token" }, site-owned = ["/catalog"] },
]

[services.C]
"#;

const ID: &str = "x-openstack-request-id";

/// Shows the id that it got; a POST is accepted and goes on.
fn service(site: usize) -> Scripted {
    Scripted::start(move |request: Request<Bytes>| async move {
        let id = request.headers().get(ID).and_then(|id| id.to_str().ok());
        let mut shown = json!({ "site": site, "id": id });
        if request.uri().path() == "/tokens" {
            shown["catalog"] = json!([format!("addresses of site {site}")]);
        }
        let is_unknown = |headers: &HeaderMap| {
            headers
                .get("x-subject-token")
                .is_some_and(|it| it == "unknown here")
        };
        let status = match (request.method().as_str(), request.uri().path()) {
            ("POST", "/servers") => 202,
            (_, "/expired") => 401,
            ("GET", "/tokens") if site == 1 && is_unknown(request.headers()) => 404,
            _ => 200,
        };
        let mut answer = json_answer(status, &shown);
        answer
            .headers_mut()
            .insert(ID, "req-of-the-service".parse().unwrap());
        answer
    })
}

/// Two sites whose services show what they get.
struct Ids {
    mesh: Mesh,
    services: Vec<Scripted>,
}

impl Ids {
    async fn start() -> Self {
        Self::with(|mesh| mesh).await
    }

    async fn with(build: impl FnOnce(MeshBuilder) -> MeshBuilder) -> Self {
        let mut mesh = Mesh::of(2).glue(GLUE);
        let mut services = Vec::new();
        for site in [1, 2] {
            for name in ["A", "B"] {
                let service = service(site);
                mesh = mesh.upstream(site, name, service.addr());
                services.push(service);
            }
        }
        let mesh = build(mesh).start().await;
        Self { mesh, services }
    }

    fn b(&self) -> SocketAddr {
        self.mesh.site(1).internal("B")
    }

    /// A scoped create at A; the id that A got.
    async fn create(&self, scope: &str) -> String {
        let created = post(self.mesh.a(1), "/servers", "{}").scope(scope).await.is(202);
        id(&created).expect("an id")
    }
}

fn id(answer: &Answer) -> Option<String> {
    answer.json()["id"].as_str().map(str::to_owned)
}

fn site(answer: &Answer) -> u64 {
    answer.json()["site"]
        .as_u64()
        .unwrap_or_else(|| panic!("{} {}", answer.status, answer.text()))
}

#[tokio::test]
async fn a_request_id_finds_the_scope_however_its_name_is_written() {
    let ids = Ids::start().await;
    let id = ids.create("B: site2").await;
    assert!(id.starts_with("req-") && id.len() == 40, "{id}");
    for name in [
        "X-OpenStack-Request-ID",
        "X-Openstack-Request-Id",
        "x-openstack-request-id",
    ] {
        let call = get(ids.b(), "/images/1").header(name, &id).await.is(200);
        assert_eq!(site(&call), 2, "{name}");
        assert_eq!(call.header(ID), Some("req-of-the-service"));
    }
    let other = "req-4bf92f35-77b3-4da6-a3ce-929d0e0e4736";
    let call = get(ids.b(), "/images/1").header(ID, other).await.is(200);
    assert_eq!(site(&call), 1);
    assert_eq!(call.header("cheops-receipt"), None);
}

#[tokio::test]
async fn a_users_own_request_id_is_kept_without_a_scope_and_replaced_with_one() {
    let ids = Ids::start().await;
    let own = "req-4bf92f35-77b3-4da6-a3ce-929d0e0e4736";
    let plain = get(ids.mesh.a(1), "/servers").header(ID, own).await.is(200);
    assert_eq!(id(&plain).as_deref(), Some(own));
    let first = get(ids.mesh.a(1), "/servers")
        .header(ID, own)
        .scope("B: site2")
        .await
        .is(200);
    let second = get(ids.mesh.a(1), "/servers")
        .header(ID, own)
        .scope("B: site1")
        .await
        .is(200);
    let keys = [&first, &second].map(|answer| id(answer).unwrap());
    assert!(!keys.contains(&own.to_owned()) && keys[0] != keys[1], "{keys:?}");
    for (key, expected) in keys.iter().zip([2, 1]) {
        let call = get(ids.b(), "/images/1").header(ID, key).await.is(200);
        assert_eq!(site(&call), expected);
    }
    // The service's own id of the request is the caller's to know.
    assert_eq!(first.header(ID), Some("req-of-the-service"));
    // A key in the hands of a user is nothing.
    let stolen = get(ids.mesh.b(1), "/images/1").header(ID, &keys[0]).await.is(200);
    assert_eq!((site(&stolen), id(&stolen)), (1, None));
}

#[tokio::test]
async fn what_goes_on_after_202_survives_a_killed_agent() {
    let mut ids = Ids::start().await;
    let asynchronous = ids.create("A: site1, B: site2").await;
    let shown = post(ids.mesh.a(1), "/other", "{}")
        .scope("B: site2")
        .await
        .is(200);
    let synchronous = id(&shown).unwrap();
    let file = ids.mesh.site(1).data_dir().join("scopes");
    until("the scope is saved", || async {
        fs::read_to_string(&file).is_ok_and(|text| text.contains(" A: site1, B: site2\n"))
    })
    .await;

    for _ in 0..2 {
        ids.mesh.site_mut(1).restart().await;
        ids.mesh.site(1).until_sees("site2", true).await;
        let call = get(ids.b(), "/images/1").header(ID, &asynchronous).await.is(200);
        assert_eq!(site(&call), 2);
        assert_eq!(call.outcomes(), "site2=executed");
    }
    let lost = get(ids.b(), "/images/1").header(ID, &synchronous).await;
    lost.problem(503, "correlation_lost");
    // A user's request with an id of before the restart is only a user's request.
    let public = get(ids.mesh.b(1), "/images/1")
        .header(ID, &synchronous)
        .await
        .is(200);
    assert_eq!((site(&public), id(&public)), (1, None));
}

/// A accepts a create and asks B only when it has answered, as services behind a queue do.
#[tokio::test]
async fn fifty_creates_at_once_are_never_mixed_up() {
    const CREATES: usize = 50;
    let b: Arc<OnceLock<SocketAddr>> = Arc::default();
    let (asked, mut answers) = mpsc::unbounded_channel();
    let address = b.clone();
    let a = Scripted::start(move |request: Request<Bytes>| {
        let (address, asked) = (address.clone(), asked.clone());
        async move {
            let id = request.headers()[ID].to_str().unwrap().to_owned();
            let name = String::from_utf8(request.body().to_vec()).unwrap();
            tokio::spawn(async move {
                for _ in 0..3 {
                    let call = get(*address.get().unwrap(), "/images/1").header(ID, &id).await;
                    asked.send((name.clone(), site(&call))).unwrap();
                }
            });
            text_answer(202, "")
        }
    });
    let ids = Ids::with(|mesh| mesh.upstream(1, "A", a.addr())).await;
    b.set(ids.b()).unwrap();
    let creates = (0..CREATES).map(|i| {
        let scope = format!("B: site{}", i % 2 + 1);
        post(ids.mesh.a(1), "/servers", format!("{i}"))
            .scope(&scope)
            .into_future()
    });
    for created in join_all(creates).await {
        created.is(202);
    }
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for _ in 0..3 * CREATES {
        let (name, site) = answers.recv().await.unwrap();
        seen.entry(name).or_default().push(site);
    }
    for i in 0..CREATES {
        let site = i as u64 % 2 + 1;
        assert_eq!(seen[&i.to_string()], [site, site, site], "create {i}");
    }
}

#[tokio::test]
async fn a_context_free_call_stays_here_whatever_it_carries() {
    let mut ids = Ids::start().await;
    let id = ids.create("B: site2").await;
    for answer in [
        post(ids.b(), "/tokens", "{}").header(ID, &id).await.is(200),
        get(ids.b(), "/tokens").header(ID, &id).await.is(200),
        get(ids.b(), "/v3").header(ID, &id).await.is(200),
    ] {
        assert_eq!(site(&answer), 1);
        assert_eq!(answer.header("cheops-receipt"), None);
    }
    // Nor is a key missed that nobody needs.
    fs::remove_file(ids.mesh.site(1).data_dir().join("scopes")).unwrap();
    ids.mesh.site_mut(1).restart().await;
    let lost = get(ids.b(), "/images/1").header(ID, &id).await;
    lost.problem(503, "correlation_lost");
    let answer = get(ids.b(), "/v3").header(ID, &id).await.is(200);
    assert_eq!(site(&answer), 1);
}

#[tokio::test]
async fn a_context_free_request_with_a_scope_goes_to_one_site_and_begins_no_workflow() {
    let ids = Ids::start().await;
    let ask = |scope: &'static str| post(ids.mesh.b(1), "/tokens", "{}").scope(scope);
    for (scope, expected) in [
        ("site2", 2),
        ("site1", 1),
        ("A: site2", 1),
        ("B: site2, A: site1", 2),
        ("site2 & site1", 1),
        ("site2 % site1", 1),
        ("site1 | site2", 1),
        ("site2 ; site1", 2),
    ] {
        let answer = ask(scope).await.is(200);
        assert_eq!(site(&answer), expected, "{scope}");
        assert_eq!(answer.executed_at(), [format!("site{expected}")], "{scope}");
        assert_eq!(id(&answer), None, "{scope}");
        // Wherever the token is from, the addresses are those of the site where the caller is.
        assert_eq!(
            answer.json()["catalog"],
            json!(["addresses of site 1"]),
            "{scope}"
        );
    }
    assert_eq!(ids.mesh.site(1).metric("cheops_scopes").await, 0);
    assert_eq!(ids.mesh.site(2).metric("cheops_scopes").await, 0);
    ask("site3").await.problem(400, "unknown_site");
}

#[tokio::test]
async fn a_call_about_a_token_follows_the_workflow_that_began_with_it() {
    let ids = Ids::start().await;
    let begin = async |scope: &str, token: &str| {
        let create = post(ids.mesh.a(1), "/servers", "{}").scope(scope);
        create.header("x-auth-token", token).await.is(202)
    };
    let whose = async |token: &str| {
        let call = get(ids.b(), "/tokens").header("x-subject-token", token);
        call.header("x-auth-token", "the-services-own").await
    };
    assert_eq!(site(&whose("secret").await), 1);
    begin("A: site1, B: site2", "secret").await;
    begin("A: site1", "other").await;
    let there = whose("secret").await.is(200);
    assert_eq!(site(&there), 2);
    assert_eq!(there.outcomes(), "site2=executed");
    assert_eq!(there.json()["catalog"], json!(["addresses of site 1"]));
    assert_eq!(site(&whose("other").await), 1);
    assert_eq!(site(&whose("unknown").await), 1);
    // A user who asks the same is no service of this site.
    let public = get(ids.mesh.b(1), "/tokens").header("x-subject-token", "secret");
    assert_eq!(site(&public.await.is(200)), 1);

    // The same place in other words is no contradiction, and neither is a scope that says nothing of it.
    begin("B: !site1", "secret").await;
    begin("A: site1", "secret").await;
    assert_eq!(site(&whose("secret").await), 2);
    begin("B: site1", "secret").await;
    let ambiguous = whose("secret").await;
    let problem = ambiguous.problem(409, "correlation_ambiguous");
    assert!(
        !problem.to_string().contains("secret"),
        "the problem tells the credential: {problem}"
    );
    assert_eq!(ambiguous.outcomes(), "site1=not-executed");
}

#[tokio::test]
async fn another_sites_answer_without_this_sites_own_part_is_no_answer() {
    let ids = Ids::start().await;
    let whose = async |token: &str| {
        let create = post(ids.mesh.a(1), "/servers", "{}").scope("A: site1, B: site2");
        create.header("x-auth-token", token).await.is(202);
        get(ids.b(), "/tokens").header("x-subject-token", token).await
    };
    let missing = whose("unknown here").await;
    missing.problem(502, "upstream_unreachable");
    assert_eq!(missing.outcomes(), "site2=executed");
    // What this site's service told last is good enough.
    whose("known").await.is(200);
    let there = whose("unknown here").await.is(200);
    assert_eq!(site(&there), 2);
    assert_eq!(there.json()["catalog"], json!(["addresses of site 1"]));
}

#[tokio::test]
async fn the_last_answer_to_a_discovery_stands_in_for_a_service_that_is_down() {
    let b = service(1);
    let ids = Ids::with(|mesh| mesh.upstream(1, "B", b.addr())).await;
    let before = get(ids.b(), "/v3").await.is(200);
    assert_eq!(before.header("warning"), None);
    get(ids.b(), "/images/1").await.is(200);
    drop(b);
    until("the service is gone", || async {
        get(ids.b(), "/images/1").await.status == 502
    })
    .await;
    let stale = get(ids.b(), "/v3").await.is(200);
    assert_eq!(stale.body, before.body);
    assert_eq!(stale.header("warning"), Some("110 - \"Response is Stale\""));
    assert!(stale.header("age").is_some());
    assert_eq!(stale.outcomes(), "site1=not-executed");
    // The same under a scope that places the service here, and not for a caller with a credential.
    let scoped = get(ids.b(), "/v3").scope("site1").await.is(200);
    assert_eq!(scoped.outcomes(), "site1=not-executed");
    let own = get(ids.b(), "/v3").header("x-auth-token", "secret").await;
    own.problem(502, "upstream_unreachable");
    get(ids.b(), "/").await.problem(502, "upstream_unreachable");
}

#[tokio::test]
async fn a_services_call_goes_on_to_the_next_site_when_the_service_here_is_down() {
    let closed = Port::reserve();
    let ids = Ids::with(|mesh| mesh.upstream(1, "B", closed.addr())).await;
    ids.mesh
        .site(1)
        .until_plan(
            "B",
            "/images/1",
            "around(site1, 10s)",
            "fallback[local, forward(site2)]",
        )
        .await;
    for scope in ["B: site1 | site2", "B: site1 ; site2", "B: around(site1, 10s)"] {
        let id = ids.create(scope).await;
        let call = get(ids.b(), "/images/1").header(ID, &id).await.is(200);
        assert_eq!(site(&call), 2, "{scope}");
        let call = post(ids.b(), "/ports", "{}").header(ID, &id).await.is(200);
        assert_eq!(site(&call), 2, "{scope}");
    }
    let id = ids.create("B: site1").await;
    let call = get(ids.b(), "/images/1").header(ID, &id).await;
    call.problem(502, "upstream_unreachable");
}

#[tokio::test]
async fn an_answer_of_another_site_says_whose_it_is() {
    let ids = Ids::start().await;
    let expired = get(ids.mesh.b(1), "/expired").scope("site2").await.is(401);
    assert_eq!(site(&expired), 2);
    let receipt = expired.receipt();
    assert_eq!(receipt.sites[0].site.as_str(), "site2");
    assert_eq!(receipt.sites[0].status, Some(401));
    assert_eq!(ids.services.iter().map(Scripted::executed).sum::<usize>(), 1);
}

#[tokio::test]
async fn a_scope_may_name_what_the_application_has_and_nothing_else() {
    let ids = Ids::start().await;
    // C is described, though no site has one.
    get(ids.mesh.a(1), "/servers")
        .scope("A: site1, C: site2")
        .await
        .is(200);
    let unknown = get(ids.mesh.a(1), "/servers").scope("A: site1, BB: site2").await;
    let problem = unknown.problem(400, "unknown_service");
    assert!(problem.to_string().contains("`B`"), "{problem}");
}
