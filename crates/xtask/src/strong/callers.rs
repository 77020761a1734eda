//! Callers that make, replace, delete and read resources at random, and note what they are told.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    answer,
    history::{Born, Call, Fate, Form, History, Kind, Number, Resource, document, key},
};
use crate::{
    processes::http::{self, Request},
    trouble::{Dice, Site},
};

/// Callers that go to any site, beside one for each site that goes nowhere else: where a majority is, somebody always
/// writes.
const ROAMING: usize = 6;
/// A caller's pause between two requests. The load is bounded by this.
const PAUSE_MS: (u64, u64) = (20, 120);
/// Resources that callers use at the same time: few enough that they meet.
const LIVE: usize = 6;
/// Requests to a resource: enough that most of them meet faults, and that an order is not found by luck.
const USES: u32 = 400;
/// Requests to a resource after its delete.
const AFTER_DELETE: u32 = 12;
/// Callers that make the same name at once.
const RACERS: usize = 3;
/// In the application's words: who chooses the id, it or the caller.
const ITEMS: &str = "items";
const LABELS: &str = "labels";

struct Shared {
    begin: Instant,
    public: Vec<SocketAddr>,
    form: Form,
    stop: AtomicBool,
    numbers: AtomicU64,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    history: History,
    live: Vec<Live>,
    /// Names that somebody makes just now and that others are to make as well.
    races: Vec<Born>,
}

/// A resource that callers may use.
#[derive(Debug, Clone)]
struct Live {
    born: Born,
    path: String,
    /// Requests that it may still get.
    left: u32,
}

/// What a caller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    /// None for a new name.
    Label(Option<Born>),
    Item,
    Use(Born, String, Kind),
}

pub(super) struct Callers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Numbers for those who watch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) resources: usize,
    /// Of creates, writes and deletes.
    pub(super) acknowledged: usize,
    pub(super) unmet: usize,
    pub(super) refused: usize,
    pub(super) unknown: usize,
    /// Of reads.
    pub(super) read: usize,
    pub(super) unread: usize,
    pub(super) unsent: usize,
}

impl Callers {
    pub(super) fn start(seed: u64, begin: Instant, public: Vec<SocketAddr>, form: Form) -> Self {
        let homes = (0..public.len()).map(Some).chain([None; ROAMING]);
        let homes: Vec<Option<Site>> = homes.collect();
        let shared = Arc::new(Shared {
            begin,
            public,
            form,
            stop: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            book: Mutex::default(),
        });
        let threads = homes.into_iter().zip(1..).map(|(home, caller)| {
            let (shared, dice) = (shared.clone(), Dice::of(seed, u64::from(caller)));
            thread::spawn(move || call(&shared, (caller, home), dice))
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    pub(super) fn tally(&self) -> Tally {
        tally(&self.shared.book().history)
    }

    /// Waits until the last answer came or was given up.
    pub(super) fn stop(mut self) -> History {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A caller that panicked has noted what it did before.
            let _ = thread.join();
        }
        std::mem::take(&mut self.shared.book().history)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

pub(super) fn tally(history: &History) -> Tally {
    let mut tally = Tally {
        resources: history.resources.len(),
        unsent: history.unsent,
        ..Tally::default()
    };
    for call in &history.calls {
        *match (call.kind, &call.fate) {
            (Kind::Read, Fate::Done { .. }) => &mut tally.read,
            (Kind::Read, _) => &mut tally.unread,
            (_, Fate::Done { .. }) => &mut tally.acknowledged,
            (_, Fate::Unmet(_)) => &mut tally.unmet,
            (_, Fate::Refused(_)) => &mut tally.refused,
            (_, Fate::Unknown(_)) => &mut tally.unknown,
        } += 1;
    }
    tally
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        self.begin.elapsed().as_micros() as u64
    }

    fn number(&self) -> Number {
        1 + self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

fn call(shared: &Shared, (caller, home): (u32, Option<Site>), mut dice: Dice) {
    while !shared.stop.load(Ordering::Relaxed) {
        let through = home.unwrap_or_else(|| dice.throw(shared.public.len() as u64) as Site);
        let who = (caller, through);
        // Not in the `match`, which would keep the book for as long as the request takes.
        let next = shared.book().next(&mut dice);
        match next {
            Next::Label(born) => make_label(shared, who, born),
            Next::Item => make_item(shared, who),
            Next::Use(born, path, kind) => use_one(shared, who, (born, &path, kind)),
        }
        thread::sleep(Duration::from_millis(dice.between(PAUSE_MS.0, PAUSE_MS.1)));
    }
}

impl Book {
    fn next(&mut self, dice: &mut Dice) -> Next {
        if let Some(born) = self.races.pop() {
            return Next::Label(Some(born));
        }
        self.live.retain(|one| one.left > 0);
        // A create that gets no answer makes nothing to use: what is wanted is not always made by everybody.
        if self.live.len() < LIVE && dice.throw(3) == 0 {
            return if dice.throw(2) == 0 {
                Next::Label(None)
            } else {
                Next::Item
            };
        }
        let at = dice.throw(self.live.len() as u64) as usize;
        let Some(chosen) = self.live.get_mut(at) else {
            return Next::Item;
        };
        let kind = match dice.throw(u64::from(USES)) {
            0 => Kind::Delete,
            dice if dice % 2 == 0 => Kind::Read,
            _ => Kind::Write,
        };
        chosen.left -= 1;
        if kind == Kind::Delete {
            chosen.left = chosen.left.min(AFTER_DELETE);
        }
        Next::Use(chosen.born, chosen.path.clone(), kind)
    }

    fn is_born(&mut self, born: Born, collection: &'static str, path: Option<String>) {
        self.history.resources.entry(born).or_insert(Resource {
            collection,
            path: path.clone(),
        });
        if let Some(path) = path
            && self.live.iter().all(|one| one.born != born)
        {
            self.live.push(Live {
                born,
                path,
                left: USES,
            });
        }
    }
}

/// A name that several callers want to make at once: one of them may.
fn make_label(shared: &Shared, who: (u32, Site), born: Option<Born>) {
    let number = shared.number();
    let born = born.unwrap_or_else(|| {
        shared.book().races.extend([number; RACERS - 1]);
        number
    });
    let path = format!("/{LABELS}");
    let ask = (Kind::Create, number, born);
    let Some((fate, _)) = ask_for(shared, who, ask, &path) else {
        return;
    };
    let path = format!("{path}/{}", key(born));
    // Whatever became of it, its name is known.
    let is_there = !matches!(fate, Fate::Refused(_));
    shared.book().is_born(born, LABELS, is_there.then_some(path));
}

fn make_item(shared: &Shared, who: (u32, Site)) {
    let number = shared.number();
    let path = format!("/{ITEMS}");
    let Some((fate, body)) = ask_for(shared, who, (Kind::Create, number, number), &path) else {
        return;
    };
    let id = answer::id(&body).filter(|_| fate.is_done());
    shared
        .book()
        .is_born(number, ITEMS, id.map(|id| format!("{path}/{id}")));
}

fn use_one(shared: &Shared, who: (u32, Site), (born, path, kind): (Born, &str, Kind)) {
    let number = shared.number();
    ask_for(shared, who, (kind, number, born), path);
}

/// Sends a request and notes what became of it; none if it could not be sent at all.
fn ask_for(
    shared: &Shared,
    (caller, through): (u32, Site),
    (kind, number, born): (Kind, Number, Born),
    path: &str,
) -> Option<(Fate, Value)> {
    let sites = shared.public.len();
    let (method, scope, body) = match kind {
        Kind::Create => ("POST", Some(shared.form.of_writes(sites)), document(born, number)),
        Kind::Write => ("PUT", Some(shared.form.of_writes(sites)), document(born, number)),
        Kind::Delete => ("DELETE", Some(shared.form.of_writes(sites)), Value::Null),
        Kind::Read => ("GET", shared.form.of_reads(sites), Value::Null),
    };
    let Ok(stream) = http::connect(shared.public[through]) else {
        shared.book().history.unsent += 1;
        return None;
    };
    let request = Request {
        method,
        path,
        scope: scope.as_deref(),
        body: &body,
    };
    let sent_us = shared.now_us();
    let answer = http::send(stream, &request);
    let over_us = shared.now_us();
    let fate = answer::fate(kind, shared.form, &answer);
    shared.book().history.calls.push(Call {
        number,
        born,
        kind,
        caller,
        through,
        sent_us,
        over_us,
        fate: fate.clone(),
    });
    Some((fate, answer.map_or(Value::Null, |answer| answer.body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_dice_choose_the_same_and_everything_is_chosen() {
        let choices = |seed| {
            let mut dice = Dice::of(seed, 1);
            let mut book = Book::default();
            for born in 1..=LIVE as Born {
                book.is_born(born, LABELS, Some(format!("/labels/n{born}")));
            }
            (0..3_000).map(|_| book.next(&mut dice)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
        let all = choices(1);
        let is_used = |kind: Kind| {
            all.iter()
                .any(|next| matches!(next, Next::Use(_, _, own) if *own == kind))
        };
        assert!(is_used(Kind::Read) && is_used(Kind::Write) && is_used(Kind::Delete));
        assert!(all.contains(&Next::Item) && all.contains(&Next::Label(None)));
    }

    #[test]
    fn a_name_is_made_by_several_callers() {
        let mut book = Book::default();
        book.races.push(7);
        assert_eq!(book.next(&mut Dice::of(1, 1)), Next::Label(Some(7)));
        book.is_born(7, LABELS, Some("/labels/n7".to_owned()));
        book.is_born(7, LABELS, Some("/labels/n7".to_owned()));
        assert_eq!(book.live.len(), 1);
    }
}
