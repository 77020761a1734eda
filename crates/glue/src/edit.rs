//! Changing a JSON text in places, so that all other bytes leave as they came.

use std::{borrow::Cow, ops::Range};

use serde_json::{Value, value::RawValue};

use crate::{
    Pointer,
    json::{self, Found},
};

/// Why a body cannot be read or changed. The text is the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be used: {0}")]
pub struct NotJson(pub String);

impl From<serde_json::Error> for NotJson {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("it is not JSON: {error}"))
    }
}

/// A value takes about 100 bytes in memory whatever its text takes, which can be 2: what another site or an application
/// sends would otherwise take fifty times its length.
const VALUES_MAX: usize = 1 << 20;

/// One place of a text and what is to stand there.
pub(crate) type Edit = (Range<usize>, String);

/// The text and the value that a body is.
pub(crate) fn parse(body: &[u8]) -> Result<(&str, &RawValue), NotJson> {
    let text = std::str::from_utf8(body).map_err(|error| NotJson(format!("it is not text: {error}")))?;
    Ok((text, json::read(text)?))
}

/// A body as a value in memory, for what cannot be done in its text: if it does not become too much there.
pub(crate) fn build(body: &[u8]) -> Result<Value, NotJson> {
    if values_max(body) > VALUES_MAX {
        return Err(NotJson(format!("it has more than {VALUES_MAX} values")));
    }
    Ok(serde_json::from_slice(body)?)
}

/// How many values a text of JSON has at most: each but the first is behind one of these signs.
fn values_max(body: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b':' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// The text with all edits made. Of two that overlap the one that begins first is made.
pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> Cow<'_, str> {
    if edits.is_empty() {
        return Cow::Borrowed(text);
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut at = 0;
    for (range, new) in edits {
        if range.start < at {
            continue;
        }
        out.push_str(&text[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// The edit that puts `value`, a text of JSON, at `pointer`, together with the objects around it that are
/// missing.
pub(crate) fn put(text: &str, pointer: &Pointer, value: &str) -> Result<Edit, NotJson> {
    let root = json::read(text)?;
    put_where(text, pointer, json::find(root, pointer)?, value)
}

/// Like [`put`]; `found` is what `pointer` leads to.
pub(crate) fn put_where(
    text: &str,
    pointer: &Pointer,
    found: Found<'_>,
    value: &str,
) -> Result<Edit, NotJson> {
    match found {
        Found::Value(old) => Ok((json::range_in(text, old), value.to_owned())),
        Found::Missing { holder, step } => {
            let names = pointer.steps()[step..]
                .iter()
                .map(|name| format!("{}:", json::quote(name)));
            let names: Vec<_> = names.collect();
            let member = format!("{}{value}{}", names.join("{"), "}".repeat(names.len() - 1));
            let range = json::range_in(text, holder);
            if !json::is_object(holder) {
                return Ok((range, format!("{{{member}}}")));
            }
            let comma = if json::is_empty(holder) { "" } else { "," };
            Ok((range.end - 1..range.end - 1, format!("{comma}{member}")))
        }
        Found::Blocked => Err(NotJson(format!("nothing can stand at `{pointer}` in it"))),
    }
}

/// The id that a value is: text, or a whole number.
pub(crate) fn id_text(value: &RawValue) -> Option<Cow<'_, str>> {
    let text = value.get();
    if is_number(value) {
        return is_whole(text).then_some(Cow::Borrowed(text));
    }
    // Only a text can be read as one.
    let plain = text.strip_prefix('"')?.strip_suffix('"')?;
    if plain.contains('\\') {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(plain))
}

/// `id` as it is written where `old` stands: a number stays a number if it can.
pub(crate) fn id_value(old: &RawValue, id: &str) -> String {
    if is_number(old) && is_whole(id) {
        id.to_owned()
    } else {
        json::quote(id)
    }
}

pub(crate) fn is_number(value: &RawValue) -> bool {
    value.get().starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// Whether `text` is a whole number as JSON writes it.
pub(crate) fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, pointer: &str) -> Result<String, NotJson> {
        let edit = put(text, &Pointer::parse(pointer).unwrap(), r#""T\"""#)?;
        Ok(apply(text, vec![edit]).into_owned())
    }

    #[test]
    fn a_value_finds_its_place() {
        for (text, pointer, expect) in [
            (r#"{"next": "a", "x":1}"#, "/next", r#"{"next": "T\"", "x":1}"#),
            (r#"{"next":null}"#, "/next", r#"{"next":"T\""}"#),
            (r#"{"x":1 }"#, "/next", r#"{"x":1 ,"next":"T\""}"#),
            ("{ }", "/next", r#"{ "next":"T\""}"#),
            (
                r#"{"m":{"v":1}}"#,
                "/m/continue",
                r#"{"m":{"v":1,"continue":"T\""}}"#,
            ),
            (r#"{"m":null}"#, "/m/continue", r#"{"m":{"continue":"T\""}}"#),
            (r#"{"x":1}"#, "/a/b/c", r#"{"x":1,"a":{"b":{"c":"T\""}}}"#),
        ] {
            assert_eq!(with(text, pointer).as_deref(), Ok(expect));
        }
        assert!(with(r#"{"m":3}"#, "/m/continue").is_err());
        assert!(with("{", "/m").is_err());
    }

    #[test]
    fn ids_keep_their_type() {
        for (old, id, expect) in [
            ("7", "42", "42"),
            ("7", "0042", r#""0042""#),
            ("7", "a-b", r#""a-b""#),
            (r#""7""#, "42", r#""42""#),
            (r#""7""#, "a\"b", r#""a\"b""#),
        ] {
            assert_eq!(id_value(json::read(old).unwrap(), id), expect);
        }
        for (value, expect) in [
            ("7", Some("7")),
            ("18446744073709551616", Some("18446744073709551616")),
            (r#""a\u00e9""#, Some("aé")),
            ("7.0", None),
            ("-7", None),
            ("null", None),
            ("[7]", None),
            (r#"{"id":7}"#, None),
        ] {
            assert_eq!(id_text(json::read(value).unwrap()).as_deref(), expect, "{value}");
        }
    }

    #[test]
    fn a_text_that_becomes_too_much_is_not_built() {
        for (text, expect) in [
            ("7", 1),
            (r#"{"a":1,"b":[true,{}]}"#, 8),
            (r#"["a,b:[{\",",2]"#, 3),
        ] {
            assert_eq!(values_max(text.as_bytes()), expect, "{text}");
        }
        let list = |values: usize| format!("[{}1]", "1,".repeat(values - 2));
        assert!(build(list(VALUES_MAX).as_bytes()).is_ok());
        let error = build(list(VALUES_MAX + 1).as_bytes()).unwrap_err();
        assert!(error.to_string().contains("values"), "{error}");
        let text = format!("\"{}\"", ",".repeat(VALUES_MAX));
        assert!(build(text.as_bytes()).is_ok(), "signs within a text are none");
    }

    #[test]
    fn overlapping_edits_do_no_harm() {
        let edits = vec![
            (2..3, "x".to_owned()),
            (0..4, "y".to_owned()),
            (4..4, "z".to_owned()),
        ];
        assert_eq!(apply("abcdef", edits), "yzef");
        assert_eq!(apply("abc", Vec::new()), "abc");
    }
}
