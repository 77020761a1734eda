//! Changing the values that selectors lead to.

use serde_json::Value;

use crate::selector::{Selector, is_every};

/// Removes what is selected, and says whether there was anything. A list or an object of which nothing is left goes
/// too: where nothing was to be removed from it, it would not be there.
pub(super) fn remove(value: &mut Value, selector: &Selector) -> bool {
    remove_at(value, selector.steps(), selector)
}

fn remove_at(value: &mut Value, steps: &[String], selector: &Selector) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return false;
    };
    let every = is_every(step);
    match value {
        Value::Object(members) if rest.is_empty() => {
            let before = members.len();
            members.retain(|name, value| !((every || name == step) && selector.selects(value)));
            members.len() < before
        }
        Value::Object(members) => {
            let mut removed = false;
            members.retain(|name, inner| {
                let here = (every || name == step) && remove_at(inner, rest, selector);
                removed |= here;
                !(here && is_empty(inner))
            });
            removed
        }
        Value::Array(elements) if every && rest.is_empty() => {
            let before = elements.len();
            elements.retain(|element| !selector.selects(element));
            elements.len() < before
        }
        Value::Array(elements) if every => elements
            .iter_mut()
            .fold(false, |removed, value| remove_at(value, rest, selector) | removed),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Puts what is selected in `from` at the same places of `into`, from which it was removed. Elements of arrays
/// belong together by their places.
pub(super) fn graft(into: &mut Value, from: &Value, selector: &Selector) {
    graft_at(into, from, selector.steps(), selector);
}

fn graft_at(into: &mut Value, from: &Value, steps: &[String], selector: &Selector) {
    let Some((step, rest)) = steps.split_first() else {
        // What the other one has and is to be the same everywhere stays.
        if selector.selects(from) && selector.selects(into) {
            *into = from.clone();
        }
        return;
    };
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            let names = from.keys().filter(|name| is_every(step) || *name == step);
            for name in names {
                if let Some(inner) = into.get_mut(name) {
                    graft_at(inner, &from[name], rest, selector);
                } else if let Some(inner) = only(&from[name], rest, selector) {
                    into.insert(name.clone(), inner);
                }
            }
        }
        (Value::Array(into), Value::Array(from)) if is_every(step) && rest.is_empty() => {
            for (place, element) in from.iter().enumerate() {
                if selector.selects(element) {
                    into.insert(place.min(into.len()), element.clone());
                }
            }
        }
        (Value::Array(into), Value::Array(from)) if is_every(step) => {
            for (into, from) in into.iter_mut().zip(from) {
                graft_at(into, from, rest, selector);
            }
        }
        _ => {}
    }
}

/// What the steps lead to and what is around it, nothing else; none if it is in an element of a list, which
/// would not be whole.
fn only(value: &Value, steps: &[String], selector: &Selector) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else {
        return selector.selects(value).then(|| value.clone());
    };
    if let (Value::Array(elements), true, []) = (value, is_every(step), rest) {
        let kept: Vec<_> = elements
            .iter()
            .filter(|it| selector.selects(it))
            .cloned()
            .collect();
        return (!kept.is_empty()).then_some(Value::Array(kept));
    }
    let members = value.as_object()?.iter();
    let named = members.filter(|(name, _)| is_every(step) || *name == step);
    let kept: serde_json::Map<_, _> = named
        .filter_map(|(name, value)| Some((name.clone(), only(value, rest, selector)?)))
        .collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

/// Whether a merge patch sets something that is selected, or what that is a part of.
pub(super) fn is_touched(patch: &Value, selector: &Selector) -> bool {
    is_touched_at(patch, selector.steps())
}

fn is_touched_at(patch: &Value, steps: &[String]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return true;
    };
    match patch {
        Value::Object(members) if is_every(step) => members.values().any(|value| is_touched_at(value, rest)),
        Value::Object(members) => members.get(step).is_some_and(|value| is_touched_at(value, rest)),
        // Everything below is set anew.
        _ => true,
    }
}
