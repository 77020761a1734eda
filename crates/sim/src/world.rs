//! All sites, the network between them, and time.

mod application;
mod drive;
mod network;
mod operator;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use cheops_replica::{Attempt, Draft, Event, Execution, Found, Message, MetaId, Token};
use cheops_types::SiteName;

use crate::{Errand, Mutant, Node, Oracle, Plan, Resource, Rng};

/// Wall clocks begin here, so that skewed ones have room before it.
const EPOCH_MS: u64 = 1_000_000;

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
    tokens: u128,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    next: u64,
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
    Cut {
        from: usize,
        to: usize,
        is: bool,
    },
    Crash(usize),
    Start(usize),
    LoseStore(usize),
}

impl World {
    pub fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::of(&mut rng);
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
            if let Some(happening) = self.happenings.remove(&id) {
                self.happen(happening);
            }
            if self.steps > STEPS_MAX {
                let what = format!("the schedule does not come to an end: {}", self.unrest());
                self.oracle.violation(what);
                return;
            }
            if !self.oracle.violations.is_empty() {
                return;
            }
        }
        self.now_ms = self.now_ms.max(end_ms);
    }

    fn happen(&mut self, happening: Happening) {
        if self.trace.is_some() {
            self.note(&format!("{happening:?}"));
        }
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
            Happening::Cut { from, to, is } => self.cut[from][to] = is,
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
