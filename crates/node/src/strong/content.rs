//! What intents and outcomes hold. Credentials in them are in clear, inside the peer link and under the seal of the disk.

use bytes::Bytes;
use cheops_replica::{Carried, Draft, MetaId, Secret, Verb};
use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

use crate::{
    core::Core,
    mint::NewId,
    named,
    pack::{pack, unpack},
    secret,
};

/// A write, as it is to be executed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) to: Where,
    pub(super) draft: Draft,
}

/// The set that a write is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Where {
    /// One that begins with it, under an id that was drawn.
    New(String),
    /// Under the id that follows from the name.
    Named,
    Set(String),
}

/// An operation, as its site has executed it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) set: String,
    pub(super) carried: Carried,
}

impl Asked {
    /// The credential leaves only as far as all of the members may have it.
    pub(super) fn pack(mut self, core: &Core, members: &[SiteName]) -> Option<Bytes> {
        self.draft.credential = leave(core, members, self.draft.credential.take());
        pack(&self).map(Bytes::from)
    }

    pub(super) fn unpack(core: &Core, bytes: &[u8]) -> Option<Self> {
        let mut asked: Self = unpack(bytes).ok()?;
        asked.draft.credential = enter(core, asked.draft.credential.take());
        Some(asked)
    }

    pub(super) fn new_id(&self) -> Option<NewId> {
        match &self.to {
            Where::New(meta) => Some(NewId::Given(MetaId::new(meta))),
            Where::Named => Some(NewId::Named),
            Where::Set(_) => None,
        }
    }

    /// Whether an operation can be what became of it.
    pub(super) fn fits(&self, made: &Made) -> bool {
        let op = &made.carried.op;
        let set = MetaId::new(&made.set);
        let is_its_set = match (&self.to, &op.verb) {
            (Where::Set(meta) | Where::New(meta), _) => *meta == made.set,
            (Where::Named, Verb::Create(birth)) => birth.name.is_some() && named::is_rightful(&set, birth),
            (Where::Named, _) => true,
        };
        op.token == self.draft.token && is_its_set
    }
}

impl Made {
    pub(super) fn pack(mut self, core: &Core, members: &[SiteName]) -> Option<Bytes> {
        self.carried.credential = leave(core, members, self.carried.credential.take());
        pack(&self).map(Bytes::from)
    }

    pub(super) fn unpack(core: &Core, bytes: &[u8]) -> Option<Self> {
        let mut made: Self = unpack(bytes).ok()?;
        made.carried.credential = enter(core, made.carried.credential.take());
        Some(made)
    }
}

fn leave(core: &Core, members: &[SiteName], credential: Option<Secret>) -> Option<Secret> {
    let mut clear = secret::open_clear(&core.key, &credential?).ok()?;
    for site in members.iter().filter(|site| **site != core.site) {
        clear = secret::without(clear, &core.surroundings.withheld(site))?;
    }
    Some(Secret(clear))
}

fn enter(core: &Core, credential: Option<Secret>) -> Option<Secret> {
    // One that cannot be kept is asked for again where the operation executes.
    secret::seal_clear(&core.key, &*core.surroundings, &credential?.0).ok()
}
