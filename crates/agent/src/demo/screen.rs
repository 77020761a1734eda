//! Writing for people: colours on a terminal only, nothing at all when JSON is asked for.

use std::io::{self, IsTerminal as _, Write as _};

/// Columns that text is laid out for.
pub(super) const WIDTH: usize = 98;

#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    json: bool,
    colours: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            json,
            colours: wanted && io::stdout().is_terminal(),
        }
    }

    pub(super) fn is_json(self) -> bool {
        self.json
    }

    pub(super) fn line(self, text: &str) {
        if !self.json {
            write(text);
        }
    }

    pub(super) fn dim(self, text: &str) {
        self.line(&self.paint("2", text));
    }

    pub(super) fn json(self, value: &serde_json::Value) {
        if self.json {
            write(&value.to_string());
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.paint("31;1", text)
    }

    fn paint(self, style: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A reader that went away is no reason to stop in the middle.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
