//! One site of a mesh, and what its agent says over the admin socket.

use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    net::SocketAddr,
    panic::Location,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::HOST};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    net::UnixStream,
    time::{Instant, sleep},
};

use super::{DEADLINE, POLL_INTERVAL, Port, agent::Agent, until};

/// Where one service listens. Without an internal listener both are the same.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) public: Port,
    pub(crate) internal: Option<Port>,
}

pub(crate) struct Site {
    pub(crate) name: String,
    data_dir: PathBuf,
    dir: PathBuf,
    services: BTreeMap<String, Listening>,
    files_max: Option<u64>,
    agent: Option<Agent>,
}

impl Site {
    pub(super) fn new(
        name: String,
        data_dir: PathBuf,
        dir: PathBuf,
        services: BTreeMap<String, Listening>,
    ) -> Self {
        Self {
            name,
            data_dir,
            dir,
            services,
            files_max: None,
            agent: None,
        }
    }

    /// Lets the agent have so many files open and no more.
    pub(super) fn limit_files(&mut self, max: Option<u64>) {
        self.files_max = max;
    }

    /// Where users reach a service.
    pub(crate) fn public(&self, service: &str) -> SocketAddr {
        self.services[service].public.addr()
    }

    /// Where the other services of the site reach a service.
    pub(crate) fn internal(&self, service: &str) -> SocketAddr {
        let listening = &self.services[service];
        listening.internal.as_ref().unwrap_or(&listening.public).addr()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the agent keeps its data.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The tokens that the site's services let in, one per line; read at each request.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.dir.join("tokens")
    }

    /// The agent's own credential, where it has one.
    pub(crate) fn credential_file(&self) -> PathBuf {
        self.dir.join("credential")
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir.join("cheops.toml")
    }

    /// Rewrites the configuration; it is in force after a restart or a reload.
    pub(crate) fn edit_config(&self, edit: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(self.config_path()).unwrap();
        fs::write(self.config_path(), edit(text)).unwrap();
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.agent.as_ref().expect("the agent was started")
    }

    pub(crate) fn agent_mut(&mut self) -> &mut Agent {
        self.agent.as_mut().expect("the agent was started")
    }

    pub(crate) fn start(&mut self) {
        let log = self.dir.join("agent.log");
        self.agent = Some(Agent::spawn(
            &self.name,
            &self.config_path(),
            &log,
            self.files_max,
        ));
    }

    /// Waits until the agent answers and sees `peers` as up.
    pub(crate) async fn ready(&mut self, peers: &[String]) {
        let start = Instant::now();
        loop {
            self.agent_mut().check();
            let sites = self.try_ask("/v1/sites").await;
            if sites.is_some_and(|sites| peers.iter().all(|peer| is_up(&sites, peer))) {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "{} does not see {peers:?}", self.name);
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Kills the agent and starts it again; its peers may not have been heard of yet.
    pub(crate) async fn restart(&mut self) {
        self.agent = None;
        self.start();
        self.ready(&[]).await;
    }

    /// Kills the agent, takes everything away that it keeps, and starts it again.
    pub(crate) async fn lose_store(&mut self) {
        self.agent_mut().kill();
        fs::remove_dir_all(&self.data_dir).unwrap();
        fs::create_dir(&self.data_dir).unwrap();
        self.restart().await;
    }

    /// Copies everything that the agent keeps, as of a moment when it does not run.
    pub(crate) async fn copy_store(&mut self) -> PathBuf {
        self.agent_mut().kill();
        let copy = self.dir.join("copy");
        copy_dir(&self.data_dir, &copy);
        self.restart().await;
        copy
    }

    /// Puts a copy in the place of what the agent keeps. Nobody tells the agent.
    pub(crate) async fn put_back(&mut self, copy: &Path) {
        self.agent_mut().kill();
        fs::remove_dir_all(&self.data_dir).unwrap();
        copy_dir(copy, &self.data_dir);
        self.restart().await;
    }

    /// Asks the agent to read its configuration again.
    pub(crate) fn hang_up(&self) {
        self.agent().signal(Signal::HUP);
    }

    /// Whether the agent's configuration has the other site.
    pub(crate) async fn knows(&self, other: &str) -> bool {
        let sites = self.ask("/v1/sites").await.to_string();
        sites.contains(&format!("\"{other}\""))
    }

    /// Whether the agent sees the other site as up.
    pub(crate) async fn sees(&self, other: &str) -> bool {
        is_up(&self.ask("/v1/sites").await, other)
    }

    pub(crate) async fn until_sees(&self, other: &str, up: bool) {
        let what = format!("{} sees {other} as up: {up}", self.name);
        until(&what, || async { self.sees(other).await == up }).await;
    }

    /// How often the agent hit a limit.
    pub(crate) async fn limit_hits(&self, limit: &str) -> u64 {
        let answer = self.ask("/v1/limits").await;
        let limits = answer["limits"].as_array().unwrap();
        let found = limits.iter().find(|one| one["name"] == limit);
        found.and_then(|one| one["hits"].as_u64()).unwrap()
    }

    /// A counter or gauge of the agent.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = self.admin(Method::GET, "/metrics", Bytes::new()).await.unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    /// The plan that a request to the agent would follow, in one line.
    pub(crate) async fn plan(&self, service: &str, method: &str, path: &str, scope: &str) -> String {
        let request = json!({ "service": service, "method": method, "path": path, "scope": scope });
        let answer = self.tell("/v1/explain", &request).await;
        answer["plan"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer:#}"))
            .to_owned()
    }

    pub(crate) async fn until_plan(&self, service: &str, path: &str, scope: &str, plan: &str) {
        let what = format!("{} plans {plan} for {scope}", self.name);
        until(&what, || async {
            self.plan(service, "GET", path, scope).await == plan
        })
        .await;
    }

    /// `GET` on the admin socket.
    pub(crate) async fn ask(&self, path: &str) -> Value {
        let answer = self.try_ask(path).await;
        answer.unwrap_or_else(|| panic!("{} does not answer {path}", self.name))
    }

    async fn try_ask(&self, path: &str) -> Option<Value> {
        let answer = self.admin(Method::GET, path, Bytes::new()).await?;
        serde_json::from_slice(&answer).ok()
    }

    /// `POST` on the admin socket.
    pub(crate) async fn tell(&self, path: &str, body: &Value) -> Value {
        let body = Bytes::from(body.to_string());
        let answer = self.admin(Method::POST, path, body).await.unwrap();
        serde_json::from_slice(&answer).unwrap()
    }

    /// What an operator does on the admin socket, which must succeed.
    #[track_caller]
    pub(crate) fn operate(&self, method: Method, path: &str, body: &Value) -> impl Future<Output = Value> {
        let what = format!(
            "{method} {path} at {}, asked by {}",
            self.name,
            Location::caller()
        );
        let answer = self.admin_answer(method, path, Bytes::from(body.to_string()));
        async move {
            let (status, body) = answer.await.unwrap_or_else(|| panic!("no answer: {what}"));
            let text = String::from_utf8_lossy(&body);
            assert!(status.is_success(), "{what}: {status} {text}");
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
        }
    }

    /// What is at a path of the admin socket, success or not.
    pub(crate) async fn look(&self, path: &str) -> (u16, Value) {
        let answer = self.admin_answer(Method::GET, path, Bytes::new()).await;
        let (status, body) = answer.unwrap_or_else(|| panic!("{} does not answer {path}", self.name));
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn admin(&self, method: Method, path: &str, body: Bytes) -> Option<Bytes> {
        Some(self.admin_answer(method, path, body).await?.1)
    }

    async fn admin_answer(&self, method: Method, path: &str, body: Bytes) -> Option<(StatusCode, Bytes)> {
        let stream = UnixStream::connect(self.data_dir.join("admin.sock")).await.ok()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .ok()?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .unwrap();
        let response = sender.send_request(request).await.ok()?;
        let status = response.status();
        Some((status, response.into_body().collect().await.ok()?.to_bytes()))
    }
}

fn is_up(sites: &Value, name: &str) -> bool {
    let sites = sites["sites"].as_array();
    sites.is_some_and(|sites| {
        sites
            .iter()
            .any(|site| site["name"] == name && site["up"] == Value::Bool(true))
    })
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_dir(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
