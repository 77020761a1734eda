//! One group at this site.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    rc::Rc,
    sync::Arc,
};

use cheops_types::SiteName;
use futures_util::future::join_all;
use openraft::{AsyncRuntime, Config, ServerState, SnapshotPolicy, async_runtime::watch::WatchReceiver};
use tokio::{
    sync::{Mutex, Notify, RwLock},
    time::Instant,
};

use crate::{
    codec::{Reply, Request},
    disk::Disk,
    error::WriteError,
    founding::{Founding, GroupId},
    log_store::LogStore,
    machine::Machine,
    member::Member,
    network::Links,
    runtime::Runtime,
    site::{Site, ms},
    types::{Types, term_of},
};

mod attend;
mod change;
mod read;
mod receive;
mod sleep;
mod write;

pub use read::ReadGuard;
use read::Rounds;

type Raft = openraft::Raft<Types, Machine>;

/// A member of a group: openraft, and what openraft does not know.
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) founding: Founding,
    site: Rc<Site>,
    me: Member,
    raft: Raft,
    machine: Machine,
    log: LogStore,
    links: Links,
    /// One for each set that is written or read now: writers alone, readers together, first come first served.
    gates: RefCell<BTreeMap<String, Arc<RwLock<()>>>>,
    writes: Cell<usize>,
    rounds: Rounds,
    founding_now: Mutex<()>,
    /// Sites whose callers wrote last, the latest last.
    writers: RefCell<VecDeque<SiteName>>,
    followed_at: Cell<Option<Instant>>,
    /// New writes go there: this site is about to stop leading.
    handing_over: RefCell<Option<SiteName>>,
    /// The term whose open intents were taken over.
    taken_over: Cell<Option<u64>>,
    is_awake: Cell<bool>,
    used_at: Cell<Instant>,
    /// Since when the group is awake or asleep.
    turned_at: Cell<Instant>,
    /// When this member may stand for election again.
    elect_at: Cell<Option<Instant>>,
    /// When this member stands for election if its leader's site is still down.
    stand_at: Cell<Option<Instant>>,
    /// Something happened for the attendant.
    nudge: Notify,
    is_stopped: Cell<bool>,
}

/// Who leads, as this member knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// This member, in this term.
    Here(u64),
    There(Member),
    Nobody,
}

/// Members that would be needed and seem to be down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) sites: Vec<SiteName>,
    pub(crate) needed: usize,
    pub(crate) members: usize,
}

impl From<Missing> for WriteError {
    fn from(missing: Missing) -> Self {
        Self::NoMajority {
            missing: missing.sites,
            needed: missing.needed,
            members: missing.members,
        }
    }
}

impl Group {
    /// Goes on from what the disk holds.
    pub(crate) async fn open(site: Rc<Site>, founding: Founding) -> io::Result<Rc<Self>> {
        let id = GroupId::of(&founding);
        let disk: Rc<dyn Disk> = site.disks.open(&founding).await?;
        let loaded = disk.load().await?;
        let log = LogStore::new(Rc::clone(&disk), &loaded, site.flaws.forget_votes)?;
        let machine = Machine::new(
            id,
            disk,
            Rc::clone(&site.sets),
            loaded.snapshot.as_ref(),
            log.last().map(|log_id| log_id.index),
            site.flaws,
        )?;
        let me = site.here.clone();
        let links = Links {
            founding: founding.clone(),
            me: me.clone(),
            wire: Rc::clone(&site.wire),
            request_timeout: ms(site.tuning.request_timeout_ms),
            message_bytes: site.tuning.message_bytes,
            is_muted: Rc::default(),
        };
        let config = Arc::new(config(&site, id).map_err(io::Error::other)?);
        let raft = Raft::new(me.clone(), config, links.clone(), log.clone(), machine.clone())
            .await
            .map_err(io::Error::other)?;
        let now = Instant::now();
        let group = Rc::new(Self {
            id,
            founding,
            me,
            raft,
            machine,
            log,
            links,
            gates: RefCell::default(),
            writes: Cell::default(),
            rounds: Rounds::default(),
            founding_now: Mutex::default(),
            writers: RefCell::default(),
            followed_at: Cell::default(),
            handing_over: RefCell::default(),
            taken_over: Cell::default(),
            is_awake: Cell::new(true),
            used_at: Cell::new(now),
            turned_at: Cell::new(now),
            elect_at: Cell::new(Some(now + ms(site.tuning.election_max_ms))),
            stand_at: Cell::default(),
            nudge: Notify::new(),
            is_stopped: Cell::default(),
            site,
        });
        // Whoever comes back listens for a leader before it wants to be one.
        group.raft.runtime_config().elect(false);
        Runtime::spawn(Rc::clone(&group).attend());
        if group.is_founded() {
            group.call_others();
        }
        Ok(group)
    }

    pub(crate) async fn stop(&self) {
        self.is_stopped.set(true);
        self.nudge.notify_one();
        // A member whose task ended by itself is stopped as well.
        let _ = self.raft.shutdown().await;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.get() || self.raft.metrics().borrow_watched().running_state.is_err()
    }

    pub(crate) fn leadership(&self) -> Leadership {
        let receiver = self.raft.server_metrics();
        let metrics = receiver.borrow_watched();
        match &metrics.current_leader {
            Some(leader) if *leader == self.me && metrics.state == ServerState::Leader => {
                Leadership::Here(metrics.vote.leader_id.term)
            }
            Some(leader) if *leader != self.me => Leadership::There(leader.clone()),
            _ => Leadership::Nobody,
        }
    }

    pub(crate) fn leader_site(&self) -> Option<SiteName> {
        match self.leadership() {
            Leadership::Here(_) => Some(self.me.site.clone()),
            Leadership::There(member) => Some(member.site),
            Leadership::Nobody => None,
        }
    }

    /// The term in which this member leads and knows all that former leaders left behind: the first
    /// entry of the term is applied, hence all before it.
    fn ready_term(&self) -> Option<u64> {
        let Leadership::Here(term) = self.leadership() else {
            return None;
        };
        (self.machine.applied().as_ref().map(term_of) == Some(term)).then_some(term)
    }

    /// Who votes, by the last membership that this member knows; one set, or two while it changes.
    fn voters(&self) -> Vec<BTreeSet<Member>> {
        let receiver = self.raft.server_metrics();
        let metrics = receiver.borrow_watched();
        metrics.membership_config.get_joint_config().clone()
    }

    /// All members, voting or not.
    pub(crate) fn members(&self) -> Vec<Member> {
        let receiver = self.raft.server_metrics();
        let metrics = receiver.borrow_watched();
        metrics
            .membership_config
            .nodes()
            .map(|(member, _)| member.clone())
            .collect()
    }

    /// All members but this one.
    fn others(&self) -> Vec<Member> {
        let mut members = self.members();
        members.retain(|member| *member != self.me);
        members
    }

    fn is_up(&self, member: &Member) -> bool {
        *member == self.me || self.site.wire.is_up(&member.site)
    }

    /// What is missing for a majority, if the failure detector is right.
    fn missing(&self) -> Option<Missing> {
        let configs = self.voters();
        configs.iter().find_map(|voters| {
            let down: Vec<SiteName> = voters
                .iter()
                .filter(|member| !self.is_up(member))
                .map(|member| member.site.clone())
                .collect();
            let needed = voters.len() / 2 + 1;
            (voters.len() - down.len() < needed).then_some(Missing {
                sites: down,
                needed,
                members: voters.len(),
            })
        })
    }

    /// As [`Group::missing`], when a majority did not answer whatever the failure detector says.
    fn unanswered(&self) -> Missing {
        self.missing().unwrap_or_else(|| {
            let members = self.voters().first().map_or(0, BTreeSet::len);
            Missing {
                sites: Vec::new(),
                needed: members / 2 + 1,
                members,
            }
        })
    }

    fn gate(&self, set: &str) -> Arc<RwLock<()>> {
        let mut gates = self.gates.borrow_mut();
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(set.to_owned()).or_default())
    }

    fn is_founded(&self) -> bool {
        self.log.last().is_some()
            || self.machine.applied().is_some()
            || self.log.vote().is_some_and(|vote| vote.leader_id.term > 0)
    }

    /// Founds the group if nobody did. All founders become its members, so all must be known by their
    /// incarnation; a majority must answer that it knows of no group.
    ///
    /// Two sites may do it at once: they found the same group, and one of them is elected.
    async fn found(&self) -> Result<(), Missing> {
        let _alone = self.founding_now.lock().await;
        if self.is_founded() {
            return Ok(());
        }
        let founders = &self.founding.founders;
        let missing = |sites: Vec<SiteName>| Missing {
            sites,
            needed: self.founding.majority(),
            members: founders.len(),
        };
        let (mut members, mut unknown) = (BTreeSet::new(), Vec::new());
        for site in founders {
            let incarnation = if *site == self.me.site {
                Some(self.me.incarnation)
            } else {
                self.site.wire.incarnation(site)
            };
            match incarnation {
                Some(incarnation) => {
                    let member = Member {
                        site: site.clone(),
                        incarnation,
                    };
                    members.insert(member);
                }
                None => unknown.push(site.clone()),
            }
        }
        if !unknown.is_empty() {
            return Err(missing(unknown));
        }
        let others = members.iter().filter(|member| **member != self.me);
        let asked = others.map(async |member| {
            let reply = self
                .links
                .ask(member, Request::Hello, self.links.request_timeout)
                .await;
            (member, reply)
        });
        let (mut silent, mut heard) = (Vec::new(), 1);
        for (member, reply) in join_all(asked).await {
            match reply {
                // Its leader will find this member.
                Ok(Reply::Hello { is_founded: true }) => return Ok(()),
                Ok(Reply::Hello { is_founded: false }) => heard += 1,
                _ => silent.push(member.site.clone()),
            }
        }
        if heard < self.founding.majority() {
            return Err(missing(silent));
        }
        // Refused when a leader was faster.
        let founded = self.raft.initialize(members.clone()).await;
        tracing::debug!(group = %self.id, ?founded, "the group is founded");
        self.elect_at.set(None);
        self.raft.runtime_config().elect(true);
        Ok(())
    }

    /// Waits until some member leads, as far as this one knows, and this one is ready if it is the one.
    async fn led(&self) -> Leadership {
        let mut changes = self.raft.server_metrics();
        loop {
            // Before looking, so that nothing is missed between the two.
            let applied = self.machine.changed();
            match self.leadership() {
                Leadership::Here(_) if self.ready_term().is_none() => {}
                Leadership::Nobody => {}
                leadership => return leadership,
            }
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return Leadership::Nobody },
                () = applied => {}
            }
        }
    }

    pub(crate) fn status(&self) -> crate::status::GroupStatus {
        let receiver = self.raft.metrics();
        let metrics = receiver.borrow_watched();
        let index = |log_id: Option<crate::types::LogId>| log_id.map(|log_id| log_id.index);
        crate::status::GroupStatus {
            id: self.id,
            founding: self.founding.clone(),
            me: self.me.clone(),
            members: metrics
                .membership_config
                .nodes()
                .map(|(member, _)| member.clone())
                .collect(),
            voters: metrics.membership_config.voter_ids().collect(),
            leader: metrics.current_leader.clone(),
            is_leader: metrics.state == ServerState::Leader,
            term: metrics.current_term,
            last_index: metrics.last_log_index,
            committed_index: index(metrics.local_committed),
            applied_index: index(self.machine.applied()),
            snapshot_index: self.machine.snapshot_index(),
            log_entries: self.log.len(),
            log_bytes: self.log.bytes(),
            open_intents: self.machine.open_len(),
            is_awake: self.is_awake.get(),
            is_stopped: self.is_stopped.get() || metrics.running_state.is_err(),
        }
    }
}

fn config(site: &Site, id: GroupId) -> Result<Config, openraft::ConfigError> {
    let tuning = &site.tuning;
    Config {
        cluster_name: id.to_string(),
        heartbeat_interval: tuning.heartbeat_ms,
        election_timeout_min: tuning.election_min_ms,
        election_timeout_max: tuning.election_max_ms,
        install_snapshot_timeout: tuning.request_timeout_ms * 4,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(tuning.log_entries_max),
        max_in_snapshot_log_to_keep: tuning.log_entries_max / 2,
        replication_lag_threshold: tuning.log_entries_max,
        max_payload_entries: 64,
        enable_pre_vote: Some(true),
        // A restarted leader may know less than it did: what was committed is not kept on the disk.
        enable_leader_restore: Some(false),
        ..Config::default()
    }
    .validate()
}
