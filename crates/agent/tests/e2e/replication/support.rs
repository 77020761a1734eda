//! Replica sets as tests look at them: through agents, and past them at the applications.

use std::net::SocketAddr;

use cheops_types::PlanKind;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Call, Mesh, Site, get, post, until};

pub(super) const BOTH: &str = "site1 & site2";
pub(super) const ALL: &str = "site1 & site2 & site3";
/// Longer than anything but a defect takes.
pub(super) const WAIT: &str = "wait=20";

/// A replicated resource of the example application.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) service: &'static str,
    /// Its collection in paths, e.g. `items`.
    pub(super) collection: &'static str,
    /// The id that callers see.
    pub(super) id: String,
    pub(super) set: String,
}

/// Makes a resource at the sites of a scope, through one of them, and waits until all have it.
pub(super) async fn replicate(
    mesh: &Mesh,
    through: usize,
    (service, collection): (&'static str, &'static str),
    body: Value,
    scope: &str,
) -> Made {
    let addr = mesh.site(through).public(service);
    let answer = post(addr, &format!("/{collection}"), body.to_string())
        .scope(scope)
        .header("prefer", WAIT)
        .await;
    let made = Made::by(service, collection, &answer);
    let receipt = answer.receipt();
    assert!(receipt.complete, "{answer:?}");
    assert_eq!(answer.executed_at().len(), receipt.sites.len(), "{answer:?}");
    made
}

pub(super) async fn replicate_item(mesh: &Mesh, through: usize, name: &str, scope: &str) -> Made {
    replicate(mesh, through, ("B", "items"), json!({ "name": name }), scope).await
}

impl Made {
    /// What an answer to a replicated create says.
    #[track_caller]
    pub(super) fn by(service: &'static str, collection: &'static str, answer: &Answer) -> Self {
        assert_eq!(answer.status, 201, "{answer:?}");
        let body = answer.json();
        let member = if collection == "labels" { "name" } else { "id" };
        let id = text(&body[member]);
        if let Some(location) = answer.header("location") {
            assert_eq!(location, format!("/{collection}/{id}"), "{answer:?}");
        }
        let receipt = answer.receipt();
        assert_eq!(receipt.plan, PlanKind::Replicate, "{answer:?}");
        assert!(receipt.operation.is_some(), "{answer:?}");
        assert!(receipt.held >= Some(1), "{answer:?}");
        let set = receipt
            .set
            .unwrap_or_else(|| panic!("no set is told: {answer:?}"));
        Self {
            service,
            collection,
            id,
            set,
        }
    }

    pub(super) fn path(&self) -> String {
        format!("/{}/{}", self.collection, self.id)
    }

    /// Where users of a site reach its service.
    pub(super) fn at(&self, mesh: &Mesh, site: usize) -> SocketAddr {
        mesh.site(site).public(self.service)
    }

    pub(super) fn call(&self, mesh: &Mesh, site: usize, method: Method, body: &Value) -> Call {
        let call = Call::new(method, self.at(mesh, site), &self.path());
        if body.is_null() {
            call
        } else {
            call.body(body.to_string())
        }
    }

    pub(super) async fn patch(&self, mesh: &Mesh, site: usize, body: Value) -> Answer {
        self.call(mesh, site, Method::PATCH, &body).await
    }

    pub(super) async fn read(&self, mesh: &Mesh, site: usize) -> Answer {
        get(self.at(mesh, site), &self.path()).await
    }

    /// The set as a site's operator sees it.
    pub(super) async fn detail(&self, site: &Site) -> Value {
        let (status, detail) = site.look(&format!("/v1/replicas/{}", self.set)).await;
        assert_eq!(status, 200, "{} does not know {self:?}: {detail:#}", site.name);
        detail
    }

    pub(super) async fn local_id(&self, site: &Site) -> Option<String> {
        let detail = self.detail(site).await;
        detail["set"]["local_id"].as_str().map(str::to_owned)
    }

    /// The path of a site's replica for the site's application.
    pub(super) async fn local_path(&self, site: &Site) -> String {
        let id = self.local_id(site).await;
        let id = id.unwrap_or_else(|| panic!("{} has no replica of {self:?}", site.name));
        format!("/{}/{id}", self.collection)
    }

    /// The replica as the application of a site itself has it, without what differs between sites.
    pub(super) async fn replica(&self, mesh: &Mesh, site: usize) -> Option<Value> {
        let id = self.local_id(mesh.site(site)).await?;
        let path = format!("/{}/{id}", self.collection);
        let answer = get(mesh.application(site, self.service), &path).await;
        (answer.status == 200).then(|| portable(answer.json()))
    }

    /// Waits until the replicas of these sites are there and the same; how they are.
    pub(super) async fn until_same(&self, mesh: &Mesh, sites: &[usize]) -> Value {
        let mut last = Vec::new();
        until(&format!("replicas of {self:?} are the same"), async || {
            last.clear();
            for site in sites {
                last.push(self.replica(mesh, *site).await);
            }
            last[0].is_some() && last.iter().all(|replica| *replica == last[0])
        })
        .await;
        last.swap_remove(0).unwrap_or_default()
    }

    /// Waits until the set has a state in the eyes of these sites.
    pub(super) async fn until_state(&self, mesh: &Mesh, sites: &[usize], state: &str) {
        for site in sites.iter().map(|number| mesh.site(*number)) {
            until(&format!("{} sees {self:?} as {state}", site.name), async || {
                self.detail(site).await["set"]["state"] == state
            })
            .await;
        }
    }
}

/// What is the same at all sites.
pub(super) fn portable(mut row: Value) -> Value {
    if let Some(row) = row.as_object_mut() {
        for member in ["id", "item", "ref"] {
            row.remove(member);
        }
    }
    row
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Everything that a site's application has in a collection, without the agent.
pub(super) async fn rows(mesh: &Mesh, site: usize, service: &str, collection: &str) -> Vec<Value> {
    let addr = mesh.application(site, service);
    let mut rows = Vec::new();
    let mut path = format!("/{collection}?limit=1000");
    loop {
        let mut page = get(addr, &path).await.is(200).json();
        rows.append(page["items"].as_array_mut().unwrap());
        let Some(next) = page["next"].as_str() else {
            return rows;
        };
        path = format!("/{collection}?limit=1000&page_token={next}");
    }
}

/// Whether an answer has a number or name anywhere, in its body or its header fields.
pub(super) fn mentions(answer: &Answer, id: &str) -> bool {
    let is_there = |text: &str| {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .any(|word| word == id)
    };
    is_there(&answer.text())
        || answer
            .headers
            .values()
            .any(|value| is_there(&String::from_utf8_lossy(value.as_bytes())))
}

/// What a list of the admin API has, all pages.
pub(super) async fn listed(site: &Site, what: &str, query: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let (status, mut page) = site.look(&format!("/v1/{what}?{query}{after}")).await;
        assert_eq!(status, 200, "{page:#}");
        let member = if what == "replicas" { "sets" } else { what };
        all.append(page[member].as_array_mut().unwrap());
        let Some(next) = page["next"].as_str() else {
            return all;
        };
        after = format!("&after={next}");
    }
}
