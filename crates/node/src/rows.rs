//! Replica sets as rows of the store: the head that look-ups read, the record, and each log entry for itself.

mod held_hash;

use std::collections::{BTreeMap, BTreeSet};

use cheops_glue::join_key;
use cheops_plan::{Presence, Standing};
use cheops_replica::{Conflict, Entry, LocalId, MetaId, Rank, Set, State, Why, Work, names::Holding};
use cheops_store::{
    Error, Incarnation, PayloadHash, PayloadRef, Read, Span, WriteSession,
    tables::{self, OPERATION_DONE, OperationKey, SetRow},
};
use cheops_types::{Caller, Consistency, KeptBody, Share, SiteName, Span as SiteSpan};
use serde::{Deserialize, Serialize};

pub(crate) use held_hash::{hash, held_hash};

pub(crate) type Sets = tables::Sets<Head>;
pub(crate) type SetsByLocalKey = tables::SetsByLocalKey<Head>;
pub(crate) type SetsByName = tables::SetsByName<Head>;
pub(crate) type Records = tables::Records<Kept>;
pub(crate) type UnsettledRecords = tables::UnsettledRecords<Kept>;
pub(crate) type Operations = tables::Operations<Entry>;
pub(crate) type OperationsBySet = tables::OperationsBySet<Entry>;
pub(crate) type OperationsByState = tables::OperationsByState<Entry>;
/// Which sets have which conflicts; what they are is in the set's record.
pub(crate) type Conflicts = tables::Conflicts<()>;
/// Who has which name in a container that spans sites.
pub(crate) type Names = tables::Names<Holding>;
pub(crate) type SiteRow = tables::Site<SiteRecord>;

/// What the data plane asks of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The id that callers see.
    pub(crate) shown: String,
    /// The id of this site's replica.
    pub(crate) local: Option<String>,
    pub(crate) sites: Vec<SiteName>,
    pub(crate) standing: HeadStanding,
    /// How it spans its sites; none: a replica at each.
    #[serde(default)]
    pub(crate) span: Option<SiteSpan>,
    /// How counts in it are divided.
    #[serde(default)]
    pub(crate) shares: Vec<Share>,
    /// Whether its first prime site has ever gone, also if it came back.
    #[serde(default)]
    pub(crate) has_moved: bool,
    /// As [`Kept::begun`].
    #[serde(default)]
    pub(crate) begun: Option<u64>,
    /// Of what this site holds of it, to be compared with what others do.
    #[serde(default)]
    pub(crate) held_hash: u128,
    /// When it was deleted; none while it is not.
    #[serde(default)]
    pub(crate) deleted_ms: Option<u64>,
    /// Who decides what is written to it.
    #[serde(default, skip_serializing_if = "Consistency::is_eventual")]
    pub(crate) consistency: Consistency,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HeadStanding {
    Member,
    Deleted,
    Out,
}

impl From<HeadStanding> for Standing {
    fn from(standing: HeadStanding) -> Self {
        match standing {
            HeadStanding::Member => Self::Member,
            HeadStanding::Deleted => Self::Deleted,
            HeadStanding::Out => Self::Out,
        }
    }
}

/// Somebody whom a site has verified, and the site that says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vouched {
    pub(crate) by: SiteName,
    pub(crate) caller: Caller,
}

/// A set without its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The start of the agent that wrote this: a set of an earlier one is told to resume first.
    pub(crate) run: u64,
    /// The life of this site's store in which another site has brought the set up to date, or in which it
    /// began. Until then, what a restored store has of it is of the past.
    pub(crate) incarnation: u64,
    /// The life of this site's store in which the set began here, with its create; none where it came as a state,
    /// whatever this site may have known of it before.
    #[serde(default)]
    pub(crate) begun: Option<u64>,
    /// Sets that this one has waited for, so that deletes wait the other way round.
    pub(crate) needs: BTreeSet<MetaId>,
    pub(crate) set: Set,
    /// Whoever wrote last, once the operation is no longer kept: what the agent asks for itself it asks in
    /// that name.
    #[serde(default)]
    pub(crate) writer: Option<Vouched>,
}

impl Kept {
    pub(crate) fn without_log(&self) -> Self {
        Self {
            run: self.run,
            incarnation: self.incarnation,
            begun: self.begun,
            needs: self.needs.clone(),
            set: self.set.without_log(),
            writer: self.writer.clone(),
        }
    }
}

/// What this site keeps beside its sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteRecord {
    pub(crate) site: cheops_replica::Site,
    /// Counts the starts of the agent.
    pub(crate) run: u64,
    /// Counts the engine's commits, so that one whose outcome is unknown can be looked for.
    pub(crate) commits: u64,
    /// Counts the commits that were made only to find out about another one.
    pub(crate) probes: u64,
    /// The life of each other site's store that all sets here have heard of.
    #[serde(default)]
    pub(crate) lives: BTreeMap<SiteName, u64>,
}

impl SiteRecord {
    /// Whether nothing has changed that has to be durable by itself.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.site.is_like(&other.site)
            && (self.run, self.commits, self.probes) == (other.run, other.commits, other.probes)
            && self.lives == other.lives
    }
}

/// A set with its log, as it was committed last.
pub(crate) fn set(read: &impl Read, meta: &MetaId) -> Result<Option<Set>, Error> {
    Ok(kept(read, meta)?.map(|kept| kept.set))
}

pub(crate) fn kept(read: &impl Read, meta: &MetaId) -> Result<Option<Kept>, Error> {
    let key = meta.as_str().to_owned();
    let Some(row) = read.get::<Records>(&key)? else {
        return Ok(None);
    };
    let mut kept = row.record;
    let entries = read.by::<OperationsBySet>(&Span::under(&key), usize::MAX)?;
    kept.set.put_log(entries.into_iter().map(|(_, row)| row.record));
    Ok(Some(kept))
}

/// What look-ups read of a set, and what it is found by.
pub(crate) fn row(read: &impl Read, meta: &MetaId) -> Result<Option<SetRow<Head>>, Error> {
    read.get::<Sets>(&meta.as_str().to_owned())
}

pub(crate) fn head(read: &impl Read, meta: &MetaId) -> Result<Option<Head>, Error> {
    Ok(row(read, meta)?.map(|row| row.head))
}

/// Whether something is left to do for a set without anyone asking.
pub(crate) fn is_unsettled(read: &impl Read, meta: &MetaId) -> Result<bool, Error> {
    let entry = ((), meta.as_str().to_owned());
    Ok(!read
        .keys_by::<UnsettledRecords>(&Span::under(&entry), 1)?
        .is_empty())
}

/// Deletes everything about a set that came to nothing.
pub(crate) fn forget(session: &mut WriteSession<'_>, meta: &MetaId) -> Result<(), Error> {
    let key = meta.as_str().to_owned();
    for (_, place) in session.keys_by::<OperationsBySet>(&Span::under(&key), usize::MAX)? {
        session.delete::<Operations>(&place)?;
    }
    if let Some(row) = session.get::<Records>(&key)? {
        for needed in row.record.needs {
            session.delete::<tables::Needs>(&(needed.as_str().to_owned(), key.clone()))?;
        }
    }
    for (place, ()) in session.scan::<Conflicts>(&Span::under(&key), usize::MAX)? {
        session.delete::<Conflicts>(&place)?;
    }
    forget_names(session, meta)?;
    session.delete::<Records>(&key)?;
    session.delete::<Sets>(&key)?;
    Ok(())
}

/// Names in a container that is gone are free.
pub(crate) fn forget_names(session: &mut WriteSession<'_>, container: &MetaId) -> Result<(), Error> {
    let key = container.as_str().to_owned();
    for (place, _) in session.scan::<Names>(&Span::under(&key), usize::MAX)? {
        session.delete::<Names>(&place)?;
    }
    Ok(())
}

/// The sets that have waited for this one.
pub(crate) fn dependents(read: &impl Read, meta: &MetaId) -> Result<Vec<MetaId>, Error> {
    let rows = read.scan::<tables::Needs>(&Span::under(&meta.as_str().to_owned()), usize::MAX)?;
    Ok(rows
        .into_iter()
        .map(|((_, waiting), ())| MetaId::new(&waiting))
        .collect())
}

/// What look-ups read of a set, but for what its replica is called where its parents' ids come first.
pub(crate) fn set_row(here: &SiteName, kept: &Kept) -> SetRow<Head> {
    let set = &kept.set;
    let record = set.record();
    let local = set.local().map(|local| local.as_str().to_owned());
    let standing = match set.standing() {
        cheops_replica::Standing::Member if set.is_deleted() => HeadStanding::Deleted,
        cheops_replica::Standing::Member => HeadStanding::Member,
        _ => HeadStanding::Out,
    };
    let mut sites: Vec<_> = set.members().keys().cloned().collect();
    sites.sort_by_key(|site| site != here);
    let first = record.span.as_ref().and_then(|span| span.order.first());
    SetRow {
        service: record.service.clone(),
        kind: record.kind.clone(),
        local_key: local.clone().filter(|_| record.parents.is_empty()),
        name: record.name.as_ref().map(|name| join_key(&record.parents, name)),
        head: Head {
            shown: record
                .name
                .clone()
                .unwrap_or_else(|| record.meta.as_str().to_owned()),
            local,
            sites,
            standing,
            span: record.span.clone(),
            shares: set.shares().to_vec(),
            has_moved: first.is_some_and(|first| set.has_moved(first)),
            begun: kept.begun,
            held_hash: held_hash(&record.meta, set.held()),
            deleted_ms: set.deleted_ms(),
            consistency: record.consistency,
        },
    }
}

/// Lets the data plane know that a set is here, by the ids that it has of its own.
pub(crate) fn announce(set: &Set, presence: &Presence) {
    let record = set.record();
    let ids = [
        Some(record.meta.as_str()),
        record.name.as_deref(),
        set.local().map(LocalId::as_str),
    ];
    for id in ids.into_iter().flatten() {
        presence.add(&record.service, &record.kind, id);
    }
}

/// The same for a stored one, with the ids of its parents too.
pub(crate) fn announce_row(meta: &MetaId, row: &SetRow<Head>, presence: &Presence) {
    let ids = [
        Some(meta.as_str()),
        Some(row.head.shown.as_str()),
        row.head.local.as_deref(),
        row.local_key.as_deref(),
        row.name.as_deref(),
    ];
    for (at, id) in ids.iter().enumerate() {
        // Most of them are the same, and a start has all sets to announce.
        if let Some(text) = id
            && !ids[..at].contains(id)
        {
            presence.add(&row.service, &row.kind, text);
        }
    }
}

/// What this site's application tells the resource by: the ids of its parents here, and its own. None while
/// a parent has no replica here.
pub(crate) fn local_key(read: &impl Read, parents: &[String], own: &str) -> Result<Option<String>, Error> {
    let mut here = Vec::with_capacity(parents.len());
    for parent in parents {
        here.push(match read.get::<Sets>(parent)? {
            Some(row) => match row.head.local {
                Some(local) => local,
                None => return Ok(None),
            },
            None => parent.clone(),
        });
    }
    Ok(Some(join_key(&here, own)))
}

/// Whether a resource went with one that it was in: applications empty what they delete, and tell nobody.
pub(crate) fn is_orphan(read: &impl Read, meta: &MetaId) -> Result<bool, Error> {
    let Some(row) = read.get::<Records>(&meta.as_str().to_owned())? else {
        return Ok(false);
    };
    has_lost_parent(read, &row.record.set.record().parents)
}

pub(crate) fn has_lost_parent(read: &impl Read, parents: &[String]) -> Result<bool, Error> {
    for parent in parents {
        let standing = read.get::<Sets>(parent)?.map(|row| row.head.standing);
        if standing == Some(HeadStanding::Deleted) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn operation_key(rank: &Rank) -> OperationKey {
    OperationKey {
        clock: rank.time,
        origin: rank.id.author.site.clone(),
        incarnation: Incarnation(rank.id.author.incarnation),
        stay: rank.id.author.stay,
        sequence: rank.id.seq,
    }
}

/// Where a conflict stands among those of its set.
pub(crate) fn conflict_key(conflict: &Conflict) -> OperationKey {
    operation_key(&conflict.loser.rank())
}

/// What an operation waits for, as operators read it.
pub(crate) fn state_word(entry: &Entry) -> &'static str {
    match entry.state {
        State::Done(_) if entry.redo => "waiting",
        State::Done(_) => OPERATION_DONE,
        State::Waiting(why) => why_word(why),
    }
}

pub(crate) fn why_word(why: Why) -> &'static str {
    match why {
        Why::Turn => "waiting",
        Why::Retry { .. } => "retry",
        Why::Blocked { .. } => "blocked",
        Why::NeedsCredentials => "needs-credentials",
        Why::Quarantined => "quarantined",
        Why::InDoubt => "in-doubt",
    }
}

/// Every payload that a set refers to.
pub(crate) fn payloads(set: &Set) -> BTreeMap<PayloadHash, PayloadRef> {
    let logged = set.log().map(|entry| &entry.op.request.body);
    let lost = set.conflicts().map(|conflict| &conflict.loser.request.body);
    let queued = set.queue().map(|draft| &draft.request.body);
    let accepted = set.job().and_then(|job| match &job.work {
        Work::Accept { op, .. } => Some(&op.request.body),
        _ => None,
    });
    logged
        .chain(lost)
        .chain(queued)
        .chain(accepted)
        .filter_map(payload)
        .map(|payload| (payload.hash, payload))
        .collect()
}

/// The payloads that a set lacks here.
pub(crate) fn bare(set: &Set) -> impl Iterator<Item = PayloadRef> {
    set.bare().filter_map(|op| payload(&op.request.body))
}

pub(crate) fn payload(body: &KeptBody) -> Option<PayloadRef> {
    match body {
        KeptBody::Inline(_) => None,
        KeptBody::Spooled { hash, bytes } => Some(PayloadRef {
            hash: PayloadHash::from(*hash),
            bytes: *bytes,
        }),
    }
}
