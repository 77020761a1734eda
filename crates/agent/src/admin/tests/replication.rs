//! The routes for operators, over a real node that nothing was replicated with yet.

use cheops_glue::Profile;
use cheops_node::{Node, Options, Surroundings, Work};
use cheops_plan::Presence;
use cheops_store::SiteKey;

use super::*;

struct Around;

impl Surroundings for Around {
    fn now_ms(&self) -> u64 {
        1_800_000_000_000
    }

    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }

    fn profile(&self) -> Arc<Profile> {
        Arc::new(Profile::plain())
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn sites(&self) -> Vec<SiteName> {
        vec![SiteName::new("site1").unwrap(), SiteName::new("site2").unwrap()]
    }
}

/// An agent whose node has no runner: nothing executes.
struct Replicating {
    node: Node,
    _work: Work,
    _dir: TempDir,
}

impl Replicating {
    fn start() -> Arc<Self> {
        let dir = tempfile::tempdir().unwrap();
        let fill = |bytes: &mut [u8]| -> std::io::Result<()> {
            bytes.fill(7);
            Ok(())
        };
        let (node, work) = Node::start(Options {
            site: SiteName::new("site1").unwrap(),
            data: dir.path().to_owned(),
            restored: false,
            key: SiteKey::open(&dir.path().join("site.key"), &fill).unwrap(),
            surroundings: Arc::new(Around),
            presence: Arc::new(Presence::default()),
        })
        .unwrap();
        Arc::new(Self {
            node,
            _work: work,
            _dir: dir,
        })
    }
}

impl Drop for Replicating {
    fn drop(&mut self) {
        self.node.stop();
    }
}

impl Source for Replicating {
    fn status(&self) -> Status {
        Fake.status()
    }

    fn sites(&self) -> Vec<SiteStatus> {
        Fake.sites()
    }

    fn services(&self) -> Vec<ServiceStatus> {
        Fake.services()
    }

    fn limits(&self) -> Limits {
        Fake.limits()
    }

    fn metrics(&self) -> String {
        Fake.metrics()
    }

    fn explain(&self, request: &ExplainRequest) -> Result<Explained, Problem> {
        Fake.explain(request)
    }

    fn operator(&self) -> Option<Operator> {
        Some(self.node.operator())
    }

    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<ReloadAnswer, Problem>> + Send + '_>> {
        Fake.reload()
    }
}

#[tokio::test]
async fn empty_lists_are_lists() {
    let running = Running::with(Replicating::start());
    let client = running.client();
    for (path, member) in [
        ("/v1/replicas?service=A&state=in-doubt&site=site2&limit=7", "sets"),
        ("/v1/operations?state=needs-credentials", "operations"),
        ("/v1/conflicts", "conflicts"),
    ] {
        let answer: Value = client.get(path).await.unwrap();
        assert_eq!(answer, json!({ member: [], "next": null }), "{path}");
    }
}

#[tokio::test]
async fn what_is_wrong_has_its_code() {
    let running = Running::with(Replicating::start());
    let client = running.client();
    let none = json!({});
    let operation = "/v1/operations/72:site1.1.0.4";
    let conflict = "/v1/conflicts/72:site1.1.0.4";
    let unknown_site = json!({ "service": "A", "path": "/orders/7", "sites": ["site9"] });
    let no_resource = json!({ "service": "A", "path": "/", "sites": ["site2"] });
    let answers = [
        (
            client.get::<Value>("/v1/replicas?state=well").await,
            "bad_request",
        ),
        (client.get("/v1/replicas?colour=red").await, "bad_request"),
        (client.get("/v1/replicas/72").await, "unknown_replica_set"),
        (
            client.get("/v1/replicas/a%2Fb?service=A").await,
            "unknown_replica_set",
        ),
        (
            client
                .post("/v1/replicas/72/sites", &json!({ "site": "site2" }))
                .await,
            "unknown_replica_set",
        ),
        (
            client.delete("/v1/replicas/72/sites/site2?force=true").await,
            "unknown_replica_set",
        ),
        (client.delete("/v1/replicas/72/sites/-").await, "unknown_site"),
        (
            client
                .post("/v1/replicas/72/move", &json!({ "from": "site1", "to": "site2" }))
                .await,
            "unknown_replica_set",
        ),
        (
            client.post("/v1/replicas/72/verify?repair=true", &none).await,
            "unknown_replica_set",
        ),
        (client.post("/v1/replicas", &unknown_site).await, "unknown_site"),
        (client.post("/v1/replicas", &no_resource).await, "bad_request"),
        (client.get("/v1/operations?after=x").await, "page_token"),
        (client.get(operation).await, "unknown_operation"),
        (
            client.post(&format!("{operation}/retry"), &none).await,
            "unknown_operation",
        ),
        (
            client
                .post(&format!("{operation}/settle"), &json!({ "executed": false }))
                .await,
            "unknown_operation",
        ),
        (
            client.post(&format!("{operation}/abandon"), &none).await,
            "unknown_operation",
        ),
        (client.get(conflict).await, "unknown_conflict"),
        (
            client.post(&format!("{conflict}/reapply"), &none).await,
            "unknown_conflict",
        ),
        (
            client.post(&format!("{conflict}/dismiss"), &none).await,
            "unknown_conflict",
        ),
    ];
    for (answer, code) in answers {
        let error = answer.unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        let ClientError::Refused { problem, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(problem["code"], code, "{problem}");
    }
}

#[tokio::test]
async fn a_body_that_is_wrong_is_not_repeated() {
    let running = Running::with(Replicating::start());
    let client = running.client();
    let wrong = json!({ "credential": "Bearer s3cret" });
    for path in ["/v1/operations/72:site1.1.0.4/retry", "/v1/replicas/72/sites"] {
        let error = client.post::<Value>(path, &wrong).await.unwrap_err();
        let ClientError::Refused { status, problem } = error else {
            panic!("{error}");
        };
        assert_eq!(status.as_u16(), 422);
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
    }
}

#[tokio::test]
async fn metrics_tell_of_replication() {
    let source = Replicating::start();
    let replication = source.operator().unwrap().metrics().await;
    let text = metrics::render(&[&source.metrics(), &replication]);
    for line in [
        "cheops_requests_total 5",
        "cheops_replica_sets 0",
        "cheops_conflicts 0",
        "cheops_operations{state=\"blocked\"} 0",
        "cheops_replication_lag{site=\"site2\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
}
