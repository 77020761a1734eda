//! What is wrong with a scope: where, what, what was meant and why.

use std::{error::Error, fmt, ops::Range};

use cheops_types::{Code, Problem};
use serde_json::{Value, json};

use crate::Span;

/// The longest part of a scope that an answer quotes.
const SNIPPET_MAX_BYTES: usize = 80;
/// The longest name that a message quotes whole.
const QUOTED_MAX_BYTES: usize = 40;
/// More errors than these help nobody.
const DIAGNOSTICS_MAX: usize = 8;

/// One error. The span lies within the text of the scope, on character boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// The few words to stand under the span.
    pub label: String,
    /// What was meant, or what to write instead.
    pub help: Option<String>,
    /// Why it is so.
    pub note: Option<String>,
}

/// The errors of one scope in the order in which they were found; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

// === impl Diagnostic ===

impl Diagnostic {
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            code,
            span: span.into(),
            message: message.into(),
            label: label.into(),
            help: None,
            note: None,
        }
    }

    pub(crate) fn syntax(span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(Code::ScopeSyntax, span, message, label)
    }

    pub(crate) fn meaning(span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(Code::ScopeMeaning, span, message, label)
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// The answer for programs; `source` is the text of the scope.
    pub fn to_problem(&self, source: &str) -> Problem {
        let mut problem = Problem::new(self.code, self.to_string())
            .with("position", self.position())
            .with("snippet", snippet(source, &self.span));
        if let Some(help) = &self.help {
            problem = problem.with("suggestion", help.as_str());
        }
        if let Some(note) = &self.note {
            problem = problem.with("explanation", note.as_str());
        }
        problem
    }

    fn position(&self) -> Value {
        json!({ "offset": self.span.start, "length": self.span.len() })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl Error for Diagnostic {}

// === impl Diagnostics ===

impl Diagnostics {
    /// `Ok` when nothing was found.
    pub(crate) fn result(mut found: Vec<Diagnostic>) -> Result<(), Self> {
        found.truncate(DIAGNOSTICS_MAX);
        if found.is_empty() {
            Ok(())
        } else {
            Err(Self(found))
        }
    }

    pub fn first(&self) -> &Diagnostic {
        &self.0[0]
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// The answer for programs: the first error, the others beside it.
    pub fn to_problem(&self, source: &str) -> Problem {
        let problem = self.first().to_problem(source);
        if self.0.len() == 1 {
            return problem;
        }
        let others: Vec<_> = self.0[1..]
            .iter()
            .map(|other| {
                json!({
                    "code": other.code.as_str(),
                    "detail": other.to_string(),
                    "position": other.position(),
                    "snippet": snippet(source, &other.span),
                })
            })
            .collect();
        problem.with("others", others)
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)
    }
}

impl Error for Diagnostics {}

/// The text of the span, cut where it is long. Tolerates a span of another text.
fn snippet<'a>(source: &'a str, span: &Range<usize>) -> &'a str {
    let text = source.get(span.clone()).unwrap_or_default();
    &text[..floor_boundary(text, SNIPPET_MAX_BYTES)]
}

/// `text` in quotes for a message, cut where it is long.
pub(crate) fn quoted(text: &str) -> String {
    let cut = floor_boundary(text, QUOTED_MAX_BYTES);
    let more = if cut < text.len() { "…" } else { "" };
    let shown: String = text[..cut].chars().map(shown).collect();
    format!("`{shown}{more}`")
}

/// A character as a message shows it: a control character would spoil a terminal.
pub(crate) fn shown(character: char) -> char {
    if character.is_control() {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    }
}

/// The last character boundary of `text` at or before `at`.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_says_where_what_and_what_was_meant() {
        let diagnostic = Diagnostic::new(
            Code::UnknownSite,
            Span::new(7, 11),
            "no site `sit2`",
            "not known here",
        )
        .help("did you mean `site2`?")
        .note("a reason");
        let problem = diagnostic.to_problem("image: sit2").to_json();
        assert_eq!(problem["code"], "unknown_site");
        assert_eq!(problem["status"], 400);
        assert_eq!(problem["detail"], "no site `sit2`; did you mean `site2`?");
        assert_eq!(problem["position"], json!({ "offset": 7, "length": 4 }));
        assert_eq!(problem["snippet"], "sit2");
        assert_eq!(problem["suggestion"], "did you mean `site2`?");
        assert_eq!(problem["explanation"], "a reason");
    }

    #[test]
    fn snippets_are_cut_on_a_boundary() {
        let text = "é".repeat(100);
        assert_eq!(snippet(&text, &(2..200)), "é".repeat(40));
        assert_eq!(snippet(&text, &(2..201)), "", "another text's span");
    }

    #[test]
    fn further_errors_stand_beside_the_first() {
        let one = |start| Diagnostic::syntax(Span::new(start, start + 1), format!("error {start}"), "here");
        let both = Diagnostics::result(vec![one(0), one(1)]).unwrap_err();
        let problem = both.to_problem("ab").to_json();
        assert_eq!(problem["detail"], "error 0");
        assert_eq!(problem["others"][0]["detail"], "error 1");
        assert_eq!(
            problem["others"][0]["position"],
            json!({ "offset": 1, "length": 1 })
        );
    }
}
