//! Names in a container that spans sites, under lost messages, crashes, deletes, a prime site that is removed, and one that
//! loses its store or gets an old copy of it back.
//!
//! The decisions are the product's ([`decide`]); the agents that ask are modelled: reserve, look where the holder should be,
//! create, keep or release, each of which may be the last thing that an agent does.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use cheops_replica::names::{Holding, Moment, decide};
use cheops_types::{NameAsk, NameVerdict, SiteName};

use crate::Rng;

/// How long a create may take from its grant on; the prime site waits longer before it lets anyone look.
const CREATE_MAX_MS: u64 = 900;
const PENDING_MS: u64 = 1000;
const NAMES: usize = 3;

/// A defect made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameMutant {
    /// A name is taken from a create that may be under way.
    Impatient,
    /// A prime site that took over does not look.
    Trusting,
    /// A prime site that lost its store gives names away as if it knew all of them.
    Forgetful,
}

/// One create on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    id: String,
    owner: usize,
    name: usize,
    instead_of: Option<String>,
    is_nowhere: bool,
    asks: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Ask(Attempt),
    Create(Attempt),
    Tell {
        name: usize,
        ask: u8,
        attempt: String,
    },
    Delete {
        site: usize,
        name: usize,
    },
    Remove,
    /// Somebody copies the store of the prime site.
    Copy,
    /// The prime site goes on with that copy, or with nothing.
    Lose {
        is_restored: bool,
    },
}

struct World {
    rng: Rng,
    now_ms: u64,
    sites: Vec<SiteName>,
    /// Those that are left, the prime site first.
    order: Vec<usize>,
    rows: Vec<BTreeMap<usize, Holding>>,
    apps: Vec<BTreeSet<usize>>,
    queue: BinaryHeap<std::cmp::Reverse<(u64, u64, Happening)>>,
    events: u64,
    mutant: Option<NameMutant>,
    made: usize,
    /// When the prime site was removed, or lost its store.
    taken_over_ms: Option<u64>,
    /// Whose store was copied, and what was in it.
    copy: Option<(usize, BTreeMap<usize, Holding>)>,
}

/// Plays a schedule; how many creates succeeded, or what went wrong.
pub fn run(seed: u64, mutant: Option<NameMutant>) -> Result<usize, String> {
    let mut rng = Rng::new(seed);
    let count = rng.between(2, 5) as usize;
    let mut world = World {
        now_ms: 0,
        sites: (0..count)
            .map(|at| SiteName::new(&format!("s{at}")).expect("a name"))
            .collect(),
        order: (0..count).collect(),
        rows: vec![BTreeMap::new(); count],
        apps: vec![BTreeSet::new(); count],
        queue: BinaryHeap::new(),
        events: 0,
        mutant,
        made: 0,
        taken_over_ms: None,
        copy: None,
        rng,
    };
    world.prepare(count);
    while let Some(std::cmp::Reverse((when_ms, _, happening))) = world.queue.pop() {
        world.now_ms = when_ms;
        world.happen(happening);
        if let Some(violation) = world.violation() {
            return Err(format!("names: seed {seed} at {when_ms} ms: {violation}"));
        }
    }
    Ok(world.made)
}

impl World {
    fn prepare(&mut self, count: usize) {
        let end_ms = 20_000;
        for n in 0..self.rng.between(10, 60) {
            let attempt = Attempt {
                id: format!("a{n}"),
                owner: self.rng.index(count),
                name: self.rng.index(NAMES),
                instead_of: None,
                is_nowhere: false,
                asks: 0,
            };
            let when_ms = self.rng.between(0, end_ms);
            self.at(when_ms, Happening::Ask(attempt));
        }
        for _ in 0..self.rng.index(20) {
            let (site, name) = (self.rng.index(count), self.rng.index(NAMES));
            let when_ms = self.rng.between(0, end_ms);
            self.at(when_ms, Happening::Delete { site, name });
        }
        if count > 2 && self.rng.chance(500) {
            let when_ms = self.rng.between(0, end_ms);
            self.at(when_ms, Happening::Remove);
        }
        for _ in 0..self.rng.index(3) {
            let copied_ms = self.rng.between(0, end_ms);
            let lost_ms = self.rng.between(copied_ms, end_ms);
            let is_restored = self.rng.chance(500);
            self.at(copied_ms, Happening::Copy);
            self.at(lost_ms, Happening::Lose { is_restored });
        }
    }

    fn at(&mut self, when_ms: u64, happening: Happening) {
        self.events += 1;
        self.queue
            .push(std::cmp::Reverse((when_ms, self.events, happening)));
    }

    fn soon(&mut self, happening: Happening) {
        let when_ms = self.now_ms + self.rng.between(1, 60);
        self.at(when_ms, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Ask(attempt) => self.ask(attempt),
            Happening::Create(attempt) => self.create(attempt),
            Happening::Tell { name, ask, attempt } => {
                let ask = match ask {
                    0 => NameAsk::Keep { attempt },
                    _ => NameAsk::Release {
                        attempt: Some(attempt),
                    },
                };
                self.decide(name, ask);
            }
            Happening::Delete { site, name } => drop(self.apps[site].remove(&name)),
            Happening::Remove => {
                let prime = self.order.remove(0);
                self.apps[prime].clear();
                self.taken_over_ms = Some(self.now_ms);
            }
            Happening::Copy => {
                let prime = self.order[0];
                self.copy = Some((prime, self.rows[prime].clone()));
            }
            Happening::Lose { is_restored } => self.lose(is_restored),
        }
    }

    /// Creates that were granted go on; what was granted is forgotten.
    fn lose(&mut self, is_restored: bool) {
        let prime = self.order[0];
        let copy = self.copy.as_ref().filter(|(of, _)| is_restored && *of == prime);
        self.rows[prime] = copy.map(|(_, rows)| rows.clone()).unwrap_or_default();
        if self.mutant != Some(NameMutant::Forgetful) {
            self.taken_over_ms = Some(self.now_ms);
        }
    }

    fn decide(&mut self, name: usize, ask: NameAsk) -> NameVerdict {
        let prime = self.order[0];
        let moment = Moment {
            now_ms: self.now_ms,
            pending_ms: match self.mutant {
                Some(NameMutant::Impatient) => 0,
                _ => PENDING_MS,
            },
            successor_since_ms: self
                .taken_over_ms
                .filter(|_| self.mutant != Some(NameMutant::Trusting)),
        };
        let rows = &mut self.rows[prime];
        let (row, verdict) = decide(rows.remove(&name), ask, moment);
        rows.extend(row.map(|row| (name, row)));
        verdict
    }

    fn ask(&mut self, mut attempt: Attempt) {
        let is_member = self.order.contains(&attempt.owner);
        // The message or its answer is lost, or the agent crashes: the name may be reserved.
        let (is_lost, is_answer_lost) = (self.rng.chance(50), self.rng.chance(50));
        if !is_member || is_lost || attempt.asks > 6 {
            return;
        }
        attempt.asks += 1;
        let ask = NameAsk::Reserve {
            owner: self.sites[attempt.owner].clone(),
            attempt: attempt.id.clone(),
            instead_of: attempt.instead_of.take(),
            is_nowhere: attempt.is_nowhere,
            lasts_ms: 0,
        };
        let verdict = self.decide(attempt.name, ask);
        if is_answer_lost {
            return;
        }
        match verdict {
            NameVerdict::Granted => {
                let when_ms = self.now_ms + self.rng.between(1, CREATE_MAX_MS);
                self.at(when_ms, Happening::Create(attempt));
            }
            NameVerdict::Held {
                attempt: holder,
                is_settled: true,
                ..
            } if self.is_nowhere(attempt.name) => {
                attempt.instead_of = Some(holder);
                self.soon(Happening::Ask(attempt));
            }
            NameVerdict::Held { is_settled: true, .. } => {}
            NameVerdict::Held { .. } => self.soon(Happening::Ask(attempt)),
            NameVerdict::Look if self.is_nowhere(attempt.name) => {
                attempt.is_nowhere = true;
                self.soon(Happening::Ask(attempt));
            }
            _ => {}
        }
    }

    fn is_nowhere(&self, name: usize) -> bool {
        !self.order.iter().any(|at| self.apps[*at].contains(&name))
    }

    fn create(&mut self, attempt: Attempt) {
        if !self.order.contains(&attempt.owner) {
            return;
        }
        let is_refused = self.rng.chance(150);
        let app = &mut self.apps[attempt.owner];
        // An application refuses a name that it has.
        let is_made = !is_refused && app.insert(attempt.name);
        self.made += usize::from(is_made);
        // Nobody hears how it ended, or the word about it is lost.
        if self.rng.chance(150) {
            return;
        }
        self.soon(Happening::Tell {
            name: attempt.name,
            ask: u8::from(!is_made),
            attempt: attempt.id,
        });
    }

    /// A name is at one site at most.
    fn violation(&self) -> Option<String> {
        (0..NAMES).find_map(|name| {
            let sites: Vec<_> = self
                .order
                .iter()
                .filter(|at| self.apps[**at].contains(&name))
                .collect();
            (sites.len() > 1).then(|| format!("name {name} is at the sites {sites:?}"))
        })
    }
}
