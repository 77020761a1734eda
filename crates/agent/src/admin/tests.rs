mod replication;

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use cheops_types::{Code, Limit, ServiceName, SiteName, VerbClass};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    client::{Client, ClientError},
    socket::SocketError,
    *,
};

struct Fake;

impl Source for Fake {
    fn status(&self) -> Status {
        Status {
            site: SiteName::new("site1").unwrap(),
            version: "0.1.0".to_owned(),
            pid: 7,
            uptime_s: 3,
            generation: 1,
            workers: 2,
        }
    }

    fn sites(&self) -> Vec<SiteStatus> {
        vec![SiteStatus {
            name: SiteName::new("site2").unwrap(),
            here: false,
            up: true,
            round_trip_us: Some(1500),
            address: Some("192.0.2.2:7443".to_owned()),
            last_error: None,
        }]
    }

    fn services(&self) -> Vec<ServiceStatus> {
        vec![ServiceStatus {
            name: ServiceName::new("A").unwrap(),
            public: Some("127.0.0.1:8001".parse().unwrap()),
            internal: None,
            shared: None,
            upstream: "http://127.0.0.1:5001".to_owned(),
        }]
    }

    fn limits(&self) -> Limits {
        Limits {
            scope_max_bytes: 17,
            ..Limits::default()
        }
    }

    fn metrics(&self) -> String {
        "cheops_requests_total 5".to_owned()
    }

    fn explain(&self, request: &ExplainRequest) -> Result<Explained, Problem> {
        let service = ServiceName::new(&request.service)
            .map_err(|error| Problem::new(Code::UnknownService, error.to_string()))?;
        Ok(Explained {
            service,
            method: request.method.clone(),
            path: request.path.clone(),
            verb: VerbClass::ReadOne,
            scope: Some(request.scope.clone()),
            plan: "local".to_owned(),
            kind: Some("local".to_owned()),
            tree: json!("local"),
            notes: Vec::new(),
        })
    }

    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<ReloadAnswer, Problem>> + Send + '_>> {
        Box::pin(async {
            Ok(ReloadAnswer {
                generation: 2,
                changes: Vec::new(),
            })
        })
    }
}

struct Running {
    dir: TempDir,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Running {
    fn start() -> Self {
        Self::with(Arc::new(Fake))
    }

    fn with(source: Arc<dyn Source>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = AdminSocket::bind(&dir.path().join("data/admin.sock")).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(socket, source, async {
            let _ = stopped.await;
        }));
        Self { dir, stop, served }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("data/admin.sock")
    }

    fn client(&self) -> Client {
        Client::new(&self.path())
    }
}

#[tokio::test]
async fn every_endpoint_answers() {
    let running = Running::start();
    let client = running.client();
    assert_eq!(client.get::<Status>("/v1/status").await.unwrap(), Fake.status());
    assert_eq!(
        client.get::<SitesAnswer>("/v1/sites").await.unwrap().sites,
        Fake.sites()
    );
    assert_eq!(
        client
            .get::<ServicesAnswer>("/v1/services")
            .await
            .unwrap()
            .services,
        Fake.services()
    );
    let limits = client.get::<LimitsAnswer>("/v1/limits").await.unwrap().limits;
    assert_eq!(limits.len(), Limit::ALL.len());
    assert!(
        limits
            .iter()
            .any(|limit| limit.name == "scope_max_bytes" && limit.value == 17)
    );
    let reloaded: ReloadAnswer = client.post("/v1/reload", &json!({})).await.unwrap();
    assert_eq!(reloaded.generation, 2);
}

#[tokio::test]
async fn explain_has_defaults() {
    let running = Running::start();
    let explained: Explained = running
        .client()
        .post("/v1/explain", &json!({ "service": "A", "scope": "A: site2" }))
        .await
        .unwrap();
    assert_eq!(explained.method, "GET");
    assert_eq!(explained.path, "/");
    assert_eq!(explained.scope.as_deref(), Some("A: site2"));
}

#[tokio::test]
async fn refusals_are_problems() {
    let running = Running::start();
    let client = running.client();
    let cases = [
        (client.get::<Value>("/v2").await, 404),
        (client.get::<Value>("/v1/reload").await, 405),
        (
            client
                .post::<Value>("/v1/explain", &json!({ "servise": "A" }))
                .await,
            422,
        ),
        (
            client
                .post::<Value>("/v1/explain", &json!({ "service": "-" }))
                .await,
            400,
        ),
    ];
    for (answer, expected) in cases {
        let error = answer.unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        let ClientError::Refused { status, problem } = error else {
            panic!("{error}");
        };
        assert_eq!(status.as_u16(), expected);
        assert_eq!(problem["status"], expected);
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty())
        );
        assert!(problem["code"].is_string());
    }
}

#[tokio::test]
async fn without_replication_its_paths_say_so() {
    let running = Running::start();
    let client = running.client();
    let none = json!({});
    let answers = [
        client.get::<Value>("/v1/replicas").await,
        client.get::<Value>("/v1/operations/72:site1.1.0.4").await,
        client
            .post::<Value>("/v1/conflicts/72:site1.1.0.4/dismiss", &none)
            .await,
    ];
    for answer in answers {
        let ClientError::Refused { status, problem } = answer.unwrap_err() else {
            panic!("not refused");
        };
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (501, &json!("not_available"))
        );
    }
}

#[test]
fn ids_are_escaped_in_paths() {
    let path = client::path(
        &["v1", "replicas", "a/b c"],
        &[
            ("service", None),
            ("kind", Some("/orders?")),
            ("after", Some("7")),
        ],
    );
    assert_eq!(path, "/v1/replicas/a%2Fb%20c?kind=%2Forders%3F&after=7");
}

#[tokio::test]
async fn metrics_are_text_with_every_limit() {
    let text = metrics::render(&[&Fake.metrics()]);
    for limit in Limit::ALL {
        assert!(text.contains(&format!("cheops_limit_hits_total{{limit=\"{}\"}} ", limit.name())));
    }
    assert!(text.ends_with("cheops_requests_total 5\n"));

    let running = Running::start();
    // It is not JSON, which the client says.
    let error = running.client().get::<Value>("/metrics").await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn only_the_owner_may_connect_and_the_socket_goes_with_the_agent() {
    let running = Running::start();
    let path = running.path();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let data_mode = std::fs::metadata(path.parent().unwrap())
        .unwrap()
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(data_mode, 0o700);
    running.stop.send(()).unwrap();
    running.served.await.unwrap().unwrap();
    assert!(!path.exists());
    let error = Client::new(&path).get::<Status>("/v1/status").await.unwrap_err();
    assert!(error.to_string().starts_with("no agent answers at "), "{error}");
    assert!(!error.is_bad_input());
}

#[tokio::test]
async fn a_live_agent_keeps_its_directory() {
    let running = Running::start();
    let error = AdminSocket::bind(&running.path()).unwrap_err();
    assert!(matches!(error, SocketError::Taken(_)), "{error}");
    assert!(error.to_string().contains("already runs"), "{error}");
    running.client().get::<Status>("/v1/status").await.unwrap();
}

#[tokio::test]
async fn a_dead_agents_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    // As a killed process leaves it: the file is there, nobody listens.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    std::fs::create_dir(dir.path().join(".new")).unwrap();
    let refused = Client::new(&path).get::<Status>("/v1/status").await.unwrap_err();
    assert!(matches!(refused, ClientError::NoAgent(_)), "{refused}");

    let socket = AdminSocket::bind(&path).unwrap();
    let served = tokio::spawn(serve(socket, Arc::new(Fake), std::future::pending()));
    Client::new(&path).get::<Status>("/v1/status").await.unwrap();
    served.abort();
}
