//! The search for an order, after Wing and Gong, with Lowe's memory of what was tried in vain.
//!
//! The order is built from its beginning. A step can be the next one when no other that still must have a place was
//! answered before it was invoked. What only tells the state is taken as soon as it is right: it changes nothing, so
//! it is never better to wait. Only steps that change the state are a choice. A choice that was wrong is taken back;
//! the set of steps taken and the state are remembered, so that no other way to the same point is followed again.
//!
//! Three rules leave out choices that cannot matter; they are what makes histories of different values easy:
//!
//! - *A state that is needed is not left* when nothing can bring it back. After `write 1`, with a `read 1` still to
//!   place and no second source of 1, there is no point in `write 2`.
//! - *What nobody meets is taken at once*: a write whose value nothing needs, while nothing needs the present state
//!   either.
//! - *What may have happened happens for somebody*: a write without an answer is no choice while nothing needs its
//!   value.
//!
//! What needs just *not* a state (a delete that was done, a condition that was not met) is served by whatever
//! replaces that state. The last two rules look at such steps too: see [`Order::is_met_by_nobody`] and
//! [`Order::is_of_use`].

use std::collections::HashSet;

use crate::steps::{NOTHING, Needs, State, Steps};

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Order,
    None,
    TooHard,
}

/// What came of a search, and the steps it took.
pub(crate) fn search(steps: &Steps, steps_max: u64) -> (Found, u64) {
    let mut order = Order::new(steps);
    let mut tried = HashSet::new();
    let mut branches: Vec<Branch> = Vec::new();
    for taken in 0..=steps_max {
        order.take_what_is_no_choice();
        if order.is_complete() {
            return (Found::Order, taken);
        }
        if tried.insert(order.point()) {
            let choices = order.choices();
            branches.push(Branch {
                choices,
                length: order.taken.len(),
            });
        }
        let next = loop {
            let Some(branch) = branches.last_mut() else {
                return (Found::None, taken);
            };
            order.back_to(branch.length);
            match branch.choices.pop() {
                Some(next) => break next,
                None => branches.pop(),
            };
        };
        order.take(next);
    }
    (Found::TooHard, steps_max)
}

/// A point where there was a choice.
struct Branch {
    /// What was not tried yet, the best last.
    choices: Vec<usize>,
    /// How long the order was.
    length: usize,
}

/// The beginning of an order, and what is left to be placed.
struct Order<'a> {
    steps: &'a Steps,
    state: State,
    /// Steps in their order, with what must be restored when they are taken back.
    taken: Vec<Taken>,
    /// One bit for each step.
    is_taken: Vec<u64>,
    /// The highest number of a certain step that was taken, plus one.
    reach: usize,
    /// Certain steps that are left, as a ring in the order of their invocations; the number behind the last one is
    /// the beginning.
    after: Vec<usize>,
    before: Vec<usize>,
    /// By state: steps left that need it, certain ones and all; and that bring it about.
    must_meet: Vec<u32>,
    may_meet: Vec<u32>,
    bring: Vec<u32>,
    /// By state: steps left that need just not this one.
    avoid: Vec<u32>,
}

struct Taken {
    step: usize,
    state_before: State,
    reach_before: usize,
}

impl<'a> Order<'a> {
    fn new(steps: &'a Steps) -> Self {
        let ring = steps.certain;
        let mut order = Self {
            steps,
            state: NOTHING,
            taken: Vec::new(),
            is_taken: vec![0; steps.all.len().div_ceil(64)],
            reach: 0,
            after: (0..=ring).map(|at| if at == ring { 0 } else { at + 1 }).collect(),
            before: (0..=ring).map(|at| if at == 0 { ring } else { at - 1 }).collect(),
            must_meet: vec![0; steps.states],
            may_meet: vec![0; steps.states],
            bring: vec![0; steps.states],
            avoid: vec![0; steps.states],
        };
        for step in 0..steps.all.len() {
            order.count(step, 1);
        }
        order
    }

    fn is_complete(&self) -> bool {
        self.after[self.steps.certain] == self.steps.certain
    }

    fn is_certain(&self, step: usize) -> bool {
        step < self.steps.certain
    }

    /// What is left changes by one step, which is `1` more or, as the wrapping negative of it, one less.
    fn count(&mut self, step: usize, by: u32) {
        let add = |count: &mut u32| *count = count.wrapping_add(by);
        let is_certain = self.is_certain(step);
        let step = &self.steps.all[step];
        match step.needs {
            Needs::Any => {}
            Needs::Exactly(state) => {
                add(&mut self.may_meet[state]);
                if is_certain {
                    add(&mut self.must_meet[state]);
                }
            }
            Needs::Not(state) => add(&mut self.avoid[state]),
        }
        if let Some(state) = step.sets {
            add(&mut self.bring[state]);
        }
    }

    fn take(&mut self, step: usize) {
        self.taken.push(Taken {
            step,
            state_before: self.state,
            reach_before: self.reach,
        });
        self.is_taken[step / 64] |= 1 << (step % 64);
        self.count(step, 1_u32.wrapping_neg());
        if self.is_certain(step) {
            let (before, after) = (self.before[step], self.after[step]);
            self.after[before] = after;
            self.before[after] = before;
            self.reach = self.reach.max(step + 1);
        }
        self.state = self.steps.all[step].sets.unwrap_or(self.state);
    }

    fn back_to(&mut self, length: usize) {
        while self.taken.len() > length
            && let Some(Taken {
                step,
                state_before,
                reach_before,
            }) = self.taken.pop()
        {
            self.is_taken[step / 64] &= !(1 << (step % 64));
            self.count(step, 1);
            if self.is_certain(step) {
                // Its own neighbours are those it had, since all that was taken after it is back.
                let (before, after) = (self.before[step], self.after[step]);
                self.after[before] = step;
                self.before[after] = step;
            }
            self.state = state_before;
            self.reach = reach_before;
        }
    }

    /// Certain steps that have no place yet, in the order of their invocations.
    fn left(&self) -> impl Iterator<Item = usize> {
        let ring = self.steps.certain;
        let mut at = ring;
        std::iter::from_fn(move || {
            at = self.after[at];
            (at != ring).then_some(at)
        })
    }

    /// Certain steps that can be the next one.
    fn next_ones(&self) -> impl Iterator<Item = usize> {
        let mut first_return = u64::MAX;
        // Those further on were invoked later still. Those so far were invoked before all of these returned.
        self.left().take_while(move |step| {
            let step = &self.steps.all[*step];
            let is_next = step.invoked <= first_return;
            first_return = first_return.min(step.returned);
            is_next
        })
    }

    fn take_what_is_no_choice(&mut self) {
        loop {
            let step = self.next_ones().find(|step| self.is_no_choice(*step));
            let Some(step) = step else {
                return;
            };
            self.take(step);
        }
    }

    fn is_no_choice(&self, step: usize) -> bool {
        let own = &self.steps.all[step];
        match own.sets {
            None => own.needs.are_met(self.state),
            Some(state) => own.needs == Needs::Any && self.is_met_by_nobody(step, state),
        }
    }

    /// Whether a step that needs nothing and sets a state can just as well come now as later. An order in which it
    /// comes later stays right when it is moved here: what came first met the present state, and meets this one now;
    /// what came behind it meets now what it replaced there. That is the work of a step that can come before it, so
    /// it was invoked before this one returned; the step itself is one of those that are looked at.
    fn is_met_by_nobody(&self, step: usize, state: State) -> bool {
        let is_harmless = |other: usize| {
            let replaced = self.steps.all[other].sets;
            replaced.is_none_or(|replaced| self.avoid[replaced] == 0)
        };
        let returned = self.steps.all[step].returned;
        let is_in_time = |other: &usize| self.steps.all[*other].invoked <= returned;
        let possible = (self.steps.certain..self.steps.all.len()).filter(|other| !self.has(*other));
        self.may_meet[state] == 0
            && self.may_meet[self.state] == 0
            && self.left().take_while(is_in_time).all(is_harmless)
            && possible.take_while(is_in_time).all(is_harmless)
    }

    /// What may come next and changes the state; the best last.
    fn choices(&self) -> Vec<usize> {
        let mut choices: Vec<_> = self.next_ones().collect();
        let first = choices.iter().min_by_key(|step| self.steps.all[**step].returned);
        let (first_return, wanted) = first.map_or((u64::MAX, Needs::Any), |first| {
            let first = &self.steps.all[*first];
            (first.returned, first.needs)
        });
        choices.retain(|step| self.steps.all[*step].sets.is_some());
        let possible = (self.steps.certain..self.steps.all.len())
            .take_while(|step| self.steps.all[*step].invoked <= first_return)
            .filter(|step| !self.has(*step) && self.is_of_use(*step));
        choices.extend(possible);
        choices.retain(|step| self.steps.all[*step].needs.are_met(self.state) && self.may_leave_for(*step));
        choices.sort_by_key(|step| {
            let own = &self.steps.all[*step];
            let serves_first = own.sets.is_some_and(|state| wanted == Needs::Exactly(state));
            (
                serves_first,
                self.is_certain(*step),
                std::cmp::Reverse(own.returned),
            )
        });
        choices
    }

    fn has(&self, step: usize) -> bool {
        self.is_taken[step / 64] & (1 << (step % 64)) != 0
    }

    /// Whether it can matter that this happens now. If nothing needs what it sets and nothing avoids what it
    /// replaces, an order without it is right too.
    fn is_of_use(&self, possible: usize) -> bool {
        let sets = self.steps.all[possible].sets;
        self.avoid[self.state] > 0 || sets.is_some_and(|state| self.may_meet[state] > 0)
    }

    /// Whether nothing that must meet this state is left behind for good.
    fn may_leave_for(&self, step: usize) -> bool {
        let own = &self.steps.all[step];
        let meets_itself = self.is_certain(step) && own.needs == Needs::Exactly(self.state);
        own.sets == Some(self.state)
            || self.bring[self.state] > 0
            || self.must_meet[self.state] == u32::from(meets_itself)
    }

    /// Tells this point from all others: what follows depends on nothing else. Of the certain steps, all before the
    /// first that is left and none behind the reach was taken, so only those between need a bit.
    fn point(&self) -> Box<[u64]> {
        let certain = self.steps.certain;
        let low = self.after[certain].min(certain) / 64;
        let high = self.reach.div_ceil(64).max(low);
        let possible = if self.steps.all.len() == certain {
            self.is_taken.len()
        } else {
            (certain / 64).max(high)
        };
        let mut point = vec![self.state as u64, low as u64, high as u64];
        point.extend(&self.is_taken[low..high]);
        point.extend(&self.is_taken[possible..]);
        point.into_boxed_slice()
    }
}
