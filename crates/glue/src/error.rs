//! What is wrong with a glue file.

use std::{fmt, ops::Range};

/// One mistake in a glue file: where it is, what it is and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlueError {
    /// The file as its reader named it.
    pub file: String,
    /// Where in the text, in bytes.
    pub span: Range<usize>,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    pub message: String,
    pub fix: Option<String>,
}

impl std::error::Error for GlueError {}

impl fmt::Display for GlueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        match &self.fix {
            Some(fix) => write!(f, "; {fix}"),
            None => Ok(()),
        }
    }
}
