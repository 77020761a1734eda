//! `withhold` of another site: headers of callers that do not leave for it.

use http::{
    HeaderName,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING},
};

use super::{ConfigError, table::Table};

/// Without these a request is another one, or none.
const NEEDED: [HeaderName; 4] = [HOST, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING];

/// What agents tell each other.
const OF_AGENTS: &str = "x-cheops-";

/// Reads the list, in lower case.
pub(super) fn read(table: &Table<'_>, errors: &mut Vec<ConfigError>) -> Vec<String> {
    let mut names = Vec::new();
    for field in table.strings("withhold", errors) {
        match HeaderName::try_from(field.value) {
            Ok(name) if NEEDED.contains(&name) || name.as_str().starts_with(OF_AGENTS) => {
                errors.push(field.error(
                    format!("no request can be forwarded without `{name}`"),
                    "remove it; withhold what carries a credential, such as `cookie`",
                ));
            }
            Ok(name) => names.push(name.as_str().to_owned()),
            Err(_) => errors.push(field.error(
                format!("`{}` is not the name of a header", field.value),
                "write a name such as `cookie` or `authorization`",
            )),
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}
