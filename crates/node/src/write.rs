//! A write from its caller's side: handed to the engine, answered by the application, waited for as long as
//! the caller wants.

use std::{sync::Arc, time::Duration};

use cheops_glue::join_key;
use cheops_net::NotDone;
use cheops_ports::{Elsewhere, Prefer, Reply, Told, Write};
use cheops_replica::{Answer, Draft, Footprint, MetaId, Reason, Recognise, Request, Secret, Verb};
use cheops_store::Payload;
use cheops_types::{Code, KeptBody, Limit, Outcome, Problem, SiteName};
use http::{Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    caller,
    core::Core,
    draft::{Drafted, To, draft},
    inbox::Input,
    mint, problems, progress, rows, spooled, told,
    waiting::{AppAnswer, Stage, Waiter},
};

/// Beyond the application's own time: for the engine and two commits.
const SLACK: Duration = Duration::from_secs(5);

/// Names that are tried for a create that tells only the beginning of one.
const NAMES_MAX: usize = 8;

pub(crate) async fn write(core: Arc<Core>, write: Write) -> Reply {
    let write = Arc::new(write);
    // Kept in the spool until the operation refers to it.
    let mut payload = match hold_payload(&core, write.request.body()) {
        Ok(payload) => payload,
        Err(problem) => return not_executed(problem),
    };
    let verified = caller::verified(&core, &write).await;
    let mut names = 0;
    loop {
        let drafted = match drafted(&core, &write).await {
            Ok(drafted) => by(drafted, verified.as_ref()),
            Err(problem) => return not_executed(problem),
        };
        let is_name_chosen = drafted.is_name_chosen;
        let reply = attempt(&core, &write, drafted, &mut payload).await;
        names += 1;
        let is_taken = is_name_chosen
            && matches!(&reply, Reply::Answered { response, .. } if response.status() == StatusCode::CONFLICT);
        if !is_taken || names == NAMES_MAX {
            return reply;
        }
    }
}

/// Makes a draft: on the core that has the request where its body is short, else beside it.
pub(crate) async fn drafted(core: &Arc<Core>, write: &Arc<Write>) -> Result<Drafted, Problem> {
    let limits = core.surroundings.limits();
    let body_bytes = write.request.body().inline_len();
    if body_bytes <= limits.work_inline_max_bytes {
        return draft(core, write);
    }
    Limit::WorkInline.hit();
    let (own, of) = (Arc::clone(core), Arc::clone(write));
    let done = core.offload.run(&limits, move || draft(&own, &of)).await;
    done.unwrap_or_else(|error| {
        let code = match error {
            NotDone::Full => Code::GatherBusy,
            NotDone::Failed => Code::Internal,
        };
        let detail = format!("the request's body is long, and {error}: send it again; nothing executed");
        Err(Problem::new(code, detail).at(&core.site))
    })
}

async fn attempt(core: &Core, write: &Write, drafted: Drafted, payload: &mut Option<Payload>) -> Reply {
    let prefer = write.prefer;
    let undo = Undo::of(core, write, &drafted.draft);
    let is_asynchronous = is_asynchronous(core, &drafted.draft.verb);
    let mut waiter = match post(core, drafted) {
        Ok(waiter) => waiter,
        Err(problem) => return not_executed(problem),
    };
    let wanted = |stage: &Stage| {
        stage.answer.is_some() || stage.failed.is_some() || prefer.respond_async && stage.recorded
    };
    let patience = Duration::from_millis(core.surroundings.limits().upstream_timeout_ms) + SLACK;
    let Ok(Some(stage)) = timeout(patience, waiter.until(wanted)).await else {
        // The caller waits no longer; the write may go on.
        return unknown(core, waiter.stage().told);
    };
    // From now on the operation refers to it, or another site takes the write over.
    let payload = payload
        .take()
        .filter(|_| matches!(stage.answer, Some(Answer::NotHere(_))));
    if let Some(problem) = stage.failed {
        return not_executed(problem);
    }
    // Whoever asked not to wait is answered alike, however quick the application was.
    let is_promised = prefer.respond_async && stage.recorded;
    let answer = stage
        .answer
        .filter(|answer| !is_promised || matches!(answer, Answer::NotHere(_) | Answer::Gone));
    let Some(answer) = answer else {
        return accepted_for_later(stage.told);
    };
    let told = stage.told.unwrap_or_else(|| told::nothing(&MetaId::new("")));
    match answer {
        Answer::Accepted { status, .. } => {
            let told = wait(core, &mut waiter, prefer, told, is_asynchronous).await;
            if let Some(undo) = undo
                && let Some(refused) = told.sites.iter().find(|visit| told::is_refusal(visit)).cloned()
            {
                return undo.run(core, told, &refused.site, refused.status).await;
            }
            answered(status, waiter.take_answer(), told)
        }
        Answer::Refused { status } => answered(status, waiter.take_answer(), told),
        Answer::Unknown { status } => match (status, waiter.take_answer()) {
            (Some(status), Some(answer)) => answered(status, Some(answer), told),
            _ => unknown(core, Some(told)),
        },
        Answer::NotHere(reason) => {
            if let Some(payload) = payload {
                core.spooled.put(payload);
            }
            elsewhere(&core.site, reason, &told)
        }
        Answer::Gone => not_executed(problems::deleted(&core.site, &told.set)),
        Answer::Noted { .. } => answered(204, None, told),
    }
}

/// A write with the caller that this site has verified.
pub(crate) fn by(mut drafted: Drafted, verified: Option<&cheops_types::Caller>) -> Drafted {
    drafted.draft.request.caller = verified.cloned();
    drafted
}

/// Hands a write to the engine.
fn post(core: &Core, drafted: Drafted) -> Result<Waiter, Problem> {
    let Drafted {
        draft, to, caller, ..
    } = drafted;
    let waiter = core.waiting.register(draft.token, caller);
    let draft = Box::new(draft);
    let input = match to {
        To::New(id) => Input::Create { id, draft },
        To::Set(set) => Input::Request { set, draft },
    };
    core.engine.post(input).map_err(|busy| busy.problem(&core.site))?;
    Ok(waiter)
}

fn hold_payload(core: &Core, body: &KeptBody) -> Result<Option<Payload>, Problem> {
    let Some(payload) = rows::payload(body) else {
        return Ok(None);
    };
    let held = core.spooled.take(&payload).or_else(|| core.spool.pin(&payload));
    held.map(Some).ok_or_else(|| spooled::gone(&core.site))
}

/// Whether a create has an end of its own, which its resource tells.
pub(crate) fn is_asynchronous(core: &Core, verb: &Verb) -> bool {
    let Verb::Create(birth) = verb else {
        return false;
    };
    let profile = core.surroundings.profile();
    profile.kind(&birth.service, &birth.kind).is_asynchronous()
}

/// Waits for the other sites as long as the caller wants.
pub(crate) async fn wait(
    core: &Core,
    waiter: &mut Waiter,
    prefer: Prefer,
    told: Told,
    is_asynchronous: bool,
) -> Told {
    let status = told.sites.first().and_then(|visit| visit.status);
    let mut latest = told;
    if prefer.wait_s.is_some() || prefer.held.is_some() {
        let max_s = core.surroundings.limits().prefer_wait_max_s;
        let patience = Duration::from_secs(prefer.wait_s.unwrap_or(max_s).min(max_s));
        let is_over = |stage: &Stage| stage.told.as_ref().is_some_and(|told| is_over(prefer, told));
        let until = Instant::now() + patience;
        let waited = timeout_at(until, waiter.until(is_over)).await;
        let stage = waited.ok().flatten().unwrap_or_else(|| waiter.stage());
        latest = stage.told.unwrap_or(latest);
        if is_asynchronous && prefer.wait_s.is_some() {
            latest = progress::wait(core, latest, until).await;
        }
    }
    if let Some(here) = latest.sites.first_mut() {
        here.status = here.status.or(status);
    }
    latest.complete = is_satisfied(prefer, &latest);
    latest
}

/// Whether more waiting could change what the caller is told.
fn is_over(prefer: Prefer, told: &Told) -> bool {
    let all = told.sites.iter().all(|visit| visit.outcome != Outcome::Pending);
    all || (prefer.wait_s.is_none() && prefer.held.is_none_or(|held| told.held >= held))
}

fn is_satisfied(prefer: Prefer, told: &Told) -> bool {
    let executed =
        |visit: &cheops_types::Visit| visit.outcome == Outcome::Executed && !told::is_refusal(visit);
    (prefer.wait_s.is_none() || told.sites.iter().all(executed))
        && prefer.held.is_none_or(|held| told.held >= held)
}

pub(crate) fn answered(status: u16, answer: Option<AppAnswer>, told: Told) -> Reply {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    if let Some(answer) = answer {
        *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
        *response.headers_mut() = answer.headers;
        *response.body_mut() = answer.body;
    }
    Reply::Answered { response, told }
}

fn accepted_for_later(told: Option<Told>) -> Reply {
    let told = told.unwrap_or_else(|| told::nothing(&MetaId::new("")));
    answered(202, None, told)
}

fn elsewhere(here: &SiteName, reason: Reason, told: &Told) -> Reply {
    let (code, why) = match reason {
        Reason::Unreachable => (Code::ReplicaUnavailable, "its service cannot be reached"),
        Reason::NoReplica => (Code::ReplicaUnavailable, "it has no replica yet"),
        Reason::NotMember => (Code::ReplicaUnavailable, "it is no longer part of the set"),
        Reason::InDoubt => (
            Code::InDoubt,
            "nobody knows whether an earlier write has executed: look with `cheops ops ls`, settle it with `cheops ops settle`",
        ),
        Reason::Fenced => (
            Code::SetFenced,
            "the set broke a rule of replication here and is left alone: look with `cheops replicas show`, go on with `cheops replicas unfence`",
        ),
        Reason::Meaningless => (Code::SetRefused, "the set cannot be changed like that"),
    };
    let problem = Problem::new(
        code,
        format!(
            "`{here}` cannot take a write to the replica set `{}`: {why}",
            told.set
        ),
    )
    .at(here);
    if reason == Reason::Meaningless {
        return not_executed(problem);
    }
    let others = told.sites.iter().map(|visit| &visit.site);
    Reply::Elsewhere(Elsewhere {
        sites: others.filter(|site| *site != here).cloned().collect(),
        problem,
    })
}

pub(crate) fn not_executed(problem: Problem) -> Reply {
    Reply::Failed {
        problem,
        outcome: Outcome::NotExecuted,
        told: None,
    }
}

pub(crate) fn unknown(core: &Core, told: Option<Told>) -> Reply {
    let detail = format!(
        "the service of `{}` did not answer in time, and the write may have executed: read the resource before you repeat it",
        core.site
    );
    Reply::Failed {
        problem: Problem::new(Code::UnknownOutcome, detail).at(&core.site),
        outcome: Outcome::Unknown,
        told,
    }
}

/// The delete that undoes a create which a site refused, for callers that want all or nothing.
struct Undo {
    request: Request,
    credential: Option<Secret>,
}

impl Undo {
    fn of(core: &Core, write: &Write, draft: &Draft) -> Option<Self> {
        let prefer = &write.prefer;
        let Verb::Create(birth) = &draft.verb else {
            return None;
        };
        let is_wanted = prefer.strict && prefer.wait_s.is_some();
        let profile = core.surroundings.profile();
        let kind = profile.kind(&birth.service, &birth.kind);
        is_wanted.then(|| Self {
            request: Request {
                method: "DELETE".to_owned(),
                path: format!("{}/{{id}}", kind.collection_path(&join_key(&birth.parents, ""))),
                headers: Vec::new(),
                body: KeptBody::EMPTY,
                scope: draft.request.scope.clone(),
                caller: draft.request.caller.clone(),
                shares: Vec::new(),
            },
            credential: draft.credential.clone(),
        })
    }

    async fn run(self, core: &Core, told: Told, refused_by: &SiteName, status: Option<u16>) -> Reply {
        let draft = Draft {
            token: mint::token(&*core.surroundings),
            verb: Verb::Delete,
            touches: Footprint::Whole,
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request: self.request,
            conditions: None,
            credential: self.credential,
            promised: false,
            remakes: false,
        };
        let mut waiter = core.waiting.register_recorded(draft.token);
        let input = Input::Request {
            set: MetaId::new(&told.set),
            draft: Box::new(draft),
        };
        let undone = match core.engine.post(input) {
            Ok(()) => {
                let patience = Duration::from_millis(core.surroundings.limits().upstream_timeout_ms) + SLACK;
                let ended = timeout(patience, waiter.until(|stage| stage.answer.is_some())).await;
                matches!(
                    ended,
                    Ok(Some(Stage {
                        answer: Some(Answer::Accepted { .. }),
                        ..
                    }))
                )
            }
            Err(_) => false,
        };
        let answer = status.map_or(String::new(), |status| format!(" with {status}"));
        let detail = if undone {
            format!("`{refused_by}` refused the create{answer}; it was undone at the other sites")
        } else {
            format!(
                "`{refused_by}` refused the create{answer}, and it could not be undone: delete the replica set `{}`",
                told.set
            )
        };
        Reply::Failed {
            problem: Problem::new(Code::ReplicaRefused, detail).at(refused_by),
            outcome: Outcome::Executed,
            told: Some(told),
        }
    }
}
