//! What groups have to be told from time to time.

use std::{cell::Cell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use cheops_ports::Peers;
use cheops_strong::Groups;
use tokio::{
    task::spawn_local,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::core::Core;

const PERIOD: Duration = Duration::from_millis(100);
/// A site that has lost its store is let in again by the leader, looked for this often.
const RETURNS_EVERY: u32 = 10;
/// How long it may take to let one in.
const LET_IN: Duration = Duration::from_secs(30);

/// Tells the groups which sites come and go, and lets those in again that came back with another store.
pub(crate) async fn keep(core: Arc<Core>, peers: Rc<dyn Peers>, groups: Groups) {
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut up = BTreeMap::new();
    let mut count = 0_u32;
    let is_letting_in = Rc::new(Cell::new(false));
    let life = core.life.incarnation();
    loop {
        tick.tick().await;
        for site in core.surroundings.sites() {
            let is_up = site == core.site || peers.is_up(&site);
            match up.insert(site.clone(), is_up) {
                Some(was_up) if was_up == is_up => {}
                Some(_) if !is_up => groups.peer_down(&site).await,
                _ if is_up => groups.peer_up(&site).await,
                _ => {}
            }
        }
        count = count.wrapping_add(1);
        if count.is_multiple_of(RETURNS_EVERY) && !is_letting_in.replace(true) {
            // Whoever is let in may be gone again: nobody else waits for that.
            let (core, groups, is_over) = (Arc::clone(&core), groups.clone(), Rc::clone(&is_letting_in));
            spawn_local(async move {
                let _ = timeout(LET_IN, let_in_again(&core, &groups)).await;
                is_over.set(false);
            });
        }
        if core.life.incarnation() != life {
            tracing::error!(
                "this site's store turns out to be of the past while the agent runs: nothing strong is written or read here \
                 until it is started again"
            );
            return groups.stop().await;
        }
    }
}

/// A vote of a site counts as long as its store does. One whose store has begun a new life takes part as somebody new.
async fn let_in_again(core: &Core, groups: &Groups) {
    for group in groups.list() {
        if !group.is_leader {
            continue;
        }
        for voter in &group.voters {
            let life = core.lives.of(&voter.site);
            if life.is_some_and(|life| life > voter.incarnation)
                && let Err(error) = groups.add_member(&group.id, &voter.site).await
            {
                tracing::warn!(group = %group.id, site = %voter.site, %error, "a site with a new store is not let in yet");
            }
        }
    }
}
