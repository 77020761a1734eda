//! Two sites want the same name at the same time.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::{BOTH, make, names, room};
use crate::harness::Mesh;

const ROUNDS: usize = 500;

#[tokio::test]
async fn exactly_one_of_two_creates_succeeds() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    let mut won = [0, 0];
    for round in 0..ROUNDS {
        let name = format!("n{round}");
        // The prime site is nearer to itself: now and then the other one has a head start.
        let head_start = Duration::from_millis(round as u64 % 4);
        let answers = join_all([1, 2].map(async |site| {
            if site == 1 {
                sleep(head_start).await;
            }
            make(&mesh, site, "foo", &name).await
        }))
        .await;
        let made: Vec<usize> = (0..2).filter(|at| answers[*at].status == 201).collect();
        let refused = answers.iter().filter(|answer| answer.status == 409).count();
        assert_eq!((made.len(), refused), (1, 1), "{name}: {answers:?}");
        won[made[0]] += 1;
    }
    let listed = names(&mesh, 1, "/rooms/foo/boxes?limit=1000").await;
    assert_eq!(listed.len(), ROUNDS);
    // Neither side is always the first.
    println!("won: {won:?}");
    assert!(won.iter().all(|count| *count > 0), "{won:?}");
}
