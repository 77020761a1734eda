//! Five sites with a document for each writer.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use cheops_types::Receipt;
use serde_json::json;

use crate::{
    bench::{
        client::{Answer, Client},
        report::Quartiles,
    },
    trouble::{Site, Sites, name, origin},
};

/// Writes of which the median is the application's time, or the disk's.
pub(super) const SAMPLES: usize = 51;

/// The sites with their documents.
pub(super) struct Cheops {
    pub(super) sites: Sites,
    pub(super) writers: Writers,
}

/// What it takes to write.
#[derive(Clone)]
pub(super) struct Writers {
    /// Where the agents answer.
    pub(super) public: Vec<SocketAddr>,
    pub(super) scope: String,
}

impl Writers {
    /// One write of a writer's own document, and the site that decided about it.
    pub(super) fn put(&self, client: &mut Client, writer: u64) -> Result<(Duration, Option<Site>)> {
        let name = document(writer);
        let body = json!({ "name": name, "value": "bolt" }).to_string();
        let answer = client.send(
            "PUT",
            &format!("/labels/{name}"),
            &[("X-Scope", &self.scope)],
            &body,
        )?;
        if answer.status != 200 {
            bail!("a write was answered with {}: {}", answer.status, text(&answer));
        }
        let receipt = answer
            .receipt
            .as_deref()
            .and_then(|receipt| Receipt::parse(receipt).ok());
        let operation = receipt.and_then(|receipt| receipt.operation);
        Ok((answer.took, operation.as_deref().and_then(origin)))
    }
}

impl Cheops {
    /// A document for each writer.
    pub(super) fn make(&self, writers: u16) -> Result<()> {
        let mut client = Client::connect(self.writers.public[0])?;
        for writer in 0..writers {
            let body = json!({ "name": document(writer.into()) }).to_string();
            let answer = client.send("POST", "/labels", &[("X-Scope", &self.writers.scope)], &body)?;
            if answer.status != 201 {
                bail!("a create was answered with {}: {}", answer.status, text(&answer));
            }
        }
        Ok(())
    }

    /// What the application takes for a write by itself.
    pub(super) fn application_ms(&self) -> Result<f64> {
        let mut client = Client::connect(self.sites.application(0))?;
        // Of its own: nobody else may change what is replicated.
        client.send("POST", "/labels", &[], r#"{"name":"own"}"#)?;
        let mut times = Vec::new();
        for _ in 0..SAMPLES {
            let answer = client.send("PUT", "/labels/own", &[], r#"{"value":"bolt"}"#)?;
            if answer.status != 200 {
                bail!(
                    "the application answered with {}: {}",
                    answer.status,
                    text(&answer)
                );
            }
            times.push(answer.took);
        }
        median_ms(times).context("there are samples")
    }
}

pub(super) fn scope(sites: usize, is_eventual: bool) -> String {
    let names: Vec<_> = (0..sites).map(name).collect();
    let all = names.join(" & ");
    if is_eventual {
        all
    } else {
        format!("strong({all})")
    }
}

fn document(writer: u64) -> String {
    format!("w{writer}")
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

pub(super) fn median_ms(times: Vec<Duration>) -> Option<f64> {
    let times: Vec<_> = times.into_iter().map(|took| took.as_secs_f64() * 1e3).collect();
    (!times.is_empty()).then(|| Quartiles::of(times).median)
}
