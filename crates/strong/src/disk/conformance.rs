//! What every [`Disks`] must do, as tests that each implementation runs.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use cheops_types::SiteName;

use super::{Disk, Disks, Loaded, Record};
use crate::founding::Founding;

/// No operation of a disk may take as long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs all tests. `reopen` gives the disks of one site, as after a restart each time: what was
/// durable before must be there. Panics on the first rule that is broken.
pub async fn conformance<D: Disks, F: AsyncFnMut() -> D>(mut reopen: F) {
    let founding = |name: &str| {
        let site = |suffix: &str| SiteName::new(&format!("{name}-{suffix}")).expect("a name");
        Founding::of([site("a"), site("b")])
    };
    starts_empty(&reopen().await, &founding("empty")).await;
    keeps_what_is_durable(&mut reopen, &founding("keeps")).await;
    goes_by_the_order_of_the_calls(&mut reopen, &founding("order")).await;
    purges_beyond_the_end(&mut reopen, &founding("beyond")).await;
    tells_its_groups(&reopen().await, &founding("keeps")).await;
}

async fn open(disks: &impl Disks, founding: &Founding) -> Rc<dyn Disk> {
    disks.open(founding).await.expect("a disk")
}

async fn load(disks: &impl Disks, founding: &Founding) -> Loaded {
    open(disks, founding)
        .await
        .load()
        .await
        .expect("what was written")
}

async fn done(durable: super::Durable) {
    tokio::time::timeout(PATIENCE, durable)
        .await
        .expect("in time")
        .expect("written");
}

fn record(index: u64, text: &'static str) -> Record {
    Record {
        index,
        bytes: Bytes::from_static(text.as_bytes()),
    }
}

async fn starts_empty(disks: &impl Disks, founding: &Founding) {
    assert_eq!(load(disks, founding).await, Loaded::default());
}

async fn keeps_what_is_durable<D: Disks>(reopen: &mut impl AsyncFnMut() -> D, founding: &Founding) {
    let disks = reopen().await;
    let disk = open(&disks, founding).await;
    done(disk.save_vote(Bytes::from_static(b"v1"))).await;
    done(disk.append(vec![record(0, "zero"), record(1, "one"), record(2, "two")])).await;
    done(disk.save_vote(Bytes::from_static(b"v2"))).await;
    done(disk.truncate_after(Some(1))).await;
    done(disk.append(vec![record(2, "other"), record(3, "")])).await;
    done(disk.save_snapshot(Bytes::from_static(b"s1"))).await;
    done(disk.save_snapshot(Bytes::from_static(b"s2"))).await;
    done(disk.purge(0, Bytes::from_static(b"p0"))).await;
    drop((disk, disks));
    let loaded = load(&reopen().await, founding).await;
    let expected = Loaded {
        vote: Some(Bytes::from_static(b"v2")),
        purged: Some(Bytes::from_static(b"p0")),
        entries: vec![record(1, "one"), record(2, "other"), record(3, "")],
        snapshot: Some(Bytes::from_static(b"s2")),
    };
    assert_eq!(loaded, expected);
}

/// The futures are polled backwards: what counts is when the functions were called.
async fn goes_by_the_order_of_the_calls<D: Disks>(reopen: &mut impl AsyncFnMut() -> D, founding: &Founding) {
    let disks = reopen().await;
    let disk = open(&disks, founding).await;
    let mut waiting = vec![
        disk.append(vec![record(0, "zero"), record(1, "one")]),
        disk.truncate_after(None),
        disk.append(vec![record(0, "again")]),
        disk.save_vote(Bytes::from_static(b"v1")),
        disk.save_vote(Bytes::from_static(b"v2")),
    ];
    while let Some(durable) = waiting.pop() {
        done(durable).await;
    }
    drop((disk, disks));
    let loaded = load(&reopen().await, founding).await;
    assert_eq!(loaded.entries, [record(0, "again")]);
    assert_eq!(loaded.vote, Some(Bytes::from_static(b"v2")));
}

/// After a snapshot from another member the log begins behind its own end.
async fn purges_beyond_the_end<D: Disks>(reopen: &mut impl AsyncFnMut() -> D, founding: &Founding) {
    let disks = reopen().await;
    let disk = open(&disks, founding).await;
    done(disk.append(vec![record(0, "zero")])).await;
    done(disk.purge(9, Bytes::from_static(b"p9"))).await;
    done(disk.append(vec![record(10, "ten")])).await;
    drop((disk, disks));
    let loaded = load(&reopen().await, founding).await;
    assert_eq!(loaded.entries, [record(10, "ten")]);
    assert_eq!(loaded.purged, Some(Bytes::from_static(b"p9")));
}

async fn tells_its_groups(disks: &impl Disks, founding: &Founding) {
    let groups = disks.groups().await.expect("the groups");
    assert!(groups.contains(founding), "{groups:?}");
    let other = Founding {
        generation: 7,
        ..founding.clone()
    };
    assert!(!groups.contains(&other));
    assert_eq!(load(disks, &other).await, Loaded::default());
}
