//! Who has a name, by the prime site's word: what others say about it counts only if they have it.

use cheops_replica::names::{Holding, Moment, decide};
use cheops_types::{NameAsk, NameVerdict};

use crate::lab::name;

const PENDING_MS: u64 = 100;

fn at(now_ms: u64) -> Moment {
    Moment {
        now_ms,
        pending_ms: PENDING_MS,
        successor_since_ms: None,
    }
}

fn reserve(owner: &str, instead_of: Option<&str>) -> NameAsk {
    NameAsk::Reserve {
        owner: name(owner),
        attempt: format!("of {owner}"),
        instead_of: instead_of.map(str::to_owned),
        is_nowhere: false,
        lasts_ms: 0,
    }
}

fn keep(attempt: &str) -> NameAsk {
    let attempt = attempt.to_owned();
    NameAsk::Keep { attempt }
}

fn held_by_b(is_settled: bool) -> NameVerdict {
    NameVerdict::Held {
        owner: name("b"),
        attempt: "of b".to_owned(),
        is_settled,
    }
}

/// `a` had the name and its create came to nothing; `b` has followed.
fn followed() -> Option<Holding> {
    let (held, _) = decide(None, reserve("a", None), at(0));
    let (held, verdict) = decide(held, reserve("b", Some("of a")), at(PENDING_MS));
    assert_eq!(verdict, NameVerdict::Granted);
    held
}

#[test]
fn a_name_is_taken_only_from_the_holder_that_was_looked_for() {
    let (held, _) = decide(followed(), keep("of b"), at(PENDING_MS));
    // `c` looked for what `a` was to make and found nothing. That says nothing about what `b` made.
    let (held, verdict) = decide(held, reserve("c", Some("of a")), at(PENDING_MS));
    assert_eq!(verdict, held_by_b(true));
    assert_eq!(decide(held, NameAsk::Peek, at(PENDING_MS)).1, held_by_b(true));
}

#[test]
fn late_word_of_another_attempt_keeps_nothing() {
    let (held, _) = decide(followed(), keep("of a"), at(PENDING_MS));
    let told = decide(held, NameAsk::Peek, at(PENDING_MS)).1;
    assert_eq!(told, held_by_b(false), "the create of `b` may be under way");
}
