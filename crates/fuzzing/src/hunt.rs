//! Many executions of one target.

use std::time::{Duration, Instant};

use crate::{Corpus, Finding, Judge, Mutator, Target, judge::memory_max, memory, shrink};

/// Inputs between two looks at clock and memory.
const BATCH: usize = 1000;
/// Inputs that could be read and are mutated further, beside the corpus.
const KEPT_MAX: usize = 256;
const KEPT_MAX_BYTES: usize = 2048;
/// One input in so many that can be read is kept: those that follow are more like the corpus than like each other.
const KEEP_ONCE_IN: usize = 64;
const SHRINK_MAX: Duration = Duration::from_secs(10);

/// How long a hunt lasts: until the first of the two is reached.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub executions: u64,
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunted {
    pub executions: u64,
    /// How many of the inputs could be read.
    pub read: u64,
    pub took: Duration,
    /// The first finding, with the smallest input that was found for it.
    pub finding: Option<(Finding, Vec<u8>)>,
}

/// One hunt. The same seed and the same corpus give the same inputs in the same order.
pub struct Hunt<'h> {
    pub target: &'static Target,
    pub corpus: Corpus,
    pub seed: u64,
    /// Called with each input before it is run.
    pub before: &'h mut dyn FnMut(&[u8]),
    /// Called now and then, with the executions so far.
    pub tell: &'h mut dyn FnMut(u64),
}

impl Hunt<'_> {
    pub fn run(mut self, budget: Budget) -> Hunted {
        let begin = Instant::now();
        let judge = Judge::new(self.target.run);
        let mut mutator = Mutator::new(self.seed, self.target.tokens);
        let mut pool = std::mem::take(&mut self.corpus.inputs);
        let seeds = pool.len();
        // Without a bound from below, ever less would be left of what is kept.
        let shortest = pool.iter().map(Vec::len).min().unwrap_or(0);
        let mut hunted = Hunted {
            executions: 0,
            read: 0,
            took: Duration::ZERO,
            finding: None,
        };
        // The corpus itself comes first, as it is.
        let mut batch = pool.clone();
        while hunted.finding.is_none() {
            memory::reset();
            let peak = memory::peak();
            for input in &batch {
                (self.before)(input);
                match judge.look(input) {
                    Ok(true) => {
                        hunted.read += 1;
                        let is_kept = (shortest..=KEPT_MAX_BYTES).contains(&input.len())
                            && mutator.dice.once_in(KEEP_ONCE_IN);
                        if is_kept && pool.len() < seeds + KEPT_MAX {
                            pool.push(input.clone());
                        } else if is_kept {
                            let place = seeds + mutator.dice.below(KEPT_MAX);
                            pool[place].clone_from(input);
                        }
                    }
                    Ok(false) => {}
                    Err(finding) => {
                        hunted.finding = Some((finding, input.clone()));
                        break;
                    }
                }
                hunted.executions += 1;
            }
            let grown = memory::peak()
                .zip(peak)
                .map_or(0, |(now, then)| now.saturating_sub(then));
            if hunted.finding.is_none() && grown > memory_max(0) {
                hunted.finding = hungry(judge, &batch);
            }
            (self.tell)(hunted.executions);
            let left = budget.executions.saturating_sub(hunted.executions);
            if left == 0 || begin.elapsed() >= budget.time {
                break;
            }
            let size = BATCH.min(usize::try_from(left).unwrap_or(BATCH));
            let next = (0..size).map(|_| {
                let from = if mutator.dice.once_in(2) {
                    seeds
                } else {
                    pool.len()
                };
                mutator.input(&pool[..from])
            });
            batch = next.collect();
        }
        hunted.finding = hunted
            .finding
            .map(|(finding, input)| smallest(judge, finding, &input));
        hunted.took = begin.elapsed();
        hunted
    }
}

/// The input of a batch that takes too much memory.
fn hungry(judge: Judge, batch: &[Vec<u8>]) -> Option<(Finding, Vec<u8>)> {
    batch.iter().find_map(|input| {
        let finding = judge.look_closely(input).err()?;
        Some((finding, input.clone()))
    })
}

/// What fails in the same way and is small. Where the failure goes away by itself, the input stays as it is.
fn smallest(judge: Judge, finding: Finding, input: &[u8]) -> (Finding, Vec<u8>) {
    let look = |input: &[u8]| match finding {
        Finding::Hungry { .. } => judge.look_closely(input),
        _ => judge.look(input),
    };
    let fails = |input: &[u8]| look(input).is_err_and(|other| other.is_like(&finding));
    let small = shrink(input, SHRINK_MAX, fails);
    (look(&small).err().unwrap_or(finding), small)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget {
        executions: 20_000,
        time: Duration::from_secs(60),
    };

    fn hunt(target: &'static Target) -> Hunted {
        let corpus = Corpus {
            inputs: vec![b"some (text".to_vec()],
        };
        let hunt = Hunt {
            target,
            corpus,
            seed: 1,
            before: &mut |_| {},
            tell: &mut |_| {},
        };
        hunt.run(BUDGET)
    }

    #[test]
    fn a_promise_that_is_broken_is_found_and_made_small() {
        static TARGET: Target = Target {
            name: "test",
            about: "",
            run: |input| {
                let at = input.windows(4).position(|part| part == b"word");
                assert!(at.is_none_or(|at| at < 3), "a word behind something");
                true
            },
            tokens: &[b"word"],
        };
        let (finding, input) = hunt(&TARGET).finding.unwrap();
        assert!(matches!(finding, Finding::Panic { .. }), "{finding:?}");
        assert_eq!(input, b"000word");
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        static TARGET: Target = Target {
            name: "test",
            about: "",
            run: |input| input.len() % 2 == 0,
            tokens: &[],
        };
        let hunted = hunt(&TARGET);
        assert_eq!((hunted.executions, hunted.finding), (BUDGET.executions, None));
        assert!((1..BUDGET.executions).contains(&hunted.read));
    }
}
