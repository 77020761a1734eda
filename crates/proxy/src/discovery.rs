//! The last good answers to questions that are the same for everybody, for the time when a service is down.

mod question;

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
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, SET_COOKIE, WARNING},
};
use http_body::{Body as _, Frame, SizeHint};

use question::Variant;
pub(crate) use question::{Origin, Question};

const STALE: HeaderValue = HeaderValue::from_static("110 - \"Response is Stale\"");

struct Kept {
    variant: Variant,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    at: Instant,
}

/// What is kept of one question: an answer for each way in which it varies.
type Answers = HashMap<Question, Vec<Kept>>;

/// What this site's service told of itself, to callers of one origin.
struct Own {
    part: String,
    at: Instant,
}

/// Answers by question, shared by all cores. Bounded: the oldest makes room.
#[derive(Default)]
pub(crate) struct Discovery {
    answers: Arc<Mutex<Answers>>,
    own: Mutex<HashMap<(ServiceName, Origin), Own>>,
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
        let Some(variant) = question.variant(response.headers()) else {
            return response;
        };
        let (head, body) = response.into_parts();
        let headers = head.headers.iter();
        let headers: usize = headers
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        let before = question.bytes() + variant.bytes() + headers;
        let kept = Keeping {
            question: question.alone(),
            variant,
            status: head.status,
            headers: head.headers.clone(),
            answers: self.answers.clone(),
            answers_max: limits.discovery_max,
            // What is around the body is a part of what is kept.
            bytes_max: limits.discovery_max_bytes.saturating_sub(before),
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
        let mut variants = answers.get(question)?.iter();
        let kept = variants.find(|kept| kept.variant.is_of(question))?;
        let mut response = Response::new(Body::full(kept.body.clone()));
        *response.status_mut() = kept.status;
        *response.headers_mut() = kept.headers.clone();
        let headers = response.headers_mut();
        headers.insert(AGE, HeaderValue::from(kept.at.elapsed().as_secs()));
        headers.insert(WARNING, STALE);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(kept.body.len()));
        Some(response)
    }

    /// Keeps the part of an answer that is this site's own, for callers of the same origin.
    pub(crate) fn keep_own(&self, service: &ServiceName, origin: Origin, own: &str, limits: &Limits) {
        if own.len() + origin.bytes() > limits.discovery_max_bytes {
            Limit::DiscoveryBytes.hit();
            return;
        }
        let mut kept = lock(&self.own);
        let key = (service.clone(), origin);
        if kept.len() >= limits.discovery_max && !kept.contains_key(&key) {
            Limit::Discovery.hit();
            let oldest = kept.iter().min_by_key(|(_, own)| own.at);
            match oldest.map(|(key, _)| key.clone()) {
                Some(oldest) => drop(kept.remove(&oldest)),
                None => return,
            }
        }
        let (part, at) = (own.to_owned(), Instant::now());
        kept.insert(key, Own { part, at });
    }

    pub(crate) fn recall_own(&self, service: &ServiceName, origin: Origin) -> Option<String> {
        let kept = lock(&self.own);
        kept.get(&(service.clone(), origin)).map(|own| own.part.clone())
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
    variant: Variant,
    status: StatusCode,
    headers: HeaderMap,
    answers: Arc<Mutex<Answers>>,
    answers_max: usize,
    bytes_max: usize,
}

impl Keeping {
    fn finish(self, body: Bytes) {
        let mut answers = lock(&self.answers);
        if let Some(variants) = answers.get_mut(&self.question) {
            variants.retain(|kept| kept.variant != self.variant);
        }
        if answers.values().map(Vec::len).sum::<usize>() >= self.answers_max {
            Limit::Discovery.hit();
            if !forget_oldest(&mut answers) {
                return;
            }
        }
        answers.entry(self.question).or_default().push(Kept {
            variant: self.variant,
            status: self.status,
            headers: self.headers,
            body,
            at: Instant::now(),
        });
    }
}

/// Makes room for one; false where there is nothing to forget.
fn forget_oldest(answers: &mut Answers) -> bool {
    let ages = answers.iter().filter_map(|(question, variants)| {
        let (place, oldest) = variants.iter().enumerate().min_by_key(|(_, kept)| kept.at)?;
        Some((oldest.at, question, place))
    });
    let oldest = ages.min_by_key(|(at, ..)| *at);
    let Some((question, place)) = oldest.map(|(_, question, place)| (question.clone(), place)) else {
        return false;
    };
    if let Some(variants) = answers.get_mut(&question) {
        variants.remove(place);
    }
    answers.retain(|_, variants| !variants.is_empty());
    true
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
        let request = Request::builder().uri(path).header("host", "images:9292");
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        for (name, value) in headers {
            head.headers.insert(*name, HeaderValue::from_static(value));
        }
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

    /// What a caller says about where it has reached the service is in the links of the answer that it gets: nobody
    /// else may get that one.
    #[tokio::test]
    async fn an_answer_is_for_callers_of_the_same_origin() {
        let (discovery, limits) = (Discovery::default(), Limits::default());
        for header in [
            ("x-forwarded-host", "evil"),
            ("x_forwarded_host", "evil"),
            ("x-forwarded-prefix", "/evil"),
            ("forwarded", "host=evil"),
            ("x-original-host", "evil"),
            ("host", "evil"),
        ] {
            let asked = question("/", &[header]).unwrap();
            read(discovery.keep(asked.clone(), answer(200, "//evil/", &[]), &limits)).await;
            assert!(
                discovery.recall(&question("/", &[]).unwrap()).is_none(),
                "{header:?}"
            );
            assert!(discovery.recall(&asked).is_some(), "{header:?}");
            let (name, _) = header;
            let other = question("/", &[(name, "other")]).unwrap();
            assert!(discovery.recall(&other).is_none(), "{header:?}");
        }
        let near = question("/", &[("x-forwarded-for", "192.0.2.1")]).unwrap();
        read(discovery.keep(near, answer(200, "good", &[]), &limits)).await;
        let other = discovery.recall(&question("/", &[("x-forwarded-for", "192.0.2.2")]).unwrap());
        assert_eq!(
            read(other.expect("the caller's address counts nothing")).await,
            "good"
        );
    }

    #[tokio::test]
    async fn an_answer_is_for_those_who_say_the_same_where_it_varies() {
        let (discovery, limits) = (Discovery::default(), Limits::default());
        let asked = |language| question("/", &[("accept-language", language)]).unwrap();
        for language in ["en", "fr", "en"] {
            let vary = ("vary", "Accept-Encoding, accept-language");
            let answered = answer(200, language, &[vary]);
            read(discovery.keep(asked(language), answered, &limits)).await;
        }
        for language in ["en", "fr"] {
            assert_eq!(read(discovery.recall(&asked(language)).unwrap()).await, language);
        }
        assert!(discovery.recall(&asked("de")).is_none());
        assert!(discovery.recall(&question("/", &[]).unwrap()).is_none());
        assert_eq!(lock(&discovery.answers).values().map(Vec::len).sum::<usize>(), 2);
        for vary in ["*", "accept, *", "a b"] {
            let asked = question("/any", &[]).unwrap();
            read(discovery.keep(asked.clone(), answer(200, "x", &[("vary", vary)]), &limits)).await;
            assert!(discovery.recall(&asked).is_none(), "{vary}");
        }
    }

    #[test]
    fn a_sites_own_part_is_for_callers_of_the_same_origin() {
        let discovery = Discovery::default();
        let limits = Limits {
            discovery_max: 2,
            ..Limits::default()
        };
        let origin = |host: &'static str| {
            let (head, ()) = http::Request::get("/")
                .header("x-forwarded-host", host)
                .body(())
                .unwrap()
                .into_parts();
            Origin::of(&head)
        };
        for host in ["a", "b", "c"] {
            discovery.keep_own(&service(), origin(host), host, &limits);
        }
        let own = |host| discovery.recall_own(&service(), origin(host));
        assert_eq!(
            [own("a"), own("b"), own("c")].map(Option::unwrap_or_default),
            ["", "b", "c"]
        );
    }

    #[tokio::test]
    async fn it_is_bounded_in_bytes_and_in_number() {
        let discovery = Discovery::default();
        let limits = Limits {
            discovery_max: 2,
            discovery_max_bytes: 4 + "/1".len() + "images:9292".len(),
            ..Limits::default()
        };
        keep(&discovery, "/5", answer(200, "12345", &[]), &limits).await;
        keep(&discovery, "/6", answer(200, "1234", &[("a", "b")]), &limits).await;
        for path in ["/1", "/2", "/1", "/3"] {
            keep(&discovery, path, answer(200, "1234", &[]), &limits).await;
        }
        let has = |path| discovery.recall(&question(path, &[]).unwrap()).is_some();
        assert_eq!(
            ["/5", "/6", "/1", "/2", "/3"].map(has),
            [false, false, true, false, true]
        );
    }

    #[tokio::test]
    async fn half_an_answer_is_not_kept() {
        let (discovery, limits) = (Discovery::default(), Limits::default());
        let asked = question("/", &[]).unwrap();
        drop(discovery.keep(asked.clone(), answer(200, "whole", &[]), &limits));
        assert!(discovery.recall(&asked).is_none());
    }
}
