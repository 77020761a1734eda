use std::{collections::BTreeSet, time::Duration};

use cheops_ports::Later;
use cheops_replica::{Carried, Content};
use http::Response;

use super::*;
use crate::{
    lab::{self, Answer, Lab, failed, site},
    wire::tests::{arrived, message, operation},
};

const ONE_WAY: Duration = Duration::from_millis(150);

/// The other end of a long link that loses some of what it carries, in both directions.
struct Link {
    there: Lab,
    /// Of 100.
    losses: u64,
    dice: Cell<u64>,
    is_up: Cell<bool>,
    bodies: Cell<usize>,
    /// Set and number of every operation, in the order of arrival.
    arrived: RefCell<Vec<(String, u64)>>,
}

impl Link {
    fn new(there: Lab, losses: u64) -> Rc<Self> {
        Rc::new(Self {
            there,
            losses,
            dice: Cell::new(1),
            is_up: Cell::new(true),
            bodies: Cell::new(0),
            arrived: RefCell::default(),
        })
    }

    fn loses(&self) -> bool {
        let next = self
            .dice
            .get()
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.dice.set(next);
        (next >> 33) % 100 < self.losses
    }
}

impl Peers for Link {
    fn ask<'a>(&'a self, to: &'a SiteName, request: Request<Body>, _is_long: bool) -> Later<'a, Answer> {
        use http_body_util::BodyExt as _;
        Box::pin(async move {
            assert_eq!(to.as_str(), "b");
            assert_eq!(request.uri().path(), "/.cheops/replication/messages");
            self.bodies.set(self.bodies.get() + 1);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            tokio::time::sleep(ONE_WAY).await;
            if self.loses() {
                return Err(failed(Outcome::Unknown));
            }
            for message in arrived(&self.there.core, &site("a"), &body) {
                if let Content::Operations(carried) = message.content {
                    let set = message.set.to_string();
                    let numbers = carried.iter().map(|carried| (set.clone(), carried.op.id.seq));
                    self.arrived.borrow_mut().extend(numbers);
                }
            }
            tokio::time::sleep(ONE_WAY).await;
            if self.loses() {
                return Err(failed(Outcome::Unknown));
            }
            Ok(Response::builder().status(204).body(Body::Empty).unwrap())
        })
    }

    fn is_up(&self, _: &SiteName) -> bool {
        self.is_up.get()
    }
}

fn single(set: u64, seq: u64, body: &[u8]) -> Message {
    let carried = Carried {
        op: operation("a", seq, body),
        credential: None,
    };
    message("a", &format!("set{set}"), Content::Operations(vec![carried]))
}

/// On a clock that stands still while anything can move.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

async fn idle(outboxes: &Outboxes) {
    while outboxes.of(&site("b")).lanes.iter().any(|lane| lane.busy.get()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn ends(losses: u64) -> (Lab, Rc<Link>) {
    let ca = lab::mesh();
    (Lab::in_mesh("a", &ca), Link::new(Lab::in_mesh("b", &ca), losses))
}

#[test]
fn ten_thousand_messages_arrive_over_a_link_with_losses() {
    let (here, link) = ends(20);
    let outboxes = Outboxes::new(Arc::clone(&here.core), link.clone());
    let wanted: BTreeSet<(String, u64)> = (1..=10_000)
        .map(|number| (format!("set{}", number % 97), number))
        .collect();
    run(async {
        let mut missing = wanted.clone();
        // The engine sends again what it does not know to have arrived.
        while !missing.is_empty() {
            for number in missing.iter().map(|(_, number)| number) {
                outboxes.send(&site("b"), single(number % 97, *number, b"{}"));
            }
            idle(&outboxes).await;
            for found in link.arrived.borrow().iter() {
                missing.remove(found);
            }
        }
    });
    let found: BTreeSet<_> = link.arrived.borrow().iter().cloned().collect();
    assert!(found == wanted);
    assert_eq!(outboxes.of(&site("b")).bytes.get(), 0);
    // Many messages share a body.
    assert!(link.bodies.get() < 1000, "{}", link.bodies.get());
}

#[test]
fn the_messages_of_a_set_do_not_overtake_each_other() {
    let (here, link) = ends(0);
    let outboxes = Outboxes::new(Arc::clone(&here.core), link.clone());
    run(async {
        for number in 1..=2_000 {
            outboxes.send(&site("b"), single(number % 7, number, b"{}"));
            if number % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(70)).await;
            }
        }
        idle(&outboxes).await;
    });
    let arrived = link.arrived.borrow();
    assert_eq!(arrived.len(), 2_000);
    for set in 0..7 {
        let set = format!("set{set}");
        let numbers: Vec<_> = arrived
            .iter()
            .filter(|(of, _)| *of == set)
            .map(|(_, number)| number)
            .collect();
        assert!(numbers.is_sorted());
    }
}

#[test]
fn a_long_link_carries_megabytes_a_second_even_for_one_set() {
    let (here, link) = ends(0);
    let outboxes = Outboxes::new(Arc::clone(&here.core), link.clone());
    let body = vec![b'x'; 60_000];
    let bytes = 200 * body.len();
    let elapsed = run(async {
        let start = tokio::time::Instant::now();
        for number in 1..=200 {
            outboxes.send(&site("b"), single(1, number, &body));
        }
        idle(&outboxes).await;
        start.elapsed()
    });
    assert_eq!(link.arrived.borrow().len(), 200);
    let per_second = bytes as f64 / elapsed.as_secs_f64();
    assert!(per_second > 5e6, "{per_second} bytes per second");
}

#[test]
fn nothing_waits_for_a_site_that_is_down() {
    let (here, link) = ends(0);
    link.is_up.set(false);
    let outboxes = Outboxes::new(Arc::clone(&here.core), link.clone());
    run(async {
        outboxes.send(&site("b"), single(1, 1, b"{}"));
        idle(&outboxes).await;
        assert_eq!(link.bodies.get(), 0);

        // Nor for one that goes down meanwhile.
        link.is_up.set(true);
        for number in 0..300 {
            outboxes.send(&site("b"), single(1, number, &vec![b'x'; 60_000]));
        }
        tokio::task::yield_now().await;
        link.is_up.set(false);
        link.dice.set(u64::MAX);
        idle(&outboxes).await;
        assert!(link.bodies.get() <= 1, "{}", link.bodies.get());
        assert_eq!(outboxes.of(&site("b")).bytes.get(), 0);
    });
}

#[test]
fn an_outbox_is_bounded() {
    let ca = lab::mesh();
    let here = Lab::with("a", Some(lab::identity(&ca, "a")), |limits| {
        limits.ship_outbox_max_bytes = 100_000;
    });
    let link = Link::new(Lab::in_mesh("b", &ca), 0);
    let outboxes = Outboxes::new(Arc::clone(&here.core), link.clone());
    run(async {
        for number in 0..100 {
            outboxes.send(&site("b"), single(number, number, &[b'x'; 10_000]));
            assert!(outboxes.of(&site("b")).bytes.get() <= 100_000);
        }
        idle(&outboxes).await;
        let some = link.arrived.borrow().len();
        assert!((1..10).contains(&some), "{some}");
        // One that is longer than the bound goes when nothing else waits.
        outboxes.send(&site("b"), single(200, 200, &vec![b'x'; 200_000]));
        idle(&outboxes).await;
        assert_eq!(link.arrived.borrow().len(), some + 1);
    });
}

#[test]
fn what_does_not_get_to_a_site_is_noted_until_it_can_be_reached() {
    let (here, link) = ends(100);
    let outboxes = Outboxes::new(Arc::clone(&here.core), link.clone());
    let missed = || here.core.missed.take(&site("b"));
    run(async {
        outboxes.send(&site("b"), single(1, 1, b"{}"));
        outboxes.send(&site("b"), single(1, 2, b"{}"));
        idle(&outboxes).await;
        assert_eq!(missed(), [MetaId::new("set1")], "lost on the way");
        link.is_up.set(false);
        outboxes.send(&site("b"), single(2, 1, b"{}"));
        assert_eq!(missed(), [MetaId::new("set2")], "not sent at all");
    });
    assert_eq!(outboxes.of(&site("b")).bytes.get(), 0);
    assert!(missed().is_empty());
}
