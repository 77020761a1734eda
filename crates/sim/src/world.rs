//! All sites, the network between them, and time.

mod application;
mod drive;
mod life;
mod network;
mod odd;
mod operator;

pub use odd::Meddling;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use cheops_replica::{
    Attempt, Draft, Effect, Event, Execution, Found, Hello, Message, MetaId, Token, Vector, Welcome,
};
use cheops_types::SiteName;

use crate::{Mutant, Node, Oracle, Plan, Resource, Rng, Story, Twists};

/// Wall clocks begin here, so that skewed ones have room before it.
pub(crate) const EPOCH_MS: u64 = 1_000_000;

pub struct World {
    pub rng: Rng,
    pub plan: Plan,
    pub mutant: Option<Mutant>,
    pub now_ms: u64,
    pub nodes: Vec<Node>,
    /// Directed: `cut[from][to]`.
    pub cut: Vec<Vec<bool>>,
    /// Once healed, nothing goes wrong any more.
    pub healed: bool,
    pub oracle: Oracle,
    pub steps: u64,
    pub trace: Option<Vec<String>>,
    /// What is told of it when it fails.
    pub(crate) story: Option<Story>,
    watch: Watch,
    /// Which happening this is, by what caused it: the seed of its dice. So a happening that is left out changes
    /// the fate of what it causes, and of nothing else.
    lineage: u64,
    lineages: BTreeMap<u64, u64>,
    tokens: u128,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    pub(crate) happenings: BTreeMap<u64, Happening>,
    next: u64,
}

/// Who looks at what the agents of a world do. What must hold is not the world's affair.
#[derive(Clone, Copy)]
pub struct Watch {
    /// A message leaves for a site.
    pub sends: fn(&mut World, &SiteName, &Message),
    /// A step is durable, and nothing of it is released.
    pub promises: fn(&mut World, usize, &MetaId, &[Effect]),
    /// After every commit, with what the set had pruned before it.
    pub commits: fn(&mut World, usize, &MetaId, Option<&Vector>),
    /// A request leaves for an application.
    pub asks: fn(&mut World, usize, &MetaId, &Execution),
    /// A request that must not be repeated is about to be made.
    pub attempts: fn(&mut World, usize, &Execution),
    /// An application has executed a request.
    pub executes: fn(&mut World, usize, Token),
}

/// Something that happens at a moment of virtual time.
#[derive(Debug)]
pub enum Happening {
    Deliver {
        to: usize,
        message: Box<Message>,
    },
    /// A request reaches an application; its answer, if the agent still listens.
    Effect {
        node: usize,
        life: u32,
        set: MetaId,
        execution: Box<Execution>,
        /// What the agent hears instead of the application's own answer.
        instead: Option<Attempt>,
        answer_ms: u64,
    },
    Answer {
        node: usize,
        life: u32,
        set: MetaId,
        event: Box<Event>,
        /// The attempt that this ends.
        ends: Option<Token>,
    },
    Look {
        node: usize,
        life: u32,
        set: MetaId,
        ticket: u64,
        token: Token,
    },
    Wake {
        node: usize,
        set: MetaId,
    },
    Write {
        node: usize,
        set: MetaId,
        draft: Box<Draft>,
    },
    Create {
        node: usize,
        set: MetaId,
        draft: Box<Draft>,
    },
    Adopt {
        node: usize,
        set: MetaId,
        whole: Resource,
    },
    Errand {
        node: usize,
        set: MetaId,
        errand: Errand,
    },
    Check {
        node: usize,
        set: MetaId,
    },
    /// Somebody does something to a replica without telling the agents.
    Meddle {
        node: usize,
        set: MetaId,
        meddling: Meddling,
    },
    /// A payload has come from another site.
    Payload {
        node: usize,
        set: MetaId,
        hash: [u8; 32],
    },
    Cut {
        from: usize,
        to: usize,
        is: bool,
    },
    /// A site asks another one whether its store has been set back.
    Hello {
        from: usize,
        to: usize,
        hello: Hello,
    },
    Welcome {
        from: usize,
        to: usize,
        welcome: Welcome,
    },
    /// A wall clock is set.
    SetClock {
        node: usize,
        skew_ms: i64,
    },
    /// The disk is copied now.
    Copy(usize),
    /// The copy is put back: under the same incarnation, and nobody says so.
    PutBack(usize),
    Crash(usize),
    Start(usize),
    LoseStore(usize),
}

/// What operators do while things go wrong.
#[derive(Debug, Clone, Copy)]
pub enum Errand {
    /// Deal with a conflict.
    Dismiss,
    /// Do what lost once more.
    Reapply,
    /// Give up what does not get on.
    Abandon,
    /// Do not wait any longer.
    Retry,
    /// Say what became of an execution in doubt, as the application shows it.
    Settle,
}

impl Errand {
    pub const ALL: [Self; 3] = [Self::Dismiss, Self::Reapply, Self::Abandon];
    pub const HASTY: [Self; 4] = [Self::Retry, Self::Settle, Self::Settle, Self::Reapply];
}

impl World {
    /// `is_classic`: without twists.
    pub fn new(seed: u64, mutant: Option<Mutant>, is_classic: bool, watch: Watch) -> Self {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::of(&mut rng);
        if !is_classic {
            plan.twists = Twists::of(seed, &mut plan);
        }
        let nodes: Vec<_> = (0..plan.sites)
            .map(|at| {
                let name = SiteName::new(&format!("s{at}")).expect("a name");
                let skew_ms = match plan.skew_max_ms {
                    0 => 0,
                    max => rng.between(0, 2 * max).cast_signed() - max.cast_signed(),
                };
                Node::new(name, 1, skew_ms)
            })
            .collect();
        let cut = vec![vec![false; plan.sites]; plan.sites];
        Self {
            rng,
            plan,
            mutant,
            now_ms: EPOCH_MS,
            nodes,
            cut,
            healed: false,
            oracle: Oracle::default(),
            steps: 0,
            trace: None,
            story: None,
            watch,
            lineage: Rng::new(seed).roll(),
            lineages: BTreeMap::new(),
            tokens: 0,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            next: 0,
        }
    }

    pub fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    pub fn at(&mut self, when_ms: u64, happening: Happening) {
        self.next += 1;
        self.queue.push(Reverse((when_ms.max(self.now_ms), self.next)));
        self.lineage = Rng::new(self.lineage).roll();
        self.lineages.insert(self.next, self.lineage);
        self.happenings.insert(self.next, happening);
    }

    /// Lets everything happen until a moment, or until nothing more is going to.
    pub fn run_until(&mut self, end_ms: u64) {
        const STEPS_MAX: u64 = 200_000;
        while let Some(Reverse((when_ms, id))) = self.queue.peek().copied() {
            if when_ms > end_ms {
                break;
            }
            self.queue.pop();
            self.now_ms = when_ms;
            let lineage = self.lineages.remove(&id);
            if let Some(happening) = self.happenings.remove(&id) {
                self.reseed(lineage.unwrap_or_default());
                self.happen(happening);
            }
            if self.steps > STEPS_MAX {
                let what = format!("end: the schedule does not come to one: {}", self.unrest());
                self.oracle.violation(what);
                return;
            }
            if !self.oracle.violations.is_empty() {
                return;
            }
        }
        self.now_ms = self.now_ms.max(end_ms);
        // What follows, an operator does.
        self.reseed(self.now_ms);
    }

    /// The dice of a happening, and other ones for what it causes.
    fn reseed(&mut self, lineage: u64) {
        const CAUSED: u64 = 0xD6E8_FEB8_6659_FD93;
        self.lineage = Rng::new(lineage ^ CAUSED).roll();
        self.rng = Rng::new(lineage);
    }

    fn happen(&mut self, happening: Happening) {
        if self.trace.is_some() {
            self.note(&format!("{happening:?}"));
        }
        self.tell_happening(&happening);
        match happening {
            Happening::Deliver { to, message } => self.deliver(to, *message),
            Happening::Effect {
                node,
                life,
                set,
                execution,
                instead,
                answer_ms,
            } => self.take_effect(node, life, &set, &execution, instead, answer_ms),
            Happening::Answer {
                node,
                life,
                set,
                event,
                ends,
            } => {
                if self.nodes[node].up && self.nodes[node].life == life {
                    self.recast(node, &set, &event);
                }
                if self.nodes[node].up && self.nodes[node].life == life {
                    let committed = self.drive(node, &set, *event);
                    if let Some(token) = ends.filter(|_| committed) {
                        self.oracle.open.remove(&(node, token));
                    }
                }
            }
            Happening::Look {
                node,
                life,
                set,
                ticket,
                token,
            } => {
                let found = self.nodes[node].app.look(token);
                let failed = !self.healed && self.rng.chance(self.plan.app_fails);
                let found = if failed { Found::Unknown } else { found };
                if self.nodes[node].up && self.nodes[node].life == life {
                    self.drive(node, &set, Event::Looked { ticket, found });
                }
            }
            Happening::Wake { node, set } => {
                self.nodes[node].wakes.remove(&set);
                if self.nodes[node].up {
                    self.drive(node, &set, Event::Wake);
                }
            }
            Happening::Write { node, set, mut draft } => {
                self.divide(node, &set, &mut draft);
                self.spool(node, &mut draft);
                if self.nodes[node].up {
                    self.drive(node, &set, Event::Request(*draft));
                }
            }
            Happening::Create { node, set, mut draft } => {
                self.divide(node, &set, &mut draft);
                self.create(node, &set, *draft);
            }
            Happening::Adopt { node, set, whole } => self.adopt(node, &set, whole),
            Happening::Errand { node, set, errand } => self.run_errand(node, &set, errand),
            Happening::Check { node, set } => {
                if self.nodes[node].up {
                    self.drive(node, &set, Event::Check);
                }
            }
            Happening::Meddle { node, set, meddling } => self.meddle(node, &set, meddling),
            Happening::Payload { node, set, hash } => self.fetch(node, &set, hash),
            Happening::Cut { from, to, is } => self.cut[from][to] = is,
            Happening::Hello { from, to, hello } => self.hear_hello(from, to, &hello),
            Happening::Welcome { from, to, welcome } => self.hear_welcome(from, to, welcome),
            Happening::SetClock { node, skew_ms } => self.set_clock(node, skew_ms),
            Happening::Copy(node) => {
                let node = &mut self.nodes[node];
                node.copy = Some(Box::new(node.disk.clone()));
            }
            Happening::PutBack(node) => self.put_back(node),
            Happening::Crash(node) => self.crash(node),
            Happening::Start(node) => self.start(node),
            Happening::LoseStore(node) => self.lose_store(node),
        }
    }

    pub fn note(&mut self, what: &str) {
        let now_ms = self.now_ms - EPOCH_MS;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now_ms:>6} {what}"));
        }
    }

    pub fn node_of(&self, site: &SiteName) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == *site)
    }
}
