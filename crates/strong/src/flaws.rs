//! Bugs that a test plants, to see that the simulator finds them.

/// Each makes a group wrong in one way. All are off by default, and nothing but a test turns one on.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Flaws {
    /// A read asks nobody how far the group is.
    pub read_without_index: bool,
    /// A caller is answered when its write is executed, before the outcome is committed.
    pub answer_before_outcome: bool,
    /// An outcome counts also when the intent was decided before.
    pub later_outcome_counts: bool,
    /// A deposed leader keeps its verdict and proposes it when it leads again. Alone it does no harm.
    pub propose_stale_outcomes: bool,
    /// The leader's site executes before a majority holds the intent.
    pub execute_before_commit: bool,
    /// A vote is not written to the disk.
    pub forget_votes: bool,
    /// A read does not wait for what this site executed without knowing its outcome.
    pub read_undecided: bool,
}
