use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How many differences are told; more say nothing that these do not.
pub const DIFFERENCES_MAX: usize = 100;

/// One place where two JSON texts differ. A side without that place has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// A JSON pointer (RFC 6901); empty for the whole.
    pub pointer: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub left: Option<Value>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub right: Option<Value>,
}

/// The places where two values differ, as deep as possible, at most [`DIFFERENCES_MAX`] of them.
pub fn differences(left: &Value, right: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&mut String::new(), Some(left), Some(right), &mut found);
    found
}

fn compare(pointer: &mut String, left: Option<&Value>, right: Option<&Value>, found: &mut Vec<Difference>) {
    if left == right || found.len() >= DIFFERENCES_MAX {
        return;
    }
    match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => members(pointer, left, right, found),
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for place in 0..left.len().max(right.len()) {
                let segment = place.to_string();
                within(pointer, &segment, left.get(place), right.get(place), found);
            }
        }
        _ => found.push(Difference {
            pointer: pointer.clone(),
            left: left.cloned(),
            right: right.cloned(),
        }),
    }
}

fn members(
    pointer: &mut String,
    left: &Map<String, Value>,
    right: &Map<String, Value>,
    found: &mut Vec<Difference>,
) {
    let only_right = right.keys().filter(|name| !left.contains_key(*name));
    for name in left.keys().chain(only_right) {
        let segment = name.replace('~', "~0").replace('/', "~1");
        within(pointer, &segment, left.get(name), right.get(name), found);
    }
}

fn within(
    pointer: &mut String,
    segment: &str,
    left: Option<&Value>,
    right: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(segment);
    compare(pointer, left, right, found);
    pointer.truncate(length);
}

/// Tells a member that is null from one that is not there.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(left: &Value, right: &Value, expected: &[(&str, Option<Value>, Option<Value>)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(pointer, left, right)| Difference {
                pointer: (*pointer).to_owned(),
                left: left.clone(),
                right: right.clone(),
            })
            .collect();
        assert_eq!(differences(left, right), expected);
    }

    #[test]
    fn only_what_differs_is_told_and_as_deep_as_possible() {
        check(&json!({ "a": 1 }), &json!({ "a": 1 }), &[]);
        check(&json!(1), &json!(2), &[("", Some(json!(1)), Some(json!(2)))]);
        check(
            &json!({ "a": { "b": 1, "c": 2 }, "d": [1, 2] }),
            &json!({ "a": { "b": 1, "c": 3 }, "d": [1], "e/f~": null }),
            &[
                ("/a/c", Some(json!(2)), Some(json!(3))),
                ("/d/1", Some(json!(2)), None),
                ("/e~1f~0", None, Some(json!(null))),
            ],
        );
        check(
            &json!({ "a": [1] }),
            &json!({ "a": {} }),
            &[("/a", Some(json!([1])), Some(json!({})))],
        );
    }

    #[test]
    fn the_order_of_members_is_no_difference() {
        let left: Value = serde_json::from_str(r#"{"a":1,"b":2}"#).unwrap();
        let right: Value = serde_json::from_str(r#"{"b":2,"a":1}"#).unwrap();
        assert_eq!(differences(&left, &right), []);
    }

    #[test]
    fn differences_are_bounded() {
        let left = json!((0..1000).collect::<Vec<_>>());
        let right = json!((1..1001).collect::<Vec<_>>());
        assert_eq!(differences(&left, &right).len(), DIFFERENCES_MAX);
    }

    #[test]
    fn null_and_nothing_stay_apart_in_json() {
        let all = differences(&json!({ "a": null }), &json!({ "b": 1 }));
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            serde_json::from_str::<Vec<Difference>>(&text).unwrap(),
            all,
            "{text}"
        );
    }
}
