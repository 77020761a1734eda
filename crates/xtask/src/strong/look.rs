//! What sites have and say once everything is healed: applications past their agents, agents as operators ask them,
//! and callers once more.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, thread, time::Instant};

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

use super::{
    answer,
    history::{Born, Call, Form, History, Kind, Number, read},
    journal::Journal,
};
use crate::{
    processes::http::{self, Request},
    trouble::{Site, Sites, name},
};

/// Reads after the faults are asked by nobody in particular.
const LAST_CALLER: u32 = 100;

/// What one application has: the values of all documents of a resource. More than one is one too many.
pub(super) type Finals = BTreeMap<Born, Vec<Number>>;

pub(super) struct Applications {
    /// By site.
    pub(super) finals: Vec<Finals>,
    /// Documents that this suite never wrote.
    pub(super) strange: Vec<(Site, Value)>,
}

impl Applications {
    pub(super) fn read(sites: &Sites) -> Result<Self> {
        let mut all = Self {
            finals: Vec::new(),
            strange: Vec::new(),
        };
        for site in 0..sites.count() {
            let mut finals = Finals::new();
            for collection in ["items", "labels"] {
                for row in http::rows(sites.application(site), collection)? {
                    match read(&row) {
                        Some((born, number)) => finals.entry(born).or_default().push(number),
                        None => all.strange.push((site, row)),
                    }
                }
            }
            all.finals.push(finals);
        }
        Ok(all)
    }

    /// Resources of which not all sites have the same.
    pub(super) fn different(&self) -> Vec<Born> {
        let all = self.finals.iter().flat_map(BTreeMap::keys);
        let mut different: Vec<_> = all
            .filter(|born| {
                let mut own = self.finals.iter().map(|finals| finals.get(born));
                let first = own.next();
                own.any(|other| Some(other) != first)
            })
            .copied()
            .collect();
        different.sort_unstable();
        different.dedup();
        different
    }
}

/// The journals of all applications, by site.
pub(super) fn journals(dir: &Path, sites: usize) -> Result<Vec<Journal>> {
    (0..sites)
        .map(|site| Journal::of(&dir.join(name(site)).join("B")))
        .collect()
}

#[derive(Deserialize)]
struct Operation {
    id: String,
    verb: String,
    state: String,
}

#[derive(Deserialize)]
struct Set {
    meta_id: String,
    kind: String,
    state: String,
}

#[derive(Deserialize)]
struct Conflict {
    id: String,
}

/// What agents say that must not be there, one line each. Conflicts are no wrong under `&`.
pub(super) fn unsettled(sites: &Sites, form: Form) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for site in 0..sites.count() {
        let (own, socket) = (name(site), sites.admin(site));
        let operations: Vec<Operation> = http::listed(&socket, "operations")?;
        lines.extend(
            operations
                .into_iter()
                .map(|Operation { id, verb, state }| format!("open at {own}: {verb} {id} is {state}")),
        );
        let sets: Vec<Set> = http::listed(&socket, "replicas")?;
        let degraded = sets.into_iter().filter(|set| set.state == "degraded");
        lines
            .extend(degraded.map(|Set { meta_id, kind, .. }| format!("degraded at {own}: {kind} {meta_id}")));
        if form == Form::Eventual {
            continue;
        }
        let conflicts: Vec<Conflict> = http::listed(&socket, "conflicts")?;
        lines.extend(
            conflicts
                .into_iter()
                .map(|Conflict { id }| format!("a conflict at {own}: {id}")),
        );
    }
    Ok(lines)
}

/// Reads every resource through every agent, through all of them at the same time.
pub(super) fn read_all(sites: &Sites, form: Form, begin: Instant, history: &History) -> Vec<Call> {
    let public = sites.public();
    let scope = form.of_reads(public.len());
    let paths = history.resources.iter();
    let paths: Vec<_> = paths
        .filter_map(|(born, resource)| Some((*born, resource.path.as_deref()?)))
        .collect();
    let read_through = |through: Site, address: SocketAddr| {
        let read_one = |(born, path): &(Born, &str)| {
            let request = Request {
                method: "GET",
                path,
                scope: scope.as_deref(),
                body: &Value::Null,
            };
            let sent_us = begin.elapsed().as_micros() as u64;
            let answer = http::connect(address).and_then(|stream| http::send(stream, &request));
            Call {
                number: 0,
                born: *born,
                kind: Kind::Read,
                caller: LAST_CALLER + through as u32,
                through,
                sent_us,
                over_us: begin.elapsed().as_micros() as u64,
                fate: answer::fate(Kind::Read, form, &answer),
            }
        };
        paths.iter().map(read_one).collect::<Vec<_>>()
    };
    thread::scope(|threads| {
        let read_through = &read_through;
        let readers = public.iter().enumerate();
        let readers: Vec<_> = readers
            .map(|(through, address)| threads.spawn(move || read_through(through, *address)))
            .collect();
        let calls = readers
            .into_iter()
            .flat_map(|reader| reader.join().unwrap_or_default());
        calls.collect()
    })
}
