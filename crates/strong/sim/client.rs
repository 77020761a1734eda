//! Callers: they write, swap and read at random, one thing at a time, and note what they were told.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use cheops_strong::{Intent, ReadError, Token, Verdict, WriteError};
use tokio::time::{sleep, timeout};

use super::{
    app::{Ask, MISMATCH},
    check::{Call, Operation},
    site::World,
};

/// The histories of all registers, by group and set.
pub type Histories = Rc<RefCell<BTreeMap<(usize, String), Vec<Operation>>>>;

/// How often a write follows a hint to another leader.
const HOPS_MAX: usize = 4;

/// What came of a write.
enum Told {
    Verdict(Verdict),
    /// It may have happened, or may yet.
    Unknown,
    /// It did not and will not.
    Nothing,
}

/// One caller, until it is told to stop.
pub async fn call(world: Rc<World>, who: usize, sets: u64, histories: Histories, operations: usize) {
    let mut seen = super::check::EMPTY;
    for _ in 0..operations {
        sleep(Duration::from_millis(world.dice.within(5..900))).await;
        let group = world.dice.index(world.groups.len());
        let set = format!("set{}", world.dice.within(0..sets));
        let members = world.groups[group].founders.len();
        let site = world.dice.index(members);
        let key = (group, set.clone());
        let is_full = histories
            .borrow()
            .get(&key)
            .is_some_and(|history| history.len() >= 120);
        if is_full {
            continue;
        }
        if world.dice.one_in(2) {
            if let Some(value) = read(&world, who, site, &key, &histories).await {
                seen = value;
            }
            continue;
        }
        let to = world.dice.next() >> 1;
        let ask = if world.dice.one_in(3) {
            Ask::Swap { from: seen, to }
        } else {
            Ask::Write(to)
        };
        write(&world, who, site, &key, ask, &histories).await;
    }
}

pub async fn read(
    world: &Rc<World>,
    who: usize,
    site: usize,
    key: &(usize, String),
    histories: &Histories,
) -> Option<u64> {
    let start = world.now();
    let (founding, set) = (world.groups[key.0].clone(), key.1.clone());
    let app = Rc::clone(&world.sites[site].app);
    let pause = Duration::from_millis(world.dice.within(0..10));
    let answer = world.sites[site]
        .ask(async move |groups| {
            let guard = groups.read(&founding, &set).await?;
            sleep(pause).await;
            let value = app.value(cheops_strong::GroupId::of(&founding), &set);
            drop(guard);
            Ok::<u64, ReadError>(value)
        })
        .await;
    let value = answer?.ok()?;
    world.count.reads.set(world.count.reads.get() + 1);
    histories
        .borrow_mut()
        .entry(key.clone())
        .or_default()
        .push(Operation {
            call: Call::Read(value),
            start,
            end: Some(world.now()),
            who: format!("{who} at {site}"),
        });
    Some(value)
}

async fn write(
    world: &Rc<World>,
    who: usize,
    site: usize,
    key: &(usize, String),
    ask: Ask,
    histories: &Histories,
) {
    let start = world.now();
    let told = send(world, site, key, ask).await;
    let end = Some(world.now());
    let maybe = match ask {
        Ask::Write(to) => Call::Write(to),
        Ask::Swap { from, to } => Call::Swapped { from, to },
    };
    let (call, end) = match (told, ask) {
        (Told::Nothing, _) => return,
        (Told::Unknown, _) => {
            world.count.unknown.set(world.count.unknown.get() + 1);
            (maybe, None)
        }
        (Told::Verdict(Verdict::Executed { .. }), _) => (maybe, end),
        (Told::Verdict(Verdict::Refused { status: MISMATCH }), Ask::Swap { from, .. }) => {
            (Call::NotSwapped { from }, end)
        }
        (Told::Verdict(Verdict::Refused { .. }), _) => {
            world.count.refused.set(world.count.refused.get() + 1);
            return;
        }
    };
    world.count.writes.set(world.count.writes.get() + 1);
    histories
        .borrow_mut()
        .entry(key.clone())
        .or_default()
        .push(Operation {
            call,
            start,
            end,
            who: format!("{who} at {site}"),
        });
}

/// Sends a write to a site, and on to where it says that the leader is.
async fn send(world: &Rc<World>, mut site: usize, key: &(usize, String), ask: Ask) -> Told {
    let from = world.sites[site].name.clone();
    for _ in 0..HOPS_MAX {
        let founding = world.groups[key.0].clone();
        let intent = Intent {
            token: Token(u128::from(world.dice.next()) << 64 | u128::from(world.dice.next())),
            set: key.1.clone(),
            from: from.clone(),
            content: ask.to_bytes(),
        };
        let asked = world.sites[site].ask(async move |groups| groups.write(&founding, intent).await);
        // A caller may give up at any time.
        let patience = Duration::from_millis(if world.dice.one_in(10) { 200 } else { 8000 });
        match timeout(patience, asked).await {
            Ok(Some(Ok(verdict))) => return Told::Verdict(verdict),
            Ok(Some(Err(WriteError::NotLeader { leader: Some(leader) })))
                if leader != world.sites[site].name =>
            {
                site = world.index(&leader);
            }
            Ok(Some(Err(WriteError::Unknown | WriteError::Decided)) | None) | Err(_) => {
                return Told::Unknown;
            }
            Ok(Some(Err(_))) => return Told::Nothing,
        }
    }
    Told::Nothing
}
