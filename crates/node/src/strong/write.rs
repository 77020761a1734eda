//! A write to a strong set, from its caller's side.

use std::{sync::Arc, time::Duration};

use cheops_plan::Target;
use cheops_ports::{Elsewhere, Prefer, Reply, Told, Write};
use cheops_replica::{Answer, MetaId, Verb};
use cheops_strong::{Founding, GroupId, Intent, Verdict, WriteError};
use cheops_types::{Code, Consistency, KeptBody, Outcome, Problem, SiteName};
use tokio::time::{Instant, sleep, timeout};

use super::content::{Asked, Where};
use crate::{
    caller,
    core::Core,
    draft::{Drafted, To},
    mint::NewId,
    named, problems, rows, told,
    waiting::{Stage, Waiter},
    write::{answered, by, drafted, is_asynchronous, not_executed, unknown, wait},
};

/// How long the site of a caller may take to execute what is decided, before its caller is answered all the same.
const OWN_SITE: Duration = Duration::from_secs(5);
/// In this time a site that is up has told of itself.
const HEARTBEATS: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The engine's own answer follows the group's at once.
const ENGINE: Duration = Duration::from_secs(10);

/// Whether the sites of a set decide together what is written to it.
pub(crate) fn is_strong(core: &Core, target: &Target) -> Result<bool, Problem> {
    match target {
        Target::New { consistency, .. } => Ok(*consistency == Consistency::Strong),
        Target::Cross(_) => Ok(false),
        Target::Set { meta, .. } => {
            let head = core.store.read_with(|read| rows::head(read, &MetaId::new(meta)));
            let head = head.map_err(|error| problems::store(&core.site, &error))?;
            Ok(head.is_some_and(|head| !head.consistency.is_eventual()))
        }
    }
}

pub(crate) async fn write(core: Arc<Core>, write: Arc<Write>) -> Reply {
    if matches!(write.request.body(), KeptBody::Spooled { .. }) {
        let max = core.surroundings.limits().inline_body_max_bytes;
        let detail = format!(
            "a write to a strong set may have {max} bytes at most (`inline_body_max_bytes`), because all of its sites hold it \
             before any of them executes it; nothing executed"
        );
        return not_executed(Problem::new(Code::BodyTooLarge, detail).at(&core.site));
    }
    let verified = caller::verified(&core, &write).await;
    let drafted = match drafted(&core, &write).await {
        Ok(drafted) => by(drafted, verified.as_ref()),
        Err(problem) => return not_executed(problem),
    };
    match propose(&core, &write, drafted) {
        Ok(proposed) => proposed.run(&core, &write).await,
        Err(problem) => not_executed(problem),
    }
}

/// A write on its way to its group.
struct Proposed {
    founding: Founding,
    intent: Intent,
    waiter: Waiter,
    is_asynchronous: bool,
}

fn propose(core: &Core, write: &Write, drafted: Drafted) -> Result<Proposed, Problem> {
    let Drafted {
        mut draft,
        to,
        caller,
        ..
    } = drafted;
    // The caller is answered when it is decided, not before.
    draft.promised = false;
    let (token, sites) = (draft.token, sites(core, &draft.verb, &to)?);
    let is_asynchronous = is_asynchronous(core, &draft.verb);
    let (set, to) = match to {
        To::Set(meta) => (meta.as_str().to_owned(), Where::Set(meta.as_str().to_owned())),
        To::New(NewId::Named) => match &draft.verb {
            Verb::Create(birth) => {
                let first = named::derive(birth);
                (
                    first.map_or_else(String::new, |meta| meta.to_string()),
                    Where::Named,
                )
            }
            _ => return Err(problems::unknown_set(&core.site, &MetaId::new(""))),
        },
        To::New(NewId::Given(meta)) => (meta.as_str().to_owned(), Where::New(meta.as_str().to_owned())),
        To::New(NewId::Integer(part)) => {
            let meta = part.draw(&*core.surroundings);
            (meta.as_str().to_owned(), Where::New(meta.as_str().to_owned()))
        }
    };
    let content = Asked { to, draft }.pack(core, &sites).ok_or_else(|| {
        let detail = "the write cannot be written down; nothing executed";
        Problem::new(Code::Internal, detail).at(&core.site)
    })?;
    Ok(Proposed {
        founding: Founding::of(sites),
        intent: Intent {
            token: cheops_strong::Token(token.0),
            set,
            from: write.from.clone().unwrap_or_else(|| core.site.clone()),
            content,
        },
        waiter: core.waiting.register(token, caller),
        is_asynchronous,
    })
}

/// The sites that decide.
fn sites(core: &Core, verb: &Verb, to: &To) -> Result<Vec<SiteName>, Problem> {
    match (verb, to) {
        (Verb::Create(birth), To::New(_)) => Ok(birth.sites.iter().cloned().collect()),
        (_, To::Set(meta)) => {
            let head = core.store.read_with(|read| rows::head(read, meta));
            let head = head.map_err(|error| problems::store(&core.site, &error))?;
            let head = head.ok_or_else(|| problems::unknown_set(&core.site, meta))?;
            Ok(head.sites)
        }
        _ => Err(problems::unknown_set(&core.site, &MetaId::new(""))),
    }
}

impl Proposed {
    async fn run(self, core: &Arc<Core>, write: &Write) -> Reply {
        let Self {
            founding,
            intent,
            mut waiter,
            is_asynchronous,
        } = self;
        hear_of_all(core, &founding).await;
        let token = cheops_replica::Token(intent.token.0);
        let _own = core.own_intents.begin(GroupId::of(&founding), &intent);
        let reply = decide(core, write, (founding, intent), &mut waiter, is_asynchronous).await;
        // Whatever becomes of it now, becomes of it without its caller, whose headers nobody needs any more.
        core.waiting.take_caller(token);
        reply
    }
}

async fn decide(
    core: &Arc<Core>,
    write: &Write,
    (founding, intent): (Founding, Intent),
    waiter: &mut Waiter,
    is_asynchronous: bool,
) -> Reply {
    let set = MetaId::new(&intent.set);
    let nothing = || told::nothing(&set);
    match core.groups.write(founding.clone(), intent).await {
        Ok(Verdict::Executed { .. }) => {
            let ended = timeout(ENGINE, waiter.until(|stage| stage.answer.is_some())).await;
            let stage = ended.ok().flatten().unwrap_or_else(|| waiter.stage());
            let told = stage.told.clone().unwrap_or_else(nothing);
            let Some(Answer::Accepted { status, .. }) = stage.answer else {
                // It is decided, and its site says so later.
                return unknown(core, Some(told));
            };
            let told = at_callers_site(waiter, told, write.from.as_ref()).await;
            let told = wait(core, waiter, prefer(write), told, is_asynchronous).await;
            answered(status, waiter.take_answer(), told)
        }
        Ok(Verdict::Refused { status }) => {
            let stage = waiter.stage();
            if let Some(problem) = stage.failed {
                return not_executed(problem);
            }
            match waiter.take_answer() {
                Some(answer) => answered(status, Some(answer), stage.told.unwrap_or_else(nothing)),
                None => not_executed(refused(core, status)),
            }
        }
        Err(error) => failed(core, &founding, &error, waiter.stage()),
    }
}

/// A group is founded by stores, not by names. An agent that has just started has not heard yet which store each site has.
async fn hear_of_all(core: &Core, founding: &Founding) {
    let is_known = |site: &SiteName| *site == core.site || core.lives.of(site).is_some();
    let until = Instant::now() + HEARTBEATS;
    while !founding.founders.iter().all(is_known) && Instant::now() < until {
        sleep(LOOK_AGAIN).await;
    }
}

/// Waiting is the caller's choice, being answered before it is decided is not.
fn prefer(write: &Write) -> Prefer {
    Prefer {
        respond_async: false,
        ..write.prefer
    }
}

/// Whoever has written through another site reads there what it wrote.
async fn at_callers_site(waiter: &mut Waiter, told: Told, from: Option<&SiteName>) -> Told {
    let Some(from) = from else {
        return told;
    };
    let has_executed = |told: &Told| {
        let mut sites = told.sites.iter();
        sites.all(|visit| visit.site != *from || visit.outcome != Outcome::Pending)
    };
    let is_over = |stage: &Stage| stage.told.as_ref().is_some_and(has_executed);
    let ended = timeout(OWN_SITE, waiter.until(is_over)).await;
    ended.ok().flatten().and_then(|stage| stage.told).unwrap_or(told)
}

fn refused(core: &Core, status: u16) -> Problem {
    let code = match status {
        404 => Code::UnknownReplicaSet,
        410 => Code::ResourceDeleted,
        400..=499 => Code::SetRefused,
        _ => Code::ReplicaUnavailable,
    };
    let detail = format!(
        "the sites of the resource have refused the write: the site that had to decide could not execute it ({status}); nothing \
         executed"
    );
    Problem::new(code, detail).at(&core.site)
}

fn failed(core: &Core, founding: &Founding, error: &WriteError, stage: Stage) -> Reply {
    let here = &core.site;
    let sites = || {
        founding
            .founders
            .iter()
            .map(SiteName::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match error {
        WriteError::NotLeader { leader: Some(leader) } if leader != here => {
            let detail =
                format!("site `{leader}` decides what is written to this resource, and cannot be reached");
            Reply::Elsewhere(Elsewhere {
                sites: vec![leader.clone()],
                problem: Problem::new(Code::NoMajority, detail).at(here),
            })
        }
        WriteError::NotLeader { .. } => not_executed(no_majority(
            here,
            &format!("{} have no leader yet: try again in a second", sites()),
        )),
        WriteError::NoMajority {
            missing,
            needed,
            members,
        } => not_executed(no_majority(
            here,
            &format!(
                "{needed} of the {members} sites that decide are needed, and {}",
                away(missing)
            ),
        )),
        WriteError::Unknown | WriteError::Decided => unknown(core, stage.told),
        WriteError::Full => not_executed(
            Problem::new(
                Code::StoreBusy,
                format!(
                    "too many writes wait for the sites {} to decide: try again later; nothing executed",
                    sites()
                ),
            )
            .at(here),
        ),
        WriteError::NotMember => not_executed(
            Problem::new(
                Code::SetRefused,
                format!(
                    "site `{here}` is none of the sites that decide: {}; nothing executed",
                    sites()
                ),
            )
            .at(here),
        ),
        WriteError::Stopped => not_executed(problems::stopping(here)),
    }
}

/// Who is missing, as far as that is known.
pub(super) fn away(missing: &[SiteName]) -> String {
    match missing {
        [] => "too few of the others answer".to_owned(),
        sites => {
            let names: Vec<_> = sites.iter().map(SiteName::as_str).collect();
            format!("{} cannot be reached", names.join(", "))
        }
    }
}

pub(super) fn no_majority(here: &SiteName, why: &str) -> Problem {
    Problem::new(Code::NoMajority, format!("{why}; nothing executed")).at(here)
}
