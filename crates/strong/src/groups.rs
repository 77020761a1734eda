//! All groups of a site.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io,
    rc::Rc,
};

use bytes::Bytes;
use cheops_types::SiteName;
use futures_util::future::join_all;
use tokio::sync::OnceCell;

use crate::{
    codec::{self, Message},
    command::{Intent, Verdict},
    disk::Disks,
    error::{ChangeError, ReadError, Refused, WriteError},
    flaws::Flaws,
    founding::{Founding, GroupId},
    group::{Group, ReadGuard},
    member::Member,
    sets::Sets,
    site::Site,
    status::GroupStatus,
    tuning::Tuning,
    wire::Wire,
};

/// How many groups one other site may bring to this one by speaking of them. Each costs memory and a
/// place on the disk, also one that nobody ever writes to.
pub const GROUPS_FROM_PEER_MAX: usize = 256;

/// Two members that make a group at once find the same slot.
type Slot = Rc<OnceCell<Rc<Group>>>;

/// The groups of a site; a cheap handle. Everything runs on the `LocalSet` that it is used on.
///
/// A group is made when it is first needed here: by a write or a read, by another site that speaks of
/// it, or at the start because the disk has it.
#[derive(Clone)]
pub struct Groups(Rc<Inner>);

struct Inner {
    site: Rc<Site>,
    slots: RefCell<BTreeMap<GroupId, Slot>>,
    brought: RefCell<BTreeMap<SiteName, usize>>,
    is_stopped: Cell<bool>,
}

/// What [`Groups`] are made of.
pub struct Parts {
    /// This site, and the incarnation of its store.
    pub here: Member,
    pub wire: Rc<dyn Wire>,
    pub disks: Rc<dyn Disks>,
    pub sets: Rc<dyn Sets>,
    pub tuning: Tuning,
    /// For the times of elections. Another one at each site and each start.
    pub seed: u64,
}

impl Groups {
    /// Goes on with all groups that the disk has.
    pub async fn start(parts: Parts) -> io::Result<Self> {
        Self::start_flawed(parts, Flaws::default()).await
    }

    /// For tests only.
    #[doc(hidden)]
    pub async fn start_flawed(parts: Parts, flaws: Flaws) -> io::Result<Self> {
        let disks = Rc::clone(&parts.disks);
        let groups = Self(Rc::new(Inner {
            site: Rc::new(Site {
                here: parts.here,
                wire: parts.wire,
                sets: parts.sets,
                disks: parts.disks,
                tuning: parts.tuning,
                flaws,
                seed: Cell::new(parts.seed),
            }),
            slots: RefCell::default(),
            brought: RefCell::default(),
            is_stopped: Cell::default(),
        }));
        for founding in disks.groups().await? {
            groups.within(groups.group(&founding)).await?;
        }
        Ok(groups)
    }

    fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        self.0.site.within(future)
    }

    async fn group(&self, founding: &Founding) -> io::Result<Rc<Group>> {
        let slot = {
            let mut slots = self.0.slots.borrow_mut();
            Rc::clone(slots.entry(GroupId::of(founding)).or_default())
        };
        let made = slot.get_or_try_init(|| Group::open(Rc::clone(&self.0.site), founding.clone()));
        made.await.cloned()
    }

    /// A group that is there already.
    fn known(&self, id: &GroupId) -> Option<Rc<Group>> {
        self.0.slots.borrow().get(id)?.get().cloned()
    }

    fn all(&self) -> Vec<Rc<Group>> {
        let slots = self.0.slots.borrow();
        slots.values().filter_map(|slot| slot.get().cloned()).collect()
    }

    /// Whether this site may have to do with a group: as a founder, or because it was made a member.
    fn may_use(&self, founding: &Founding) -> bool {
        !self.0.is_stopped.get()
            && founding.is_sane()
            && (founding.founders.contains(&self.0.site.here.site)
                || self.known(&GroupId::of(founding)).is_some())
    }

    /// Writes, at the leader's site: proposes the intent, has it decided here, and answers with the
    /// outcome that counts, once it is committed and concluded here.
    ///
    /// Dropping the future changes nothing about a write that was proposed.
    pub async fn write(&self, founding: &Founding, intent: Intent) -> Result<Verdict, WriteError> {
        if !self.may_use(founding) {
            return Err(if self.0.is_stopped.get() {
                WriteError::Stopped
            } else {
                WriteError::NotMember
            });
        }
        self.within(async {
            let group = self.group(founding).await.map_err(|_| WriteError::Stopped)?;
            group.write(intent).await
        })
        .await
    }

    /// Allows a linearizable read of a set at this site, whoever leads.
    pub async fn read(&self, founding: &Founding, set: &str) -> Result<ReadGuard, ReadError> {
        if !self.may_use(founding) {
            return Err(if self.0.is_stopped.get() {
                ReadError::Stopped
            } else {
                ReadError::NotMember
            });
        }
        self.within(async {
            let group = self.group(founding).await.map_err(|_| ReadError::Stopped)?;
            group.read(set).await
        })
        .await
    }

    /// The site that leads a group, as this one knows; where a write is best sent.
    pub fn leader(&self, founding: &Founding) -> Option<SiteName> {
        self.known(&GroupId::of(founding))?.leader_site()
    }

    /// Answers what another site sent over its [`Wire`]. `from` is certified by the peer link; the body
    /// is not trusted.
    pub async fn receive(&self, from: &SiteName, body: Bytes) -> Result<Bytes, Refused> {
        let message: Message =
            codec::decode(&body).map_err(|error| Refused::Unreadable(error.to_string()))?;
        if message.from.site != *from {
            return Err(Refused::Foreign(from.clone()));
        }
        let here = &self.0.site.here;
        if message.to != *here {
            return Err(Refused::Misdirected(message.to.to_string()));
        }
        if self.0.is_stopped.get() {
            return Err(Refused::Stopped);
        }
        let founding = message.founding();
        if !founding.is_sane() {
            return Err(Refused::Insane("a group without founders, or with too many"));
        }
        let id = GroupId::of(&founding);
        let is_new = !self.0.slots.borrow().contains_key(&id);
        if is_new {
            if !founding.founders.contains(&here.site) {
                return Err(Refused::NotMember(here.site.clone()));
            }
            if !founding.founders.contains(from) {
                return Err(Refused::NotMember(from.clone()));
            }
            let mut brought = self.0.brought.borrow_mut();
            let count = brought.entry(from.clone()).or_default();
            if *count >= GROUPS_FROM_PEER_MAX {
                return Err(Refused::TooManyGroups(from.clone()));
            }
            *count += 1;
        }
        self.within(async {
            let group = self.group(&founding).await.map_err(|_| Refused::Stopped)?;
            let reply = group.receive(&message.from, message.request).await?;
            Ok(codec::write(&reply))
        })
        .await
    }

    pub fn status(&self, id: &GroupId) -> Option<GroupStatus> {
        Some(self.known(id)?.status())
    }

    pub fn list(&self) -> Vec<GroupStatus> {
        self.all().iter().map(|group| group.status()).collect()
    }

    fn to_change(&self, id: &GroupId) -> Result<Rc<Group>, ChangeError> {
        self.known(id).ok_or(ChangeError::NotLeader { leader: None })
    }

    /// Has another site lead. At the leader's site only.
    pub async fn transfer(&self, id: &GroupId, to: &SiteName) -> Result<(), ChangeError> {
        let group = self.to_change(id)?;
        self.within(group.transfer(to)).await
    }

    /// Has a site take part, or again after it lost its store. At the leader's site only.
    pub async fn add_member(&self, id: &GroupId, site: &SiteName) -> Result<(), ChangeError> {
        let group = self.to_change(id)?;
        self.within(group.add_member(site)).await
    }

    /// Has a site not take part any more. At the leader's site only.
    pub async fn remove_member(&self, id: &GroupId, site: &SiteName) -> Result<(), ChangeError> {
        let group = self.to_change(id)?;
        self.within(group.remove_member(site)).await
    }

    /// The failure detector sees a site again.
    pub async fn peer_up(&self, site: &SiteName) {
        self.within(async { self.all().iter().for_each(|group| group.peer_up(site)) })
            .await;
    }

    /// The failure detector lost a site.
    pub async fn peer_down(&self, site: &SiteName) {
        self.within(async { self.all().iter().for_each(|group| group.peer_down(site)) })
            .await;
    }

    /// Ends all groups. What was proposed may still commit at the others.
    pub async fn stop(&self) {
        self.0.is_stopped.set(true);
        self.within(join_all(self.all().iter().map(|group| group.stop())))
            .await;
    }
}
