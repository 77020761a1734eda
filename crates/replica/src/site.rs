//! What a site keeps beside its sets.

use std::collections::{BTreeMap, BTreeSet};

use cheops_types::{HybridClock, SiteName};
use serde::{Deserialize, Serialize};

use crate::Token;

/// One site's own state, persisted with every step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    name: SiteName,
    incarnation: u64,
    pub(crate) clock: HybridClock,
    tickets: u64,
    /// Counts the changes that were persisted.
    #[serde(default)]
    steps: u64,
    /// A random number of this start of the agent; 0 where nobody gave one.
    #[serde(default)]
    start: u64,
    /// This life of the store began in this start.
    #[serde(default)]
    is_new: bool,
    /// How old the store became in each of its earlier starts, the last ones.
    #[serde(default)]
    starts: Vec<Age>,
    /// Of each other site, the greatest age that this one has heard of, in each of its last starts.
    #[serde(default)]
    heard: BTreeMap<SiteName, Vec<Age>>,
    /// The sites that have confirmed since the start that this store is not older than what they know.
    #[serde(default)]
    confirmed: BTreeSet<SiteName>,
    /// The sites that have said since the start that the store was set back. Each is believed once: one that lies would else
    /// make this site begin one life after the other.
    #[serde(default)]
    believed: BTreeSet<SiteName>,
    /// The last hello of each other site since this start. Not kept over a start: what was on its way to this site ends
    /// with the connections of the start that it was sent to.
    #[serde(skip)]
    greeted: BTreeMap<SiteName, Greeted>,
}

/// What is kept of a hello, to tell whether another one came before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Greeted {
    age: Age,
    /// The starts that it remembered.
    starts: BTreeSet<u64>,
}

impl Greeted {
    fn of(hello: &Hello) -> Self {
        Self {
            age: hello.age,
            starts: hello.remembered.iter().map(|was| was.start).collect(),
        }
    }

    /// Whether its start is certainly not before that of the other one.
    fn follows(&self, other: &Self) -> bool {
        let start = other.age.start;
        let is_later = self.age.incarnation > other.age.incarnation;
        is_later || self.age.start == start || self.starts.contains(&start)
    }
}

/// Far beyond every clock. A site that claims more does not know better, it lies.
const INCARNATION_MAX: u64 = 1 << 52;

/// How old a site's store is. What a site says later has a greater age; a store that is younger than what others have
/// heard of it has been set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Age {
    pub incarnation: u64,
    pub steps: u64,
    /// The start of the agent in which it was so old.
    pub start: u64,
}

impl Age {
    /// Whether a store of this age has seen less than one of the other.
    fn is_younger_than(self, other: Self) -> bool {
        (self.incarnation, self.steps) < (other.incarnation, other.steps)
    }
}

/// Starts of another site whose ages are kept, and of this one.
const STARTS_MAX: usize = 16;
const OWN_STARTS_MAX: usize = 64;
/// Starts that a hello may tell of. Another version may remember more of its own.
const HELLO_STARTS_MAX: usize = 1_024;

/// What a site that has started asks every other one, until that has answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub age: Age,
    /// How old the store became in its earlier starts, as far as it remembers: of these, nobody has to remind it.
    #[serde(default)]
    pub remembered: Vec<Age>,
}

impl Hello {
    /// What is wrong with a hello that no honest site can have said; none where nothing is.
    pub fn objection(&self) -> Option<&'static str> {
        if self.remembered.len() > HELLO_STARTS_MAX {
            return Some("too many starts");
        }
        let mut ages = self.remembered.iter().chain([&self.age]);
        ages.find_map(|age| age.objection())
    }
}

/// The answer to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The start that said hello.
    pub start: u64,
    /// The greatest age of that site that was heard of in each of its other starts.
    pub known: Vec<Age>,
}

impl Site {
    /// A site whose store is new or restored. `incarnation` must be greater than every earlier one of
    /// this site; milliseconds since 1970 will do.
    pub fn new(name: SiteName, incarnation: u64) -> Self {
        Self {
            name,
            incarnation,
            clock: HybridClock::default(),
            tickets: 0,
            steps: 0,
            start: 0,
            is_new: true,
            starts: Vec::new(),
            heard: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            believed: BTreeSet::new(),
            greeted: BTreeMap::new(),
        }
    }

    /// The same site after a start of its agent. `start` is random, so that no two starts share it, also where the
    /// store was set back in between.
    #[must_use]
    pub fn started(self, start: u64) -> Self {
        let mut starts = self.starts.clone();
        starts.push(self.age());
        if starts.len() > OWN_STARTS_MAX {
            starts.remove(0);
        }
        Self {
            starts,
            start,
            is_new: false,
            confirmed: BTreeSet::new(),
            believed: BTreeSet::new(),
            greeted: BTreeMap::new(),
            ..self
        }
    }

    /// The same site over a store of this incarnation: another one when the store was restored. Clock and
    /// tickets go on.
    pub fn reborn(self, incarnation: u64) -> Self {
        let is_new = self.is_new || incarnation != self.incarnation;
        Self {
            incarnation,
            is_new,
            ..self
        }
    }

    pub fn hello(&self) -> Hello {
        Hello {
            age: self.age(),
            remembered: self.starts.clone(),
        }
    }

    /// Answers another site's hello.
    pub fn welcome(&mut self, from: &SiteName, hello: &Hello) -> Welcome {
        self.hear_of(from, hello.age);
        self.greet(from, hello);
        let start = hello.age.start;
        if let Some(heard) = self.heard.get_mut(from) {
            let remembers = |age: &Age| {
                let mut was = hello.remembered.iter();
                was.any(|was| was.start == age.start && !was.is_younger_than(*age))
            };
            let is_over = |age: &Age| age.incarnation < hello.age.incarnation || remembers(age);
            heard.retain(|age| age.start == start || !is_over(age));
        }
        let heard = self.heard.get(from).into_iter().flatten();
        Welcome {
            start,
            known: heard.copied().filter(|age| age.start != start).collect(),
        }
    }

    fn greet(&mut self, from: &SiteName, hello: &Hello) {
        let now = Greeted::of(hello);
        let before = self.greeted.get(from);
        if before.is_none_or(|before| now.follows(before)) {
            self.greeted.insert(from.clone(), now);
        } else if before.is_some_and(|before| !before.follows(&now)) {
            // The store was set back in between, or this hello is late: nobody here can tell. If it is the start of now, it is
            // welcomed with the other one's age, and begins a new life.
            self.greeted.remove(from);
        }
    }

    /// Whether a message was sent before the start that this site has welcomed. It must not count any more: the store may
    /// have been set back to before it, and having been confirmed, gives the numbers in there to other operations.
    ///
    /// ```text
    /// paris numbers a write 6, sends it, is set back to 5 and starts; rome has not heard of 6 and confirms
    /// paris numbers another write 6; only then the message with the first one reaches rome
    /// ```
    pub(crate) fn is_before_hello(&self, from: &SiteName, age: Age) -> bool {
        let hello = self.greeted.get(from).map(|hello| hello.age);
        // A new life has numbers of its own.
        hello.is_some_and(|hello| age.start != hello.start && age.incarnation <= hello.incarnation)
    }

    /// Takes the answer to this site's own hello. True when the store turns out to have been set back: then its
    /// life is a new one, and the other sites bring it up to date as they do with one that lost its store.
    ///
    /// ```text
    /// paris writes until age 90, its disk is put back to age 40, paris starts and says hello (40)
    /// rome has heard of 90: paris takes a new incarnation; nothing that it numbered between 40 and 90 is
    /// numbered again, and rome sends what paris has forgotten
    /// ```
    pub fn welcomed(&mut self, from: &SiteName, welcome: Welcome, now_ms: u64) -> bool {
        if welcome.start != self.start {
            return false;
        }
        let known = welcome.known.into_iter().take(STARTS_MAX);
        let credible = known.filter(|age| age.incarnation <= INCARNATION_MAX);
        let forgotten = credible.filter(|age| !self.remembers(*age));
        if let Some(age) = forgotten.max() {
            if !self.believed.insert(from.clone()) {
                // A new life has begun since that every honest site knows to be later.
                return false;
            }
            // One that was set back under a slow clock must not take an earlier incarnation again.
            let latest = self.incarnation.max(age.incarnation);
            self.incarnation = latest.saturating_add(1).max(now_ms);
            self.is_new = true;
            self.confirmed.clear();
            return true;
        }
        self.confirmed.insert(from.clone());
        false
    }

    /// Whether the store has been as old as that, in that start, or has begun a new life since.
    fn remembers(&self, age: Age) -> bool {
        if age.incarnation < self.incarnation {
            return true;
        }
        let was = self.starts.iter().rfind(|was| was.start == age.start);
        if let Some(was) = was {
            return !was.is_younger_than(age);
        }
        // Of long ago, or never.
        let oldest = self
            .starts
            .first()
            .filter(|_| self.starts.len() >= OWN_STARTS_MAX);
        oldest.is_some_and(|oldest| !oldest.is_younger_than(age))
    }

    /// Whether all sites that were ever heard of have confirmed the store since the start.
    pub(crate) fn have_all_confirmed(&self) -> bool {
        let mut others = self.heard.keys().filter(|site| **site != self.name).peekable();
        others.peek().is_some() && others.all(|site| self.has_confirmed(site))
    }

    /// Whether a site has confirmed the store since the start.
    pub fn has_confirmed(&self, site: &SiteName) -> bool {
        self.confirmed.contains(site)
    }

    /// The number of this start.
    pub fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(crate) fn hear_of(&mut self, site: &SiteName, age: Age) {
        let ages = self.heard.entry(site.clone()).or_default();
        match ages.iter_mut().find(|known| known.start == age.start) {
            Some(known) => *known = age.max(*known),
            None => ages.push(age),
        }
        if ages.len() > STARTS_MAX {
            // The youngest says least.
            ages.sort_unstable_by_key(|age| std::cmp::Reverse(*age));
            ages.truncate(STARTS_MAX);
        }
    }

    pub fn name(&self) -> &SiteName {
        &self.name
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub fn age(&self) -> Age {
        Age {
            incarnation: self.incarnation,
            steps: self.steps,
            start: self.start,
        }
    }

    /// The age of a store that knows what is written now.
    pub(crate) fn next_age(&self) -> Age {
        Age {
            steps: self.steps.saturating_add(1),
            ..self.age()
        }
    }

    /// Whoever persists a change of a set persists a greater age with it.
    pub fn grow(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    /// Whether nothing has changed that has to be durable by itself. What was heard of others has to be only
    /// together with what they sent.
    pub fn is_like(&self, other: &Self) -> bool {
        let silent = |site: &Self| Self {
            heard: BTreeMap::new(),
            greeted: BTreeMap::new(),
            ..site.clone()
        };
        silent(self) == silent(other)
    }

    pub fn clock(&self) -> &HybridClock {
        &self.clock
    }

    /// A token that nobody has used, made from one that was used once.
    pub(crate) fn derive(&mut self, token: Token) -> Token {
        let ticket = u128::from(self.ticket());
        Token(token.0 ^ (u128::from(self.incarnation) << 64) ^ (ticket << 32))
    }

    pub(crate) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
}
