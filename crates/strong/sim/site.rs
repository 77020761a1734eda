//! Sites that crash and come back.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use cheops_strong::{Flaws, Founding, GroupId, Groups, Intent, Member, Parts, Tuning, disk::MemoryDisks};
use cheops_types::SiteName;
use futures_util::future::LocalBoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    task::LocalSet,
    time::{Instant, sleep},
};

use super::{
    app::App,
    dice::Dice,
    net::{Way, Weather},
};

type Job = Box<dyn FnOnce(Groups) -> LocalBoxFuture<'static, ()>>;

/// One site: what survives a crash, and what runs if it runs.
pub struct Site {
    pub name: SiteName,
    pub disks: Rc<MemoryDisks>,
    pub app: Rc<App>,
    /// What the failure detector of this site thinks of the others.
    pub sees_up: RefCell<Vec<bool>>,
    jobs: RefCell<Option<mpsc::UnboundedSender<Job>>>,
    kill: RefCell<Option<oneshot::Sender<()>>>,
    lives: Cell<u64>,
    /// Of its store.
    pub incarnation: Cell<u64>,
}

impl Site {
    pub fn is_alive(&self) -> bool {
        self.jobs.borrow().is_some()
    }

    /// Runs something at the site; if it is dead, or dies on the way, it is lost.
    pub fn run(&self, job: impl FnOnce(Groups) -> LocalBoxFuture<'static, ()> + 'static) {
        if let Some(jobs) = &*self.jobs.borrow() {
            // Lost if it dies right now.
            let _ = jobs.send(Box::new(job));
        }
    }

    /// Asks the site something.
    pub async fn ask<T: 'static>(&self, ask: impl AsyncFnOnce(Groups) -> T + 'static) -> Option<T> {
        let (promise, answer) = oneshot::channel();
        self.run(move |groups| {
            Box::pin(async move {
                let _ = promise.send(ask(groups).await);
            })
        });
        answer.await.ok()
    }
}

/// What happened, to see that something did.
#[derive(Debug, Default)]
pub struct Count {
    pub messages: Cell<u64>,
    pub crashes: Cell<u64>,
    pub cuts: Cell<u64>,
    pub skipped: Cell<u64>,
    pub writes: Cell<u64>,
    pub reads: Cell<u64>,
    pub unknown: Cell<u64>,
    pub refused: Cell<u64>,
    pub slept: Cell<u64>,
    pub transfers: Cell<u64>,
}

/// See the module `world`.
pub struct World {
    pub seed: u64,
    pub dice: Dice,
    pub sites: Vec<Site>,
    pub groups: Vec<Founding>,
    pub weather: Weather,
    pub cuts: RefCell<BTreeSet<(usize, usize)>>,
    pub tuning: Tuning,
    pub flaws: Flaws,
    pub count: Count,
    is_faulty: Cell<bool>,
    failures: RefCell<Vec<String>>,
    leaders: RefCell<BTreeMap<(GroupId, u64), Member>>,
    /// Whether groups are looked at all the time.
    pub is_watching: Cell<bool>,
    /// The last message with entries on each link.
    pub last: RefCell<BTreeMap<(usize, usize), bytes::Bytes>>,
    began: Instant,
}

impl World {
    pub fn new(seed: u64, sites: usize, groups: usize, tuning: Tuning, flaws: Flaws) -> Rc<Self> {
        let dice = Dice::new(seed);
        let names: Vec<_> = (0..sites)
            .map(|at| SiteName::new(&format!("site{at}")).unwrap())
            .collect();
        Rc::new_cyclic(|world| Self {
            seed,
            sites: names
                .iter()
                .enumerate()
                .map(|(at, name)| Site {
                    name: name.clone(),
                    disks: Rc::new(MemoryDisks::new(dice.within(100..5000))),
                    app: App::new(world.clone(), at, dice.next()),
                    sees_up: RefCell::new(vec![true; sites]),
                    jobs: RefCell::default(),
                    kill: RefCell::default(),
                    lives: Cell::default(),
                    incarnation: Cell::new(1),
                })
                .collect(),
            // The first of all sites, others of three.
            groups: (0..groups)
                .map(|at| Founding {
                    founders: names
                        .iter()
                        .take(if at == 0 { sites } else { 3 })
                        .cloned()
                        .collect(),
                    generation: at as u32,
                })
                .collect(),
            weather: Weather {
                delay_ms: Cell::new(dice.within(1..60)),
                loss: Cell::new(0),
            },
            cuts: RefCell::default(),
            tuning,
            flaws,
            count: Count::default(),
            is_faulty: Cell::new(true),
            failures: RefCell::default(),
            leaders: RefCell::default(),
            is_watching: Cell::new(true),
            last: RefCell::default(),
            began: Instant::now(),
            dice,
        })
    }

    /// A message that was once on a link, the longest.
    pub fn overheard(&self, from: usize, to: usize) -> Vec<u8> {
        self.last.borrow()[&(from, to)].to_vec()
    }

    pub fn index(&self, name: &SiteName) -> usize {
        self.sites.iter().position(|site| site.name == *name).unwrap()
    }

    pub fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    pub fn is_faulty(&self) -> bool {
        self.is_faulty.get()
    }

    pub fn fail(&self, what: impl std::fmt::Display) {
        let mut failures = self.failures.borrow_mut();
        if failures.len() < 20 {
            failures.push(format!("at {} us: {what}", self.now()));
        }
    }

    pub fn failures(&self) -> Vec<String> {
        self.failures.borrow().clone()
    }

    /// Starts a site, from what its disks hold.
    pub fn start(self: &Rc<Self>, at: usize) {
        let site = &self.sites[at];
        let (jobs, mut todo) = mpsc::unbounded_channel::<Job>();
        let (kill, killed) = oneshot::channel();
        site.jobs.replace(Some(jobs));
        site.kill.replace(Some(kill));
        site.lives.set(site.lives.get() + 1);
        site.sees_up.replace(vec![true; self.sites.len()]);
        if self.flaws.forget_votes {
            site.disks.drop_votes();
        }
        let world = Rc::clone(self);
        let seed = self.dice.next();
        tokio::task::spawn_local(async move {
            // All tasks of this life, which end together.
            let life = LocalSet::new();
            let site = &world.sites[at];
            let parts = Parts {
                here: Member {
                    site: site.name.clone(),
                    incarnation: site.incarnation.get(),
                },
                wire: Rc::new(Way {
                    world: Rc::downgrade(&world),
                    from: at,
                }),
                disks: Rc::clone(&site.disks) as _,
                sets: Rc::clone(&site.app) as _,
                tuning: world.tuning.clone(),
                seed,
            };
            let flaws = world.flaws;
            let living = life.run_until(async move {
                let groups = Groups::start_flawed(parts, flaws).await.unwrap();
                while let Some(job) = todo.recv().await {
                    tokio::task::spawn_local(job(groups.clone()));
                }
            });
            tokio::select! {
                biased;
                _ = killed => {}
                () = living => {}
            }
        });
    }

    /// Ends all tasks of a site at once; its disks lose what they had not synced.
    pub fn crash(&self, at: usize) {
        let site = &self.sites[at];
        site.jobs.replace(None);
        site.kill.replace(None);
        site.app.crash();
        site.disks.crash();
        self.count.crashes.set(self.count.crashes.get() + 1);
    }

    /// As [`World::crash`], and the site comes back with a new store.
    pub fn lose(&self, at: usize) {
        self.crash(at);
        let site = &self.sites[at];
        site.disks.lose();
        site.app.lose();
        site.incarnation.set(site.incarnation.get() + 1);
    }

    /// From now on everything works.
    pub fn heal(self: &Rc<Self>) {
        self.is_faulty.set(false);
        self.cuts.borrow_mut().clear();
        self.weather.loss.set(0);
        for at in 0..self.sites.len() {
            if !self.sites[at].is_alive() {
                self.start(at);
            }
        }
    }

    /// A site that did not hear another for a while takes it for down.
    pub async fn detect(self: Rc<Self>, at: usize) {
        const DOWN_AFTER: u32 = 4;
        let mut misses = vec![0; self.sites.len()];
        loop {
            sleep(Duration::from_millis(250)).await;
            for other in (0..self.sites.len()).filter(|other| *other != at) {
                let is_cut = {
                    let cuts = self.cuts.borrow();
                    cuts.contains(&(at, other)) || cuts.contains(&(other, at))
                };
                let is_heard = self.sites[other].is_alive() && self.sites[at].is_alive() && !is_cut;
                misses[other] = if is_heard { 0 } else { misses[other] + 1 };
                let is_up = misses[other] < DOWN_AFTER;
                let was_up = std::mem::replace(&mut self.sites[at].sees_up.borrow_mut()[other], is_up);
                let name = self.sites[other].name.clone();
                match (was_up, is_up) {
                    (true, false) => {
                        self.sites[at].run(|groups| Box::pin(async move { groups.peer_down(&name).await }));
                    }
                    (false, true) => {
                        self.sites[at].run(|groups| Box::pin(async move { groups.peer_up(&name).await }));
                    }
                    _ => {}
                }
            }
        }
    }

    /// At most one leader in each term; and no group may end by itself.
    pub async fn watch_leaders(self: Rc<Self>) {
        loop {
            sleep(Duration::from_millis(40)).await;
            if !self.is_watching.get() {
                continue;
            }
            for site in &self.sites {
                let world = Rc::clone(&self);
                site.run(move |groups| {
                    Box::pin(async move {
                        for status in groups.list() {
                            if status.is_stopped {
                                world.fail(format!("a group has ended at {}", status.me));
                            }
                            if !status.is_awake {
                                world.count.slept.set(world.count.slept.get() + 1);
                            }
                            if !status.is_leader {
                                continue;
                            }
                            let mut leaders = world.leaders.borrow_mut();
                            let first = leaders
                                .entry((status.id, status.term))
                                .or_insert_with(|| status.me.clone());
                            if *first != status.me {
                                world.fail(format!("{first} and {} lead in term {}", status.me, status.term));
                            }
                        }
                    })
                });
            }
        }
    }

    /// A majority must hold an intent before any site executes it.
    pub fn nothing_executes_too_early(&self, group: GroupId, intent: &Intent) {
        let founding = self
            .groups
            .iter()
            .find(|founding| GroupId::of(founding) == group)
            .unwrap();
        let members = self
            .sites
            .iter()
            .filter(|site| founding.founders.contains(&site.name));
        let holders = members
            .filter(|site| site.disks.holds(founding, &intent.content))
            .count();
        if holders < founding.majority() {
            self.fail(format!("{} executes and {holders} sites hold it", intent.token));
        }
    }
}
