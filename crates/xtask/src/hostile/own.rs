//! What the honest sites have that the hostile one is no part of: replica sets of theirs, and resources of one site.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{
    client,
    stage::{Agent, GONE, HONEST, Stage},
};

/// Names of everything that must stay as it is begin so.
const PREFIX: &str = "own-";
/// Under a scope each.
const EACH: usize = 8;
const SOON: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
const COLLECTIONS: [&str; 2] = ["items", "labels"];

/// By site, collection and name; where a name is there twice, both.
pub(super) type Documents = BTreeMap<(&'static str, &'static str, String), Vec<Value>>;

/// Makes them, and waits until each is at all of its sites.
pub(super) fn make(stage: &Stage) -> Result<Documents> {
    let scopes = [
        (0, None, 1),
        (1, None, 1),
        (2, None, 1),
        (0, Some("B: site1 & site2"), 2),
        (1, Some("B: site2 & site3"), 2),
        (2, Some("B: site1 & site2 & site3"), 3),
    ];
    let mut expected = 0;
    for (group, (at, scope, sites)) in scopes.into_iter().enumerate() {
        for (collection, number) in COLLECTIONS.iter().flat_map(|it| (0..EACH).map(move |n| (it, n))) {
            let body = json!({"name": format!("{PREFIX}{group}-{number}"), "price": number});
            let headers: Vec<_> = scope.map(|scope| ("X-Scope", scope)).into_iter().collect();
            let path = format!("/{collection}");
            let made = client::call(stage.agents[at].b.addr, ("POST", &path), &headers, Some(&body))?;
            if made.status >= 300 {
                bail!("a resource cannot be made: {} {}", made.status, made.text());
            }
            expected += sites;
        }
    }
    let start = Instant::now();
    loop {
        let documents = read(stage)?;
        let found: usize = documents.values().map(Vec::len).sum();
        if found == expected {
            return Ok(documents);
        }
        if start.elapsed() > SOON {
            bail!("of {expected} documents {found} are at the sites' applications");
        }
        thread::sleep(POLL);
    }
}

/// What the applications have, past their agents.
pub(super) fn read(stage: &Stage) -> Result<Documents> {
    let mut documents = Documents::new();
    for (site, application) in HONEST.into_iter().zip(&stage.applications) {
        for collection in COLLECTIONS {
            let path = format!("/{collection}?limit=1000");
            let list = client::call(application.port.addr, ("GET", &path), &[], None)?.json()?;
            if !list["next"].is_null() {
                bail!("{site} has more {collection} than this suite reads");
            }
            for row in list["items"].as_array().context("a list has items")? {
                let name = row["name"].as_str().unwrap_or_default();
                if name.starts_with(PREFIX) {
                    let key = (site, collection, name.to_owned());
                    documents.entry(key).or_default().push(row.clone());
                }
            }
        }
    }
    Ok(documents)
}

/// What is not as it was, a few of them in words.
pub(super) fn differences(before: &Documents, now: &Documents) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let differs = keys.into_iter().filter(|key| before.get(*key) != now.get(*key));
    differs
        .map(|(site, collection, name)| format!("{collection} {name} at {site}"))
        .collect()
}

/// The meta-id of a replica set that the hostile site is no member of.
pub(super) fn some_set(agent: &Agent) -> Result<String> {
    let sets = agent.admin("/v1/replicas?kind=item&limit=1000")?;
    let is_own = |set: &&Value| set["sites"] == json!(["site1", "site2"]);
    let set = rows(&sets).iter().find(is_own);
    let set = set.with_context(|| format!("{} has a set of site1 and site2", agent.site))?;
    Ok(set["meta_id"].as_str().context("a set has a meta-id")?.to_owned())
}

/// An operation of an ordinary caller that is kept, because a site that is down has not got it.
pub(super) fn some_operation(agent: &Agent) -> Result<String> {
    let body = json!({"name": "kept"});
    let scope = format!("B: {} & {GONE}", agent.site);
    let made = client::call(
        agent.b.addr,
        ("POST", "/items"),
        &[("X-Scope", &scope)],
        Some(&body),
    )?;
    let id = &made.json()?["id"];
    let operations = agent.admin(&format!("/v1/operations?set={id}"))?;
    let first = rows(&operations).first().and_then(|row| row["id"].as_str());
    let first = first.with_context(|| format!("no operation of set {id} in {operations}"))?;
    // Seen by an operator, so that there is something to be seen by others.
    agent.admin(&format!("/v1/operations/{first}"))?;
    Ok(first.to_owned())
}

/// The rows of a page of the admin API.
fn rows(page: &Value) -> &[Value] {
    let mut lists = page.as_object().into_iter().flat_map(serde_json::Map::values);
    lists.find_map(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_changed_or_new_is_told() {
        let key = |name: &str| ("site1", "items", name.to_owned());
        let before = Documents::from([(key("a"), vec![json!(1)]), (key("b"), vec![json!(1)])]);
        assert!(differences(&before, &before).is_empty());
        let now = Documents::from([(key("b"), vec![json!(1), json!(1)]), (key("c"), vec![json!(1)])]);
        assert_eq!(
            differences(&before, &now),
            ["items a at site1", "items b at site1", "items c at site1"]
        );
    }
}
