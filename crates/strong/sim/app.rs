//! The application and the engine of one site: registers, which survive a crash.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::{Rc, Weak},
    time::Duration,
};

use bytes::Bytes;
use cheops_strong::{Decision, GroupId, Intent, Sets, Token, Undecided, Verdict};
use futures_util::future::LocalBoxFuture;
use tokio::{sync::Notify, time::sleep};

use super::{dice::Dice, site::World};

/// What an intent asks for, as text: unique, so that it can be found on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Write(u64),
    Swap { from: u64, to: u64 },
}

impl Ask {
    pub fn to_bytes(self) -> Bytes {
        match self {
            Self::Write(to) => format!("<<write {to}>>").into(),
            Self::Swap { from, to } => format!("<<swap {from} {to}>>").into(),
        }
    }

    fn read(bytes: &Bytes) -> Self {
        let text = std::str::from_utf8(bytes).unwrap();
        let words: Vec<_> = text.trim_matches(['<', '>']).split(' ').collect();
        match words[..] {
            ["write", to] => Self::Write(to.parse().unwrap()),
            ["swap", from, to] => Self::Swap {
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
            },
            _ => panic!("{text}"),
        }
    }
}

/// The status of a swap that found another value, and of a refusal for no reason.
pub const MISMATCH: u16 = 409;
pub const UNWANTED: u16 = 422;

#[derive(Debug, Default)]
struct Register {
    /// Durable, in the order of the log.
    concluded: Vec<(Token, Verdict)>,
    /// How many of them the application has executed.
    executed: usize,
    /// What this site executed as the leader, until its outcome is executed.
    own: BTreeMap<Token, Verdict>,
    is_deciding: bool,
    is_executing: bool,
}

impl Register {
    fn verdict(&self, token: Token) -> Option<&Verdict> {
        self.concluded
            .iter()
            .find(|(other, _)| *other == token)
            .map(|(_, verdict)| verdict)
    }

    /// What the application answers: all that it executed, decided or not.
    fn value(&self) -> u64 {
        let mut value = super::check::EMPTY;
        let own = self
            .own
            .iter()
            .filter(|(token, _)| self.verdict(**token).is_none());
        let known = self.concluded[..self.executed].iter().map(|(_, verdict)| verdict);
        for verdict in known.chain(own.map(|(_, verdict)| verdict)) {
            if let Verdict::Executed { content } = verdict {
                value = std::str::from_utf8(content).unwrap().parse().unwrap();
            }
        }
        value
    }

    fn is_settled(&self) -> bool {
        self.executed == self.concluded.len() && !self.is_deciding
    }
}

type Registers = BTreeMap<(GroupId, String), Register>;

/// See the module.
pub struct App {
    world: Weak<World>,
    site: usize,
    registers: RefCell<Registers>,
    changed: Notify,
    /// Counts crashes: what a former life was doing is not finished by a later one.
    life: Cell<u64>,
    dice: Dice,
    /// Whether the application answers nothing.
    pub is_away: Cell<bool>,
}

impl App {
    pub fn new(world: Weak<World>, site: usize, seed: u64) -> Rc<Self> {
        Rc::new(Self {
            world,
            site,
            registers: RefCell::default(),
            changed: Notify::new(),
            life: Cell::new(0),
            dice: Dice::new(seed),
            is_away: Cell::new(false),
        })
    }

    pub fn crash(&self) {
        self.life.set(self.life.get() + 1);
        for register in self.registers.borrow_mut().values_mut() {
            register.is_deciding = false;
            register.is_executing = false;
        }
    }

    pub fn lose(&self) {
        self.registers.borrow_mut().clear();
    }

    pub fn value(&self, group: GroupId, set: &str) -> u64 {
        self.with(group, set, |register| register.value())
    }

    pub fn concluded(&self, group: GroupId, set: &str) -> Vec<(Token, Verdict)> {
        self.with(group, set, |register| register.concluded.clone())
    }

    fn with<T>(&self, group: GroupId, set: &str, look: impl FnOnce(&mut Register) -> T) -> T {
        let mut registers = self.registers.borrow_mut();
        look(registers.entry((group, set.to_owned())).or_default())
    }

    async fn work(&self, from_ms: u64, to_ms: u64) {
        sleep(Duration::from_millis(self.dice.within(from_ms..to_ms))).await;
    }

    /// Executes what is concluded and sets right what was executed otherwise.
    fn execute(&self, group: GroupId, set: &str) {
        let is_idle = self.with(group, set, |register| {
            !std::mem::replace(&mut register.is_executing, true)
        });
        if !is_idle {
            return;
        }
        let app = Rc::clone(&self.world.upgrade().unwrap().sites[self.site].app);
        let (life, set) = (self.life.get(), set.to_owned());
        tokio::task::spawn_local(async move {
            loop {
                app.work(1, 15).await;
                if app.life.get() != life {
                    return;
                }
                let is_over = app.with(group, &set, |register| {
                    register.executed = (register.executed + 1).min(register.concluded.len());
                    let known: Vec<_> = register.concluded[..register.executed]
                        .iter()
                        .map(|(token, _)| *token)
                        .collect();
                    register.own.retain(|token, _| !known.contains(token));
                    let is_over = register.executed == register.concluded.len();
                    register.is_executing = !is_over;
                    is_over
                });
                app.changed.notify_waiters();
                if is_over {
                    return;
                }
            }
        });
    }

    /// Whether the application refuses for no reason that others could know.
    fn is_moody(&self) -> bool {
        self.world.upgrade().unwrap().is_faulty() && self.dice.one_in(5)
    }

    /// What the application makes of it, in one moment.
    fn try_ask(&self, group: GroupId, intent: &Intent) -> Verdict {
        let executed = |to: u64| Verdict::Executed {
            content: to.to_string().into(),
        };
        self.with(group, &intent.set, |register| {
            if let Some(verdict) = register.verdict(intent.token) {
                return verdict.clone();
            }
            let verdict = match Ask::read(&intent.content) {
                _ if self.is_moody() => Verdict::Refused { status: UNWANTED },
                Ask::Write(to) => executed(to),
                Ask::Swap { from, to } if register.value() == from => executed(to),
                Ask::Swap { .. } => Verdict::Refused { status: MISMATCH },
            };
            register.own.insert(intent.token, verdict.clone());
            verdict
        })
    }
}

impl Sets for App {
    fn decide<'a>(&'a self, group: &'a GroupId, intent: &'a Intent) -> LocalBoxFuture<'a, Decision> {
        Box::pin(async move {
            let known = self.with(*group, &intent.set, |register| {
                let known = register
                    .verdict(intent.token)
                    .or_else(|| register.own.get(&intent.token));
                known.cloned()
            });
            if let Some(verdict) = known {
                return Decision::Verdict(verdict);
            }
            let world = self.world.upgrade().unwrap();
            world.nothing_executes_too_early(*group, intent);
            if self.is_away.get() || world.is_faulty() && self.dice.one_in(10) {
                self.work(1, 50).await;
                return Decision::Undecided(Undecided::NotExecuted);
            }
            let was_deciding = self.with(*group, &intent.set, |register| {
                std::mem::replace(&mut register.is_deciding, true)
            });
            if was_deciding {
                world.fail(format!("two intents of `{}` are executed at once", intent.set));
            }
            if world.is_faulty() && self.dice.one_in(8) {
                self.work(200, 3000).await;
            } else {
                self.work(1, 40).await;
            }
            let verdict = self.try_ask(*group, intent);
            self.with(*group, &intent.set, |register| register.is_deciding = false);
            self.changed.notify_waiters();
            // It has executed, and the answer is on its way.
            if world.is_faulty() && self.dice.one_in(8) {
                self.work(200, 3000).await;
            }
            if world.is_faulty() && self.dice.one_in(15) {
                return Decision::Undecided(Undecided::InDoubt);
            }
            Decision::Verdict(verdict)
        })
    }

    fn conclude<'a>(
        &'a self,
        group: &'a GroupId,
        intent: &'a Intent,
        verdict: &'a Verdict,
    ) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            sleep(Duration::from_micros(self.dice.within(50..2000))).await;
            let known = self.with(*group, &intent.set, |register| {
                register.verdict(intent.token).cloned()
            });
            match known {
                Some(known) if known != *verdict => {
                    let world = self.world.upgrade().unwrap();
                    world.fail(format!(
                        "{} was concluded as {known:?} and as {verdict:?}",
                        intent.token
                    ));
                }
                Some(_) => {}
                None => self.with(*group, &intent.set, |register| {
                    register.concluded.push((intent.token, verdict.clone()));
                }),
            }
            self.execute(*group, &intent.set);
        })
    }

    fn executed<'a>(&'a self, group: &'a GroupId, set: &'a str) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                if self.with(*group, set, |register| register.is_settled()) {
                    return;
                }
                self.execute(*group, set);
                changed.await;
            }
        })
    }

    /// Takes the longest that any site has: what others concluded is decided.
    fn skipped<'a>(&'a self, group: &'a GroupId) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            let world = self.world.upgrade().unwrap();
            world.count.skipped.set(world.count.skipped.get() + 1);
            for other in world.sites.iter().filter(|other| other.app.site != self.site) {
                let theirs = other.app.registers.borrow();
                let mut ours = self.registers.borrow_mut();
                for ((id, set), register) in theirs.iter().filter(|((id, _), _)| id == group) {
                    let own = ours.entry((*id, set.clone())).or_default();
                    if own.concluded.len() < register.concluded.len() {
                        own.concluded.clone_from(&register.concluded);
                    }
                }
            }
            let sets: Vec<String> = self
                .registers
                .borrow()
                .keys()
                .map(|(_, set)| set.clone())
                .collect();
            for set in &sets {
                self.execute(*group, set);
            }
        })
    }
}
