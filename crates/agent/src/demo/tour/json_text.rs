//! JSON laid out for reading: what fits on a line stays on it.

use serde_json::Value;

/// The lines of `value`, each at most `width` columns where that is possible.
pub(super) fn lines(value: &Value, width: usize) -> Vec<String> {
    let flat = value.to_string();
    if flat.chars().count() <= width {
        return vec![flat];
    }
    let inner = width.saturating_sub(2);
    let (open, close, members): (_, _, Vec<Vec<String>>) = match value {
        Value::Array(items) => ("[", "]", items.iter().map(|item| lines(item, inner)).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                let name = format!("{}: ", Value::from(name.as_str()));
                let mut lines = lines(value, inner.saturating_sub(name.chars().count()));
                lines[0].insert_str(0, &name);
                lines
            });
            ("{", "}", members.collect())
        }
        _ => return vec![flat],
    };
    let count = members.len();
    let mut text = vec![open.to_owned()];
    for (index, mut member) in members.into_iter().enumerate() {
        if let (Some(last), true) = (member.last_mut(), index + 1 < count) {
            last.push(',');
        }
        text.extend(member.into_iter().map(|line| format!("  {line}")));
    }
    text.push(close.to_owned());
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn breaks_only_what_does_not_fit() {
        let value = json!({"items": [{"id": 1, "name": "bolt"}, {"id": 2, "name": "nut"}], "next": "x"});
        let text = lines(&value, 40);
        assert_eq!(
            text,
            [
                "{",
                "  \"items\": [",
                "    {\"id\":1,\"name\":\"bolt\"},",
                "    {\"id\":2,\"name\":\"nut\"}",
                "  ],",
                "  \"next\": \"x\"",
                "}"
            ]
        );
        assert_eq!(text.concat().parse::<Value>().unwrap(), value);
        assert_eq!(lines(&value, 200), [value.to_string()]);
    }
}
