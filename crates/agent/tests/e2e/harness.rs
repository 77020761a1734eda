//! Real agents on loopback: processes, links between them that can fail, applications and callers.
//!
//! Nothing here sleeps to be on time: what a test waits for is asked for until a deadline that only
//! a defect reaches.

mod agent;
mod application;
mod authority;
mod call;
mod connection;
mod front;
mod mesh;
mod port;
mod raw_upstream;
mod scripted;
mod site;
mod small_disk;
mod tls;

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

pub(crate) use agent::{cheops, run_cheops};
pub(crate) use authority::{Authority, Issued};
pub(crate) use call::{Answer, Call, delete, get, head, patch, post, put};
pub(crate) use connection::Connection;
pub(crate) use front::{Front, FrontOptions};
pub(crate) use mesh::{Mesh, MeshBuilder};
pub(crate) use port::Port;
pub(crate) use raw_upstream::RawUpstream;
pub(crate) use scripted::{Scripted, json_answer, text_answer};
pub(crate) use site::Site;
pub(crate) use small_disk::SmallDisk;
pub(crate) use tls::ServiceTls;

/// Reached by defects only.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Asks until the answer is yes.
pub(crate) async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !timeout(DEADLINE, ask()).await.unwrap_or(false) {
        assert!(start.elapsed() < DEADLINE, "it never came: {what}");
        sleep(POLL_INTERVAL).await;
    }
}
