//! Finding values in a JSON text without building them, so that what is not touched stays byte for
//! byte what it was: numbers of any size, escapes, the order of members.

use std::{
    fmt,
    ops::{ControlFlow, Range},
};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::Pointer;

/// What a pointer leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    Value(&'a RawValue),
    /// `holder`, an object or `null`, has no member of the name of step `step`.
    Missing {
        holder: &'a RawValue,
        step: usize,
    },
    /// A step leads into something that has no members.
    Blocked,
}

/// The whole of `text` as one value.
pub(crate) fn read(text: &str) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_str(text)
}

pub(crate) fn find<'a>(root: &'a RawValue, pointer: &Pointer) -> Result<Found<'a>, serde_json::Error> {
    let mut value = root;
    for (step, name) in pointer.steps().iter().enumerate() {
        if value.get() == "null" {
            return Ok(Found::Missing { holder: value, step });
        }
        if !is_object(value) {
            return Ok(Found::Blocked);
        }
        match member(value, name)? {
            Some(inner) => value = inner,
            None => return Ok(Found::Missing { holder: value, step }),
        }
    }
    Ok(Found::Value(value))
}

/// The value of the member `name` of an object; the last one, as most readers do, where it repeats.
pub(crate) fn member<'a>(
    object: &'a RawValue,
    name: &str,
) -> Result<Option<&'a RawValue>, serde_json::Error> {
    let mut found = None;
    visit_members(object, |key, value| {
        if key == name {
            found = Some(value);
        }
    })?;
    Ok(found)
}

/// Calls `visit` with every member of an object, in order.
pub(crate) fn visit_members<'a>(
    object: &'a RawValue,
    visit: impl FnMut(&str, &'a RawValue),
) -> Result<(), serde_json::Error> {
    serde_json::Deserializer::from_str(object.get()).deserialize_map(Members(visit))
}

/// Calls `visit` with every element of an array, in order, until it breaks off; says whether it did not.
pub(crate) fn visit_elements<'a>(
    array: &'a RawValue,
    visit: impl FnMut(&'a RawValue) -> ControlFlow<()>,
) -> Result<bool, serde_json::Error> {
    let mut is_whole = true;
    let elements = Elements {
        visit,
        is_whole: &mut is_whole,
    };
    match serde_json::Deserializer::from_str(array.get()).deserialize_seq(elements) {
        Err(error) if is_whole => Err(error),
        _ => Ok(is_whole),
    }
}

pub(crate) fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

pub(crate) fn is_array(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

/// Whether an object has no members, or an array no elements.
pub(crate) fn is_empty(value: &RawValue) -> bool {
    value.get()[1..].trim_start().starts_with(['}', ']'])
}

/// Where `value` stands in `text`, of which it must be a part.
pub(crate) fn range_in(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + value.get().len()
}

/// `text` as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Members<F>(F);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        // One buffer for all names: lists have many members, and few are looked at.
        let mut name = String::new();
        while members.next_key_seed(Name(&mut name))?.is_some() {
            let value = members.next_value()?;
            (self.0)(&name, value);
        }
        Ok(())
    }
}

struct Elements<'b, F> {
    visit: F,
    is_whole: &'b mut bool,
}

impl<'de, F: FnMut(&'de RawValue) -> ControlFlow<()>> Visitor<'de> for Elements<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            if (self.visit)(element).is_break() {
                *self.is_whole = false;
                // A reader must come to the end of an array, or fail.
                return Err(A::Error::custom("enough is read"));
            }
        }
        Ok(())
    }
}

struct Name<'b>(&'b mut String);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        self.0.clear();
        self.0.push_str(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, pointer: &str) -> String {
        match find(read(text).unwrap(), &Pointer::parse(pointer).unwrap()).unwrap() {
            Found::Value(value) => {
                assert_eq!(&text[range_in(text, value)], value.get());
                value.get().to_owned()
            }
            Found::Missing { holder, step } => format!("missing {step} in {}", holder.get()),
            Found::Blocked => "blocked".to_owned(),
        }
    }

    #[test]
    fn pointers_find_the_text_of_values() {
        let text = r#" { "a": {"b" : 1.50, "c\u0064": [1, 2]}, "n": null, "a/b": "x" } "#;
        assert_eq!(found(text, "/a/b"), "1.50");
        assert_eq!(found(text, "/a/cd"), "[1, 2]");
        assert_eq!(found(text, "/a~1b"), "\"x\"");
        assert_eq!(found(text, "/n"), "null");
        assert_eq!(found(text, "/n/x/y"), "missing 1 in null");
        assert_eq!(
            found(text, "/a/x/y"),
            r#"missing 1 in {"b" : 1.50, "c\u0064": [1, 2]}"#
        );
        assert_eq!(found(text, "/a/b/c"), "blocked");
        assert_eq!(found(text, "/a/cd/0"), "blocked");
        assert_eq!(found("[1]", ""), "[1]");
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        assert_eq!(found(r#"{"a":1,"a":2}"#, "/a"), "2");
    }

    #[test]
    fn elements_are_visited_until_it_is_enough() {
        let seen = |text: &str, max: usize| {
            let mut seen = Vec::new();
            let is_whole = visit_elements(read(text).unwrap(), |element| {
                seen.push(element.get().to_owned());
                if seen.len() < max {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            (seen.join(" "), is_whole.ok())
        };
        assert_eq!(seen("[1, [2], {}]", 9), ("1 [2] {}".to_owned(), Some(true)));
        assert_eq!(seen("[1, [2], {}]", 2), ("1 [2]".to_owned(), Some(false)));
        assert_eq!(seen("[ ]", 1), (String::new(), Some(true)));
        assert_eq!(seen("{}", 1), (String::new(), None));
    }

    #[test]
    fn empty_objects() {
        assert!(is_empty(read("{ \n }").unwrap()));
        assert!(!is_empty(read(r#"{"":0}"#).unwrap()));
    }
}
