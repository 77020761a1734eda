//! Reads of what is decided.

use bytes::Bytes;
use cheops_net::Body;
use cheops_plan::Plan;
use cheops_ports::Latest;
use cheops_types::{Problem, SiteName};
use http::{HeaderName, HeaderValue, header::WARNING};

use crate::{attempt::Answer, done::Done, facts, job::Job, prefer, run};

/// RFC 9111 says that nobody needs to send it any more; nothing else says what is meant.
const STALE: HeaderValue = HeaderValue::from_static("110 cheops \"Response is Stale\"");
/// Why it may be old.
const WHY: HeaderName = HeaderName::from_static("cheops-stale");

/// How often a read begins anew because what it reads came into being meanwhile.
const TRIES: u32 = 3;

/// This site answers, once it has everything that the sites have decided. Where that cannot be told, it answers with what it
/// has and says that this may be old, unless the caller would rather have nothing.
pub(crate) async fn read(job: &mut Job, sites: &[SiteName]) -> Done {
    for _ in 1..TRIES {
        let held = match wait(job, sites).await {
            Ok(held) => held,
            Err(problem) => return stale(job, problem).await,
        };
        // It may have come, or gone, while this waited.
        if let Err(problem) = facts::look_again(job) {
            return Done::refused(job.here(), problem);
        }
        let was_known = is_known(job);
        let done = run::planned(job, &Plan::Local, Body::full(Bytes::new())).await;
        if was_known {
            // Nobody has written to it here meanwhile.
            drop(held);
            return done;
        }
        // What has no set yet cannot be kept from being made: what the answer shows of it may not be decided.
        if let Err(problem) = facts::look_again(job) {
            return Done::refused(job.here(), problem);
        }
        if !is_known(job) {
            return done;
        }
    }
    match wait(job, sites).await {
        Ok(_held) => run::planned(job, &Plan::Local, Body::full(Bytes::new())).await,
        Err(problem) => stale(job, problem).await,
    }
}

fn is_known(job: &Job) -> bool {
    job.concern
        .as_ref()
        .is_some_and(|concern| concern.known.is_some())
}

async fn stale(job: &Job, problem: Problem) -> Done {
    if prefer::read(&job.head.headers).strict {
        return Done::refused(job.here(), problem);
    }
    let mut done = run::planned(job, &Plan::Local, Body::full(Bytes::new())).await;
    if let Answer::Response(response) = &mut done.answer {
        response.headers_mut().append(WARNING, STALE);
        response
            .headers_mut()
            .insert(WHY, HeaderValue::from_static(problem.code.as_str()));
    }
    done.complete = false;
    done
}

async fn wait(job: &Job, sites: &[SiteName]) -> Result<cheops_ports::Held, Problem> {
    let coordinator = job.core.replication()?;
    let profile = &job.core.world.profile;
    let service = &job.service.name;
    let within = profile.within(service, job.head.uri.path());
    let address = within.into_iter().next();
    let (kind, id, key) = match &address {
        Some(address) => {
            let id = address.id.clone().unwrap_or_default().into_owned();
            let key = address.key.clone().map_or_else(|| id.clone(), Into::into);
            (address.kind.clone().into_owned(), id, key)
        }
        None => Default::default(),
    };
    let of = Latest {
        sites: sites.to_vec(),
        service: service.clone(),
        kind,
        id,
        key,
    };
    coordinator.latest(of).await
}
