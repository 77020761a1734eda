//! Who has a name in a container that spans sites: a decision of its prime site, one name at a time.

use cheops_types::{NameAsk, NameVerdict, SiteName};
use serde::{Deserialize, Serialize};

/// What the prime site keeps of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub owner: SiteName,
    pub attempt: String,
    pub since_ms: u64,
    /// How long its create may take.
    #[serde(default)]
    pub lasts_ms: u64,
    pub state: HoldingState,
    /// Others of this name, made while this site could not be asked, the earliest first.
    pub rivals: Vec<Rival>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldingState {
    /// Its create may still be under way.
    Pending,
    Kept,
    /// Kept at the site that made it without asking, until the prime site has heard of it.
    Unasked,
    /// The same, and the prime site says that an older one has the name.
    Flagged,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    pub owner: SiteName,
    pub attempt: String,
    pub since_ms: u64,
}

/// No create is waited for longer than this.
const LASTS_MAX_MS: u64 = 3_600_000;

/// What a decision depends on beside the name itself.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now_ms: u64,
    /// How long a create may take.
    pub pending_ms: u64,
    /// Since when this site gives names away, where another one did before, or this one with a store that it has
    /// lost since; none: it has given all of them away, and knows them.
    pub successor_since_ms: Option<u64>,
}

impl Holding {
    fn is_settled(&self, moment: Moment) -> bool {
        let lasts_ms = self.lasts_ms.max(moment.pending_ms);
        self.state != HoldingState::Pending || moment.now_ms >= self.since_ms + lasts_ms
    }

    fn told(&self, moment: Moment) -> NameVerdict {
        NameVerdict::Held {
            owner: self.owner.clone(),
            attempt: self.attempt.clone(),
            is_settled: self.is_settled(moment),
        }
    }
}

/// What becomes of a name, and what is answered.
pub fn decide(held: Option<Holding>, ask: NameAsk, moment: Moment) -> (Option<Holding>, NameVerdict) {
    match ask {
        NameAsk::Reserve {
            owner,
            attempt,
            instead_of,
            is_nowhere,
            lasts_ms,
        } => {
            let asked = Holding {
                owner,
                attempt,
                since_ms: moment.now_ms,
                lasts_ms: lasts_ms.min(LASTS_MAX_MS),
                state: HoldingState::Pending,
                rivals: Vec::new(),
            };
            reserve(held, asked, instead_of.as_deref(), is_nowhere, moment)
        }
        NameAsk::Gone { owner } => {
            let held = held.map(|mut held| {
                held.rivals.retain(|rival| rival.owner != owner);
                held
            });
            (held, NameVerdict::Noted)
        }
        NameAsk::Peek => {
            let verdict = held.as_ref().map(|held| held.told(moment));
            (held, verdict.unwrap_or(NameVerdict::Noted))
        }
        NameAsk::Keep { attempt } => {
            let kept = held.map(|mut held| {
                if held.attempt == attempt {
                    held.state = HoldingState::Kept;
                }
                held
            });
            (kept, NameVerdict::Noted)
        }
        NameAsk::Release { attempt } => (release(held, attempt.as_deref()), NameVerdict::Noted),
        NameAsk::Unasked { owner, attempt } => {
            // Another one of this name was made here already.
            if let Some(other) = held.as_ref().filter(|held| held.attempt != attempt) {
                let verdict = other.told(moment);
                return (held, verdict);
            }
            let unasked = Holding {
                owner,
                attempt,
                since_ms: moment.now_ms,
                lasts_ms: 0,
                state: HoldingState::Unasked,
                rivals: Vec::new(),
            };
            (held.or(Some(unasked)), NameVerdict::Noted)
        }
        NameAsk::Claim {
            owner,
            attempt,
            since_ms,
        } => claim(
            held,
            Rival {
                owner,
                attempt,
                since_ms,
            },
        ),
    }
}

fn reserve(
    held: Option<Holding>,
    asked: Holding,
    instead_of: Option<&str>,
    is_nowhere: bool,
    moment: Moment,
) -> (Option<Holding>, NameVerdict) {
    // The same attempt asks again: its answer was lost.
    if let Some(held) = held.as_ref().filter(|held| held.attempt == asked.attempt) {
        return (Some(held.clone()), NameVerdict::Granted);
    }
    // A create that its predecessor has let go must have ended before anyone looks for what it makes. That goes for names
    // that are known, too: a store that was put back from a copy has holders that were followed by others since.
    //
    //   store   x: a1     copied     x: a2, granted     lost, copied back: x: a1
    //   a2                           create ·············································· made
    //   a3                                                 "a1 has x" · looks: nowhere · instead of a1?
    if let Some(since_ms) = moment.successor_since_ms
        && moment.now_ms < since_ms + moment.pending_ms
    {
        return (held, NameVerdict::Wait);
    }
    if let Some(held) = held {
        if !(held.is_settled(moment) && instead_of == Some(&held.attempt)) {
            let verdict = held.told(moment);
            return (Some(held), verdict);
        }
    } else if moment.successor_since_ms.is_some() && !is_nowhere {
        return (None, NameVerdict::Look);
    }
    (Some(asked), NameVerdict::Granted)
}

/// Without an attempt the one that has it is meant; the next of its rivals follows.
fn release(held: Option<Holding>, attempt: Option<&str>) -> Option<Holding> {
    let mut held = held?;
    held.rivals
        .retain(|rival| Some(rival.attempt.as_str()) != attempt);
    if attempt.is_some_and(|attempt| attempt != held.attempt) {
        return Some(held);
    }
    if held.rivals.is_empty() {
        return None;
    }
    let next = held.rivals.remove(0);
    Some(Holding {
        owner: next.owner,
        attempt: next.attempt,
        since_ms: next.since_ms,
        lasts_ms: 0,
        state: HoldingState::Kept,
        rivals: held.rivals,
    })
}

fn order(rival: &Rival) -> (u64, SiteName, String) {
    (rival.since_ms, rival.owner.clone(), rival.attempt.clone())
}

/// The earlier one keeps the name.
fn claim(held: Option<Holding>, claim: Rival) -> (Option<Holding>, NameVerdict) {
    let take = |claim: Rival, rivals| Holding {
        owner: claim.owner,
        attempt: claim.attempt,
        since_ms: claim.since_ms,
        lasts_ms: 0,
        state: HoldingState::Kept,
        rivals,
    };
    let Some(mut held) = held else {
        return (Some(take(claim, Vec::new())), NameVerdict::Granted);
    };
    if held.attempt == claim.attempt {
        held.state = HoldingState::Kept;
        return (Some(held), NameVerdict::Granted);
    }
    let before = Rival {
        owner: held.owner.clone(),
        attempt: held.attempt.clone(),
        since_ms: held.since_ms,
    };
    held.rivals.retain(|rival| rival.attempt != claim.attempt);
    if order(&claim) < order(&before) {
        let mut rivals = held.rivals;
        rivals.insert(0, before);
        return (Some(take(claim, rivals)), NameVerdict::Granted);
    }
    held.rivals.push(claim);
    held.rivals.sort_by_key(order);
    let owner = held.owner.clone();
    (Some(held), NameVerdict::Rival { owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Moment = Moment {
        now_ms: 1000,
        pending_ms: 100,
        successor_since_ms: None,
    };

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn reserve(owner: &str, attempt: &str, instead_of: Option<&str>) -> NameAsk {
        NameAsk::Reserve {
            owner: site(owner),
            attempt: attempt.to_owned(),
            instead_of: instead_of.map(str::to_owned),
            is_nowhere: false,
            lasts_ms: 0,
        }
    }

    fn claim(owner: &str, attempt: &str, since_ms: u64) -> NameAsk {
        NameAsk::Claim {
            owner: site(owner),
            attempt: attempt.to_owned(),
            since_ms,
        }
    }

    fn held(owner: &str, attempt: &str, is_settled: bool) -> NameVerdict {
        NameVerdict::Held {
            owner: site(owner),
            attempt: attempt.to_owned(),
            is_settled,
        }
    }

    #[test]
    fn one_attempt_at_a_time() {
        let (row, verdict) = decide(None, reserve("a", "1", None), MOMENT);
        assert_eq!(verdict, NameVerdict::Granted);
        let again = decide(row.clone(), reserve("a", "1", None), MOMENT);
        assert_eq!(again, (row.clone(), NameVerdict::Granted));
        let (row, verdict) = decide(row, reserve("b", "2", None), MOMENT);
        assert_eq!(verdict, held("a", "1", false));
        // Nobody takes it from a create that may be under way.
        let (row, verdict) = decide(row, reserve("b", "2", Some("1")), MOMENT);
        assert_eq!(verdict, held("a", "1", false));
        let later = Moment {
            now_ms: 1100,
            ..MOMENT
        };
        let (row, verdict) = decide(row, reserve("b", "2", None), later);
        assert_eq!(verdict, held("a", "1", true));
        let (row, verdict) = decide(row, reserve("b", "2", Some("1")), later);
        assert_eq!(verdict, NameVerdict::Granted);
        // Whoever looked for the first one does not get it from the second.
        let (row, verdict) = decide(row, reserve("c", "3", Some("1")), later);
        assert_eq!(verdict, held("b", "2", false));
        let (row, _) = decide(
            row,
            NameAsk::Keep {
                attempt: "2".to_owned(),
            },
            later,
        );
        let (row, verdict) = decide(row, reserve("c", "3", None), later);
        assert_eq!(verdict, held("b", "2", true));
        let late = NameAsk::Release {
            attempt: Some("1".to_owned()),
        };
        assert_eq!(decide(row.clone(), late, later).0, row);
        assert_eq!(decide(row, NameAsk::Release { attempt: None }, later).0, None);
    }

    #[test]
    fn a_successor_has_to_look() {
        let fresh = Moment {
            successor_since_ms: Some(950),
            ..MOMENT
        };
        assert_eq!(
            decide(None, reserve("a", "1", None), fresh),
            (None, NameVerdict::Wait)
        );
        let successor = Moment {
            successor_since_ms: Some(900),
            ..MOMENT
        };
        assert_eq!(
            decide(None, reserve("a", "1", None), successor),
            (None, NameVerdict::Look)
        );
        let looked = NameAsk::Reserve {
            owner: site("a"),
            attempt: "1".to_owned(),
            instead_of: None,
            is_nowhere: true,
            lasts_ms: 0,
        };
        assert_eq!(decide(None, looked, successor).1, NameVerdict::Granted);
    }

    #[test]
    fn a_holder_that_an_old_copy_of_the_store_has_is_not_replaced_at_once() {
        let kept = Holding {
            owner: site("a"),
            attempt: "1".to_owned(),
            since_ms: 10,
            lasts_ms: 0,
            state: HoldingState::Kept,
            rivals: Vec::new(),
        };
        let fresh = Moment {
            successor_since_ms: Some(950),
            ..MOMENT
        };
        for instead_of in [None, Some("1")] {
            let told = decide(Some(kept.clone()), reserve("b", "2", instead_of), fresh);
            assert_eq!(told, (Some(kept.clone()), NameVerdict::Wait));
        }
        let later = Moment {
            now_ms: 1050,
            ..fresh
        };
        let told = decide(Some(kept.clone()), reserve("b", "2", None), later);
        assert_eq!(told.1, held("a", "1", true));
        let told = decide(Some(kept), reserve("b", "2", Some("1")), later);
        assert_eq!(told.1, NameVerdict::Granted);
    }

    #[test]
    fn of_two_that_nobody_was_asked_about_the_earlier_keeps_the_name() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let claims = [claim("a", "1", 30), claim("b", "2", 10), claim("c", "3", 20)];
            let mut row = None;
            for at in order {
                row = decide(row, claims[at].clone(), MOMENT).0;
            }
            let held = row.clone().unwrap();
            assert_eq!((held.owner, held.rivals.len()), (site("b"), 2), "{order:?}");
            let told = decide(row.clone(), claims[0].clone(), MOMENT);
            assert_eq!(told, (row.clone(), NameVerdict::Rival { owner: site("b") }));
            let (row, _) = decide(row, NameAsk::Release { attempt: None }, MOMENT);
            assert_eq!(row.unwrap().owner, site("c"));
        }
    }
}
