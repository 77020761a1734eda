//! What others may see of a set.

use std::collections::BTreeMap;

use cheops_types::{Share, SiteName};

use super::{Entry, Install, Job, Set, Standing, Work};
use crate::{
    Conflict, Degraded, Draft, LocalId, Member, OpId, Operation, Peer, Phase, Presence, Record, State, Token,
    Vector, Why,
};

/// How an operation stands at the sites of its set, as far as this site knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView<'s> {
    /// None once it is pruned: it has executed everywhere.
    pub entry: Option<&'s Entry>,
    /// The sites whose disk holds it, with its payload.
    pub held: Vec<SiteName>,
    /// The sites where it has an outcome.
    pub done: Vec<SiteName>,
}

impl Set {
    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    pub fn members(&self) -> &BTreeMap<SiteName, Member> {
        &self.members
    }

    /// Whether a site was removed by force and has not come back.
    pub fn has_expelled(&self, site: &SiteName) -> bool {
        self.expelled.contains_key(site)
    }

    /// Whether a site has ever left, was removed, or came back.
    pub fn has_moved(&self, site: &SiteName) -> bool {
        self.passages.contains_key(site) || self.expelled.contains_key(site)
    }

    /// How counts are divided among the sites; empty where nothing is.
    pub fn shares(&self) -> &[Share] {
        self.division.as_ref().map_or(&[], |division| &division.shares)
    }

    /// This site's replica.
    pub fn local(&self) -> Option<&LocalId> {
        self.local.as_ref()
    }

    /// What each other site has told about its replica.
    pub fn remote(&self, site: &SiteName) -> Option<&LocalId> {
        self.peers.get(site)?.local.as_ref()
    }

    /// What is known of another member.
    pub fn peer_view(&self, site: &SiteName) -> Option<&Peer> {
        self.peers.get(site)
    }

    pub fn degraded(&self) -> Option<&Degraded> {
        self.degraded.as_ref()
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted.is_some()
    }

    /// Whether it is ready for operations of other sets that refer to it, at this site.
    pub fn presence(&self) -> Presence {
        match self.standing {
            Standing::Left | Standing::Expelled => Presence::Uninvolved,
            Standing::Member if self.is_deleted() => Presence::Gone,
            Standing::Member if self.local.is_some() => Presence::Here,
            Standing::Member => Presence::Pending,
        }
    }

    /// When it was deleted, by the clock of whoever wrote last; none while it is not.
    pub fn deleted_ms(&self) -> Option<u64> {
        self.deleted.as_ref().map(|_| self.time.millis)
    }

    /// The site that accepted the last operation for the application.
    pub fn last_writer(&self) -> Option<&SiteName> {
        self.last.as_ref().map(|last| &last.id.author.site)
    }

    /// Sites that were removed by force and have not come back.
    pub fn expelled(&self) -> impl Iterator<Item = &SiteName> {
        self.expelled.keys()
    }

    /// The state of another replica that is about to become this one's.
    pub fn install(&self) -> Option<&Install> {
        self.install.as_ref()
    }

    /// Whether the state of another replica is about to become this one's.
    pub fn is_installing(&self) -> bool {
        self.install.is_some()
    }

    pub fn held(&self) -> &Vector {
        &self.held
    }

    pub fn done(&self) -> &Vector {
        &self.done
    }

    pub fn pruned(&self) -> &Vector {
        &self.pruned
    }

    /// The operations that are kept, in the order of the set.
    pub fn log(&self) -> impl Iterator<Item = &Entry> {
        self.log.values()
    }

    pub fn conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.conflicts.values()
    }

    /// Conflicts that an operator has dealt with and that somebody may still find.
    pub fn dismissed(&self) -> impl Iterator<Item = &OpId> {
        self.dismissed.iter()
    }

    /// How many conflicts this site has dropped because there were too many.
    pub fn conflicts_dropped(&self) -> u64 {
        self.conflicts_dropped
    }

    /// How many executions this site has stopped sending because they got no answer too often.
    pub fn executions_spent(&self) -> u64 {
        self.executions_spent
    }

    /// Writes that this site has accepted and not begun.
    pub fn queue(&self) -> impl Iterator<Item = &Draft> {
        self.queue.iter()
    }

    /// The execution that is under way or in doubt.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// The operation whose execution only an operator can settle.
    pub fn in_doubt(&self) -> Option<&Operation> {
        let job = self.job.as_ref().filter(|job| job.phase == Phase::Stuck)?;
        match &job.work {
            Work::Accept { op, .. } => Some(op),
            Work::Replay { id } => self.entry(id).map(|entry| &entry.op),
            _ => None,
        }
    }

    /// The token of the execution that only an operator can settle, also of one that is no operation.
    pub fn token_in_doubt(&self) -> Option<Token> {
        let job = self.job.as_ref().filter(|job| job.phase == Phase::Stuck)?;
        match &job.work {
            Work::Install => self.install.as_ref().map(|install| install.token),
            _ => self.in_doubt().map(|op| op.token),
        }
    }

    pub fn operation(&self, id: &OpId, here: &SiteName) -> OperationView<'_> {
        let sites = |is_mine: bool, is_theirs: &dyn Fn(&Peer) -> bool| {
            let others = self.peers.iter().filter(|(_, peer)| is_theirs(peer));
            is_mine
                .then_some(here)
                .into_iter()
                .chain(others.map(|(site, _)| site))
                .cloned()
                .collect()
        };
        let is_bare = self.entry(id).is_some_and(|entry| entry.bare);
        OperationView {
            entry: self.entry(id),
            held: sites(self.held.includes(id) && !is_bare, &|peer| {
                self.holds_whole(peer, id)
            }),
            done: sites(self.done.includes(id), &|peer| peer.done.includes(id)),
        }
    }

    /// Whether this site's replica is what was decided about it, and nothing else: all of it has executed here, and nothing that
    /// is not decided yet.
    pub fn has_caught_up(&self) -> bool {
        // What was made here and refused by the others is being deleted.
        let is_foreign = |job: &Job| matches!(job.work, Work::Accept { .. } | Work::Vacate { .. });
        let is_good = self.degraded.is_none() && self.install.is_none();
        is_good && !self.job.as_ref().is_some_and(is_foreign) && self.has_executed_all()
    }

    /// Whether everything that was decided, as far as this site was told, is here and has executed.
    pub(crate) fn has_executed_all(&self) -> bool {
        let has_executed = |entry: &Entry| entry.is_done() && !entry.redo;
        self.held.covers(&self.decided) && self.log.values().all(has_executed)
    }

    /// Whether there is nothing left to do or to tell, as far as this site knows.
    pub fn is_settled(&self, here: &SiteName) -> bool {
        // Out of the set, nothing is compared any more.
        let is_past_settled = self.unsettled_ms == 0 || self.standing != Standing::Member;
        self.is_quiet()
            && is_past_settled
            && self.queue.is_empty()
            && !self.check
            && self.others(here).iter().all(|site| !self.owes(site))
    }

    /// Whether the replicas are to be compared, or are being compared.
    pub fn is_comparing(&self) -> bool {
        self.check
    }

    /// Whether a member is behind, ahead, about to leave, or has yet to tell how far it is.
    pub fn owes(&self, site: &SiteName) -> bool {
        let is_leaving = self
            .members
            .get(site)
            .is_some_and(|member| member.leaving.is_some());
        self.peers.get(site).is_none_or(|peer| {
            is_leaving
                || peer.needs_snapshot
                || peer.want.is_some()
                || peer.held != self.held
                || peer.done != self.held
        })
    }

    /// When the set wants [`crate::Event::Wake`], on this site's wall clock.
    pub fn wake_at_ms(&self, here: &SiteName, ahead_max_ms: u64) -> Option<u64> {
        if self.fenced.is_some() {
            return None;
        }
        let job = self.job.as_ref().and_then(|job| match job.phase {
            Phase::Doubt { until_ms } => Some(until_ms),
            _ => None,
        });
        // Only what could begin then: waking for what waits for something else would never end.
        let is_free = self.job.is_none() && self.standing == Standing::Member;
        let install = self.install.as_ref().filter(|_| is_free);
        let redo = self.next_again();
        let entries = self.log.values().filter_map(|entry| match entry.state {
            _ if !is_free || install.is_some() => None,
            _ if redo.is_some_and(|redo| redo.op.rank() <= entry.op.rank()) => None,
            _ if !self.done.covers(&entry.op.after) || !self.done.precedes(&entry.op.id) => None,
            // What was sent too often without an answer waits for an operator.
            state if state == State::Waiting(Why::SPENT) => None,
            State::Waiting(Why::Quarantined) => Some(entry.op.time.millis.saturating_sub(ahead_max_ms)),
            State::Waiting(Why::Retry { .. } | Why::Blocked { .. } | Why::NeedsCredentials) => {
                Some(entry.until_ms)
            }
            _ => None,
        });
        let redo = redo
            .filter(|_| is_free && install.is_none())
            .map(|redo| redo.until_ms);
        let compares = self.check && is_free && self.is_quiet();
        let install = install.map(|install| install.until_ms);
        let compare_ms = self.compare_ms.max(self.unsettled_ms);
        let install = install.into_iter().chain(compares.then_some(compare_ms));
        // Somebody may wait for what is read only then.
        let unsettled = (is_free && self.unsettled_ms > 0).then_some(self.unsettled_ms);
        let install = install.chain(unsettled);
        let is_promised = self.queue.iter().any(|draft| draft.promised);
        let promise = (is_free && is_promised && self.promise_ms > 0).then_some(self.promise_ms);
        let entries = entries.chain(redo).chain(promise);
        let others = self.others(here);
        let peers = others
            .iter()
            .filter(|site| self.standing == Standing::Member && self.owes(site))
            .map(|site| self.peers.get(site).map_or(0, |peer| peer.resend_ms));
        job.into_iter().chain(entries).chain(install).chain(peers).min()
    }
}
