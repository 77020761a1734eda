//! Several members of which one answers: in turn, or hedged.

mod credential;

use std::collections::VecDeque;

use cheops_net::Replay;
use cheops_plan::Plan;
use cheops_types::{Health, Visit};
use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::run;
use crate::{Counted, attempt::down_visit, done::Done, job::Job};

/// One member after the other until one does not fail. A write moves on only if it certainly did
/// not execute. Sites that are down wait until no other is left, so that a known cut costs nothing.
pub(crate) async fn in_turn(job: &Job, members: &[Plan], replay: &Replay) -> Done {
    let (up, down): (Vec<usize>, Vec<usize>) = (0..members.len()).partition(|i| !is_down(job, &members[*i]));
    let mut visits: Vec<(usize, Vec<Visit>)> = Vec::new();
    let mut last = None;
    for (turn, i) in up.iter().chain(&down).copied().enumerate() {
        let mut done = run(job, &members[i], replay).await;
        let is_last = turn + 1 == members.len();
        let moves_on = if job.verb.is_read() {
            done.is_failed_read()
        } else {
            done.certainly_not_executed()
        };
        visits.push((i, std::mem::take(&mut done.visits)));
        if !moves_on || is_last {
            last = Some(done);
            break;
        }
        // Once part of a long body is gone, nobody else can get it.
        if !replay.is_whole() {
            last = Some(done);
            break;
        }
    }
    let tried: Vec<usize> = visits.iter().map(|(i, _)| *i).collect();
    let skipped = down.iter().filter(|i| !tried.contains(i));
    visits.extend(skipped.map(|i| (*i, skipped_visits(&members[*i]))));
    visits.sort_by_key(|(i, _)| *i);
    let mut done = last.unwrap_or_else(|| unreachable!("a plan has at least one member"));
    done.visits = visits.into_iter().flat_map(|(_, visits)| visits).collect();
    done
}

/// The nearest member is asked; when it is late or fails, the next one is asked too. The first good
/// answer wins and the others are given up, which only reads allow.
///
/// A member that must not see the caller's credential in vain is passed over while another is only late. It has its turn
/// when all that were asked have failed, because then it is the one that is used.
pub(crate) async fn hedged(job: &Job, members: &[Plan], replay: &Replay) -> Done {
    let mut waiting: VecDeque<(usize, &Plan)> = members.iter().enumerate().collect();
    let mut running = FuturesUnordered::new();
    let mut visits: Vec<(usize, Vec<Visit>)> = Vec::new();
    let mut worst = None;
    let mut ask = |running: &mut FuturesUnordered<_>| {
        let is_hedge = !running.is_empty();
        let may_be_next = |(_, member): &(usize, &Plan)| !is_hedge || credential::may_hedge(job, member);
        let (i, member) = waiting.remove(waiting.iter().position(may_be_next)?)?;
        running.push(async move { (i, run(job, member, replay).await) });
        Some(hedge_after_ms(job, member))
    };
    let mut patience_ms = ask(&mut running);
    let mut answer = loop {
        let next = match patience_ms {
            Some(ms) => job.core.clock.timeout(ms, running.next()).await,
            None => Ok(running.next().await),
        };
        match next {
            Ok(Some((i, mut done))) => {
                let is_good = !done.is_failed_read();
                visits.push((i, std::mem::take(&mut done.visits)));
                if is_good {
                    break done;
                }
                worst = Some(done);
                if running.is_empty() {
                    patience_ms = ask(&mut running);
                }
            }
            Ok(None) => break worst.unwrap_or_else(|| unreachable!("a plan has at least one member")),
            Err(_) => {
                patience_ms = ask(&mut running);
                if patience_ms.is_some() {
                    job.core.counters.add(Counted::Hedged);
                }
            }
        }
    };
    visits.sort_by_key(|(i, _)| *i);
    answer.visits = visits.into_iter().flat_map(|(_, visits)| visits).collect();
    answer
}

/// A far site is not late before its round trip is over.
fn hedge_after_ms(job: &Job, member: &Plan) -> u64 {
    let round_trip_us = match member {
        Plan::Forward(site) => job.core.shared.distances.load().round_trip_us(job.here(), site),
        _ => None,
    };
    job.core.limits().hedge_after_ms + u64::from(round_trip_us.unwrap_or(0)) / 1000
}

fn is_down(job: &Job, member: &Plan) -> bool {
    match member {
        Plan::Forward(site) => job.core.shared.distances.load().health(site) == Health::Down,
        _ => false,
    }
}

fn skipped_visits(member: &Plan) -> Vec<Visit> {
    match member {
        Plan::Forward(site) => vec![down_visit(site)],
        _ => Vec::new(),
    }
}
