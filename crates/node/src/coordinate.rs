//! The port of the data plane.

use std::sync::Arc;

use bytes::Bytes;
use cheops_net::Body;
use cheops_plan::Known;
use cheops_ports::{Coordinator, Held, Latest, Pending, Reply, Spooling, Told, Write};
use cheops_replica::{Answer, Set, Token, Work};
use cheops_store::{Error, ReadSession};
use cheops_types::{KeptBody, NameRequest, NameVerdict, Outcome, Problem, SiteName};
use serde_json::json;

use crate::{
    fetch, ids, names,
    node::Node,
    operation_ref::{OperationRef, Which},
    problems, promises, rows, strong, told, wire, write,
};

impl Coordinator for Node {
    fn incarnation(&self) -> u64 {
        self.core.life.incarnation()
    }

    fn find(&self, service: &str, kind: &str, id: &str, key: &str) -> Result<Option<Known>, Problem> {
        ids::find(&self.core, service, kind, id, key)
    }

    fn write(&self, write: Write) -> Pending<Reply> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            match strong::is_strong(&core, &write.target) {
                Ok(false) => write::write(core, write).await,
                Ok(true) => strong::write(core, Arc::new(write)).await,
                Err(problem) => write::not_executed(problem),
            }
        })
    }

    fn latest(&self, of: Latest) -> Pending<Result<Held, Problem>> {
        Box::pin(strong::latest(Arc::clone(&self.core), of))
    }

    fn spool(&self) -> Result<Box<dyn Spooling>, Problem> {
        self.core.spooled.begin(&self.core.spool, &self.core.site)
    }

    fn operation(&self, id: &str) -> Result<Option<Bytes>, Problem> {
        let Ok(named) = id.parse::<OperationRef>() else {
            return Ok(None);
        };
        // A number can be guessed, and whoever asks here has shown no right to the resource. The token is random and was
        // told to the caller alone.
        let Which::Token(token) = named.which else {
            return Ok(None);
        };
        let set = self.core.store.read_with(|read| rows::set(read, &named.set));
        let set = set.map_err(|error| problems::store(&self.core.site, &error))?;
        let status = self.status(set.as_ref(), &named, token);
        let status = status.map_err(|error| problems::store(&self.core.site, &error))?;
        Ok(status.map(Bytes::from))
    }

    fn again(&self, body: KeptBody) -> Result<Body, Problem> {
        self.core.spooled.again(&self.core.spool, &self.core.site, body)
    }

    fn name(&self, request: NameRequest) -> Pending<Result<NameVerdict, Problem>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let here = core.site.clone();
            names::answer(&core, &here, request).await
        })
    }

    fn receive(&self, from: &SiteName, path: &str, body: Bytes) -> Pending<Result<Bytes, Problem>> {
        wire::receive(&self.core, from, path, body)
    }

    fn payload(&self, from: &SiteName, hash: &str, offset: u64) -> Result<Body, Problem> {
        fetch::serve_payload(&self.core, from, hash, offset)
    }
}

impl Node {
    fn status(&self, set: Option<&Set>, named: &OperationRef, token: Token) -> Result<Option<String>, Error> {
        let Some((state, told)) = self.by_token(set, token)? else {
            return Ok(None);
        };
        let is_pending = told.sites.iter().any(|visit| visit.outcome == Outcome::Pending);
        let state = match state {
            "" if told.sites.iter().any(told::is_refusal) => "degraded",
            "" if is_pending => "pending",
            "" => "done",
            state => state,
        };
        let operation = told.operation.clone().unwrap_or_else(|| named.to_string());
        let status = json!({
            "operation": operation,
            "set": &*told.set,
            "state": state,
            "held": told.held,
            "sites": told.sites,
        });
        Ok(Some(status.to_string()))
    }

    /// A write whose number its caller was not told. `state` is empty where the sites say it all.
    fn by_token(&self, set: Option<&Set>, token: Token) -> Result<Option<(&'static str, Told)>, Error> {
        let here = &self.core.site;
        if let Some(set) = set {
            if let Some(entry) = set.log().find(|entry| entry.op.token == token) {
                return Ok(Some(("", told::accepted(set, here, &entry.op.id, None))));
            }
            let is_begun = set
                .job()
                .is_some_and(|job| matches!(&job.work, Work::Accept { op, .. } if op.token == token));
            if is_begun || set.queue().any(|draft| draft.token == token) {
                let state = if set.token_in_doubt() == Some(token) {
                    "in-doubt"
                } else {
                    "pending"
                };
                return Ok(Some((state, told::recorded(set, here, token))));
            }
        }
        let Some((answer, told)) = self.core.finished.get(token) else {
            let read = |read: &ReadSession| promises::told(read, here, set, token);
            return self.core.store.read_with(read);
        };
        Ok(Some(match answer {
            Answer::Accepted { operation, status } => {
                let now = set.map(|set| told::accepted(set, here, &operation, Some(status)));
                ("", now.unwrap_or(told))
            }
            Answer::Noted { .. } => ("", told),
            Answer::Refused { .. } => ("refused", told),
            Answer::NotHere(_) | Answer::Gone => ("not-executed", told),
            Answer::Unknown { .. } => ("unknown", told),
        }))
    }
}
