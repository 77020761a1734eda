//! What is wrong with a glue file, shown in its text.

use std::ops::Range;

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
                .annotation(AnnotationKind::Primary.span(span(text, error)));
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

/// From where an error is to the end of the text, word or table's name that begins there.
fn span(text: &str, error: &GlueError) -> Range<usize> {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(error.line - 1).map(str::len).sum();
    let line = lines.next().unwrap_or_default().trim_end();
    let column = line
        .char_indices()
        .nth(error.column - 1)
        .map_or(line.len(), |(at, _)| at);
    let rest = &line[column..];
    let length = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.len(), |end| end + 2),
        Some('[' | '{') => rest.find([']', '}']).map_or(rest.len(), |end| {
            end + rest[end..].chars().take_while(|c| *c == ']').count().max(1)
        }),
        Some(_) => rest.find([' ', '=', ',', ']', '}', '.']).unwrap_or(rest.len()),
        None => 0,
    };
    before + column..before + column + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_error_is_underlined() {
        let check = |text: &str, line: usize, column: usize, expected: &str| {
            let error = GlueError {
                file: "f".to_owned(),
                line,
                column,
                message: "m".to_owned(),
                fix: None,
            };
            assert_eq!(&text[span(text, &error)], expected);
        };
        check("a = 1\ncolection = \"/x\"\n", 2, 1, "colection");
        check("a = \"one two\" # b", 1, 5, "\"one two\"");
        check("é = 'x'", 1, 5, "'x'");
        check("[[services.A.resources]]\n", 1, 1, "[[services.A.resources]]");
        check("list = { items = 1 } # x", 1, 8, "{ items = 1 }");
        check("a = 1", 1, 6, "");
        check("a", 7, 9, "");
    }
}
