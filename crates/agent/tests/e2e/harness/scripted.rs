//! A well-behaved HTTP service with answers of the test's choice; it counts what it executes.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use http::{Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::Value;
use tokio::{net::TcpListener, runtime, sync::oneshot};

use super::port;

/// HTTP/1.1 and HTTP/2 on one port, on a thread of its own; it ends with its handle.
pub(crate) struct Scripted {
    addr: SocketAddr,
    executed: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
}

impl Scripted {
    pub(crate) fn start<H, F>(handler: H) -> Self
    where
        H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = port::listen();
        let addr = listener.local_addr().unwrap();
        let executed = Arc::new(AtomicUsize::new(0));
        let counter = executed.clone();
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, counter, Arc::new(handler)) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            addr,
            executed,
            stop: Some(stop),
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests the service began to answer.
    pub(crate) fn executed(&self) -> usize {
        self.executed.load(Ordering::SeqCst)
    }
}

async fn accept<H, F>(listener: TcpListener, executed: Arc<AtomicUsize>, handler: Arc<H>)
where
    H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (executed, handler) = (executed.clone(), handler.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (executed, handler) = (executed.clone(), handler.clone());
            async move {
                let (head, body) = request.into_parts();
                executed.fetch_add(1, Ordering::SeqCst);
                let body = body.collect().await.map(Collected::to_bytes);
                let request = Request::from_parts(head, body.unwrap_or_default());
                Ok::<_, Infallible>(handler(request).await)
            }
        });
        tokio::spawn(async move {
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

pub(crate) fn text_answer(status: u16, body: &str) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "text/plain")
        .body(body)
        .unwrap()
}

pub(crate) fn json_answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap()
}
