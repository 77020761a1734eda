//! The example application, as far as these tests need it.

use std::{cell::RefCell, collections::BTreeMap};

use bytes::Bytes;
use cheops_net::Body;
use cheops_ports::{Application, Later, NoAnswer};
use cheops_types::ServiceName;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

pub(crate) struct FakeApplication {
    first_id: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    made: u64,
    /// By service and path.
    resources: BTreeMap<String, Value>,
    data: BTreeMap<String, Bytes>,
    /// Writes without a credential.
    strangers: usize,
}

impl FakeApplication {
    pub(crate) fn new(first_id: u64) -> Self {
        Self {
            first_id,
            state: RefCell::default(),
        }
    }

    pub(crate) fn get(&self, service: &str, path: &str) -> Option<Value> {
        self.state
            .borrow()
            .resources
            .get(&format!("{service}{path}"))
            .cloned()
    }

    pub(crate) fn all(&self, service: &str, collection: &str) -> Vec<Value> {
        let prefix = format!("{service}{collection}/");
        let state = self.state.borrow();
        let all = state
            .resources
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix));
        all.map(|(_, resource)| resource.clone()).collect()
    }

    pub(crate) fn data(&self, service: &str, path: &str) -> Option<Bytes> {
        self.state.borrow().data.get(&format!("{service}{path}")).cloned()
    }

    pub(crate) fn strangers(&self) -> usize {
        self.state.borrow().strangers
    }

    fn answer(
        &self,
        service: &str,
        method: &str,
        path: &str,
        query: Option<&str>,
        body: Bytes,
    ) -> (u16, Value) {
        let whole = format!("{service}{path}");
        if path.ends_with("/data") {
            self.state.borrow_mut().data.insert(whole, body);
            return (204, Value::Null);
        }
        let given: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let is_collection = path.matches('/').count() == 1;
        match method {
            "GET" if is_collection => {
                let marker = query.and_then(|query| query.strip_prefix("ref="));
                let items = self.all(service, path);
                let items = items
                    .into_iter()
                    .filter(|item| marker.is_none_or(|marker| item["ref"] == marker));
                (200, json!({"items": items.collect::<Vec<_>>(), "next": null}))
            }
            "POST" if is_collection => self.create(&whole, given),
            _ => self.change(method, &whole, given),
        }
    }

    fn create(&self, collection: &str, mut given: Value) -> (u16, Value) {
        let mut state = self.state.borrow_mut();
        if given["id"].is_null() {
            given["id"] = json!(self.first_id + state.made);
            state.made += 1;
        }
        let id = given["id"].to_string();
        let path = format!("{collection}/{}", id.trim_matches('"'));
        state.resources.insert(path, given.clone());
        (201, given)
    }

    fn change(&self, method: &str, path: &str, given: Value) -> (u16, Value) {
        let mut state = self.state.borrow_mut();
        let Some(found) = state.resources.get_mut(path) else {
            return (404, Value::Null);
        };
        match method {
            "PUT" => *found = given,
            "PATCH" => {
                for (name, value) in given.as_object().into_iter().flatten() {
                    found[name] = value.clone();
                }
            }
            "DELETE" => {
                state.resources.remove(path);
                return (204, Value::Null);
            }
            _ => {}
        }
        (200, state.resources[path].clone())
    }
}

impl Application for FakeApplication {
    fn call<'a>(
        &'a self,
        service: &'a ServiceName,
        request: Request<Body>,
        _scope: &'a str,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let credential = head.headers.get("authorization");
            let is_stranger = credential.is_none_or(|found| found != "Bearer secret-token");
            if is_stranger && head.method != "GET" {
                self.state.borrow_mut().strangers += 1;
            }
            let uri = &head.uri;
            let (status, value) = self.answer(service, head.method.as_str(), uri.path(), uri.query(), body);
            let body = match &value {
                Value::Null => Body::Empty,
                value => Body::full(value.to_string()),
            };
            Ok(Response::builder().status(status).body(body).unwrap())
        })
    }
}
