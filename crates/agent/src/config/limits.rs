//! `[limits]`: every key is a limit's name, every value a number above 0.

use std::sync::LazyLock;

use cheops_types::{Limit, Limits};
use serde::Deserialize as _;

use super::{ConfigError, table::Table};

static KEYS: LazyLock<Vec<(&'static str, &'static str)>> =
    LazyLock::new(|| Limit::ALL.iter().map(|limit| (limit.name(), "1000")).collect());

/// Names of before, and what to write instead.
const REPLACED: [(&str, &str); 3] = [
    (
        "correlation_max",
        "remove it: nothing is kept for each workflow any more; `correlation_scopes_max_bytes` bounds what their scopes take",
    ),
    (
        "correlation_idle_s",
        "remove it: a scope is remembered until its place is needed; `correlation_credential_s` is how long a call about a credential follows a write",
    ),
    (
        "correlation_read_idle_s",
        "remove it: a scope is remembered until its place is needed; `correlation_credential_read_s` is how long a call about a credential follows a read",
    ),
];

pub(super) fn read(root: &Table<'_>, errors: &mut Vec<ConfigError>) -> Limits {
    let Some(table) = root.table("limits", &KEYS, errors) else {
        return Limits::default();
    };
    for error in errors.iter_mut() {
        let instead = REPLACED
            .iter()
            .find(|(name, _)| error.key == format!("limits.{name}"));
        if let Some((_, instead)) = instead {
            (*instead).clone_into(&mut error.fix);
        }
    }
    let mut values = serde_json::Map::new();
    for limit in Limit::ALL {
        let Some(field) = table.integer(limit.name(), errors) else {
            continue;
        };
        if field.value == 0 {
            errors.push(field.error(
                format!("`{}` must not be 0", field.key),
                "write a number above 0, or remove the key for its default",
            ));
        }
        values.insert(limit.name().to_owned(), field.value.into());
    }
    // Every key is known and every value a number: what is left is a number that the machine cannot
    // count to.
    let limits = Limits::deserialize(serde_json::Value::Object(values)).unwrap_or_else(|error| {
        errors.push(table.name.error(
            format!("the limits cannot be used: {error}"),
            "write smaller numbers",
        ));
        Limits::default()
    });
    if limits.scope_max_bytes > limits.head_max_bytes {
        errors.push(table.name.error(
            "`scope_max_bytes` is above `head_max_bytes`, so that such a scope never arrives",
            "lower `scope_max_bytes` or raise `head_max_bytes`",
        ));
    }
    limits
}
