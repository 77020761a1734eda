//! What two concurrent operations do to each other.
//!
//! | earlier | later | relation |
//! |---|---|---|
//! | merge `{a:1}` | merge `{b:2}` | independent: neither order leaves anything out |
//! | merge `{a:1, b:1}` | merge `{b:2}` | part: `a` stays |
//! | merge `{a:1}` | replace | whole: nothing of it is left |
//! | action "restart" | merge `{a:1}` | part: what an action does is not known |
//! | anything | delete | whole |

use crate::{Operation, Verb};

/// What the later of two operations, in the order of the set, leaves of the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// All: the two can execute in any order.
    Independent,
    /// Some, or it depends on the order.
    Part,
    /// Nothing: the earlier one need not execute at all.
    Whole,
}

/// The relation of two operations for the application, `earlier` being first in the order.
pub fn relation(earlier: &Operation, later: &Operation) -> Relation {
    if !earlier.verb.is_for_application() || !later.verb.is_for_application() {
        return Relation::Independent;
    }
    let both_commute = |a: &Verb, b: &Verb| {
        matches!(a, Verb::Action { commutes: true, .. }) && matches!(b, Verb::Action { commutes: true, .. })
    };
    match (&earlier.verb, &later.verb) {
        (Verb::Delete, Verb::Delete) => Relation::Independent,
        (_, Verb::Delete) => Relation::Whole,
        (a, b) if both_commute(a, b) => Relation::Independent,
        _ if !earlier.touches.meets(&later.touches) => Relation::Independent,
        (_, Verb::Action { .. }) => Relation::Part,
        _ if later.touches.contains(&earlier.touches) => Relation::Whole,
        _ => Relation::Part,
    }
}

/// Which of two concurrent operations loses, if one does. The same at every site, whatever the order
/// of arrival.
pub fn loser<'o>(a: &'o Operation, b: &'o Operation) -> Option<&'o Operation> {
    if !a.is_concurrent_with(b) {
        return None;
    }
    match (&a.verb, &b.verb) {
        (Verb::Delete, Verb::Delete) => None,
        (Verb::Delete, _) => takes_from(a, b).then_some(b),
        (_, Verb::Delete) => takes_from(b, a).then_some(a),
        // One of them was lost to a delete, and takes nothing from the other.
        _ if a.has_seen_the_end_of(b) || b.has_seen_the_end_of(a) => None,
        _ => {
            let (earlier, later) = if a.rank() < b.rank() { (a, b) } else { (b, a) };
            (relation(earlier, later) != Relation::Independent).then_some(earlier)
        }
    }
}

/// Whether a delete takes away what a concurrent operation was written on. A create that the delete's origin had
/// not seen is somebody else's: it stays.
fn takes_from(delete: &Operation, other: &Operation) -> bool {
    if matches!(other.verb, Verb::Create(_)) || !other.verb.is_for_application() {
        return false;
    }
    other.births.is_empty() || other.births.iter().any(|birth| delete.after.includes(birth))
}
