//! From a credential to a name.

use cheops_types::Caller;
use serde_json::Value;

use super::value_at;
use crate::{Pointer, edit};

/// What the credential is called in the text of a question about it.
pub(crate) const CREDENTIAL: &str = "{credential}";

/// How the application is asked who a credential belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verify {
    pub method: String,
    pub path: String,
    /// The header that has the credential, in lower case.
    pub from: String,
    /// What stands before it in the header, such as `Bearer`.
    pub scheme: Option<String>,
    /// JSON with one `{credential}` within a text. With it the question is asked by the site itself; without,
    /// with the credential that it is about.
    pub body: Option<String>,
    /// Where the answer says `true` for a credential that counts; none where answering says it.
    pub valid: Option<Pointer>,
    pub user: Pointer,
    pub groups: Option<Pointer>,
}

/// What an application says about a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    As(Caller),
    /// It belongs to nobody.
    Invalid,
    /// The answer says nothing.
    Unknown,
}

impl Verify {
    /// The credential in a header's value; none where it is one of another kind.
    pub fn credential<'h>(&self, value: &'h str) -> Option<&'h str> {
        let Some(scheme) = &self.scheme else {
            return Some(value);
        };
        let (found, credential) = value.trim_start().split_once(' ')?;
        let credential = credential.trim();
        (found.eq_ignore_ascii_case(scheme) && !credential.is_empty()).then_some(credential)
    }

    /// A credential as it stands in the header.
    pub fn header_value(&self, credential: &str) -> String {
        match &self.scheme {
            Some(scheme) => format!("{scheme} {credential}"),
            None => credential.to_owned(),
        }
    }

    /// What is asked about a credential; none where it is asked with it.
    pub fn question(&self, credential: &str) -> Option<String> {
        let quoted = Value::from(credential).to_string();
        let escaped = &quoted[1..quoted.len() - 1];
        Some(self.body.as_ref()?.replace(CREDENTIAL, escaped))
    }

    pub fn read(&self, status: u16, body: &[u8]) -> Verified {
        match status {
            200..=299 => self.read_good(body).unwrap_or(Verified::Unknown),
            401 if self.body.is_none() => Verified::Invalid,
            _ => Verified::Unknown,
        }
    }

    fn read_good(&self, body: &[u8]) -> Option<Verified> {
        let document = edit::build(body).ok()?;
        if let Some(valid) = &self.valid
            && value_at(&document, valid) != Some(&Value::Bool(true))
        {
            return Some(Verified::Invalid);
        }
        let user = value_at(&document, &self.user)?.as_str()?;
        let groups = self.groups.as_ref().and_then(|at| value_at(&document, at));
        let groups = match groups {
            None | Some(Value::Null) => Vec::new(),
            // A group that cannot be read is no group that may be left out silently.
            Some(groups) => {
                let texts = groups
                    .as_array()?
                    .iter()
                    .map(|group| group.as_str().map(str::to_owned));
                texts.collect::<Option<_>>()?
            }
        };
        (!user.is_empty()).then(|| {
            let user = user.to_owned();
            Verified::As(Caller { user, groups })
        })
    }
}
