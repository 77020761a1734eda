//! One game: faults for a while, then everything is healed, and what happened is judged.

use std::{panic::AssertUnwindSafe, rc::Rc, time::Duration};

use cheops_strong::{Flaws, GroupId, Tuning};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep},
};

use super::{
    check::check,
    client::{Histories, call, read},
    site::World,
};

/// What is played.
#[derive(Debug, Clone)]
pub struct Plan {
    pub sites: usize,
    pub groups: usize,
    pub sets: u64,
    pub clients: usize,
    pub operations: usize,
    pub tuning: Tuning,
    pub flaws: Flaws,
    /// Whether leadership is moved at random.
    pub moves: bool,
}

impl Plan {
    /// A plan that follows from a seed: three or five sites, groups that sleep soon or never, logs that are short.
    pub fn of(seed: u64) -> Self {
        let is_large = seed.is_multiple_of(4);
        Self {
            sites: if is_large { 5 } else { 3 },
            groups: 1 + usize::from(seed.is_multiple_of(3)),
            sets: 1 + seed % 2,
            clients: 4,
            operations: 16,
            tuning: Tuning {
                write_timeout_ms: 4_000,
                read_timeout_ms: 4_000,
                idle_ms: if seed.is_multiple_of(2) { 1_200 } else { 60_000 },
                log_entries_max: if seed.is_multiple_of(5) { 10 } else { 1_000 },
                follow_ms: 3_000,
                message_bytes: if seed.is_multiple_of(7) { 100 } else { 4 << 20 },
                ..Tuning::default()
            },
            flaws: Flaws::default(),
            moves: seed.is_multiple_of(3),
        }
    }
}

/// What a game came to.
#[derive(Debug, Default)]
pub struct Report {
    pub failures: Vec<String>,
    pub counts: String,
    pub operations: usize,
    pub crashes: u64,
    pub messages: u64,
    pub skipped: u64,
    pub slept: u64,
    pub healed_ms: u64,
}

/// Plays a game. The same seed and plan are the same game.
pub fn play(seed: u64, plan: &Plan) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let plan = plan.clone();
    let game = std::panic::catch_unwind(AssertUnwindSafe(|| {
        LocalSet::new().block_on(&runtime, game(seed, plan))
    }));
    game.unwrap_or_else(|_| Report {
        failures: vec!["it panicked".to_owned()],
        ..Report::default()
    })
}

async fn game(seed: u64, plan: Plan) -> Report {
    let world = World::new(seed, plan.sites, plan.groups, plan.tuning.clone(), plan.flaws);
    for at in 0..plan.sites {
        world.start(at);
        tokio::task::spawn_local(Rc::clone(&world).detect(at));
    }
    tokio::task::spawn_local(Rc::clone(&world).watch_leaders());
    let histories = Histories::default();
    let callers: Vec<_> = (0..plan.clients)
        .map(|who| {
            let calls = call(
                Rc::clone(&world),
                who,
                plan.sets,
                Rc::clone(&histories),
                plan.operations,
            );
            tokio::task::spawn_local(calls)
        })
        .collect();
    let trouble = tokio::task::spawn_local(trouble(Rc::clone(&world), plan.moves));
    for caller in callers {
        caller.await.unwrap();
    }
    trouble.abort();
    let healed_at = Instant::now();
    world.heal();
    settle(&world, plan.sets, &histories).await;
    let healed_ms = healed_at.elapsed().as_millis() as u64;
    for ((group, set), history) in &*histories.borrow() {
        if let Err(history) = check(history) {
            world.fail(format!(
                "`{set}` of group {group} is not linearizable:\n{history}"
            ));
        }
    }
    let operations = histories.borrow().values().map(Vec::len).sum();
    Report {
        failures: world.failures(),
        counts: format!("{:?}", world.count),
        operations,
        crashes: world.count.crashes.get(),
        messages: world.count.messages.get(),
        skipped: world.count.skipped.get(),
        slept: world.count.slept.get(),
        healed_ms,
    }
}

/// Cuts, crashes and loses, until it is ended.
async fn trouble(world: Rc<World>, moves: bool) {
    let sites = world.sites.len();
    loop {
        sleep(Duration::from_millis(world.dice.within(200..2500))).await;
        let (one, other) = (world.dice.index(sites), world.dice.index(sites));
        match world.dice.within(0..10) {
            0 | 1 => {
                world.count.cuts.set(world.count.cuts.get() + 1);
                world.cuts.borrow_mut().insert((one, other));
            }
            2 => {
                world.count.cuts.set(world.count.cuts.get() + 1);
                world.cuts.borrow_mut().extend([(one, other), (other, one)]);
            }
            // One site alone.
            3 => {
                world.count.cuts.set(world.count.cuts.get() + 1);
                let all = (0..sites).filter(|at| *at != one);
                world
                    .cuts
                    .borrow_mut()
                    .extend(all.flat_map(|at| [(one, at), (at, one)]));
            }
            4 | 5 => world.cuts.borrow_mut().clear(),
            6 | 7 if world.sites[one].is_alive() => {
                world.crash(one);
                let (back, world) = (world.dice.within(10..4000), Rc::clone(&world));
                tokio::task::spawn_local(async move {
                    sleep(Duration::from_millis(back)).await;
                    if !world.sites[one].is_alive() {
                        world.start(one);
                    }
                });
            }
            8 => world.weather.loss.set([0, 0, 20, 5][world.dice.index(4)]),
            _ if moves => {
                world.count.transfers.set(world.count.transfers.get() + 1);
                let (founding, to) = (world.groups[0].clone(), world.sites[other].name.clone());
                world.sites[one].run(move |groups| {
                    Box::pin(async move {
                        // Only the leader can; that it may fail is the point.
                        let _ = groups.transfer(&GroupId::of(&founding), &to).await;
                    })
                });
            }
            _ => {}
        }
    }
}

/// Everything works: every member must be able to read before long, and all must have the same.
async fn settle(world: &Rc<World>, sets: u64, histories: &Histories) {
    const PATIENCE_MS: u64 = 60_000;
    for (group, founding) in world.groups.iter().enumerate() {
        for set in (0..sets).map(|set| format!("set{set}")) {
            let mut values = Vec::new();
            for site in 0..founding.founders.len() {
                let key = (group, set.clone());
                let until = Instant::now() + Duration::from_millis(PATIENCE_MS);
                let value = loop {
                    if let Some(value) = read(world, 99, site, &key, histories).await {
                        break Some(value);
                    }
                    if Instant::now() > until {
                        break None;
                    }
                    sleep(Duration::from_millis(100)).await;
                };
                if value.is_none() {
                    world.fail(format!(
                        "site {site} cannot read `{set}` of group {group} after everything was healed"
                    ));
                    return;
                }
                values.push(value);
            }
            // Intents that nobody waited for may still be decided between two reads; the last word is below.
            let until = Instant::now() + Duration::from_millis(PATIENCE_MS);
            loop {
                let id = GroupId::of(founding);
                let apps = world
                    .sites
                    .iter()
                    .take(founding.founders.len())
                    .map(|site| &site.app);
                let have: Vec<_> = apps
                    .map(|app| (app.value(id, &set), app.concluded(id, &set)))
                    .collect();
                if have.windows(2).all(|two| two[0] == two[1]) {
                    break;
                }
                if Instant::now() > until {
                    world.fail(format!("the sites differ in `{set}` of group {group}: {have:?}"));
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
