//! What sites have and say once everything is healed: applications past their agents, agents as operators ask them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

use super::history::{Document, Finals, History, SITES, WriteId};
use crate::{
    processes::http,
    trouble::{Site, Sites},
};

/// Kinds of the glue and their collections.
const COLLECTIONS: [(&str, &str, &str); 3] = [
    ("item", "items", "id"),
    ("label", "labels", "name"),
    ("file", "files", "id"),
];

/// What the applications have.
pub(super) struct Applications {
    pub(super) finals: Finals,
    /// By site, kind and local id.
    born: BTreeMap<(Site, String, String), WriteId>,
    /// Documents that this suite never wrote.
    pub(super) strange: Vec<(Site, Value)>,
}

impl Applications {
    pub(super) fn read(sites: &Sites) -> Result<Self> {
        let mut all = Self {
            finals: Finals::new(),
            born: BTreeMap::new(),
            strange: Vec::new(),
        };
        for site in 0..SITES {
            for (kind, collection, member) in COLLECTIONS {
                for row in http::rows(sites.application(site), collection)? {
                    let Some(document) = Document::read(&row) else {
                        all.strange.push((site, row));
                        continue;
                    };
                    let id = row[member]
                        .as_str()
                        .map_or_else(|| row[member].to_string(), str::to_owned);
                    all.born.insert((site, kind.to_owned(), id), document.born);
                    all.finals.entry(document.born).or_default()[site].push(document);
                }
            }
        }
        Ok(all)
    }
}

/// An operation without an outcome at a site.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) set: String,
    pub(super) kind: String,
    pub(super) verb: String,
    pub(super) origin: String,
    pub(super) state: String,
    pub(super) status: Option<u16>,
}

/// A replica set in the words of a site.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Set {
    pub(super) meta_id: String,
    /// As callers see it.
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) local_id: Option<String>,
}

#[derive(Deserialize)]
struct Conflict {
    id: String,
}

/// What the agents say.
#[derive(Default)]
pub(super) struct Agents {
    pub(super) open: Vec<(Site, Operation)>,
    pub(super) sets: Vec<(Site, Set)>,
    /// The sites that list a conflict.
    pub(super) conflicts: BTreeMap<String, BTreeSet<Site>>,
}

impl Agents {
    pub(super) fn read(sites: &Sites) -> Result<Self> {
        let mut all = Self::default();
        for site in 0..SITES {
            let own = |operation| (site, operation);
            all.open.extend(
                http::listed(&sites.admin(site), "operations")?
                    .into_iter()
                    .map(own),
            );
            let sets: Vec<Set> = http::listed(&sites.admin(site), "replicas")?;
            all.sets.extend(sets.into_iter().map(|set| (site, set)));
            for Conflict { id } in http::listed(&sites.admin(site), "conflicts")? {
                all.conflicts.entry(id).or_default().insert(site);
            }
        }
        Ok(all)
    }

    /// Operations without an outcome, no more.
    pub(super) fn open(sites: &Sites) -> Result<Vec<(Site, Operation)>> {
        let mut open = Vec::new();
        for site in 0..SITES {
            let listed: Vec<Operation> = http::listed(&sites.admin(site), "operations")?;
            open.extend(listed.into_iter().map(|operation| (site, operation)));
        }
        Ok(open)
    }

    /// The resource of each set, by the create. A caller that got an answer knows, or that chose the id; else a
    /// replica tells.
    pub(super) fn born(&self, history: &History, applications: &Applications) -> BTreeMap<String, WriteId> {
        let told = history.resources.values();
        let mut born: BTreeMap<_, _> = told
            .filter_map(|resource| Some((resource.set.clone()?, resource.born)))
            .collect();
        let named: BTreeMap<_, _> = history
            .resources
            .values()
            .filter_map(|resource| Some(((resource.collection, resource.id.as_deref()?), resource.born)))
            .collect();
        for (site, set) in &self.sets {
            let own = COLLECTIONS.iter().find(|(kind, ..)| *kind == set.kind);
            let own = own.and_then(|(_, collection, _)| named.get(&(*collection, set.id.as_str())));
            if let Some(found) = own {
                born.entry(set.meta_id.clone()).or_insert(*found);
            }
            let id = set.local_id.as_ref().unwrap_or(&set.id);
            let key = (*site, set.kind.clone(), id.clone());
            if let Some(found) = applications.born.get(&key) {
                born.entry(set.meta_id.clone()).or_insert(*found);
            }
        }
        born
    }
}

/// Whether a conflict is kept with the body of its write.
pub(super) fn has_payload(sites: &Sites, site: Site, id: &str, body: &Value) -> bool {
    let detail = http::admin(
        &sites.admin(site),
        &format!("/v1/conflicts/{}", http::encoded(id)),
    );
    let Ok(detail) = detail else {
        return false;
    };
    let kept = &detail["loser"]["body"]["value"];
    // The id of a create stands in its own place.
    body.as_object().is_none_or(|body| {
        body.iter()
            .filter(|(key, _)| *key != "name")
            .all(|(key, value)| kept[key] == *value)
    })
}

/// A set as a site tells it, in one line.
pub(super) fn told(sites: &Sites, site: Site, set: &str) -> String {
    http::admin(
        &sites.admin(site),
        &format!("/v1/replicas/{}", http::encoded(set)),
    )
    .map_or_else(|error| format!("{error:#}"), |told| told.to_string())
}
