//! Who calls a service, and how an agent speaks in a caller's name.

mod impersonate;
mod stand_in;
#[cfg(test)]
mod tests;
mod verify;

use serde_json::Value;

pub use impersonate::{Impersonate, Named};
pub use stand_in::StandIn;
pub(crate) use verify::CREDENTIAL;
pub use verify::{Verified, Verify};

use crate::{edit, selector::Selector};

/// What is told of an error whose message stands at no known place.
const ERROR_MAX_CHARS: usize = 200;

/// What a service knows its callers by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallerRules {
    /// How a credential is turned into a name.
    pub verify: Option<Verify>,
    /// How somebody who may do so speaks in another's name.
    pub impersonate: Option<Impersonate>,
    /// How the names of users and groups begin that count for more than one of the application's users.
    pub privileged: Vec<String>,
    /// What the identity of a client certificate becomes.
    pub certificate: Option<Certificate>,
}

impl CallerRules {
    /// Those of a caller's names that count for more than a user of the application.
    pub fn privileges<'c>(&self, caller: &'c cheops_types::Caller) -> Vec<&'c str> {
        let implied = |name: &str| {
            let rules = self.impersonate.as_ref();
            rules.is_some_and(|rules| rules.implied_groups.iter().any(|group| group == name))
        };
        let groups = caller.groups.iter().filter(|group| !implied(group));
        let names = std::iter::once(&caller.user).chain(groups).map(String::as_str);
        names
            .filter(|name| self.privileged.iter().any(|prefix| name.starts_with(&**prefix)))
            .collect()
    }

    /// The first of a caller's privileges that is not in a list of names; there, one that ends with `*`
    /// means all that begin like it. Nobody is believed about a name that would reach the application as
    /// another one.
    pub fn unvouched<'c>(&self, caller: &'c cheops_types::Caller, vouched: &[String]) -> Option<&'c str> {
        let is_vouched = |name: &str| {
            vouched.iter().any(|known| match known.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == known,
            })
        };
        let unvouched = || self.privileges(caller).into_iter().find(|name| !is_vouched(name));
        caller.unsayable().or_else(unvouched)
    }

    /// The header that carries a credential of the agent's own, in lower case, and its value.
    pub fn own_credential(&self, credential: &str) -> (String, String) {
        match &self.verify {
            Some(verify) => (verify.from.clone(), verify.header_value(credential)),
            None => ("authorization".to_owned(), format!("Bearer {credential}")),
        }
    }

    /// Whether a header, in lower case, says in whose name a request is made.
    pub fn tells_caller(&self, header: &str) -> bool {
        let impersonate = self.impersonate.as_ref();
        impersonate.is_some_and(|names| names.has(header)) || self.is_stripped(header)
    }

    /// Whether a header, in lower case, is one that only an agent may send.
    pub fn is_stripped(&self, header: &str) -> bool {
        let certificate = self.certificate.as_ref();
        certificate.is_some_and(|certificate| {
            certificate
                .strip
                .iter()
                .any(|prefix| header.replace('_', "-").starts_with(&prefix.replace('_', "-")))
        })
    }
}

/// The headers in which an application takes the identity of a client certificate from whoever terminates
/// TLS in front of it. All names are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Has the common name.
    pub user: String,
    /// Has one organisation of it; repeated for several.
    pub group: String,
    /// How headers begin that no client may send.
    pub strip: Vec<String>,
}

/// What the glue says of one service about callers and errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(crate) caller: Option<CallerRules>,
    pub(crate) stand_in: Option<StandIn>,
    pub(crate) error_message: Vec<Selector>,
}

impl Access {
    /// What an error answer says, in one line.
    pub(crate) fn error_text(&self, body: &[u8]) -> Option<String> {
        let document = edit::build(body).ok();
        let told = document.as_ref().and_then(|document| {
            let mut places = self.error_message.iter();
            places.find_map(|place| first_text(document, place.steps()))
        });
        let whole = || String::from_utf8_lossy(body).into_owned();
        let text = told.map_or_else(whole, str::to_owned);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line: String = line
            .chars()
            .filter(|c| !c.is_control())
            .take(ERROR_MAX_CHARS)
            .collect();
        (!line.is_empty()).then_some(line)
    }
}

/// The first text at a pointer in which `*` stands for every member or element.
fn first_text<'v>(value: &'v Value, steps: &[String]) -> Option<&'v str> {
    let Some((step, rest)) = steps.split_first() else {
        return value.as_str();
    };
    match value {
        Value::Object(members) if crate::selector::is_every(step) => {
            members.values().find_map(|member| first_text(member, rest))
        }
        Value::Array(elements) if crate::selector::is_every(step) => {
            elements.iter().find_map(|element| first_text(element, rest))
        }
        Value::Object(members) => first_text(members.get(step)?, rest),
        _ => None,
    }
}

/// The value at a pointer.
fn value_at<'v>(document: &'v Value, pointer: &crate::Pointer) -> Option<&'v Value> {
    pointer
        .steps()
        .iter()
        .try_fold(document, |value, step| value.as_object()?.get(step))
}
