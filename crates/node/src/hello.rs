//! Whether this site's store is as old as the others remember it.
//!
//! After a start, this site says hello to every other one. A site that has heard of a greater age than the store has
//! says so: then the store was set back, by a copy that was put in its place or by a disk that lied, and begins a
//! new life. Until all members of a set have answered, this site numbers its writes there anew.

use std::sync::Arc;

use bytes::Bytes;
use cheops_replica::{Hello, Welcome};
use cheops_types::{Code, Problem, SiteName};
use tokio::sync::oneshot;

use crate::{core::Core, inbox::Input};

/// Asks another site. It is asked again later where this fails.
pub(crate) async fn say_hello(core: &Core, to: &SiteName) {
    let hello = serde_json::to_vec(&core.life.hello()).unwrap_or_default();
    let welcome = match core.asks.hello(to, hello.into()).await {
        Ok(welcome) => welcome,
        Err(problem) => {
            tracing::debug!(site = %to, problem = %problem.detail, "a site did not answer a hello");
            return;
        }
    };
    if let Ok(welcome) = serde_json::from_slice::<Welcome>(&welcome) {
        let from = to.clone();
        // An agent that stops asks again when it starts.
        let _ = core.engine.post(Input::Welcomed { from, welcome });
    }
}

/// Answers another site's hello.
pub(crate) async fn answer(core: Arc<Core>, from: SiteName, body: Bytes) -> Result<Bytes, Problem> {
    let hello: Hello = serde_json::from_slice(&body).map_err(|_| {
        let detail = format!(
            "site `{}` cannot read a hello: upgrade the older agent",
            core.site
        );
        Problem::new(Code::BadRequest, detail).at(&core.site)
    })?;
    if let Some(objection) = hello.objection() {
        let detail = format!("site `{}` does not take a hello with {objection}", core.site);
        return Err(Problem::new(Code::BadRequest, detail).at(&core.site));
    }
    let (done, welcome) = oneshot::channel();
    let posted = core.engine.post(Input::Hello { from, hello, done });
    posted.map_err(|busy| busy.problem(&core.site))?;
    let welcome = welcome.await.map_err(|_| {
        let detail = format!(
            "the agent of `{}` stops, or cannot write its store: try again later",
            core.site
        );
        Problem::new(Code::StoreBusy, detail).at(&core.site)
    })?;
    Ok(serde_json::to_vec(&welcome).unwrap_or_default().into())
}
