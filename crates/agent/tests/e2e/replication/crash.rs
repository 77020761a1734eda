//! Agents that are killed at any moment under load: nothing that was acknowledged is lost, nothing is
//! made twice.

mod aftermath;

use std::{
    collections::BTreeMap,
    env,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::Method;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::harness::{Answer, Call, Connection, Mesh};

use super::support::{ALL, replicate_item, text};

/// Kills in an ordinary run; `CHEOPS_KILLS` asks for more.
const KILLS: usize = 15;
const WRITERS: usize = 6;
/// Longest time between two kills.
const PAUSE_MAX_MS: u64 = 400;

/// Small and repeatable; the seed is printed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What one caller asked for and was told. Each uses one site only, so its writes follow each other.
#[derive(Default)]
struct Story {
    /// By collection and by a name that nobody else uses: whether the create was acknowledged.
    made: BTreeMap<(&'static str, String), bool>,
    /// By the path of an item: the last value that was acknowledged, and the last that was asked for.
    values: BTreeMap<String, (u64, u64)>,
}

#[tokio::test]
async fn kills_at_random_moments_lose_nothing_and_make_nothing_twice() {
    let kills = env::var("CHEOPS_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let seed = env::var("CHEOPS_SEED").map_or_else(|_| now_ns(), |seed| seed.parse().unwrap());
    println!("CHEOPS_SEED={seed} CHEOPS_KILLS={kills}");
    let mut dice = Dice(seed);
    let mut mesh = Mesh::of(3)
        .limit("doubt_settle_ms", 1_000)
        .limit("ship_retry_max_ms", 2_000)
        .limit("replay_retry_max_ms", 2_000)
        .limit("replay_blocked_ms", 2_000)
        .start()
        .await;
    let bolt = replicate_item(&mesh, 1, "bolt", ALL).await;

    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let site = 1 + number % 3;
        let writer = Writer {
            number,
            a: mesh.a(site),
            b: mesh.b(site),
            bolt: bolt.id.parse().unwrap(),
            story: Story::default(),
        };
        writers.spawn(writer.write(stop.clone()));
    }
    for _ in 0..kills {
        sleep(Duration::from_millis(20 + dice.throw(PAUSE_MAX_MS))).await;
        let site = 1 + dice.throw(3) as usize;
        mesh.site_mut(site).restart().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut stories = Vec::new();
    while let Some(story) = writers.join_next().await {
        stories.push(story.unwrap());
    }
    for site in 1..=3 {
        for other in (1..=3).filter(|other| *other != site) {
            mesh.site(site).until_sees(&format!("site{other}"), true).await;
        }
    }
    aftermath::settle(&mesh).await;
    aftermath::check(&mesh, &stories).await;
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_nanos() as u64
}

/// A caller that makes and changes resources until it is told to stop, whatever it is answered.
struct Writer {
    number: usize,
    a: SocketAddr,
    b: SocketAddr,
    /// The item that orders are for.
    bolt: u64,
    story: Story,
}

impl Writer {
    async fn write(mut self, stop: Arc<AtomicBool>) -> Story {
        let mut items = Vec::new();
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            count += 1;
            let name = format!("w{}-{count}", self.number);
            match count % 6 {
                1 => {
                    let body = json!({ "name": name });
                    items.extend(self.make(self.b, "items", name, &body).await);
                }
                2 => {
                    let body = json!({ "item": self.bolt, "quantity": 1, "buyer": name });
                    self.make(self.a, "orders", name, &body).await;
                }
                3 => {
                    let body = json!({ "name": name });
                    self.make(self.b, "labels", name, &body).await;
                }
                _ => {
                    if let Some(path) = items.get(count as usize % items.len().max(1)) {
                        self.change(path, count).await;
                    }
                }
            }
        }
        self.story
    }

    /// The path of what was made, if it was acknowledged.
    async fn make(
        &mut self,
        addr: SocketAddr,
        collection: &'static str,
        name: String,
        body: &Value,
    ) -> Option<String> {
        let path = format!("/{collection}");
        let call = Call::new(Method::POST, addr, &path).body(body.to_string());
        let answer = send(call.scope(ALL), addr).await;
        let made = answer.filter(|answer| answer.status == 201);
        self.story.made.insert((collection, name), made.is_some());
        made.map(|answer| format!("{path}/{}", text(&answer.json()["id"])))
    }

    async fn change(&mut self, path: &str, value: u64) {
        let body = json!({ "value": value }).to_string();
        let answer = send(Call::new(Method::PATCH, self.b, path).body(body), self.b).await;
        let (acknowledged, asked) = self.story.values.entry(path.to_owned()).or_default();
        *asked = value;
        if answer.is_some_and(|answer| answer.status == 200) {
            *acknowledged = value;
        }
    }
}

/// Sends once the agent is there; no answer if it is killed before it gives one.
async fn send(call: Call, addr: SocketAddr) -> Option<Answer> {
    let mut connection = loop {
        match Connection::try_open(addr, false, None).await {
            Ok(connection) => break connection,
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    };
    call.try_on(&mut connection).await.ok()
}
