//! The last good answers to questions that are the same for everybody, for the time when a service is down.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use cheops_net::{Body, BoxError};
use cheops_types::{Limit, Limits, ServiceName};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT, AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, COOKIE, HOST,
        SET_COOKIE, WARNING,
    },
    request,
};
use http_body::{Body as _, Frame, SizeHint};

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const STALE: HeaderValue = HeaderValue::from_static("110 - \"Response is Stale\"");

/// A question that is asked without a credential: its answer is everybody's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    service: ServiceName,
    target: String,
    /// Answers hold links, which are made of it.
    host: Option<HeaderValue>,
    accept: Option<HeaderValue>,
}

impl Question {
    /// None for a question of somebody in particular: with a credential, or over a connection with a certificate.
    pub(crate) fn of(service: &ServiceName, head: &request::Parts, has_certificate: bool) -> Option<Self> {
        let headers = &head.headers;
        let has_credential = has_certificate
            || [AUTHORIZATION, AUTH_TOKEN, COOKIE]
                .iter()
                .any(|name| headers.contains_key(name));
        if head.method != Method::GET || has_credential {
            return None;
        }
        let host = match head.uri.authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => headers.get(HOST).cloned(),
        };
        let target = head.uri.path_and_query()?.to_string();
        Some(Self {
            service: service.clone(),
            target,
            host,
            accept: headers.get(ACCEPT).cloned(),
        })
    }
}

struct Kept {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    at: Instant,
}

/// Answers by question, shared by all cores. Bounded: the oldest makes room.
#[derive(Default)]
pub(crate) struct Discovery {
    answers: Arc<Mutex<HashMap<Question, Kept>>>,
    /// What each service last told of this site.
    own: Mutex<HashMap<ServiceName, String>>,
}

impl Discovery {
    /// Passes an answer on and keeps it when it was good and is read to its end.
    pub(crate) fn keep(
        &self,
        question: Question,
        response: Response<Body>,
        limits: &Limits,
    ) -> Response<Body> {
        if !is_good(&response) {
            return response;
        }
        let (head, body) = response.into_parts();
        let kept = Keeping {
            question,
            status: head.status,
            headers: head.headers.clone(),
            answers: self.answers.clone(),
            answers_max: limits.discovery_max,
            bytes_max: limits.discovery_max_bytes,
        };
        let mut watched = Watched {
            body,
            read: BytesMut::new(),
            kept: Some(Box::new(kept)),
        };
        // An answer without a body is never asked for one.
        watched.end_if_over();
        Response::from_parts(head, Body::other(watched))
    }

    /// The last good answer, marked as what it is.
    pub(crate) fn recall(&self, question: &Question) -> Option<Response<Body>> {
        let answers = lock(&self.answers);
        let kept = answers.get(question)?;
        let mut response = Response::new(Body::full(kept.body.clone()));
        *response.status_mut() = kept.status;
        *response.headers_mut() = kept.headers.clone();
        let headers = response.headers_mut();
        headers.insert(AGE, HeaderValue::from(kept.at.elapsed().as_secs()));
        headers.insert(WARNING, STALE);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(kept.body.len()));
        Some(response)
    }

    /// Keeps the part of an answer that is this site's own.
    pub(crate) fn keep_own(&self, service: &ServiceName, own: &str, limits: &Limits) {
        if own.len() > limits.discovery_max_bytes {
            Limit::DiscoveryBytes.hit();
            return;
        }
        lock(&self.own).insert(service.clone(), own.to_owned());
    }

    pub(crate) fn recall_own(&self, service: &ServiceName) -> Option<String> {
        lock(&self.own).get(service).cloned()
    }
}

fn is_good(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let is_private = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("no-store") || value.contains("private"));
    matches!(response.status(), StatusCode::OK | StatusCode::MULTIPLE_CHOICES)
        && !is_private
        && !headers.contains_key(SET_COOKIE)
        // Whoever gets it later may not be able to read it.
        && !headers.contains_key(CONTENT_ENCODING)
}

/// An answer that is being read.
struct Keeping {
    question: Question,
    status: StatusCode,
    headers: HeaderMap,
    answers: Arc<Mutex<HashMap<Question, Kept>>>,
    answers_max: usize,
    bytes_max: usize,
}

impl Keeping {
    fn finish(self, body: Bytes) {
        let mut answers = lock(&self.answers);
        if answers.len() >= self.answers_max && !answers.contains_key(&self.question) {
            Limit::Discovery.hit();
            let oldest = answers.iter().min_by_key(|(_, kept)| kept.at);
            match oldest.map(|(question, _)| question.clone()) {
                Some(oldest) => drop(answers.remove(&oldest)),
                None => return,
            }
        }
        answers.insert(
            self.question,
            Kept {
                status: self.status,
                headers: self.headers,
                body,
                at: Instant::now(),
            },
        );
    }
}

/// A body that is kept when it came to its end.
struct Watched {
    body: Body,
    read: BytesMut,
    /// None when the body is kept already, or will not be.
    kept: Option<Box<Keeping>>,
}

impl Watched {
    fn note(&mut self, data: &Bytes) {
        let Some(kept) = &self.kept else { return };
        if self.read.len() + data.len() > kept.bytes_max {
            Limit::DiscoveryBytes.hit();
            self.kept = None;
            self.read = BytesMut::new();
        } else {
            self.read.extend_from_slice(data);
        }
    }

    fn end_if_over(&mut self) {
        if self.body.is_end_stream() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.finish(std::mem::take(&mut self.read).freeze());
        }
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.note(data);
                }
                self.end_if_over();
            }
            Some(Err(_)) => self.kept = None,
            None => self.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Every change under the lock is complete in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::BodyExt as _;

    use super::*;

    fn question(path: &str, headers: &[(&'static str, &'static str)]) -> Option<Question> {
        let mut request = Request::builder().uri(path).header("host", "images:9292");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        Question::of(&service(), &head, false)
    }

    fn service() -> ServiceName {
        ServiceName::new("B").unwrap()
    }

    fn answer(status: u16, body: &str, headers: &[(&'static str, &'static str)]) -> Response<Body> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(Body::full(body.to_owned())).unwrap()
    }

    async fn read(response: Response<Body>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    async fn keep(discovery: &Discovery, path: &str, response: Response<Body>, limits: &Limits) {
        read(discovery.keep(question(path, &[]).unwrap(), response, limits)).await;
    }

    #[tokio::test]
    async fn a_good_answer_is_given_again_and_says_that_it_is_old() {
        let (discovery, limits) = (Discovery::default(), Limits::default());
        let asked = question("/", &[]).unwrap();
        assert!(discovery.recall(&asked).is_none());
        keep(&discovery, "/", answer(300, "versions", &[("x-a", "1")]), &limits).await;
        keep(&discovery, "/", answer(503, "busy", &[]), &limits).await;
        let old = discovery.recall(&asked).unwrap();
        assert_eq!(old.status(), 300);
        assert_eq!(old.headers()["x-a"], "1");
        assert_eq!(old.headers()[WARNING], "110 - \"Response is Stale\"");
        assert_eq!(old.headers()[AGE], "0");
        assert_eq!(read(old).await, "versions");
        // Links in it would lead elsewhere.
        assert!(
            discovery
                .recall(&question("http://other/", &[]).unwrap())
                .is_none()
        );
    }

    #[tokio::test]
    async fn what_is_one_callers_own_is_nobody_elses() {
        let (discovery, limits) = (Discovery::default(), Limits::default());
        for name in ["authorization", "x-auth-token", "cookie"] {
            assert_eq!(question("/", &[(name, "secret")]), None, "{name}");
        }
        let (head, ()) = Request::get("/").body(()).unwrap().into_parts();
        assert!(Question::of(&service(), &head, false).is_some());
        assert_eq!(Question::of(&service(), &head, true), None, "a certificate");
        for (name, value) in [
            ("set-cookie", "a=b"),
            ("cache-control", "max-age=0, no-store"),
            ("cache-control", "private"),
            ("content-encoding", "gzip"),
        ] {
            keep(&discovery, "/", answer(200, "own", &[(name, value)]), &limits).await;
            assert!(discovery.recall(&question("/", &[]).unwrap()).is_none(), "{name}");
        }
    }

    #[tokio::test]
    async fn it_is_bounded_in_bytes_and_in_number() {
        let discovery = Discovery::default();
        let limits = Limits {
            discovery_max: 2,
            discovery_max_bytes: 4,
            ..Limits::default()
        };
        keep(&discovery, "/long", answer(200, "12345", &[]), &limits).await;
        for path in ["/1", "/2", "/1", "/3"] {
            keep(&discovery, path, answer(200, "1234", &[]), &limits).await;
        }
        let has = |path| discovery.recall(&question(path, &[]).unwrap()).is_some();
        assert_eq!(["/long", "/1", "/2", "/3"].map(has), [false, true, false, true]);
    }

    #[tokio::test]
    async fn half_an_answer_is_not_kept() {
        let (discovery, limits) = (Discovery::default(), Limits::default());
        let asked = question("/", &[]).unwrap();
        drop(discovery.keep(asked.clone(), answer(200, "whole", &[]), &limits));
        assert!(discovery.recall(&asked).is_none());
    }
}
