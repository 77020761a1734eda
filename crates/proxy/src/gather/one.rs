//! One resource that one of several sites has.

use std::pin::pin;

use bytes::Bytes;
use cheops_net::Body;
use cheops_types::{SiteName, Visit};
use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{HAS_IT, is_down, one_for_all, rank};
use crate::{
    attempt::{Answer, down_visit},
    done::Done,
    head,
    job::Job,
};

/// All sites are asked; the first that has the resource answers and the others are given up.
pub(super) async fn first_that_has_it(job: &Job, sites: &[SiteName], body: &Bytes) -> Done {
    let (down, up): (Vec<_>, Vec<_>) = sites.iter().enumerate().partition(|(_, site)| is_down(job, site));
    let mut running: FuturesUnordered<_> = up
        .into_iter()
        .map(|(i, site)| async move {
            (
                i,
                job.attempt(site, head::copy(&job.head), Body::full(body.clone()))
                    .await,
            )
        })
        .collect();
    let mut running = pin!(running.by_ref());
    let mut visits: Vec<(usize, Visit)> = down.into_iter().map(|(i, site)| (i, down_visit(site))).collect();
    let mut best: Option<(u8, usize, Vec<Visit>, Answer)> = None;
    while let Some((i, attempt)) = running.next().await {
        let rank = rank(&attempt.visit, &attempt.answer);
        visits.push((i, attempt.visit));
        if best
            .as_ref()
            .is_none_or(|(old_rank, old_i, ..)| (rank, i) < (*old_rank, *old_i))
        {
            best = Some((rank, i, attempt.workflow, attempt.answer));
        }
        if rank == HAS_IT {
            break;
        }
    }
    visits.sort_by_key(|(i, _)| *i);
    let visits = visits.into_iter().map(|(_, visit)| visit).collect();
    let (workflow, answer) = match best {
        Some((_, _, workflow, answer)) => (workflow, Some(answer)),
        None => (Vec::new(), None),
    };
    one_for_all(job, answer, visits, workflow)
}
