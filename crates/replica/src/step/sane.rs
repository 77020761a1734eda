//! What no honest site sends.
//!
//! A peer has a certificate, and may still say what it likes. Operations carry their origin's signature, everything
//! else only the word of who sends it. Whatever could break this site is looked for here, before anything else
//! looks at a message: one that is not sane is ignored as a whole.
//!
//! [`Message::objection`] knows nothing but the message, so that all sites come to the same about an operation. What only
//! the receiver can know (`does_not_fit`) is asked about the sender's own words alone, never about what others have signed: a site that
//! refused an operation which all others hold would be cut off from its set.

use std::collections::BTreeMap;

use cheops_types::Stamp;

use crate::{
    Age, Author, Carried, Cause, Conflict, Content, Degraded, Digest, Division, Footprint, Member, Message,
    OpId, Operation, Passage, Rank, Record, Report, Set, Site, Snapshot, Vector, Verb,
};

/// Operations of one author. A site that writes a million times a second to one set for eight years has as many.
pub(super) const SEQ_MAX: u64 = 1 << 48;
/// Lives of a store are milliseconds since 1970, starts are random numbers of 53 bits.
const INCARNATION_MAX: u64 = 1 << 53;
/// Steps of a store, counted by its commits.
const STEPS_MAX: u64 = 1 << 53;
/// Every forced removal raises it by one. So it is at most the number of operations before it: a member that could set it to the
/// last one possible would make all that comes after the next removal impossible.
const EPOCH_MAX: u64 = 1 << 48;
/// Every return to a set raises it by one. The same goes for it.
const STAY_MAX: u32 = 1 << 24;
/// The year 10889.
pub(super) const MILLIS_MAX: u64 = 1 << 48;
/// Sites of a set, and those that ever were.
const SITES_MAX: usize = 4_096;
/// Authors in one vector: a site is one more with each life, each stay and, at worst, each start.
const AUTHORS_MAX: usize = 16_384;
/// Creates that one resource is made of, and conflicts or losers that are told of: each site may add some.
const IDS_MAX: usize = 16_384;
/// What a site tells of its operations. Only the first ones count (`Wait::MAX`, `BARE_MAX`); another version may tell more.
const TOLD_MAX: usize = 1_024;
/// Operations in one message. A log of the default size has no more.
const OPERATIONS_MAX: usize = 1 << 18;
/// Operations that give up operations that give up operations: each level takes a lost disk.
const FORGO_DEPTH_MAX: u32 = 4;
/// Sets that one operation waits for, its headers, and the parts of the resource that it touches.
const NEEDS_MAX: usize = 16_384;
const HEADERS_MAX: usize = 1_024;
const PARTS_MAX: usize = 65_536;
/// Counts that one operation divides.
const SHARES_MAX: usize = 4_096;
/// Divisions that are kept in case that another create is left (`Set::divide`).
const SPARE_MAX: usize = 64;
/// Resources around a resource.
const PARENTS_MAX: usize = 64;
/// Ids, names and kinds, in bytes.
const TEXT_MAX_BYTES: usize = 8_192;
/// A signature comes with the certificate of who made it.
const SIGNATURE_MAX_BYTES: usize = 65_536;
const DIGEST_MAX_BYTES: usize = 65_536;

type Sane = Result<(), &'static str>;

fn must(is: bool, otherwise: &'static str) -> Sane {
    if is { Ok(()) } else { Err(otherwise) }
}

impl Message {
    /// What is wrong with a message that no honest site can have sent; none where nothing is.
    pub fn objection(&self) -> Option<&'static str> {
        message(self).err()
    }
}

impl Age {
    /// What is wrong with an age that no store has; none where nothing is.
    pub(crate) fn objection(self) -> Option<&'static str> {
        age(self).err()
    }
}

/// Whether the sender claims what it cannot know, about this site or about a set that this site has.
pub(crate) fn does_not_fit(site: &Site, set: Option<&Set>, message: &Message) -> bool {
    let report = &message.report;
    let own = Own::of(site, set, message);
    let claims = [&report.held, &report.done];
    if claims.into_iter().any(|claim| own.is_beyond(claim)) || is_crowded(set, message) {
        return true;
    }
    match &message.content {
        Content::Digest { at, .. } | Content::State { at, .. } => own.is_beyond(at),
        Content::Snapshot(snapshot) => {
            let is_mine = |id: &OpId| own.is_used(&id.author) && id.seq > own.last(&id.author);
            snapshot.record.meta != message.set
                || !snapshot.members.contains_key(site.name())
                || set.is_some_and(|set| set.record != snapshot.record)
                || snapshot
                    .members
                    .get(site.name())
                    .is_none_or(|me| me.stay < own.stay)
                || own.is_beyond(&snapshot.at)
                || snapshot.log.iter().any(|entry| is_mine(&entry.op.id))
        }
        Content::Operations(_) | Content::Report | Content::Expelled => false,
    }
}

/// The numbers that this life of this site's store gives, or will give. Nobody else has more of them.
struct Own<'s> {
    site: &'s Site,
    set: Option<&'s Set>,
    incarnation: u64,
    /// Its numbers of earlier stays it has given up, and others may remember more of them.
    stay: u32,
}

impl<'s> Own<'s> {
    fn of(site: &'s Site, set: Option<&'s Set>, message: &Message) -> Self {
        let author = set.map(|set| set.author(site));
        // Of a set that it does not know, this life of the store may have known before: it was forgotten here, or the
        // store was set back. What nobody can know is what this start of the agent has not written.
        let incarnation = author.as_ref().map_or(site.start(), |author| author.incarnation);
        let told = match &message.content {
            Content::Snapshot(snapshot) => snapshot.members.get(site.name()).map_or(0, |me| me.stay),
            _ => 0,
        };
        Self {
            site,
            set,
            incarnation,
            stay: author.map_or(told, |author| author.stay),
        }
    }

    fn is_used(&self, author: &Author) -> bool {
        let is_of_now = author.incarnation == self.incarnation
            || author.incarnation == self.site.start()
            // A stay that has not begun.
            || author.stay > self.stay && author.incarnation == self.site.incarnation();
        author.site == *self.site.name() && author.stay >= self.stay && is_of_now
    }

    fn last(&self, author: &Author) -> u64 {
        self.set.map_or(0, |set| set.held.last(author))
    }

    fn is_beyond(&self, claim: &Vector) -> bool {
        claim
            .iter()
            .any(|(author, seq)| self.is_used(author) && seq > self.last(author))
    }
}

/// Whether a vector that only grows would get too many authors.
fn is_crowded(set: Option<&Set>, message: &Message) -> bool {
    let Some(set) = set else {
        return false;
    };
    let grows_beyond = |known: &Vector, claim: &Vector| {
        let new = claim.iter().filter(|(author, _)| known.last(author) == 0);
        known.len() + new.count() > AUTHORS_MAX
    };
    let peer = set.peers.get(&message.from);
    peer.is_some_and(|peer| grows_beyond(&peer.held, &message.report.held))
        || matches!(&message.content, Content::Snapshot(it) if grows_beyond(&set.held, &it.at))
}

fn message(message: &Message) -> Sane {
    text(message.set.as_str())?;
    incarnation(message.incarnation)?;
    epoch(message.epoch)?;
    millis(message.now_ms)?;
    report(&message.report)?;
    match &message.content {
        Content::Report | Content::Expelled => Ok(()),
        Content::Operations(carried) => {
            must(carried.len() <= OPERATIONS_MAX, "too many operations")?;
            let mut ops = carried.iter().map(|Carried { op, .. }| op);
            ops.try_for_each(|op| operation(op, FORGO_DEPTH_MAX))
        }
        Content::Snapshot(it) => {
            must(message.epoch <= it.at.total(), "an epoch after too few removals")?;
            snapshot(it, &message.report)
        }
        Content::Digest { at, digest: it, .. } | Content::State { at, digest: it, .. } => {
            vector(at)?;
            digest(it)
        }
    }
}

fn report(report: &Report) -> Sane {
    incarnation(report.incarnation)?;
    age(report.age)?;
    stay(report.stay)?;
    vector(&report.held)?;
    vector(&report.done)?;
    must(report.held.covers(&report.done), "more has executed than is held")?;
    must(report.waits.len() <= TOLD_MAX, "too many operations that wait")?;
    must(report.bare.len() <= TOLD_MAX, "too many missing payloads")?;
    let waits = report.waits.iter().map(|wait| &wait.operation);
    waits.chain(&report.bare).try_for_each(op_id)?;
    report.local.iter().try_for_each(|local| text(local.as_str()))?;
    degraded(report.degraded.as_ref())
}

fn snapshot(it: &Snapshot, report: &Report) -> Sane {
    record(&it.record)?;
    members(&it.members)?;
    must(it.expelled.len() <= SITES_MAX, "too many removed sites")?;
    it.expelled.values().copied().try_for_each(epoch)?;
    must(it.passages.len() <= SITES_MAX, "too many sites came and went")?;
    it.passages.values().try_for_each(passage)?;
    let members = it.members.values().map(|member| member.stay);
    let mut stays = members.chain(it.passages.values().map(|passage| passage.stay));
    must(
        stays.all(|stay| u64::from(stay) <= it.at.total()),
        "a stay after too few others",
    )?;
    for claim in [&it.at, &it.pruned, &it.pruned_writes] {
        vector(claim)?;
    }
    must(
        report.held.covers(&it.at),
        "a state of more than its sender holds",
    )?;
    must(it.at.covers(&it.pruned), "what is dropped has not executed")?;
    must(
        it.pruned.covers(&it.pruned_writes),
        "a write was dropped that was not",
    )?;
    let executed = it
        .creates
        .keys()
        .chain(&it.deleted)
        .chain(it.last.iter().map(|last| &last.id));
    must(
        executed.into_iter().all(|id| it.at.includes(id)),
        "a state of what has not executed",
    )?;
    must(it.creates.len() <= IDS_MAX, "too many creates")?;
    must(it.buried.len() <= IDS_MAX, "too many creates that are gone")?;
    must(it.dismissed.len() <= IDS_MAX, "too many dismissed conflicts")?;
    must(it.forgone.len() <= IDS_MAX, "too much that was given up")?;
    let ids = it.creates.keys().chain(&it.deleted).chain(&it.born);
    ids.chain(&it.dismissed).chain(&it.forgone).try_for_each(op_id)?;
    it.last.iter().try_for_each(rank)?;
    it.division.iter().try_for_each(division)?;
    degraded(it.degraded.as_ref())?;
    stamp(it.time)?;
    it.yours.iter().try_for_each(|local| text(local.as_str()))?;
    must(it.log.len() <= OPERATIONS_MAX, "too long a log")?;
    for entry in &it.log {
        operation(&entry.op, FORGO_DEPTH_MAX)?;
        must(!it.pruned.includes(&entry.op.id), "what is dropped is in the log")?;
    }
    must(it.conflicts.len() <= IDS_MAX, "too many conflicts")?;
    it.conflicts.iter().try_for_each(conflict)
}

fn members(members: &BTreeMap<cheops_types::SiteName, Member>) -> Sane {
    must(members.len() <= SITES_MAX, "too many members")?;
    members.values().try_for_each(|member| {
        stay(member.stay)?;
        member.joined.iter().chain(&member.leaving).try_for_each(op_id)
    })
}

fn passage(passage: &Passage) -> Sane {
    stay(passage.stay)?;
    rank(&passage.rank)?;
    passage.entered.iter().try_for_each(rank)
}

fn division(it: &Division) -> Sane {
    let one = |it: &Division| {
        rank(&it.by)?;
        must(it.births.len() <= IDS_MAX, "too many creates")?;
        must(it.shares.len() <= SHARES_MAX, "too many shares")?;
        it.births.iter().try_for_each(op_id)
    };
    one(it)?;
    must(it.spare.len() <= SPARE_MAX, "too many divisions")?;
    it.spare.iter().try_for_each(|spare| {
        must(spare.spare.is_empty(), "divisions of divisions")?;
        one(spare)
    })
}

fn conflict(conflict: &Conflict) -> Sane {
    operation(&conflict.loser, FORGO_DEPTH_MAX)?;
    match &conflict.cause {
        Cause::Winner(winner) => operation(winner, FORGO_DEPTH_MAX),
        Cause::TooLate | Cause::Expelled | Cause::Forgone | Cause::Bound => Ok(()),
    }
}

fn operation(op: &Operation, depth: u32) -> Sane {
    op_id(&op.id)?;
    stamp(op.time)?;
    age(op.age)?;
    vector(&op.after)?;
    must(!op.after.includes(&op.id), "an operation that follows itself")?;
    must(op.births.len() <= IDS_MAX, "too many creates")?;
    op.births.iter().try_for_each(op_id)?;
    epoch(op.epoch)?;
    must(op.epoch <= op.after.total(), "an epoch after too few removals")?;
    if let Footprint::Parts(parts) = &op.touches {
        must(parts.len() <= PARTS_MAX, "too many parts")?;
        parts.iter().try_for_each(|part| text(part))?;
    }
    must(op.needs.len() <= NEEDS_MAX, "too many sets to wait for")?;
    op.needs.iter().try_for_each(|need| text(need.set.as_str()))?;
    must(op.request.headers.len() <= HEADERS_MAX, "too many headers")?;
    must(op.request.shares.len() <= SHARES_MAX, "too many shares")?;
    must(op.signature.len() <= SIGNATURE_MAX_BYTES, "too long a signature")?;
    match &op.verb {
        Verb::Create(birth) => {
            must(birth.sites.len() <= SITES_MAX, "too many sites")?;
            must(birth.parents.len() <= PARENTS_MAX, "too many parents")?;
            let texts = birth.parents.iter().chain(&birth.name).chain([&birth.kind]);
            texts.into_iter().try_for_each(|it| text(it))
        }
        Verb::Join { stay: it, .. } => {
            stay(*it)?;
            let joined = op.after.total();
            must(
                u64::from(*it) <= joined.saturating_add(1),
                "a stay after too few others",
            )
        }
        Verb::Dismiss { loser } => op_id(loser),
        Verb::Forgo { lost } => {
            must(lost.len() <= OPERATIONS_MAX, "too much that was given up")?;
            let rest = depth
                .checked_sub(1)
                .ok_or("operations given up within operations given up")?;
            lost.iter().try_for_each(|op| operation(op, rest))
        }
        Verb::Replace
        | Verb::Merge
        | Verb::Action { .. }
        | Verb::Delete
        | Verb::Leave { .. }
        | Verb::Expel { .. } => Ok(()),
    }
}

fn record(record: &Record) -> Sane {
    must(record.parents.len() <= PARENTS_MAX, "too many parents")?;
    let texts = record.parents.iter().chain(&record.name).chain([&record.kind]);
    texts.into_iter().try_for_each(|it| text(it))
}

fn vector(vector: &Vector) -> Sane {
    must(vector.len() <= AUTHORS_MAX, "too many authors")?;
    vector.iter().try_for_each(|(it, seq)| {
        author(it)?;
        must(seq <= SEQ_MAX, "more operations than can be")
    })
}

fn op_id(id: &OpId) -> Sane {
    author(&id.author)?;
    must((1..=SEQ_MAX).contains(&id.seq), "a number that no operation has")
}

fn author(author: &Author) -> Sane {
    incarnation(author.incarnation)?;
    stay(author.stay)
}

fn rank(rank: &Rank) -> Sane {
    stamp(rank.time)?;
    op_id(&rank.id)
}

fn age(age: Age) -> Sane {
    incarnation(age.incarnation)?;
    incarnation(age.start)?;
    must(age.steps <= STEPS_MAX, "an age that no store has")
}

fn degraded(degraded: Option<&Degraded>) -> Sane {
    let operation = degraded.and_then(|degraded| degraded.operation.as_ref());
    operation.map_or(Ok(()), op_id)
}

fn digest(digest: &Digest) -> Sane {
    must(digest.0.len() <= DIGEST_MAX_BYTES, "too long a digest")
}

fn text(text: &str) -> Sane {
    must(text.len() <= TEXT_MAX_BYTES, "too long a name")
}

fn stamp(stamp: Stamp) -> Sane {
    millis(stamp.millis)
}

fn millis(millis: u64) -> Sane {
    must(millis <= MILLIS_MAX, "a time that no clock shows")
}

fn epoch(epoch: u64) -> Sane {
    must(epoch <= EPOCH_MAX, "an epoch that no set has")
}

fn stay(stay: u32) -> Sane {
    must(stay <= STAY_MAX, "a stay that no site has")
}

fn incarnation(incarnation: u64) -> Sane {
    must(incarnation <= INCARNATION_MAX, "a life that no store has")
}
