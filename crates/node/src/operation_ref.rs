//! Operations as users name them.

use std::{fmt, str::FromStr};

use cheops_replica::{Author, MetaId, OpId, Token};
use cheops_types::SiteName;

/// An operation of one set: `<meta-id>:<site>.<incarnation>.<stay>.<number>`, or, before it has a number,
/// `<meta-id>:<token>` with 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperationRef {
    pub(crate) set: MetaId,
    pub(crate) which: Which,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    Number(OpId),
    Token(Token),
}

/// A text that names no operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAnOperation;

const TOKEN_DIGITS: usize = 32;

impl OperationRef {
    pub(crate) fn number(set: &MetaId, id: &OpId) -> Self {
        Self {
            set: set.clone(),
            which: Which::Number(id.clone()),
        }
    }

    pub(crate) fn token(set: &MetaId, token: Token) -> Self {
        Self {
            set: set.clone(),
            which: Which::Token(token),
        }
    }
}

impl fmt::Display for OperationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            Which::Number(id) => write!(f, "{}:{id}", self.set),
            Which::Token(token) => write!(f, "{}:{token}", self.set),
        }
    }
}

impl FromStr for OperationRef {
    type Err = NotAnOperation;

    fn from_str(text: &str) -> Result<Self, NotAnOperation> {
        let (set, operation) = text.rsplit_once(':').ok_or(NotAnOperation)?;
        if set.is_empty() {
            return Err(NotAnOperation);
        }
        Ok(Self {
            set: MetaId::new(set),
            which: token(operation)
                .map(Which::Token)
                .or_else(|| number(operation).map(Which::Number))
                .ok_or(NotAnOperation)?,
        })
    }
}

fn token(text: &str) -> Option<Token> {
    let is_token = text.len() == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_token
        .then(|| u128::from_str_radix(text, 16).ok().map(Token))
        .flatten()
}

fn number(text: &str) -> Option<OpId> {
    // From the right: a site's name may have dots.
    let mut parts = text.rsplitn(4, '.');
    let seq = parts.next()?.parse().ok()?;
    let stay = parts.next()?.parse().ok()?;
    let incarnation = parts.next()?.parse().ok()?;
    let site = SiteName::new(parts.next()?).ok()?;
    let author = Author {
        site,
        incarnation,
        stay,
    };
    Some(OpId { author, seq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_come_back() {
        for text in [
            "0b7c:eu.west-1.1700000000000.0.3",
            "0b7c:000000000000000000000000000000ff",
            "a:b:site1.1.0.1",
        ] {
            assert_eq!(text.parse::<OperationRef>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_name_nothing() {
        for text in [
            "",
            "0b7c",
            "0b7c:",
            ":site1.1.0.1",
            "0b7c:site1.1.0",
            "0b7c:-x.1.0.1",
            "0b7c:ff",
        ] {
            assert_eq!(text.parse::<OperationRef>(), Err(NotAnOperation), "{text}");
        }
    }
}
