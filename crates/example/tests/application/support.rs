//! Running services and asking them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use bytes::Bytes;
use cheops_example::{Carry, Config, Service, serve};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// One service until it is stopped or dropped.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Running {
    pub(crate) async fn start(service: Service, id_base: u64, data_dir: &Path) -> Self {
        Self::start_with(Config {
            service,
            id_base,
            data_dir: data_dir.to_owned(),
            token_file: None,
        })
        .await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(config, listener, async {
            let _ = stopped.await;
        }));
        Self { addr, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("http://{}{}", self.addr, parts.uri).parse().unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let response = client.request(Request::from_parts(parts, body)).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        let request = Request::builder().method(method).uri(path);
        self.send(request.body(Full::new(body.into())).unwrap()).await
    }

    /// Like `ask`, with one header field.
    pub(crate) async fn ask_with(
        &self,
        method: &str,
        path: &str,
        (name, value): (&str, &str),
        body: impl Into<Bytes>,
    ) -> Answer {
        let request = Request::builder().method(method).uri(path).header(name, value);
        self.send(request.body(Full::new(body.into())).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The answer is a failure that says why.
    pub(crate) fn failed(&self, status: u16, reason: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        let error = self.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(reason), "{error}");
    }
}

/// Both services of one instance, without anything between them.
pub(crate) struct Instance {
    pub(crate) a: Running,
    pub(crate) b: Running,
    _data: TempDir,
}

impl Instance {
    pub(crate) async fn start(carry: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let b = Running::start(b_service(), 2001, &data.path().join("b")).await;
        let a = Service::A {
            b_addr: b.addr,
            carry: carry.parse::<Carry>().unwrap(),
        };
        let a = Running::start(a, 2001, &data.path().join("a")).await;
        Self { a, b, _data: data }
    }
}

pub(crate) fn b_service() -> Service {
    Service::B {
        string: "from site 2".to_owned(),
    }
}
