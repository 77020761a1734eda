//! JSON pointers that may lead to many values at once.

use std::{fmt, ops::ControlFlow};

use serde_json::{Value, value::RawValue};

use crate::{InvalidPointer, Pointer, json, wildcard::Wildcard};

/// A JSON pointer in which a step `*` means every element of an array or every member of an object.
/// Other steps name members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    pointer: Pointer,
    conditions: Vec<(Pointer, Wildcard)>,
    unless: Vec<String>,
}

/// The step that means everything.
const EVERY: &str = "*";

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidPointer> {
        Pointer::parse(text).map(Self::from)
    }

    /// The same for values that are none of these texts, nor lists of one of them.
    pub(crate) fn unless(mut self, texts: Vec<String>) -> Self {
        self.unless = texts;
        self
    }

    /// The same for values in which these places have such texts.
    pub(crate) fn having(mut self, conditions: Vec<(Pointer, Wildcard)>) -> Self {
        self.conditions = conditions;
        self
    }

    pub(crate) fn steps(&self) -> &[String] {
        self.pointer.steps()
    }

    /// Whether a value at this place is meant.
    pub(crate) fn selects(&self, value: &Value) -> bool {
        let has = |(place, text): &(Pointer, Wildcard)| {
            let found = place
                .steps()
                .iter()
                .try_fold(value, |value, step| value.get(step));
            found
                .and_then(Value::as_str)
                .is_some_and(|found| text.matches(found))
        };
        if !self.conditions.iter().all(has) {
            return false;
        }
        let is_excepted = |value: &Value| {
            let text = value.as_str();
            text.is_some_and(|text| self.unless.iter().any(|unless| unless == text))
        };
        match value {
            Value::Array(elements) if !elements.is_empty() => !elements.iter().all(is_excepted),
            value => !is_excepted(value),
        }
    }
}

/// Whether a step of [`Selector::steps`] means every element or member.
pub(crate) fn is_every(step: &str) -> bool {
    step == EVERY
}

impl From<Pointer> for Selector {
    fn from(pointer: Pointer) -> Self {
        Self {
            pointer,
            conditions: Vec::new(),
            unless: Vec::new(),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pointer.fmt(f)
    }
}

/// Selectors with what each is for, arranged so that a text is walked once for all of them.
#[derive(Debug, Clone)]
pub(crate) struct Selection<T> {
    here: Vec<T>,
    members: Vec<(Box<str>, Selection<T>)>,
    every: Option<Box<Selection<T>>>,
}

impl<T> Default for Selection<T> {
    fn default() -> Self {
        Self {
            here: Vec::new(),
            members: Vec::new(),
            every: None,
        }
    }
}

impl<T> Selection<T> {
    pub(crate) fn insert(&mut self, selector: &Selector, purpose: T) {
        let mut node = self;
        for step in selector.steps() {
            node = if is_every(step) {
                node.every.get_or_insert_default()
            } else {
                let place = node.members.iter().position(|(name, _)| **name == **step);
                let place = place.unwrap_or_else(|| {
                    node.members.push((step.as_str().into(), Self::default()));
                    node.members.len() - 1
                });
                &mut node.members[place].1
            };
        }
        node.here.push(purpose);
    }

    /// Calls `visit` with every selected value. Where a member repeats, each of them is selected.
    pub(crate) fn visit<'a, 't>(
        &'t self,
        value: &'a RawValue,
        visit: &mut dyn FnMut(&'a RawValue, &'t T),
    ) -> Result<(), serde_json::Error> {
        for purpose in &self.here {
            visit(value, purpose);
        }
        if self.members.is_empty() && self.every.is_none() {
            return Ok(());
        }
        if json::is_object(value) {
            let mut inner = Vec::new();
            json::visit_members(value, |name, value| {
                let named = self.members.iter().find(|(member, _)| **member == *name);
                let nodes = named
                    .map(|(_, node)| node)
                    .into_iter()
                    .chain(self.every.as_deref());
                inner.extend(nodes.map(|node| (node, value)));
            })?;
            for (node, value) in inner {
                node.visit(value, visit)?;
            }
        } else if let (Some(every), true) = (&self.every, json::is_array(value)) {
            let mut visited = Ok(());
            json::visit_elements(value, |element| {
                visited = every.visit(element, visit);
                if visited.is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            visited?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selectors: &[&str], text: &str, expect: &[&str]) {
        let mut selection = Selection::default();
        for selector in selectors {
            selection.insert(&Selector::parse(selector).unwrap(), *selector);
        }
        let mut seen = Vec::new();
        selection
            .visit(json::read(text).unwrap(), &mut |value, selector| {
                assert_eq!(&text[json::range_in(text, value)], value.get());
                seen.push(format!("{selector} {}", value.get()));
            })
            .unwrap();
        assert_eq!(seen, expect, "{text}");
    }

    #[test]
    fn one_walk_finds_all() {
        check(
            &["/a", "/b/*/id", "/c/*", "/b"],
            r#" {"c":[1,{"x": 2}], "a" : 7, "b":[{"id":1},3,{"id":"x","id":null}], "d":0} "#,
            &[
                "/c/* 1",
                r#"/c/* {"x": 2}"#,
                "/a 7",
                r#"/b [{"id":1},3,{"id":"x","id":null}]"#,
                "/b/*/id 1",
                r#"/b/*/id "x""#,
                "/b/*/id null",
            ],
        );
        check(
            &["/a/*/b"],
            r#"{"a":{"x":{"b":1},"y":{"b":2},"z":3}}"#,
            &["/a/*/b 1", "/a/*/b 2"],
        );
        check(&["", "/a"], "3", &[" 3"]);
        check(&["/a"], "[1]", &[]);
    }
}
