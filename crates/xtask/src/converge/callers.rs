//! Callers that make, change and delete resources at random, and note what they are told.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use cheops_types::Receipt;
use serde_json::{Value, json};

use super::history::{
    Acknowledged, CHOSEN_FILE, Document, FIELDS, Fate, History, Kind, Resource, SITES, Write, WriteId, body,
};
use crate::{
    processes::http::{self, Answer, Request},
    trouble::{Dice, Site, name, origin},
};

pub(super) const CALLERS: usize = 6;
/// A caller's pause between two writes. The load is bounded by this: at most 6 callers, 30 writes a second each.
const PAUSE_MS: (u64, u64) = (30, 150);
/// Resources that callers change at the same time: few enough that they meet.
const LIVE: usize = 10;
/// Writes to one resource. Marks of patches stay in it, so it does not grow without bound either.
const WRITES_MAX: u32 = 40;
/// Writes to a resource after its delete, of callers that do not know yet.
const AFTER_DELETE: u32 = 4;
/// Who chooses the id: the application, the caller as a name, the caller as an id that it may leave out.
const COLLECTIONS: [&str; 3] = ["items", "labels", "files"];

/// What all callers share.
pub(super) struct Shared {
    pub(super) begin: Instant,
    public: Vec<SocketAddr>,
    pub(super) stop: AtomicBool,
    ids: AtomicU32,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    history: History,
    live: Vec<Live>,
    /// Requests that no agent took.
    unsent: usize,
}

/// A resource that callers may change.
#[derive(Debug, Clone)]
struct Live {
    born: WriteId,
    path: String,
    scope: String,
    /// Writes that it may still get.
    left: u32,
}

pub(super) struct Callers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Numbers for those who watch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) resources: usize,
    pub(super) writes: usize,
    pub(super) acknowledged: usize,
    pub(super) refused: usize,
    pub(super) doubt: usize,
    pub(super) unsent: usize,
}

impl Callers {
    pub(super) fn start(seed: u64, begin: Instant, public: Vec<SocketAddr>) -> Self {
        let shared = Arc::new(Shared {
            begin,
            public,
            stop: AtomicBool::new(false),
            ids: AtomicU32::new(0),
            book: Mutex::default(),
        });
        let threads = (1..=CALLERS as u64).map(|caller| {
            let (shared, dice) = (shared.clone(), Dice::of(seed, caller));
            thread::spawn(move || call(&shared, dice))
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    pub(super) fn tally(&self) -> Tally {
        let book = self.shared.book();
        tally(&book.history, book.unsent)
    }

    /// Waits until the last answer came or was given up.
    pub(super) fn stop(mut self) -> (History, usize) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A caller that panicked has noted what it did before.
            let _ = thread.join();
        }
        let mut book = self.shared.book();
        (std::mem::take(&mut book.history), book.unsent)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

pub(super) fn tally(history: &History, unsent: usize) -> Tally {
    let count = |is: fn(&Fate) -> bool| history.writes.iter().filter(|write| is(&write.fate)).count();
    Tally {
        resources: history.resources.len(),
        writes: history.writes.len(),
        acknowledged: count(|fate| matches!(fate, Fate::Acknowledged(_))),
        refused: count(|fate| matches!(fate, Fate::Refused { .. })),
        doubt: count(|fate| matches!(fate, Fate::Doubt { .. })),
        unsent,
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    fn id(&self) -> WriteId {
        1 + self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

fn call(shared: &Shared, mut dice: Dice) {
    while !shared.stop.load(Ordering::Relaxed) {
        let through = dice.throw(SITES as u64) as Site;
        // Not in the `match`, which would keep the book for as long as the request takes.
        let chosen = choose(&mut shared.book().live, &mut dice);
        match chosen {
            Some((live, kind)) => change(shared, through, &live, kind),
            None => make(shared, through, &mut dice),
        }
        thread::sleep(Duration::from_millis(dice.between(PAUSE_MS.0, PAUSE_MS.1)));
    }
}

/// A resource and what to do with it; none to make another one.
fn choose(live: &mut Vec<Live>, dice: &mut Dice) -> Option<(Live, Kind)> {
    live.retain(|one| one.left > 0);
    if live.len() < LIVE || dice.throw(25) == 0 {
        return None;
    }
    let at = dice.throw(live.len() as u64) as usize;
    let kind = match dice.throw(100) {
        0 => Kind::Delete,
        1..=24 => Kind::Replace,
        _ => Kind::Patch(dice.throw(FIELDS as u64) as usize),
    };
    let chosen = live.get_mut(at)?;
    chosen.left -= 1;
    if kind == Kind::Delete {
        chosen.left = chosen.left.min(AFTER_DELETE);
    }
    Some((chosen.clone(), kind))
}

fn make(shared: &Shared, through: Site, dice: &mut Dice) {
    let id = shared.id();
    let collection = dice.pick(&COLLECTIONS).copied().unwrap_or("items");
    let sites = some_sites(dice);
    let scope = sites
        .iter()
        .map(|site| name(*site))
        .collect::<Vec<_>>()
        .join(" & ");
    let mut body = body(id, id, Kind::Create);
    let chosen = match collection {
        "labels" => Some(format!("n{id}")),
        // Half of them have an id that the agent chooses, by which it finds its own work again.
        "files" if dice.throw(2) == 0 => Some(format!("{CHOSEN_FILE}{id:012}")),
        _ => None,
    };
    if let ("files", Some(chosen)) = (collection, &chosen) {
        body["id"] = json!(chosen);
    }
    let path = format!("/{collection}");
    let Some((sent_ms, answer)) = ask(shared, through, ("POST", &path), &scope, &body) else {
        return;
    };
    let fate = fate(shared.now_ms(), &answer);
    let given = answer
        .as_ref()
        .ok()
        .and_then(|answer| text(&answer.body[id_member(collection)]));
    let resource = Resource {
        born: id,
        collection,
        id: chosen.or(given),
        set: answer.ok().and_then(|answer| receipt(&answer)?.set),
        sites,
    };
    let mut book = shared.book();
    if let (Fate::Acknowledged(_), Some(own)) = (&fate, &resource.id) {
        book.live.push(Live {
            born: id,
            path: format!("{path}/{own}"),
            scope,
            left: WRITES_MAX,
        });
    }
    book.history.resources.insert(id, resource);
    book.history.writes.push(Write {
        id,
        born: id,
        kind: Kind::Create,
        through,
        sent_ms,
        fate,
    });
}

fn change(shared: &Shared, through: Site, live: &Live, kind: Kind) {
    let id = shared.id();
    let method = match kind {
        Kind::Delete => "DELETE",
        Kind::Patch(_) => "PATCH",
        Kind::Create | Kind::Replace => "PUT",
    };
    let body = body(id, live.born, kind);
    let Some((sent_ms, answer)) = ask(shared, through, (method, &live.path), &live.scope, &body) else {
        return;
    };
    let write = Write {
        id,
        born: live.born,
        kind,
        through,
        sent_ms,
        fate: fate(shared.now_ms(), &answer),
    };
    shared.book().history.writes.push(write);
}

/// Sends a request, and when it did; none if it could not be sent at all.
fn ask(
    shared: &Shared,
    through: Site,
    (method, path): (&str, &str),
    scope: &str,
    body: &Value,
) -> Option<(u64, anyhow::Result<Answer>)> {
    let Ok(stream) = http::connect(shared.public[through]) else {
        shared.book().unsent += 1;
        return None;
    };
    let sent_ms = shared.now_ms();
    let request = Request {
        method,
        path,
        scope: Some(scope),
        body,
    };
    Some((sent_ms, http::send(stream, &request)))
}

/// All sites more often than two of them.
fn some_sites(dice: &mut Dice) -> Vec<Site> {
    let left_out = dice.throw(5) as Site;
    (0..SITES).filter(|site| *site != left_out).collect()
}

fn id_member(collection: &str) -> &'static str {
    if collection == "labels" { "name" } else { "id" }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn receipt(answer: &Answer) -> Option<Receipt> {
    Receipt::parse(answer.receipt.as_deref()?).ok()
}

/// What an answer says of a write.
fn fate(at_ms: u64, answer: &anyhow::Result<Answer>) -> Fate {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let why = format!("no answer: {error}");
            return Fate::Doubt { at_ms, why };
        }
    };
    let why = || format!("{} {}", answer.status, shown(&answer.body));
    let receipt = receipt(answer);
    match answer.status {
        200..=299 => match receipt.and_then(|receipt| receipt.operation) {
            Some(operation) => Fate::Acknowledged(Acknowledged {
                at_ms,
                origin: origin(&operation).unwrap_or(0),
                operation,
                seen: Document::read(&answer.body),
            }),
            // Nobody promised anything: it may have executed where nothing is replicated.
            None => Fate::Doubt {
                at_ms,
                why: format!("{} without an operation", answer.status),
            },
        },
        400..=499 => Fate::Refused { at_ms, why: why() },
        _ if receipt.is_some_and(|receipt| receipt.certainly_not_executed()) => {
            Fate::Refused { at_ms, why: why() }
        }
        _ => Fate::Doubt { at_ms, why: why() },
    }
}

/// The code of an error, or what else it says.
fn shown(body: &Value) -> String {
    body["code"]
        .as_str()
        .map_or_else(|| body.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged_by_its_status_and_its_receipt() {
        let answer = |status, receipt: Option<&str>| {
            Ok(Answer {
                status,
                receipt: receipt.map(str::to_owned),
                warning: None,
                body: Value::Null,
            })
        };
        let good =
            r#"plan=replicate, sites=("site2";outcome=executed;status=200), operation="72:site2.9.0.3""#;
        let Fate::Acknowledged(acknowledged) = fate(5, &answer(200, Some(good))) else {
            panic!("not acknowledged");
        };
        assert_eq!(
            (acknowledged.origin, acknowledged.operation.as_str()),
            (1, "72:site2.9.0.3")
        );
        let nowhere = r#"plan=replicate, sites=("site2";outcome=not-executed;error="peer_down")"#;
        let unknown = r#"plan=replicate, sites=("site2";outcome=unknown)"#;
        for (answer, is_refused) in [
            (answer(404, None), true),
            (answer(503, Some(nowhere)), true),
            (answer(504, Some(unknown)), false),
            (answer(502, None), false),
            (answer(200, None), false),
            (Err(anyhow::anyhow!("closed")), false),
        ] {
            let fate = fate(5, &answer);
            assert_eq!(matches!(fate, Fate::Refused { .. }), is_refused, "{answer:?}");
            assert!(!matches!(fate, Fate::Acknowledged(_)), "{answer:?}");
        }
    }

    #[test]
    fn the_same_dice_choose_the_same() {
        let live = |born| Live {
            born,
            path: String::new(),
            scope: String::new(),
            left: WRITES_MAX,
        };
        let choices = |seed| {
            let mut dice = Dice::of(seed, 1);
            let mut all: Vec<_> = (1..=LIVE as WriteId).map(live).collect();
            (0..50)
                .map(|_| choose(&mut all, &mut dice).map(|(live, kind)| (live.born, format!("{kind:?}"))))
                .collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }
}
