//! One replica set as one site knows it.

mod bare;
mod entry;
mod fence;
mod job;
mod life;
mod log;
mod peer;
mod report;
mod storage;
mod timers;
mod view;
mod wait;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cheops_types::{Share, SiteName, Stamp};
use serde::{Deserialize, Serialize};

pub use entry::{Entry, Outcome, State, Why};
pub use fence::Fenced;
pub use job::{Install, Job, Phase, Work};
use log::Log;
pub use peer::{Fence, Peer, Want};
pub use report::Report;
pub use storage::LogAside;
pub use view::OperationView;
pub use wait::Wait;
pub(crate) use wait::{are_alike, bounded};

use crate::{
    Author, Birth, Conflict, Draft, LocalId, MetaId, OpId, Operation, Rank, Recognise, Record, Site, Token,
    Vector, Verb,
};

/// Whether this site is part of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    Member,
    /// It left in good order.
    Left,
    /// The others went on without it; what only this site had waits here as conflicts.
    Expelled,
}

/// A site of the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub stay: u32,
    /// The operation by which it joined; none for the first sites.
    pub joined: Option<OpId>,
    /// The operation by which it leaves; it is gone once it has executed that.
    pub leaving: Option<OpId>,
}

/// Everything that one site keeps about one replica set. The caller persists it whole, together with
/// [`Site`], before it releases the effects of a step.
///
/// What is in `held` is in the log unless it was pruned; what is in `done` has an outcome here.
/// `done` never exceeds `held`, `pruned` never exceeds `done`.
#[allow(clippy::struct_excessive_bools)] // each is one fact about the set
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    pub(crate) record: Record,
    pub(crate) epoch: u64,
    pub(crate) standing: Standing,
    pub(crate) members: BTreeMap<SiteName, Member>,
    /// Sites that were removed by force, with the epoch that removed them.
    pub(crate) expelled: BTreeMap<SiteName, u64>,
    /// Per site the last operation that let it in or out, so that concurrent ones end the same way
    /// everywhere.
    pub(crate) passages: BTreeMap<SiteName, Passage>,
    /// This site's replica.
    pub(crate) local: Option<LocalId>,
    /// How a create of this resource is recognised after a crash, and by what.
    pub(crate) recognise: Recognise,
    pub(crate) birth: Token,
    /// The operation that `birth` is of.
    #[serde(default)]
    pub(crate) born: Option<OpId>,
    /// Why this site's replica is not what it should be: the refused operation and its status.
    pub(crate) degraded: Option<Degraded>,
    /// The delete, once it has executed here and until the resource is made anew.
    pub(crate) deleted: Option<OpId>,
    /// Of the creates in `done`, those that no delete in `done` covers. What is written now is written on these.
    /// Each with its request, as a store that was set back may number one twice.
    #[serde(default, with = "crate::pairs")]
    pub(crate) creates: BTreeMap<OpId, Token>,
    /// The requests of the last creates that deletes have taken away: one that comes again, under another number, is no new
    /// one.
    #[serde(default)]
    pub(crate) buried: VecDeque<Token>,
    /// In the order of the set.
    pub(crate) log: Log,
    pub(crate) held: Vector,
    pub(crate) done: Vector,
    pub(crate) pruned: Vector,
    /// Of what was pruned, each author's last operation for the application. What had not seen these cannot be
    /// put in its place any more.
    #[serde(default)]
    pub(crate) pruned_writes: Vector,
    /// The last operation for the application, in the order of the set.
    pub(crate) last: Option<Rank>,
    /// The latest time of what has executed here: what this site writes must be later.
    #[serde(default)]
    pub(crate) time: Stamp,
    /// The start of the agent in which this site's numbers here were last known to be its own.
    #[serde(default)]
    pub(crate) begun: u64,
    #[serde(with = "crate::pairs")]
    pub(crate) conflicts: BTreeMap<OpId, Conflict>,
    /// Conflicts that were dropped because there were too many, and writes that would be conflicts and are no longer kept.
    #[serde(default)]
    pub(crate) conflicts_dropped: u64,
    /// Operations that the set goes on without, until they are dropped.
    #[serde(default)]
    pub(crate) forgone: BTreeSet<OpId>,
    /// Losers that an operator has dealt with.
    pub(crate) dismissed: BTreeSet<OpId>,
    pub(crate) peers: BTreeMap<SiteName, Peer>,
    /// The one execution that is under way or in doubt.
    pub(crate) job: Option<Job>,
    /// Accepted, not begun. After a restart nobody waits for them, and only those that were promised stay.
    pub(crate) queue: VecDeque<Draft>,
    /// Before this time no promised write of the queue begins: the application could not be reached.
    #[serde(default)]
    pub(crate) promise_ms: u64,
    #[serde(default)]
    pub(crate) promise_tries: u32,
    /// State from another replica that is to become this one's.
    pub(crate) install: Option<Install>,
    /// Since this replica was last set to another one's state: tells the keys of what executes on it from those of what
    /// executed before.
    #[serde(default)]
    pub(crate) renewal: Option<Token>,
    /// Replicas are to be compared. It stays until they have been, at one vector.
    pub(crate) check: bool,
    /// Before this time the comparison is not pursued.
    #[serde(default)]
    pub(crate) compare_ms: u64,
    #[serde(default)]
    pub(crate) compare_tries: u32,
    /// When `digest` was read.
    #[serde(default)]
    pub(crate) digest_ms: u64,
    /// The digest last read here, and what had executed then.
    pub(crate) digest: Option<(Vector, Digest)>,
    /// The last time that this replica took another one's state because it differed.
    #[serde(default)]
    pub(crate) repair: Option<Repair>,
    /// An operator wants what could not execute here tried again.
    #[serde(default)]
    pub(crate) reopens: BTreeSet<OpId>,
    /// Since when an operation waits here for one that no member has.
    #[serde(default)]
    pub(crate) orphaned_ms: Option<u64>,
    /// How counts are divided, since the last operation in the order of the set that divided them.
    #[serde(default)]
    pub(crate) division: Option<Division>,
    /// It broke a rule of the engine, and is left alone.
    #[serde(default)]
    pub(crate) fenced: Option<Fenced>,
    /// Executions that were not sent again because they got no answer too often.
    #[serde(default)]
    pub(crate) executions_spent: u64,
    /// The life of this site's store in which the set was last looked at; 0: never.
    #[serde(default)]
    pub(crate) life: u64,
    /// What the replica may have of an earlier life of the store is taken into account.
    #[serde(default)]
    pub(crate) is_weighed: bool,
    /// Before this time the application may still be at what an earlier life of the store has asked of it: what the replica is
    /// says nothing about what it will be.
    #[serde(default)]
    pub(crate) unsettled_ms: u64,
    /// The start of the agent in which that time began.
    #[serde(default)]
    pub(crate) unsettled_start: u64,
    /// The replica is that of an earlier life of the store, which no state has replaced since: what this site wrote then is in it.
    #[serde(default)]
    pub(crate) is_inherited: bool,
    /// An operator has given up this side: whoever lets it in again may bring it back.
    #[serde(default)]
    pub(crate) yielded: bool,
    /// Of a strong set: what its group has decided, as far as this site was told. Some of it may have yet to come.
    #[serde(default, skip_serializing_if = "Vector::is_empty")]
    pub(crate) decided: Vector,
}

/// The parts that sites have of a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Division {
    pub by: Rank,
    /// The creates that it goes with.
    #[serde(default)]
    pub births: BTreeSet<OpId>,
    pub shares: Vec<Share>,
    /// How other creates of the name would be divided.
    #[serde(default)]
    pub spare: Vec<Division>,
}

/// A site's last way in or out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    pub rank: Rank,
    pub stay: u32,
    /// The last one that let it in; none for the first sites.
    pub entered: Option<Rank>,
}

/// What is compared between replicas: a digest of what the glue says matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(#[serde(with = "crate::bytes")] pub Vec<u8>);

/// A repair that the application took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repair {
    /// What had executed then.
    pub(crate) at: Vector,
    /// What it was to be.
    #[serde(default)]
    pub(crate) wanted: Option<Digest>,
    /// What the replica was after it; none until it is read.
    pub(crate) digest: Option<Digest>,
    /// How often it took that state.
    #[serde(default)]
    pub(crate) times: u32,
}

impl Repair {
    /// Somebody may change the replica just after the first one; that an application takes a state and does not keep it
    /// shows in the second.
    pub(crate) const TIMES_MAX: u32 = 2;
}

/// A replica that could not follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    pub operation: Option<OpId>,
    /// 0 where there was no answer.
    pub status: u16,
    /// The application's own words.
    #[serde(default)]
    pub said: Option<String>,
}

impl Set {
    pub(crate) fn born(meta: &MetaId, birth: &Birth) -> Self {
        let member = Member {
            stay: 0,
            joined: None,
            leaving: None,
        };
        Self::new(
            Record {
                meta: meta.clone(),
                service: birth.service.clone(),
                kind: birth.kind.clone(),
                parents: birth.parents.clone(),
                name: birth.name.clone(),
                span: birth.span.clone(),
                consistency: birth.consistency,
            },
            birth
                .sites
                .iter()
                .map(|site| (site.clone(), member.clone()))
                .collect(),
        )
    }

    pub(crate) fn new(record: Record, members: BTreeMap<SiteName, Member>) -> Self {
        Self {
            record,
            epoch: 0,
            standing: Standing::Member,
            members,
            expelled: BTreeMap::new(),
            passages: BTreeMap::new(),
            local: None,
            recognise: Recognise::Nothing,
            birth: Token(0),
            born: None,
            degraded: None,
            deleted: None,
            creates: BTreeMap::new(),
            buried: VecDeque::new(),
            log: Log::default(),
            held: Vector::new(),
            done: Vector::new(),
            pruned: Vector::new(),
            pruned_writes: Vector::new(),
            last: None,
            time: Stamp::default(),
            begun: 0,
            conflicts: BTreeMap::new(),
            conflicts_dropped: 0,
            forgone: BTreeSet::new(),
            dismissed: BTreeSet::new(),
            peers: BTreeMap::new(),
            job: None,
            queue: VecDeque::new(),
            promise_ms: 0,
            promise_tries: 0,
            install: None,
            renewal: None,
            check: false,
            compare_ms: 0,
            compare_tries: 0,
            digest_ms: 0,
            digest: None,
            repair: None,
            reopens: BTreeSet::new(),
            orphaned_ms: None,
            division: None,
            fenced: None,
            executions_spent: 0,
            life: 0,
            is_weighed: false,
            unsettled_ms: 0,
            unsettled_start: 0,
            is_inherited: false,
            yielded: false,
            decided: Vector::new(),
        }
    }

    /// The author that this site is in this set.
    ///
    /// A store that was set back, by a copy or by a disk that lied, would number again what others already have.
    /// So after a start this site counts anew, under the number of that start, until every other member has
    /// confirmed that the store is not older than what it knows.
    pub(crate) fn author(&self, site: &Site) -> Author {
        let is_own = site.is_new() || self.begun == site.start() || self.are_confirmed(site);
        Author {
            site: site.name().clone(),
            incarnation: if is_own { site.incarnation() } else { site.start() },
            stay: self.members.get(site.name()).map_or(0, |member| member.stay),
        }
    }

    fn are_confirmed(&self, site: &Site) -> bool {
        let mut others = self
            .members
            .keys()
            .filter(|other| *other != site.name())
            .peekable();
        if others.peek().is_none() {
            // A store that was set back does not know whom it has let in since: it may be any site.
            return site.have_all_confirmed();
        }
        others.all(|other| site.has_confirmed(other))
    }

    /// The other members.
    pub(crate) fn others(&self, here: &SiteName) -> Vec<SiteName> {
        self.members
            .keys()
            .filter(|site| *site != here)
            .cloned()
            .collect()
    }

    /// Whether a site is a member, or ever was, as far as this one knows.
    pub(crate) fn knows(&self, site: &SiteName) -> bool {
        self.members.contains_key(site) || self.has_moved(site)
    }

    pub(crate) fn peer(&mut self, site: &SiteName) -> &mut Peer {
        self.peers.entry(site.clone()).or_default()
    }

    pub(crate) fn entry(&self, id: &OpId) -> Option<&Entry> {
        self.log.get(id)
    }

    pub(crate) fn entry_mut(&mut self, id: &OpId) -> Option<&mut Entry> {
        self.log.get_mut(id)
    }

    /// Takes note of how an operation divides counts. The last one that does counts; the last one of each other create
    /// is kept, in case that a delete leaves only that.
    pub(crate) fn divide(&mut self, op: &Operation) {
        let shares = &op.request.shares;
        if shares.is_empty() {
            return;
        }
        let births = match &op.verb {
            Verb::Create(_) => BTreeSet::from([op.id.clone()]),
            _ => op.births.clone(),
        };
        let next = Division {
            by: op.rank(),
            births,
            shares: shares.clone(),
            spare: Vec::new(),
        };
        self.choose_division(next);
    }

    fn choose_division(&mut self, next: Division) {
        /// More creates of one name at the same time than there are sites in any set.
        const SPARE_MAX: usize = 64;
        let Some(mut last) = self.division.take() else {
            self.division = Some(next);
            return;
        };
        let mut all = std::mem::take(&mut last.spare);
        all.extend([last, next]);
        all.sort_by(|a, b| b.by.cmp(&a.by));
        let mut known = BTreeSet::new();
        all.retain(|division| known.insert(division.births.clone()));
        all.truncate(SPARE_MAX);
        let mut all = all.into_iter();
        self.division = all.next().map(|first| Division {
            spare: all.collect(),
            ..first
        });
    }

    /// A delete has taken operations away, perhaps the one that divided: then the last one that is left counts.
    pub(crate) fn divide_again(&mut self) {
        let Some(mut last) = self.division.take() else {
            return;
        };
        let spare = std::mem::take(&mut last.spare);
        for division in std::iter::once(last).chain(spare) {
            let is_left = |create: &OpId| self.creates.contains_key(create) || !self.done.includes(create);
            if division.births.iter().any(is_left) {
                self.choose_division(division);
            }
        }
    }

    /// Wishes for a comparison. It begins at once, unless one is under way already.
    pub(crate) fn want_comparison(&mut self) {
        if !self.check {
            self.check = true;
            self.compare_ms = 0;
            self.compare_tries = 0;
        }
    }

    /// Whether everything that is held has executed, in order, and nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_still() && self.held == self.done
    }

    /// Whether the replica is what `done` says, and nothing is under way that changes it.
    pub(crate) fn is_still(&self) -> bool {
        self.job.is_none() && self.install.is_none() && self.log.values().all(|entry| !entry.redo)
    }

    /// Whether nothing that has executed here comes, in the order of the set, after something that has not: then the
    /// replica is what the operations up to a point make, and whoever begins from it can go on from there.
    pub(crate) fn is_in_order(&self) -> bool {
        let mut waits = false;
        self.log.values().all(|entry| {
            waits |= !entry.is_done() && entry.op.verb.is_for_application();
            // What waits and may have executed is perhaps in the replica: whoever begins from that would execute it on top.
            let is_in_doubt = entry.doubted && !entry.op.verb.is_idempotent();
            !(waits && (entry.has_executed() || is_in_doubt))
        })
    }

    /// Whether it is the last create once more, or one that was deleted, under another number: its origin's store was set back
    /// while it executed. The first one may have been dropped since.
    pub(crate) fn is_born_again(&self, op: &Operation) -> bool {
        let is_create = matches!(op.verb, Verb::Create(_));
        let is_other = |born: &OpId| *born != op.id && born.author.site == op.id.author.site;
        let is_last = op.token == self.birth && self.born.as_ref().is_some_and(is_other);
        is_create && (is_last || self.buried.contains(&op.token))
    }

    /// What the others have brought back of a write that is accepted only now: an earlier life of this store had shipped
    /// it, under this number or another one.
    pub(crate) fn brought_back(&self, op: &Operation) -> Option<&Entry> {
        self.log.values().find(|entry| entry.op.is_same_write(op))
    }

    /// The same write under another number: its origin's store was set back while it executed.
    pub(crate) fn twin(&self, op: &Operation) -> Option<&Entry> {
        let is_twin = |entry: &&Entry| entry.op.is_same_write(op) && entry.op.id != op.id;
        self.log.values().find(is_twin)
    }
}
