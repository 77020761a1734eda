//! What is wrong with a configuration: where, what and how to put it right.

use std::{
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde_json::{Value, json};

/// One error of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// Where in the text, in bytes.
    pub(super) span: Range<usize>,
    /// The key in dotted form; empty when the text is not TOML.
    pub(super) key: String,
    pub(super) message: String,
    pub(super) fix: String,
}

/// All errors of one file, in the order of the text. There is at least one.
#[derive(Debug, Clone)]
pub(crate) struct ConfigErrors {
    path: PathBuf,
    /// None when the file could not be read.
    text: Option<String>,
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    pub(super) fn new(path: &Path, text: String, mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(|error| (error.span.start, error.span.end));
        Self {
            path: path.to_owned(),
            text: Some(text),
            errors,
        }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let fix = if error.kind() == io::ErrorKind::NotFound {
            format!(
                "name the file with `-c FILE`, or begin with `cheops config example > {}`",
                path.display()
            )
        } else {
            "correct the file's type or its permissions".to_owned()
        };
        Self {
            path: path.to_owned(),
            text: None,
            errors: vec![ConfigError {
                span: 0..0,
                key: String::new(),
                message: format!("cannot read {}: {error}", path.display()),
                fix,
            }],
        }
    }

    /// Every error with its place in the text, in colour if `styled`.
    pub(crate) fn render(&self, styled: bool) -> String {
        let renderer = if styled {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let path = self.path.display().to_string();
        let mut out = String::new();
        for error in &self.errors {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            let mut group =
                Level::ERROR
                    .primary_title(error.message.as_str())
                    .elements(self.text.as_deref().map(|text| {
                        Snippet::source(text)
                            .path(path.as_str())
                            .annotation(AnnotationKind::Primary.span(error.span.clone()))
                    }));
            group = group.element(Level::HELP.message(error.fix.as_str()));
            out.push_str(&renderer.render(&[group]));
        }
        out
    }

    pub(crate) fn to_json(&self) -> Value {
        let errors: Vec<_> = self
            .errors
            .iter()
            .map(|error| {
                let (line, column) = self.position(error);
                json!({
                    "file": self.path,
                    "line": line,
                    "column": column,
                    "key": error.key,
                    "message": error.message,
                    "fix": error.fix,
                })
            })
            .collect();
        json!({ "ok": false, "errors": errors })
    }

    /// Line and column of an error's first character, counted from 1.
    fn position(&self, error: &ConfigError) -> (usize, usize) {
        let before = self
            .text
            .as_deref()
            .and_then(|text| text.get(..error.span.start))
            .unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ConfigErrors {}
