//! Asks each peer for a sign of life over the peer link and measures the round trip.

use std::{
    rc::Rc,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use cheops_net::{Body, Bulk, Clock, PeerLink};
use cheops_types::{Distances, Pulse, SiteName, headers::PEER_HEARTBEAT_PATH};
use http::Request;
use http_body_util::{BodyExt as _, Limited};

use crate::Table;

/// The longest heartbeat that is read: a few hundred sites.
const BODY_MAX_BYTES: usize = 64 * 1024;

/// The table that heartbeats fill, and the snapshot that everybody else reads.
#[derive(Clone)]
pub struct Pulses {
    table: Arc<Mutex<Table>>,
    snapshot: Arc<ArcSwap<Distances>>,
}

impl Pulses {
    pub fn new(table: Table, snapshot: Arc<ArcSwap<Distances>>) -> Self {
        Self {
            table: Arc::new(Mutex::new(table)),
            snapshot,
        }
    }

    pub fn last_error(&self, site: &str) -> Option<String> {
        self.with(|table| table.last_error(site).map(str::to_owned))
    }

    /// How often each peer answered after it had not.
    pub fn recoveries(&self) -> Vec<(SiteName, u64)> {
        self.with(|table| {
            table
                .recoveries()
                .map(|(site, count)| (site.clone(), count))
                .collect()
        })
    }

    /// The life of each peer's store.
    pub fn incarnations(&self) -> Vec<(SiteName, u64)> {
        self.with(|table| {
            table
                .incarnations()
                .map(|(site, incarnation)| (site.clone(), incarnation))
                .collect()
        })
    }

    /// Forgets peers that are no longer configured.
    pub fn retain(&self, keep: impl Fn(&SiteName) -> bool) {
        self.with(|table| table.retain(keep));
        self.publish();
    }

    pub fn set_misses_max(&self, misses_max: u64) {
        self.with(|table| table.set_misses_max(misses_max));
    }

    fn with<R>(&self, act: impl FnOnce(&mut Table) -> R) -> R {
        // A poisoned table is still a table: every change to it is a single assignment.
        act(&mut self
            .table
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn publish(&self) {
        let distances = self.with(|table| table.distances().clone());
        self.snapshot.store(Arc::new(distances));
    }
}

/// Beats until dropped.
pub async fn beat(link: Rc<PeerLink>, pulses: Pulses, clock: Rc<Clock>, interval_ms: u64) {
    let site = link.site().clone();
    // A link slower than this is as good as down; the floor lets short intervals meet long links.
    let timeout_ms = (2 * interval_ms).max(1_000);
    loop {
        let (result, changed);
        match clock.timeout(timeout_ms, ask(&link)).await {
            Ok(Ok((round_trip_us, pulse))) => {
                changed = pulses.with(|table| table.answered(&site, round_trip_us, pulse));
                result = Ok(());
            }
            Ok(Err(error)) => {
                changed = pulses.with(|table| table.missed(&site, error.clone()));
                result = Err(error);
            }
            Err(_) => {
                link.suspect();
                let error = format!("no answer within {timeout_ms} ms");
                changed = pulses.with(|table| table.missed(&site, error.clone()));
                result = Err(error);
            }
        }
        pulses.publish();
        match (changed, result) {
            (true, Ok(())) => tracing::info!(%site, "site is up"),
            (true, Err(error)) => tracing::warn!(%site, %error, "site is down"),
            (false, _) => {}
        }
        tokio::time::sleep(Duration::from_millis(interval_ms)).await;
    }
}

async fn ask(link: &PeerLink) -> Result<(u32, Pulse), String> {
    // A handshake is not a round trip.
    link.warm().await.map_err(|error| error.detail)?;
    let mut request = Request::new(Body::Empty);
    *request.uri_mut() = http::Uri::from_static(PEER_HEARTBEAT_PATH);
    let start = Instant::now();
    let response = link.send(request, Bulk::No).await.map_err(|error| error.detail)?;
    let round_trip_us = u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX);
    let status = response.status();
    let body = Limited::new(response.into_body(), BODY_MAX_BYTES);
    let body = body
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    if !status.is_success() {
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("no reason given");
        return Err(format!("the heartbeat was answered with {status}: {detail}"));
    }
    let pulse: Pulse =
        serde_json::from_slice(&body).map_err(|error| format!("an unreadable heartbeat: {error}"))?;
    if pulse.site != *link.site() {
        return Err(format!("site `{}` answered", pulse.site));
    }
    Ok((round_trip_us, pulse))
}
