//! An application whose objects have names of their callers' choice, versions, addresses that each site gives, and
//! several kinds of patches; and servers that are wrapped, numbered by the site and take a while to start.

use std::{cell::RefCell, collections::BTreeMap};

use bytes::Bytes;
use cheops_net::Body;
use cheops_ports::{Application, Later, NoAnswer};
use cheops_types::ServiceName;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

pub(crate) const GLUE: &str = r#"
application = "objects"
[[services.A.resources]]
kind = "object"
collection = "/objects"
chosen-by = "client"
name = "/name"
generate = "/begin"
marker = { pointer = "/marker" }
upsert = ["PUT", "PATCH application/apply+yaml"]
preconditions = ["/version"]
site-owned = ["/address"]
patch = { "application/json-patch+json" = "difference", "application/apply+yaml" = "difference" }
update = { form = "merge" }
leaving = "/leaving"
actions = [{ path = "/scale", method = "PUT", as = "difference" }, { path = "/observed", method = "PUT", as = "local" }]

[[services.A.resources]]
kind = "server"
collection = "/servers"
document = "/server"
list = { items = "/servers" }
marker = { pointer = "/marker" }
ignore = ["/status"]
references = [{ pointer = "/object", kind = "object" }]
put = "merge"
patch = { "application/json-patch+json" = "difference" }
update = { method = "PUT", form = "merge", content-type = "application/json" }
state = { pointer = "/status", done = ["ACTIVE"], failed = ["ERROR"] }
"#;

/// How many reads of a server find it in the making.
const BUILDS: u64 = 2;

pub(crate) struct Objects {
    site: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    made: u64,
    documents: BTreeMap<String, Value>,
    /// Every request but reads, in order.
    writes: Vec<String>,
    /// Those of them without a credential.
    strangers: usize,
    /// Names that are taken, however they are.
    taken: usize,
}

impl Objects {
    pub(crate) fn new(site: u64) -> Self {
        Self {
            site,
            state: RefCell::default(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state.borrow().documents.get(path).cloned()
    }

    pub(crate) fn all(&self, collection: &str) -> Vec<Value> {
        let prefix = format!("{collection}/");
        let state = self.state.borrow();
        let all = state
            .documents
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix));
        all.map(|(_, document)| document.clone()).collect()
    }

    pub(crate) fn put(&self, path: &str, document: Value) {
        self.state
            .borrow_mut()
            .documents
            .insert(path.to_owned(), document);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.borrow_mut().documents.remove(path);
    }

    pub(crate) fn writes(&self) -> Vec<String> {
        self.state.borrow().writes.clone()
    }

    pub(crate) fn strangers(&self) -> usize {
        self.state.borrow().strangers
    }

    /// The next so many names are said to be taken.
    pub(crate) fn take_names(&self, count: usize) {
        self.state.borrow_mut().taken = count;
    }

    fn answer(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
        let given: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        if method != "GET" {
            self.state.borrow_mut().writes.push(format!("{method} {path}"));
        }
        let is_wrapped = path.starts_with("/servers");
        let (status, document) = match (method, path.matches('/').count()) {
            ("GET", 1) => {
                let all = self.all(path);
                return (
                    200,
                    if is_wrapped {
                        json!({ "servers": all })
                    } else {
                        json!(all)
                    },
                );
            }
            ("GET", _) => self.read(path),
            ("POST", 1) if is_wrapped => self.make_server(given["server"].clone()),
            ("POST", 1) => self.make(given),
            ("PUT", 3) => self.below(path, &given),
            ("DELETE", _) => self.delete(path),
            (_, _) if is_wrapped && method == "PUT" => self.merge(path, &given["server"]),
            ("PUT", _) => self.replace(path, given),
            (_, _) => match content_type {
                "application/apply+yaml" if self.get(path).is_none() => self.make(given),
                "application/merge-patch+json" | "application/apply+yaml" => self.merge(path, &given),
                "application/json-patch+json" => self.change(path, &given),
                _ => (415, Value::Null),
            },
        };
        match document {
            Value::Null => (status, Value::Null),
            document if is_wrapped => (status, json!({ "server": document })),
            document => (status, document),
        }
    }

    fn read(&self, path: &str) -> (u16, Value) {
        let mut state = self.state.borrow_mut();
        let Some(document) = state.documents.get_mut(path) else {
            return (404, Value::Null);
        };
        let read = document.clone();
        if let Some(left) = document["builds"].as_u64() {
            document["builds"] = json!(left.saturating_sub(1));
            if left == 0 && document["status"] == "BUILD" {
                document["status"] = json!("ACTIVE");
            }
        }
        (200, read)
    }

    fn make(&self, mut document: Value) -> (u16, Value) {
        let mut state = self.state.borrow_mut();
        let path = format!("/objects/{}", document["name"].as_str().unwrap());
        if state.taken > 0 || state.documents.contains_key(&path) {
            state.taken = state.taken.saturating_sub(1);
            return (409, Value::Null);
        }
        document["version"] = json!(100 * self.site);
        document["address"] = json!(format!("10.0.{}.1", self.site));
        state.documents.insert(path, document.clone());
        (201, document)
    }

    fn make_server(&self, mut document: Value) -> (u16, Value) {
        let mut state = self.state.borrow_mut();
        state.made += 1;
        let id = format!("{}-{}", self.site, state.made);
        document["id"] = json!(id);
        document["status"] = json!("BUILD");
        document["builds"] = json!(BUILDS);
        state.documents.insert(format!("/servers/{id}"), document.clone());
        (202, document)
    }

    fn delete(&self, path: &str) -> (u16, Value) {
        match self.state.borrow_mut().documents.remove(path) {
            Some(_) => (204, Value::Null),
            None => (404, Value::Null),
        }
    }

    fn update(&self, path: &str, change: impl FnOnce(&mut Value)) -> (u16, Value) {
        let mut state = self.state.borrow_mut();
        let Some(document) = state.documents.get_mut(path) else {
            return (404, Value::Null);
        };
        let before = document.clone();
        change(document);
        if document["address"] != before["address"] || document["name"] != before["name"] {
            *document = before;
            return (422, Value::Null);
        }
        document["version"] = json!(before["version"].as_u64().unwrap_or_default() + 1);
        (200, document.clone())
    }

    fn replace(&self, path: &str, given: Value) -> (u16, Value) {
        if self.get(path).is_none() {
            return self.make(given);
        }
        let version = self.get(path).unwrap()["version"].clone();
        if !given["version"].is_null() && given["version"] != version {
            return (409, Value::Null);
        }
        self.update(path, |document| *document = given)
    }

    fn merge(&self, path: &str, given: &Value) -> (u16, Value) {
        self.update(path, |document| {
            for (name, value) in given.as_object().into_iter().flatten() {
                match value {
                    Value::Null => drop(document.as_object_mut().unwrap().shift_remove(name)),
                    value => document[name] = value.clone(),
                }
            }
        })
    }

    /// As far as the tests go: what is added to a list is added at its end.
    fn change(&self, path: &str, list: &Value) -> (u16, Value) {
        self.update(path, |document| {
            for change in list.as_array().unwrap() {
                let at = change["path"].as_str().unwrap();
                match at.strip_suffix("/-") {
                    Some(list) => {
                        let list = document.pointer_mut(list).and_then(Value::as_array_mut);
                        list.unwrap().push(change["value"].clone());
                    }
                    None => document[&at[1..]] = change["value"].clone(),
                }
            }
        })
    }

    fn below(&self, path: &str, given: &Value) -> (u16, Value) {
        let (item, name) = path.rsplit_once('/').unwrap();
        let (status, _) = self.update(item, |document| document[name] = given["value"].clone());
        (status, json!({ "value": given["value"] }))
    }
}

impl Application for Objects {
    fn call<'a>(
        &'a self,
        _service: &'a ServiceName,
        request: Request<Body>,
        _scope: &'a str,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body: Bytes = body.collect().await.unwrap().to_bytes();
            let is_stranger = head.headers.get("authorization").is_none();
            if is_stranger && head.method != "GET" {
                self.state.borrow_mut().strangers += 1;
            }
            let content_type = head
                .headers
                .get("content-type")
                .map_or("", |it| it.to_str().unwrap());
            let (status, value) = self.answer(head.method.as_str(), head.uri.path(), content_type, &body);
            let body = match &value {
                Value::Null => Body::Empty,
                value => Body::full(value.to_string()),
            };
            Ok(Response::builder().status(status).body(body).unwrap())
        })
    }
}
