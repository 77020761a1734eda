//! What is wrong with a glue file, shown in its text.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use cheops_glue::GlueError;
use serde_json::{Value, json};

/// Every error with its place, in colour if `styled`.
pub(super) fn render(text: &str, errors: &[GlueError], styled: bool) -> String {
    let renderer = if styled {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let rendered: Vec<_> = errors
        .iter()
        .map(|error| {
            let snippet = Snippet::source(text)
                .path(error.file.as_str())
                .annotation(AnnotationKind::Primary.span(error.span.clone()));
            let mut group = Level::ERROR
                .primary_title(error.message.as_str())
                .element(snippet);
            if let Some(fix) = &error.fix {
                group = group.element(Level::HELP.message(fix.as_str()));
            }
            renderer.render(&[group])
        })
        .collect();
    rendered.join("\n\n")
}

pub(super) fn to_json(errors: &[GlueError]) -> Value {
    let errors: Vec<_> = errors
        .iter()
        .map(|error| {
            json!({
                "file": error.file,
                "line": error.line,
                "column": error.column,
                "message": error.message,
                "fix": error.fix,
            })
        })
        .collect();
    json!({ "ok": false, "errors": errors })
}
