//! A text to a scope: in any of its forms, within what a text may cost.

use cheops_types::{Code, Limits};

use crate::{
    Diagnostic, Diagnostics, Names, Scope, Span, check_meaning, check_names,
    diagnostic::floor_boundary,
    json,
    lexer::{Lexer, Origin},
    parser::{DEPTH_CEILING, Parser},
};

/// What a text may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    pub max_bytes: usize,
    /// Parentheses, calls and `!` within each other. More than [`ParseLimits::DEPTH_CEILING`] counts as
    /// that, so that no configuration can exhaust the stack.
    pub max_depth: usize,
}

impl ParseLimits {
    pub const DEPTH_CEILING: usize = DEPTH_CEILING;

    /// Enough for the full form of every scope that these limits accept: spaces around operators make a
    /// text at most twice as long, and a bare location gets the name of a service.
    #[must_use]
    pub fn for_printed(self) -> Self {
        let service_max_bytes = 130;
        Self {
            max_bytes: self.max_bytes.saturating_mul(2).saturating_add(service_max_bytes),
            max_depth: self.max_depth,
        }
    }
}

impl From<&Limits> for ParseLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            max_bytes: limits.scope_max_bytes,
            max_depth: limits.scope_max_depth,
        }
    }
}

/// Parses `text` and checks its meaning, and its names against `names` where they are known.
pub fn read(text: &str, limits: &ParseLimits, names: Option<&dyn Names>) -> Result<Scope, Diagnostics> {
    let scope = parse(text, limits)?;
    check_meaning(&scope)?;
    if let Some(names) = names {
        check_names(&scope, names)?;
    }
    Ok(scope)
}

/// Reads a scope in any of its forms. Says nothing about meaning or names.
pub fn parse(text: &str, limits: &ParseLimits) -> Result<Scope, Diagnostic> {
    if text.len() > limits.max_bytes {
        return Err(too_long(text, limits.max_bytes));
    }
    if json::is_json(text) {
        json::parse(text, limits.max_depth)
    } else {
        Parser::new(Lexer::new(text, Origin::Offset(0)), limits.max_depth).scope()
    }
}

fn too_long(text: &str, max_bytes: usize) -> Diagnostic {
    let span = Span::new(floor_boundary(text, max_bytes), text.len());
    let message = format!("the scope has {} bytes, more than {max_bytes}", text.len());
    Diagnostic::new(Code::ScopeTooLong, span, message, "too long from here on")
        .help("name fewer sites, or use `all()` or `around`")
}
