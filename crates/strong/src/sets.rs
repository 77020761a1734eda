//! What the replication engine does for a group.

use futures_util::future::LocalBoxFuture;

use crate::{
    command::{Intent, Verdict},
    founding::GroupId,
};

/// What came of executing an intent at the leader's site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Verdict(Verdict),
    /// It cannot be told; asked again, later or at another site.
    Undecided(Undecided),
}

/// Why an intent could not be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// It certainly did not execute at this site, not in an earlier attempt either: the application cannot
    /// be reached. It is tried again, then the leadership is passed on, and if nobody can take it the
    /// intent is refused.
    NotExecuted,
    /// It may have executed. It is tried again for as long as this site leads, and never refused.
    InDoubt,
}

/// The sets of a site: what executes intents and takes in outcomes.
///
/// Nothing here may call the groups back and wait for the answer: a group waits for these futures.
pub trait Sets {
    /// Executes an intent at the application of this site, which leads the group, and tells its verdict.
    ///
    /// A majority of the members holds the intent. The calls for one set come one after another, and
    /// each after [`Sets::executed`] for the set. Idempotent by token, also across restarts: an intent
    /// whose verdict is known here, by this call or by [`Sets::conclude`], is not executed again.
    fn decide<'a>(&'a self, group: &'a GroupId, intent: &'a Intent) -> LocalBoxFuture<'a, Decision>;

    /// The outcome of an intent, which counts whatever [`Sets::decide`] said here. Durable when the
    /// future ends. It only records; it is executed afterwards, see [`Sets::executed`].
    ///
    /// Called in the order of the log for each set, and again after a restart for all that this member
    /// applied since its last snapshot. It may come while a `decide` of a deposed leader's site is still
    /// under way: that execution must end and be set right before `executed` tells so.
    fn conclude<'a>(
        &'a self,
        group: &'a GroupId,
        intent: &'a Intent,
        verdict: &'a Verdict,
    ) -> LocalBoxFuture<'a, ()>;

    /// Ends when the application of this site has executed all that was concluded for the set when it
    /// was called, and what it had executed otherwise is set right.
    fn executed<'a>(&'a self, group: &'a GroupId, set: &'a str) -> LocalBoxFuture<'a, ()>;

    /// This member was too far behind and got a snapshot: outcomes were decided of which it will never
    /// be told. From the moment that the future ends, `executed` waits until the sets of the group were
    /// brought up to date from another member.
    fn skipped<'a>(&'a self, group: &'a GroupId) -> LocalBoxFuture<'a, ()>;
}
