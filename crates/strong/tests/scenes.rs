//! What one fault does, step by step, on good links otherwise.

#[path = "../sim/world.rs"]
mod world;

use std::{collections::BTreeSet, rc::Rc, time::Duration};

use cheops_strong::{
    Flaws, Founding, GROUPS_FROM_PEER_MAX, GroupId, GroupStatus, Groups, Intent, ReadError, Refused, Token,
    Tuning, Verdict, WriteError,
};
use cheops_types::SiteName;
use tokio::{
    task::LocalSet,
    time::{Instant, sleep},
};
use world::{app::Ask, site::World};

const SET: &str = "set0";

/// Plays a scene with so many sites, which all run and see each other.
fn scene(sites: usize, tuning: Tuning, scene: impl AsyncFnOnce(Rc<World>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let world = World::new(7, sites, 1, tuning, Flaws::default());
        world.heal();
        for at in 0..sites {
            tokio::task::spawn_local(Rc::clone(&world).detect(at));
        }
        tokio::task::spawn_local(Rc::clone(&world).watch_leaders());
        scene(Rc::clone(&world)).await;
        assert_eq!(world.failures(), [""; 0]);
    });
}

fn founding(world: &World) -> Founding {
    world.groups[0].clone()
}

async fn write(world: &World, at: usize, value: u64) -> Result<Verdict, WriteError> {
    write_from(world, at, at, value).await
}

async fn write_from(world: &World, at: usize, from: usize, value: u64) -> Result<Verdict, WriteError> {
    let (founding, from) = (founding(world), world.sites[from].name.clone());
    let intent = Intent {
        token: Token(u128::from(value) << 64 | 1),
        set: SET.to_owned(),
        from,
        content: Ask::Write(value).to_bytes(),
    };
    let written = world.sites[at].ask(async move |groups: Groups| groups.write(&founding, intent).await);
    written.await.unwrap_or(Err(WriteError::Unknown))
}

/// Writes at whoever leads, until it succeeds; where.
async fn write_somewhere(world: &World, value: u64) -> usize {
    let mut at = (0..world.sites.len())
        .find(|at| world.sites[*at].is_alive())
        .unwrap();
    for token in 0.. {
        match write(world, at, value + token * 1_000_000).await {
            Ok(Verdict::Executed { .. }) => return at,
            Err(WriteError::NotLeader { leader: Some(leader) })
                if world.sites[world.index(&leader)].is_alive() =>
            {
                at = world.index(&leader);
            }
            _ => {
                at = (at + 1) % world.sites.len();
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    unreachable!()
}

async fn read(world: &World, at: usize) -> Result<u64, ReadError> {
    let founding = founding(world);
    let app = Rc::clone(&world.sites[at].app);
    let read = world.sites[at].ask(async move |groups: Groups| {
        let _guard = groups.read(&founding, SET).await?;
        Ok(app.value(GroupId::of(&founding), SET))
    });
    read.await.unwrap_or(Err(ReadError::Stopped))
}

async fn status(world: &World, at: usize) -> GroupStatus {
    let id = GroupId::of(&founding(world));
    world.sites[at]
        .ask(async move |groups: Groups| groups.status(&id))
        .await
        .unwrap()
        .unwrap()
}

fn names(world: &World, sites: &[usize]) -> BTreeSet<SiteName> {
    sites.iter().map(|at| world.sites[*at].name.clone()).collect()
}

fn cut_off(world: &World, at: usize) {
    let others = (0..world.sites.len()).filter(|other| *other != at);
    world
        .cuts
        .borrow_mut()
        .extend(others.flat_map(|other| [(at, other), (other, at)]));
}

#[test]
fn the_first_write_founds_the_group_and_all_members_read_it() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 5).await;
        for at in 0..3 {
            assert_eq!(read(&world, at).await.map(|value| value % 1_000_000), Ok(5));
        }
        let status = status(&world, leader).await;
        assert_eq!(
            (status.is_leader, status.voters.len(), status.open_intents),
            (true, 3, 0)
        );
        let elsewhere = write(&world, (leader + 1) % 3, 6).await;
        let here = Some(world.sites[leader].name.clone());
        assert_eq!(elsewhere, Err(WriteError::NotLeader { leader: here }));
    });
}

#[test]
fn a_dead_leader_is_replaced_within_three_seconds() {
    for (sites, delay_ms) in [(3, 1), (3, 50), (5, 50)] {
        scene(sites, Tuning::default(), async |world| {
            world.weather.delay_ms.set(delay_ms);
            let leader = write_somewhere(&world, 1).await;
            sleep(Duration::from_secs(2)).await;
            world.crash(leader);
            let killed = Instant::now();
            let next = write_somewhere(&world, 2).await;
            let took = killed.elapsed();
            assert_ne!(next, leader);
            assert!(
                took < Duration::from_secs(3),
                "{sites} sites, {delay_ms} ms: {took:?}"
            );
        });
    }
}

#[test]
fn a_minority_refuses_and_says_who_is_missing() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        cut_off(&world, leader);
        sleep(Duration::from_secs(3)).await;
        let began = Instant::now();
        let refused = write(&world, leader, 2).await;
        let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
        let Err(WriteError::NoMajority {
            missing,
            needed: 2,
            members: 3,
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(
            missing.into_iter().collect::<BTreeSet<_>>(),
            names(&world, &others)
        );
        assert!(matches!(
            read(&world, leader).await,
            Err(ReadError::NoMajority { .. })
        ));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        // What was refused never happens.
        world.cuts.borrow_mut().clear();
        let next = write_somewhere(&world, 3).await;
        assert_eq!(
            read(&world, leader).await.map(|value| value % 1_000_000),
            Ok(3),
            "{next}"
        );
    });
}

#[test]
fn a_group_is_not_founded_by_a_minority() {
    scene(3, Tuning::default(), async |world| {
        world.crash(1);
        world.crash(2);
        sleep(Duration::from_secs(3)).await;
        assert!(matches!(
            write(&world, 0, 1).await,
            Err(WriteError::NoMajority { .. })
        ));
        world.start(1);
        sleep(Duration::from_secs(3)).await;
        write_somewhere(&world, 2).await;
        assert_eq!(read(&world, 1).await.map(|value| value % 1_000_000), Ok(2));
    });
}

#[test]
fn a_leader_that_hears_nobody_gives_way() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        // It is heard, it hears nothing; and the failure detector sees nothing of it.
        let into = (0..3).filter(|at| *at != leader).map(|at| (at, leader));
        world.cuts.borrow_mut().extend(into);
        let began = Instant::now();
        let next = loop {
            let others = (0..3).filter(|at| *at != leader);
            let mut next = None;
            for at in others {
                if status(&world, at).await.is_leader {
                    next = Some(at);
                }
            }
            if let Some(next) = next {
                break next;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "nobody else leads");
            sleep(Duration::from_millis(100)).await;
        };
        assert!(matches!(
            write(&world, next, 2).await,
            Ok(Verdict::Executed { .. })
        ));
    });
}

#[test]
fn an_idle_group_sleeps_and_wakes() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        sleep(Duration::from_secs(90)).await;
        for at in 0..3 {
            assert!(!status(&world, at).await.is_awake, "site {at}");
        }
        let before = world.count.messages.get();
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            world.count.messages.get(),
            before,
            "a group that sleeps is silent"
        );
        let began = Instant::now();
        assert_eq!(
            read(&world, (leader + 1) % 3)
                .await
                .map(|value| value % 1_000_000),
            Ok(1)
        );
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(
            status(&world, leader).await.is_leader,
            "nobody else wanted to lead"
        );
        // Asleep, and its leader dies.
        sleep(Duration::from_secs(90)).await;
        assert!(!status(&world, leader).await.is_awake);
        let term = status(&world, leader).await.term;
        world.crash(leader);
        sleep(Duration::from_secs(5)).await;
        let next = write_somewhere(&world, 2).await;
        assert_eq!(
            status(&world, next).await.term,
            term + 1,
            "one election, without a contest"
        );
    });
}

#[test]
fn who_was_away_when_the_group_fell_asleep_does_not_disturb() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        let away = (leader + 1) % 3;
        cut_off(&world, away);
        sleep(Duration::from_secs(120)).await;
        assert!(!status(&world, leader).await.is_awake);
        let term = status(&world, leader).await.term;
        world.cuts.borrow_mut().clear();
        sleep(Duration::from_secs(10)).await;
        let after = status(&world, leader).await;
        assert_eq!((after.is_leader, after.term), (true, term));
        assert_eq!(
            status(&world, away).await.leader.map(|member| member.site),
            Some(world.sites[leader].name.clone())
        );
        sleep(Duration::from_secs(120)).await;
        assert!(!status(&world, away).await.is_awake);
    });
}

#[test]
fn leadership_follows_the_writes() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        let from = (leader + 1) % 3;
        for value in 10..30 {
            let written = write_from(&world, leader, from, value).await;
            if let Err(WriteError::NotLeader { .. }) = written {
                break;
            }
            written.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
        sleep(Duration::from_secs(3)).await;
        assert!(status(&world, from).await.is_leader);
        assert!(matches!(
            write(&world, from, 99).await,
            Ok(Verdict::Executed { .. })
        ));
    });
}

#[test]
fn an_application_that_is_away_has_another_site_lead_and_if_all_are_the_write_is_refused() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        world.sites[leader].app.is_away.set(true);
        let written = write(&world, leader, 2).await;
        assert!(
            matches!(written, Ok(Verdict::Executed { .. })),
            "decided elsewhere: {written:?}"
        );
        assert!(!status(&world, leader).await.is_leader);
    });
    scene(1, Tuning::default(), async |world| {
        write_somewhere(&world, 1).await;
        world.sites[0].app.is_away.set(true);
        assert_eq!(write(&world, 0, 2).await, Ok(Verdict::Refused { status: 503 }));
    });
}

#[test]
fn members_come_and_go_and_come_back_with_a_new_store() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        let lost = (leader + 1) % 3;
        world.lose(lost);
        sleep(Duration::from_secs(3)).await;
        world.start(lost);
        sleep(Duration::from_secs(3)).await;
        let id = GroupId::of(&founding(&world));
        let site = world.sites[lost].name.clone();
        let added = world.sites[leader].ask(async move |groups: Groups| groups.add_member(&id, &site).await);
        assert_eq!(added.await, Some(Ok(())));
        let voters = status(&world, leader).await.voters;
        assert_eq!(voters.len(), 3);
        assert!(
            voters
                .iter()
                .any(|member| member.site == world.sites[lost].name && member.incarnation == 2)
        );
        sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&world, lost).await.map(|value| value % 1_000_000), Ok(1));
        // The other one may go now: two of three are a majority again.
        world.crash((leader + 2) % 3);
        write_somewhere(&world, 4).await;
        let site = world.sites[(leader + 2) % 3].name.clone();
        let at = write_somewhere(&world, 5).await;
        let removed = world.sites[at].ask(async move |groups: Groups| groups.remove_member(&id, &site).await);
        assert_eq!(removed.await, Some(Ok(())));
        assert_eq!(status(&world, at).await.voters.len(), 2);
    });
}

#[test]
fn a_token_is_decided_once() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        assert!(matches!(
            write(&world, leader, 9).await,
            Ok(Verdict::Executed { .. })
        ));
        assert_eq!(write(&world, leader, 9).await, Err(WriteError::Decided));
    });
}

#[test]
fn two_hundred_idle_groups_cost_nothing() {
    let tuning = Tuning {
        idle_ms: 1_000,
        ..Tuning::default()
    };
    scene(3, tuning, async |world| {
        world.is_watching.set(false);
        for generation in 0..200 {
            let founding = Founding {
                generation,
                ..founding(&world)
            };
            let read =
                world.sites[0].ask(async move |groups: Groups| groups.read(&founding, SET).await.map(drop));
            assert_eq!(read.await, Some(Ok(())));
        }
        sleep(Duration::from_secs(60)).await;
        let asleep = world.sites[1]
            .ask(async |groups: Groups| groups.list().iter().filter(|group| !group.is_awake).count());
        assert_eq!(asleep.await, Some(200));
        let before = world.count.messages.get();
        sleep(Duration::from_secs(600)).await;
        assert_eq!(world.count.messages.get(), before);
    });
}

#[test]
fn what_cannot_be_is_refused() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        let (member, third) = ((leader + 1) % 3, (leader + 2) % 3);
        let (speaker, stranger) = (world.sites[leader].name.clone(), world.sites[third].name.clone());
        let told = async |from: SiteName, body: Vec<u8>| {
            let receive = async move |groups: Groups| groups.receive(&from, body.into()).await;
            world.sites[member].ask(receive).await.unwrap()
        };
        assert!(matches!(
            told(speaker.clone(), vec![]).await,
            Err(Refused::Unreadable(_))
        ));
        assert!(matches!(
            told(speaker.clone(), vec![9, 1, 2]).await,
            Err(Refused::Unreadable(_))
        ));
        // A request of the leader, told by others and damaged in every byte.
        let good = world.overheard(leader, member);
        assert!(matches!(
            told(stranger, good.clone()).await,
            Err(Refused::Foreign(_))
        ));
        // The numbers of the largest kind, where a number can be.
        for at in 0..good.len() {
            for byte in [0, 0x7f, 0xc0, 0xcf, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                // Whatever it says now: no panic, and the group goes on.
                let _ = told(speaker.clone(), bad).await;
            }
        }
        write_somewhere(&world, 2).await;
    });
}

#[test]
fn a_peer_brings_only_so_many_groups() {
    let tuning = Tuning {
        idle_ms: 1_000,
        ..Tuning::default()
    };
    scene(3, tuning, async |world| {
        world.is_watching.set(false);
        write_somewhere(&world, 1).await;
        let brings = async |generation: u32| {
            let world = Rc::clone(&world);
            let founding = Founding {
                generation,
                ..founding(&world)
            };
            // The first word of a group is whether somebody has founded it.
            let read =
                world.sites[0].ask(async move |groups: Groups| groups.read(&founding, SET).await.map(drop));
            read.await.unwrap()
        };
        for generation in 1..GROUPS_FROM_PEER_MAX as u32 {
            assert_eq!(brings(generation).await, Ok(()), "{generation}");
        }
        assert!(brings(1_000_000).await.is_err());
        write_somewhere(&world, 2).await;
    });
}

#[test]
fn reads_that_come_together_ask_together() {
    scene(3, Tuning::default(), async |world| {
        let leader = write_somewhere(&world, 1).await;
        sleep(Duration::from_secs(90)).await;
        let at = (leader + 1) % 3;
        assert!(read(&world, at).await.is_ok());
        sleep(Duration::from_secs(3)).await;
        let before = world.count.messages.get();
        let reads: Vec<_> = (0..50)
            .map(|_| {
                let world = Rc::clone(&world);
                tokio::task::spawn_local(async move { read(&world, at).await })
            })
            .collect();
        for read in reads {
            assert_eq!(read.await.unwrap().map(|value| value % 1_000_000), Ok(1));
        }
        let messages = world.count.messages.get() - before;
        assert!(messages < 20, "{messages} messages for 50 reads");
    });
}

#[test]
fn a_member_that_is_far_behind_gets_a_snapshot() {
    let tuning = Tuning {
        log_entries_max: 10,
        ..Tuning::default()
    };
    scene(3, tuning, async |world| {
        let leader = write_somewhere(&world, 1).await;
        let away = (leader + 1) % 3;
        world.crash(away);
        for value in 10..60 {
            assert!(matches!(
                write(&world, leader, value).await,
                Ok(Verdict::Executed { .. })
            ));
        }
        let kept = status(&world, leader).await;
        assert!(kept.log_entries < 40, "{kept:?}");
        world.start(away);
        sleep(Duration::from_secs(3)).await;
        assert_eq!(read(&world, away).await, Ok(59));
        assert!(world.count.skipped.get() > 0);
        // Whoever restarts from the snapshot goes on.
        world.crash(away);
        world.start(away);
        assert_eq!(read(&world, away).await, Ok(59));
    });
}

#[test]
fn a_group_that_nobody_founded_sleeps_too() {
    scene(3, Tuning::default(), async |world| {
        world.crash(1);
        world.crash(2);
        sleep(Duration::from_secs(2)).await;
        assert!(matches!(
            write(&world, 0, 1).await,
            Err(WriteError::NoMajority { .. })
        ));
        sleep(Duration::from_secs(90)).await;
        assert!(!status(&world, 0).await.is_awake);
    });
}
