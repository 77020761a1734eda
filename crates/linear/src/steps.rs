//! A history of one key as the search wants it: what must have a place, what may, what each needs and leaves.

use std::collections::BTreeMap;

use crate::{Action, Operation, Outcome};

/// What a key holds, by number; 0 is nothing.
pub(crate) type State = usize;
pub(crate) const NOTHING: State = 0;

/// What must be there where a step has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Any,
    Exactly(State),
    Not(State),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) invoked: u64,
    /// The end of time if nobody knows.
    pub(crate) returned: u64,
    pub(crate) needs: Needs,
    /// What there is afterwards; none if it only tells what there was.
    pub(crate) sets: Option<State>,
}

/// The operations that can have a place.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// First those that must have one, then those that may; each in the order in which they were invoked.
    pub(crate) all: Vec<Step>,
    /// How many must.
    pub(crate) certain: usize,
    /// How many states there are.
    pub(crate) states: usize,
}

impl Needs {
    pub(crate) fn are_met(self, state: State) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => state == wanted,
            Self::Not(unwanted) => state != unwanted,
        }
    }
}

impl Steps {
    pub(crate) fn of(operations: &[Operation]) -> Self {
        let mut states = States::default();
        let (mut certain, mut possible) = (Vec::new(), Vec::new());
        for operation in operations {
            let Some(step) = step(operation, &mut states) else {
                continue;
            };
            if operation.outcome == Outcome::Unknown {
                possible.push(step);
            } else {
                certain.push(step);
            }
        }
        leave_out_truisms(&mut certain, &possible, states.count());
        keep_useful(&certain, &mut possible, states.count());
        certain.sort_by_key(|step| (step.invoked, step.returned));
        possible.sort_by_key(|step| step.invoked);
        let count = certain.len();
        certain.append(&mut possible);
        Self {
            all: certain,
            certain: count,
            states: states.count(),
        }
    }
}

/// Numbers for values.
#[derive(Default)]
struct States(BTreeMap<u64, State>);

impl States {
    fn of(&mut self, value: u64) -> State {
        let next = self.count();
        *self.0.entry(value).or_insert(next)
    }

    fn count(&self) -> usize {
        1 + self.0.len()
    }
}

/// None of an operation that neither does nor tells anything.
fn step(operation: &Operation, states: &mut States) -> Option<Step> {
    let (needs, sets) = match operation.action {
        Action::Read(found) => (
            Needs::Exactly(found.map_or(NOTHING, |value| states.of(value))),
            None,
        ),
        Action::Write(value) => (Needs::Any, Some(states.of(value))),
        Action::CompareAndSet { expected, value } => {
            (Needs::Exactly(states.of(expected)), Some(states.of(value)))
        }
        Action::Create(value) => (Needs::Exactly(NOTHING), Some(states.of(value))),
        Action::Delete => (Needs::Not(NOTHING), Some(NOTHING)),
    };
    let (needs, sets, returned) = match operation.outcome {
        Outcome::Done => (needs, sets, operation.returned),
        Outcome::Unmet => {
            sets?;
            let needs = match needs {
                Needs::Any => return None,
                Needs::Exactly(state) => Needs::Not(state),
                Needs::Not(state) => Needs::Exactly(state),
            };
            (needs, None, operation.returned)
        }
        Outcome::Refused => return None,
        Outcome::Unknown => {
            sets?;
            (needs, sets, u64::MAX)
        }
    };
    Some(Step {
        invoked: operation.invoked,
        returned,
        needs,
        sets,
    })
}

/// Leaves out what only tells that there was not what there never can be.
fn leave_out_truisms(certain: &mut Vec<Step>, possible: &[Step], states: usize) {
    let mut is_set = vec![false; states];
    is_set[NOTHING] = true;
    for state in certain.iter().chain(possible).filter_map(|step| step.sets) {
        is_set[state] = true;
    }
    certain.retain(|step| match step.needs {
        Needs::Not(state) => step.sets.is_some() || is_set[state],
        Needs::Any | Needs::Exactly(_) => true,
    });
}

/// Leaves out what may have happened and whose effect nobody can have met: an order with it is one without it as
/// well. After it came only what needs nothing, or what is left out too. Not while something needs just *not* that
/// state: any effect can serve it.
fn keep_useful(certain: &[Step], possible: &mut Vec<Step>, states: usize) {
    let is_vague = |step: &Step| matches!(step.needs, Needs::Not(_));
    if certain.iter().chain(&*possible).any(is_vague) {
        return;
    }
    loop {
        let mut needed = vec![false; states];
        for step in certain.iter().chain(&*possible) {
            if let Needs::Exactly(state) = step.needs {
                needed[state] = true;
            }
        }
        let before = possible.len();
        possible.retain(|step| step.sets.is_some_and(|state| needed[state]));
        if possible.len() == before {
            return;
        }
    }
}
