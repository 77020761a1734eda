//! Why there is no order.

use std::{collections::BTreeSet, fmt};

use crate::{
    Action, Operation, Outcome,
    history::{is_certain, only_tells, until},
    search::{Found, search},
    shrink::shrink,
    steps::Steps,
    timeline,
};

/// Operations that are shown beside the wrong one.
const AROUND_MAX: usize = 16;
/// Steps to find out which of several answers of one moment is the wrong one.
const TIE_STEPS_MAX: u64 = 100_000;

/// A key whose operations have no order in which every answer is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub key: String,
    /// How many operations on the key there are.
    pub operations: usize,
    /// The first answer that no order explains: before it came, there was one.
    pub wrong: Operation,
    pub reason: Reason,
    /// Few operations, `wrong` among them, that have no order by themselves, in the order in which they were invoked.
    /// What was not answered when the wrong answer came is [`Outcome::Unknown`] here.
    pub core: Vec<Operation>,
    /// What happened last when the wrong answer came, whether it matters or not.
    pub around: Vec<Operation>,
}

/// What can be said of a wrong answer without looking at orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It met a value that nothing ever set.
    NeverSet(u64),
    /// It met a value that only refused operations would have set.
    RefusedOnly(u64),
    /// It met a value that was set only after its answer.
    SetLater(u64),
    /// Everything that it needs happened, in no order that fits.
    NoPlace,
}

/// Of a history of one key that has no order.
pub(crate) fn explain(operations: &[Operation], steps_max: u64) -> Violation {
    let moment = first_wrong_moment(operations, steps_max);
    let known = until(operations, moment);
    let wrong = wrong_one(&known, moment).clone();
    let mut core = shrink(&known, &wrong);
    core.sort_by_key(|operation| (operation.invoked, operation.returned));
    let mut around = known;
    around.retain(|operation| *operation != wrong);
    around.sort_by_key(|operation| operation.invoked);
    around.drain(..around.len().saturating_sub(AROUND_MAX));
    around.push(wrong.clone());
    around.sort_by_key(|operation| (operation.invoked, operation.returned));
    Violation {
        key: wrong.key.clone(),
        operations: operations.len(),
        reason: reason(operations, &wrong),
        wrong,
        core,
        around,
    }
}

/// The first moment of an answer at which there was no order any more.
fn first_wrong_moment(operations: &[Operation], steps_max: u64) -> u64 {
    let moments = operations.iter().filter(|operation| is_certain(operation));
    let moments: BTreeSet<_> = moments.map(|operation| operation.returned).collect();
    let moments: Vec<_> = moments.into_iter().collect();
    // At the end there is none: that is why we are here. A beginning that is too hard is taken for a good one: what
    // is shown is wrong for certain.
    let (mut good, mut wrong) = (0, moments.len().saturating_sub(1));
    while good < wrong {
        let middle = usize::midpoint(good, wrong);
        let known = until(operations, moments[middle]);
        if search(&Steps::of(&known), steps_max).0 == Found::None {
            wrong = middle;
        } else {
            good = middle + 1;
        }
    }
    moments[wrong]
}

/// Of what was answered at the first wrong moment, the one that has no place even when nothing else was answered
/// then. If there is none, the first.
fn wrong_one(known: &[Operation], moment: u64) -> &Operation {
    let is_suspect = |operation: &Operation| is_certain(operation) && operation.returned == moment;
    let suspects: Vec<_> = known.iter().filter(|operation| is_suspect(operation)).collect();
    let is_wrong = |suspect: &&&Operation| {
        let others = known
            .iter()
            .filter(|other| !is_suspect(other) || other == *suspect);
        let alone: Vec<_> = others.cloned().collect();
        search(&Steps::of(&alone), TIE_STEPS_MAX).0 == Found::None
    };
    // An answer that only tells something shows more plainly what is wrong.
    let (tells, changes): (Vec<&Operation>, Vec<_>) =
        suspects.iter().partition(|suspect| only_tells(suspect));
    let found = tells.iter().chain(&changes).find(is_wrong).or(suspects.first());
    found.expect("the moment is that of an answer")
}

fn reason(operations: &[Operation], wrong: &Operation) -> Reason {
    let (Action::Read(Some(value))
    | Action::CompareAndSet {
        expected: value,
        value: _,
    }) = wrong.action
    else {
        return Reason::NoPlace;
    };
    if wrong.outcome != Outcome::Done {
        return Reason::NoPlace;
    }
    let sets_it = |operation: &&Operation| match operation.action {
        Action::Write(set) | Action::Create(set) | Action::CompareAndSet { value: set, .. } => set == value,
        Action::Read(_) | Action::Delete => false,
    };
    let sources: Vec<_> = operations.iter().filter(sets_it).collect();
    let may_happen = |source: &&&Operation| matches!(source.outcome, Outcome::Done | Outcome::Unknown);
    match sources
        .iter()
        .filter(may_happen)
        .map(|source| source.invoked)
        .min()
    {
        None if sources.is_empty() => Reason::NeverSet(value),
        None => Reason::RefusedOnly(value),
        Some(first) if first > wrong.returned => Reason::SetLater(value),
        Some(_) => Reason::NoPlace,
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverSet(value) => write!(f, "nothing ever set {value}"),
            Self::RefusedOnly(value) => write!(f, "what would have set {value} was refused"),
            Self::SetLater(value) => write!(f, "{value} was set only after that"),
            Self::NoPlace => write!(f, "it has no place among what was answered before"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} operations, and no order in which every answer is right",
            self.key, self.operations
        )?;
        writeln!(f, "  the first answer that no order explains: {}", self.wrong)?;
        writeln!(f, "  because {}", self.reason)?;
        writeln!(f, "  these have no order by themselves:")?;
        write!(f, "{}", timeline::draw(&self.core, &self.wrong))?;
        writeln!(f, "  what happened around it:")?;
        write!(f, "{}", timeline::draw(&self.around, &self.wrong))
    }
}
