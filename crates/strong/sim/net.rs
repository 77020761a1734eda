//! Links that are slow, lose and repeat what they carry, and can be cut in one direction.

use std::{cell::Cell, rc::Weak, time::Duration};

use bytes::Bytes;
use cheops_strong::{Unreached, Wire};
use cheops_types::SiteName;
use futures_util::future::LocalBoxFuture;
use tokio::{sync::oneshot, time::sleep};

use super::site::World;

/// How bad the links are.
#[derive(Debug)]
pub struct Weather {
    pub delay_ms: Cell<u64>,
    /// One in so many messages is lost.
    pub loss: Cell<u64>,
}

/// The way out of one site.
pub struct Way {
    pub world: Weak<World>,
    pub from: usize,
}

impl Wire for Way {
    fn send<'a>(&'a self, to: &'a SiteName, body: Bytes) -> LocalBoxFuture<'a, Result<Bytes, Unreached>> {
        let (world, from) = (self.world.upgrade().unwrap(), self.from);
        let to = world.index(to);
        Box::pin(async move {
            let never = std::future::pending::<Result<Bytes, Unreached>>;
            world.count.messages.set(world.count.messages.get() + 1);
            sleep(world.delay()).await;
            if world.is_lost(from, to) {
                return never().await;
            }
            if world.dice.one_in(100) {
                // Once more, later; nobody waits for its answer.
                let (later, body) = (world.delay() * 4, body.clone());
                let again = std::rc::Rc::clone(&world);
                tokio::task::spawn_local(async move {
                    sleep(later).await;
                    drop(again.deliver(from, to, body));
                });
            }
            let Ok(answer) = world.deliver(from, to, body).await else {
                return never().await;
            };
            sleep(world.delay()).await;
            if world.is_lost(to, from) {
                return never().await;
            }
            answer.map_err(|reason| Unreached {
                site: world.sites[to].name.clone(),
                reason,
            })
        })
    }

    fn is_up(&self, site: &SiteName) -> bool {
        let world = self.world.upgrade().unwrap();
        let to = world.index(site);
        world.sites[self.from].sees_up.borrow()[to]
    }

    fn incarnation(&self, site: &SiteName) -> Option<u64> {
        let world = self.world.upgrade().unwrap();
        Some(world.sites[world.index(site)].incarnation.get())
    }
}

impl World {
    pub fn delay(&self) -> Duration {
        let most = self.weather.delay_ms.get() * 1000;
        Duration::from_micros(self.dice.within(most / 4..most + 1))
    }

    pub fn is_lost(&self, from: usize, to: usize) -> bool {
        let loss = self.weather.loss.get();
        self.cuts.borrow().contains(&(from, to)) || (loss > 0 && self.dice.one_in(loss))
    }

    /// Hands a message to a site that runs.
    pub fn deliver(&self, from: usize, to: usize, body: Bytes) -> oneshot::Receiver<Result<Bytes, String>> {
        {
            let mut last = self.last.borrow_mut();
            let longest = last.entry((from, to)).or_default();
            if longest.len() < body.len() {
                *longest = body.clone();
            }
        }
        let (promise, answer) = oneshot::channel();
        let name = self.sites[from].name.clone();
        self.sites[to].run(move |groups| {
            Box::pin(async move {
                let answer = groups.receive(&name, body).await;
                // Whoever asked may have given up.
                let _ = promise.send(answer.map_err(|error| error.to_string()));
            })
        });
        answer
    }
}
